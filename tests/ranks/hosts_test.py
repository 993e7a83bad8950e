#!/usr/bin/env python3
"""The program with ranks on two hosts (network namespaces), of which only the first has the model: answers, which numbers travel, and ranks
that are lost. Exit status 77 where it cannot be tried. Standard library only.

SKEIN is the program, MODEL a small model, SKEIN_MPI_PLUGIN the plugin. The script runs itself on the first host."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "api"))
from running_server import RunningServer, is_alive  # noqa: E402
from two_hosts import NET, Network, leave_unless_possible  # noqa: E402

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
MODEL = os.environ.get("MODEL", "build/ci/tests/tiny.gguf")
PLUGIN = os.environ.get("SKEIN_MPI_PLUGIN", "")
NETWORK = Network(os.environ.get("HOSTS_PREFIX"))
HOSTS = ("--hosts", f"{NET}.1,{NET}.2")
PROMPT = "Once upon a time there were two hosts, and only one of them had read the book"


class TwoHosts(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        hidden = self.enterContext(tempfile.TemporaryDirectory())
        self.model = shutil.copy(MODEL, hidden)
        self.environment = {**NETWORK.environment(self.folder, hidden), "SKEIN_MPI_PLUGIN": PLUGIN}
        NETWORK.limit(None)

    def tearDown(self):
        deadline = time.monotonic() + 20
        while NETWORK.ranks(2) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(NETWORK.ranks(2), [], "ranks are left on the other host")

    def run_skein(self, *arguments):
        return subprocess.run([SKEIN, "run", self.model, PROMPT, "--json", "--max-tokens", "24", "--temperature", "0", "--ignore-eos", "--raw",
                               "--context", "512", "--logprobs", "2", *arguments], capture_output=True, text=True, timeout=100,
                              env={**os.environ, **self.environment})

    def run_json(self, *arguments):
        done = self.run_skein(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_two_hosts_give_the_bits_of_one(self):
        # A rank that computes with other weights than the file's would answer well-formed nonsense.
        one = self.run_json("--deterministic", "layout")
        for mesh in ("--tensor 2", "--pipe 2 --tensor 2", "--tensor 3"):
            with self.subTest(mesh=mesh):
                two = self.run_json("--deterministic", "layout", *mesh.split(), *HOSTS)
                self.assertEqual(two["tokens"], one["tokens"])
                self.assertEqual(two["logprobs"], one["logprobs"])
                self.assertEqual((two["transport"], two["wire"], two["outer_wire"]), ("mpi", "fp32", "fp32"))

    def test_one_rank_may_be_elsewhere(self):
        one, there = self.run_json(), self.run_json("--hosts", f"{NET}.2")
        self.assertEqual(there["logprobs"], one["logprobs"])

    @unittest.skipUnless(shutil.which("tc"), "tc is not installed")
    def test_the_network_chooses_the_wire(self):
        # On a slow network wide numbers would cost more than the ranks bring; on a fast one narrow numbers would round for nothing.
        for rate, wire in ((None, "bf16"), ("100mbit", "int8")):
            with self.subTest(rate=rate):
                NETWORK.limit(rate)
                told = self.run_json("--tensor", "2", *HOSTS)
                self.assertEqual((told["wire"], told["outer_wire"]), ("fp32", wire))
        self.assertEqual(self.run_json("--tensor", "2", "--wire", "fp32", *HOSTS)["outer_wire"], "fp32")

    def test_what_cannot_be_is_said(self):
        # A user would wait, or see a message of mpirun's about something else.
        for arguments, word in ((("--tensor", "2", "--hosts", "nowhere.invalid,b"), "nowhere.invalid"), (("--hosts", "a,b"), "--tensor"),
                                (("--tensor", "2", "--hosts", "a,-b"), "-b"), (("--tensor", "2", *HOSTS, "--transport", "shm"), "--transport"),
                                (("--tensor", "2", *HOSTS, "--control-address", "192.0.2.1"), "192.0.2.1"),
                                (("--tensor", "2", *HOSTS, "--remote-program", "/no/such/program"), "/no/such/program")):
            with self.subTest(arguments=arguments):
                done = self.run_skein(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(word, done.stderr)

    def lose(self, host, number):
        fields = {"max_tokens": 200, "ignore_eos": True, "temperature": 0, "logprobs": 1}
        with RunningServer(self.model, "--tensor", "2", "--deterministic", "layout", *HOSTS, env=self.environment) as server:
            wanted = server.complete("story", **fields).json()["choices"][0]["text"]
            lost = NETWORK.ranks(host)
            self.assertEqual(len(lost), 1)
            got = []
            asking = threading.Thread(target=lambda: got.extend(server.events("/v1/completions", {"prompt": "story", **fields})))
            asking.start()
            self.assertGreaterEqual(server.wait_at_least("vllm:num_requests_running", 1), 1)
            os.kill(lost[0], number)
            asking.join(60)
            self.assertTrue(got and got[-1] == "[DONE]", got[-1:])
            choices = [json.loads(part)["choices"] for part in got[:-1]]
            self.assertEqual("".join(choice[0]["text"] for choice in choices if choice), wanted)
            self.assertGreaterEqual(server.wait_at_least("skein_engine_restarts_total", 1), 1)
            deadline = time.monotonic() + 20
            while is_alive(lost[0]) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertFalse(is_alive(lost[0]))
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(30), 0)

    def test_a_killed_rank_of_the_other_host_costs_no_answer(self):
        self.lose(2, signal.SIGKILL)

    def test_a_frozen_rank_of_the_other_host_costs_no_answer(self):
        self.lose(2, signal.SIGSTOP)

    def test_ranks_of_the_other_host_end_with_a_killed_server(self):
        with RunningServer(self.model, "--tensor", "2", *HOSTS, env=self.environment) as server:
            self.assertEqual(len(NETWORK.ranks(2)), 1)
            server.process.kill()
            server.process.wait()


if __name__ == "__main__":
    if "HOSTS_PREFIX" in os.environ:
        unittest.main()
    leave_unless_possible()
    with NETWORK:
        sys.exit(subprocess.run(["ip", "netns", "exec", NETWORK.name(1), sys.executable, *sys.argv], check=False,
                                env={**os.environ, "HOSTS_PREFIX": NETWORK.prefix}).returncode)
