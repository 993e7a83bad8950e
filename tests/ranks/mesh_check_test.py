#!/usr/bin/env python3
"""`skein mesh check --hosts` between two hosts (network namespaces): what it says of a network that is there, of one that is slow, and of a host that is
not. Exit status 77 where it cannot be tried. Standard library only. SKEIN is the program, SKEIN_MPI_PLUGIN the plugin."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from two_hosts import NET, Network, leave_unless_possible, run

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
PLUGIN = os.environ.get("SKEIN_MPI_PLUGIN", "")


class MeshCheck(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.network = self.enterContext(Network())

    def check(self, *hosts):
        environment = {**os.environ, **self.network.environment(self.folder), "SKEIN_MPI_PLUGIN": PLUGIN}
        command = ["ip", "netns", "exec", self.network.name(1), SKEIN, "mesh", "check", "--hosts", ",".join(f"{NET}.{host}" for host in hosts), "--agent",
                   f"{self.folder}/agent", "--json"]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment)
        found = {finding["name"]: finding for finding in json.loads(outcome.stdout)["findings"]}
        return outcome.returncode, found

    def test_links_are_measured(self):
        # A slow or broken link would be found out by slow answers.
        code, found = self.check(1, 2)
        self.assertEqual(code, 0, found)
        for host in (1, 2):
            for what in ("reach", "version", "clock", "speed"):
                self.assertEqual(found[f"{NET}.{host} {what}"]["status"], "ok")
        self.assertIn("speeds", found)
        self.assertIn("GB/s", found[f"{NET}.2 link"]["meaning"])
        run("tc", "-n", self.network.name(1), "qdisc", "add", "dev", "veth1", "root", "netem", "delay", "2ms", check=False)
        if "netem" in run("tc", "-n", self.network.name(1), "qdisc", "show", "dev", "veth1", check=False).stdout:
            self.assertEqual(self.check(1, 2)[1][f"{NET}.2 link"]["status"], "warn")

    def test_a_host_that_is_away_is_a_line(self):
        # One host that is away would hide what is wrong with the others.
        code, found = self.check(1, 2, 9)
        self.assertEqual(code, 5)
        self.assertNotIn(f"{NET}.9 link", found)
        self.assertEqual({status["status"] for name, status in found.items() if name.startswith(f"{NET}.9 ")}, {"fail"})
        self.assertIn(f"{NET}.2 link", found)


if __name__ == "__main__":
    leave_unless_possible()
    unittest.main(argv=[sys.argv[0]])
