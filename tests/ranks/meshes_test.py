#!/usr/bin/env python3
"""The program on meshes of ranks: the same bits as one rank, and a service that outlives a rank. Standard library only.

SKEIN is the program, MODEL a small model, TRANSPORTS those to try (mpi only where mpirun is)."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "api"))
from running_server import RunningServer, is_alive  # noqa: E402

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
MODEL = os.environ.get("MODEL", "build/ci/tests/tiny.gguf")
TRANSPORTS = os.environ.get("TRANSPORTS", "threads shm").split()
PROMPT = "Once upon a time there was a mesh of ranks, and all of them had something to do"


def children_of(pid):
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


def descendants(pid):
    found = []
    for child in children_of(pid):
        found += [child, *descendants(child)]
    return found


class Answers(unittest.TestCase):
    def run_json(self, *arguments):
        done = subprocess.run([SKEIN, "run", MODEL, PROMPT, "--json", "--max-tokens", "24", "--temperature", "0.8", "--seed", "5", "--ignore-eos", "--raw",
                               "--context", "512", "--logprobs", "3", *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_layout_deterministic_meshes_give_the_bits_of_one_rank(self):
        # An answer would change when somebody adds a rank.
        one = self.run_json("--deterministic", "layout")
        meshes = {"threads": ["--tensor 2", "--tensor 8", "--pipe 2 --tensor 2", "--tensor 3"], "shm": ["--tensor 4", "--pipe 2 --tensor 2"],
                  "mpi": ["--tensor 2"]}
        for transport in TRANSPORTS:
            for mesh in meshes[transport]:
                with self.subTest(transport=transport, mesh=mesh):
                    many = self.run_json("--deterministic", "layout", "--transport", transport, *mesh.split())
                    self.assertEqual(many["tokens"], one["tokens"])
                    self.assertEqual(many["logprobs"], one["logprobs"])

    def test_pipe_meshes_give_the_bits_of_one_rank_always(self):
        one = self.run_json()
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                many = self.run_json("--transport", transport, "--pipe", "2")
                self.assertEqual(many["logprobs"], one["logprobs"])
                self.assertEqual(many["mesh"], {"data": 1, "pipe": 2, "seq": 1, "tensor": 1})

    def test_what_cannot_be_is_said_as_without_ranks(self):
        # A user would see a crash of a process that he never started.
        for arguments, part in (((MODEL + ".none",), "none"), ((MODEL, "--arithmetic", "bf16t", "--kv-dtype", "f32"), "kv-dtype")):
            with self.subTest(arguments=arguments):
                outcomes = [subprocess.run([SKEIN, "run", *arguments, *mesh, "hello"], capture_output=True, text=True, timeout=60)
                            for mesh in ((), ("--tensor", "2", "--transport", "shm"))]
                self.assertNotEqual(outcomes[0].returncode, 0)
                self.assertEqual(outcomes[1].returncode, outcomes[0].returncode, outcomes[1].stderr)
                self.assertIn(part, outcomes[1].stderr)


@unittest.skipIf("shm" not in TRANSPORTS, "ranks of shared memory are not tried")
class Losses(unittest.TestCase):
    def lose_a_rank(self, mesh, number):
        fields = {"max_tokens": 200, "ignore_eos": True, "temperature": 0.7, "seed": 3, "logprobs": 2}
        with RunningServer(MODEL, "--transport", "shm", *mesh) as server:
            ranks = descendants(server.process.pid)
            self.assertEqual(len(ranks), 2)
            wanted = [server.complete(f"story {i}", **fields).json()["choices"][0] for i in range(4)]
            got = [None] * 4

            def ask(i):
                got[i] = server.events("/v1/completions", {"prompt": f"story {i}", **fields})

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
            for thread in threads:
                thread.start()
            self.assertGreaterEqual(server.wait_at_least("vllm:num_requests_running", 1), 1)
            os.kill(ranks[-1], number)
            for thread in threads:
                thread.join(60)
            for parts, whole in zip(got, wanted):
                self.assertEqual(parts[-1], "[DONE]")
                text = "".join(json.loads(part)["choices"][0]["text"] for part in parts[:-1] if json.loads(part)["choices"])
                self.assertEqual(text, whole["text"])
            self.assertGreaterEqual(server.wait_at_least("skein_engine_restarts_total", 1), 1)
            deadline = time.monotonic() + 20
            while any(is_alive(rank) for rank in ranks) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertFalse([rank for rank in ranks if is_alive(rank)], "ranks of the lost replica are still there")
            self.assertEqual(server.complete("story 0", **fields).json()["choices"][0]["text"], wanted[0]["text"])
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(30), 0)

    def test_a_killed_rank_costs_no_answer(self):
        self.lose_a_rank(("--tensor", "2"), signal.SIGKILL)

    def test_a_frozen_stage_costs_no_answer(self):
        self.lose_a_rank(("--pipe", "2"), signal.SIGSTOP)

    def test_no_rank_outlives_a_killed_server(self):
        # Memory and cores would stay taken until somebody finds out.
        with RunningServer(MODEL, "--transport", "shm", "--tensor", "2") as server:
            ranks = descendants(server.process.pid)
            server.process.kill()
            server.process.wait()
            deadline = time.monotonic() + 20
            while any(is_alive(rank) for rank in ranks) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertFalse([rank for rank in ranks if is_alive(rank)])


if __name__ == "__main__":
    unittest.main()
