#!/usr/bin/env python3
"""Ranks that reach each other by network only: two network namespaces of this machine, joined by a pair of virtual interfaces, stand for two
hosts. If collectives were right in shared memory and wrong over TCP, a model would be right on one host and wrong on two. Needs root and an
Open MPI; exit status 77 where it cannot be tried. Standard library only.

MPIRUN, MPI_RANKS_TEST and SKEIN_MPI_PLUGIN are the launcher, the program of checks and the plugin."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MPIRUN = os.environ.get("MPIRUN", "mpirun")
CHECKS = os.environ.get("MPI_RANKS_TEST", "build/ci/src/comm/mpi_ranks_test")
NET = "10.77.0"
# What mpirun calls instead of ssh: options, the host's address, a command.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
name=$PREFIX${1##*.}
shift
exec ip netns exec "$name" sh -c "$*"
"""


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


class Network:
    """Namespaces PREFIX1 and PREFIX2 with addresses NET.1 and NET.2."""

    def __init__(self):
        self.prefix = f"skein-test-{os.getpid()}-"

    def name(self, host):
        return f"{self.prefix}{host}"

    def __enter__(self):
        for host in (1, 2):
            run("ip", "netns", "add", self.name(host))
        run("ip", "link", "add", "veth1", "netns", self.name(1), "type", "veth", "peer", "name", "veth2", "netns", self.name(2))
        for host in (1, 2):
            run("ip", "-n", self.name(host), "addr", "add", f"{NET}.{host}/24", "dev", f"veth{host}")
            run("ip", "-n", self.name(host), "link", "set", f"veth{host}", "up")
            run("ip", "-n", self.name(host), "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for host in (1, 2):
            run("ip", "netns", "del", self.name(host), check=False)

    def mpirun(self, folder, ranks, *command):
        agent = Path(folder) / "agent"
        agent.write_text(AGENT.replace("$PREFIX", self.prefix))
        agent.chmod(0o755)
        net = f"{NET}.0/24"
        options = ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(agent), "--mca", "oob_tcp_if_include", net, "--mca", "pml", "ob1",
                   "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", net, "-x", "SKEIN_MPI_PLUGIN", "--oversubscribe",
                   "--host", f"{NET}.1:2,{NET}.2:2", "-n", str(ranks)]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run(["ip", "netns", "exec", self.name(1), MPIRUN, *options, *command], capture_output=True, text=True, timeout=100,
                              env=environment)


class OverTcp(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.network = self.enterContext(Network())

    def test_collectives_give_the_same_bits(self):
        for ranks in (2, 3, 4):
            outcome = self.network.mpirun(self.folder, ranks, CHECKS)
            self.assertEqual(outcome.returncode, 0, f"{ranks} ranks: {outcome.stderr[-2000:]}")

    def test_a_frozen_rank_is_named(self):
        outcome = self.network.mpirun(self.folder, 3, CHECKS, "--freeze")
        self.assertEqual(outcome.returncode, 77, outcome.stderr[-2000:])


def why_not():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "needs root and the command ip"
    probe = f"skein-probe-{os.getpid()}"
    outcome = run("ip", "netns", "add", probe, check=False)
    run("ip", "netns", "del", probe, check=False)
    return "" if outcome.returncode == 0 else f"no network namespaces here: {outcome.stderr.strip()}"


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"not tried: {reason}", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0]])
