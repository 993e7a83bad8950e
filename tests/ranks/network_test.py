#!/usr/bin/env python3
"""Ranks that reach each other by network only: two network namespaces of this machine, joined by a pair of virtual interfaces, stand for two
hosts. If collectives were right in shared memory and wrong over TCP, a model would be right on one host and wrong on two. Needs root and an
Open MPI; exit status 77 where it cannot be tried. Standard library only.

MPIRUN, MPI_RANKS_TEST and SKEIN_MPI_PLUGIN are the launcher, the program of checks and the plugin."""

import os
import subprocess
import sys
import tempfile
import unittest

from two_hosts import NET, Network, leave_unless_possible

MPIRUN = os.environ.get("MPIRUN", "mpirun")
CHECKS = os.environ.get("MPI_RANKS_TEST", "build/ci/src/comm/mpi_ranks_test")


def mpirun(network, folder, ranks, *command):
    options = ["-x", "SKEIN_MPI_PLUGIN", "--oversubscribe", "--host", f"{NET}.1:2,{NET}.2:2", "-n", str(ranks)]
    return subprocess.run(["ip", "netns", "exec", network.name(1), MPIRUN, *options, *command], capture_output=True, text=True, timeout=100,
                          env={**os.environ, **network.environment(folder)})


class OverTcp(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.network = self.enterContext(Network())

    def test_collectives_give_the_same_bits(self):
        for ranks in (2, 3, 4):
            outcome = mpirun(self.network, self.folder, ranks, CHECKS)
            self.assertEqual(outcome.returncode, 0, f"{ranks} ranks: {outcome.stderr[-2000:]}")

    def test_a_frozen_rank_is_named(self):
        outcome = mpirun(self.network, self.folder, 3, CHECKS, "--freeze")
        self.assertEqual(outcome.returncode, 77, outcome.stderr[-2000:])


if __name__ == "__main__":
    leave_unless_possible()
    unittest.main(argv=[sys.argv[0]])
