"""Two network namespaces of this machine, joined by a pair of virtual interfaces, that stand for two hosts, and what mpirun calls instead of
ssh between them. Needs root. Standard library only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NET = "10.77.0"
# Options, the host's address, a command. The folder HIDDEN is empty on the other host.
AGENT = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
name=$PREFIX${1##*.}
shift
exec ip netns exec "$name" sh -c "${HIDDEN:+mount -t tmpfs none $HIDDEN;} $*"
"""


def run(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


class Network:
    """Namespaces PREFIX1 and PREFIX2 with addresses NET.1 and NET.2; both end with this process's `with`."""

    def __init__(self, prefix=None):
        self.prefix = prefix or f"skein-test-{os.getpid()}-"

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

    def limit(self, rate):
        """Both directions to `rate`, as tc says it ("100mbit"); None: as fast as this machine is."""
        for host in (1, 2):
            device = ("-n", self.name(host), "qdisc")
            run("tc", *device, "del", "dev", f"veth{host}", "root", check=False)
            if rate:
                run("tc", *device, "add", "dev", f"veth{host}", "root", "tbf", "rate", rate, "burst", "128kb", "latency", "200ms")

    def ranks(self, host):
        """Processes of the program that are ranks on this host."""
        found = []
        for pid in run("ip", "netns", "pids", self.name(host)).stdout.split():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if len(words) > 1 and words[1] == b"rank":
                found.append(int(pid))
        return found

    def environment(self, folder, hidden=None):
        """For whoever starts mpirun on the first host. `folder` is for the agent."""
        agent = Path(folder) / "agent"
        agent.write_text(AGENT.replace("$PREFIX", self.prefix))
        agent.chmod(0o755)
        net = f"{NET}.0/24"
        return {"OMPI_MCA_plm": "rsh", "OMPI_MCA_plm_rsh_agent": str(agent), "OMPI_MCA_oob_tcp_if_include": net, "OMPI_MCA_pml": "ob1",
                "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": net, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "HIDDEN": str(hidden or "")}


def leave_unless_possible():
    """Ends the program with 77, which says that it was not tried, where there can be no such hosts."""
    reason = why_not()
    if reason:
        print(f"not tried: {reason}", file=sys.stderr)
        sys.exit(77)


def why_not():
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "needs root and the command ip"
    probe = f"skein-probe-{os.getpid()}"
    outcome = run("ip", "netns", "add", probe, check=False)
    run("ip", "netns", "del", probe, check=False)
    return "" if outcome.returncode == 0 else f"no network namespaces here: {outcome.stderr.strip()}"
