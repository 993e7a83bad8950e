#!/usr/bin/env python3
"""What people do to a server who wish it ill, or know no better, and a disk that is full: everybody else must not notice.
SKEIN is the binary, SKEIN_TINY_MODEL the model, as for api_test.py."""

import json
import resource
import socket
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from api_test import LONG, MODEL, Case
from running_server import SKEIN, RunningServer

SLOW_CONNECTIONS = 2000
# A connection may cost this much, whatever it does.
CONNECTION_BYTES = 32 * 1024
# Of the time that /live takes while others only generate. A rendering or a tokenisation on the I/O thread is thousands.
LIVE_TIMES = 50
ATTACKERS = 4


# Sanitizers keep what was freed, so that memory says nothing.
SANITIZED = any(name in Path(SKEIN).read_bytes() for name in (b"__asan_init", b"__tsan_init"))


def raise_descriptor_limit():
    """As many as are allowed, here and in the servers started from here."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class SlowLoris:
    """Connections that send a request byte by byte, half of them its head and half its body. What the server cuts comes again."""

    HEADS = (b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
             b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")

    def __init__(self, port, count):
        self.port, self.cut = port, 0
        self.sockets = [self._open(index) for index in range(count)]

    def _open(self, index):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(self.HEADS[index % 2])
        connection.setblocking(False)
        return connection

    def trickle(self):
        """A byte on every connection."""
        for index, connection in enumerate(self.sockets):
            try:
                connection.send(b" ")
            except OSError:
                connection.close()
                self.cut += 1
                self.sockets[index] = self._open(index)

    def close(self):
        for connection in self.sockets:
            connection.close()


class Reader(threading.Thread):
    """Asks for one long stream after the other until it is stopped, and counts what comes."""

    def __init__(self, server, prompt, wanted):
        super().__init__(daemon=True)
        self.server, self.prompt, self.wanted = server, prompt, wanted
        self.pieces, self.streams, self.failures = 0, 0, []
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            try:
                text = self._one()
                if text != self.wanted:
                    self.failures.append(f"other text: {text[:80]!r}")
            except (OSError, ValueError, KeyError) as error:
                self.failures.append(repr(error))

    def _one(self):
        with self.server.open_stream(self.prompt, **LONG) as stream, stream.makefile("rb") as lines:
            text = ""
            for line in lines:
                if line.startswith(b"data: [DONE]"):
                    self.streams += 1
                    return text
                if line.startswith(b"data: {"):
                    self.pieces += 1
                    text += json.loads(line[6:])["choices"][0]["text"]
        raise ValueError("the stream ended without [DONE]")

    def wait_for_more(self, seconds=60):
        """Whether another piece comes; the deadline only tells a hang."""
        before, deadline = self.pieces, time.monotonic() + seconds
        while self.pieces == before and not self.failures and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.pieces > before


class Attacked(Case):
    def assert_grown_less(self, before, limit):
        if not SANITIZED:
            self.assertLess(self.server.memory_peak() - before, limit)


class Slow(Attacked):
    def test_two_thousand_slow_connections_hold_up_nobody(self):
        # One machine with a script would keep everybody else out.
        count = min(SLOW_CONNECTIONS, raise_descriptor_limit() - 256)
        whole = self.ok(self.server.complete("well-behaved", **LONG))["choices"][0]["text"]
        before = self.server.forget_memory_peak()
        reader = Reader(self.server, "well-behaved", whole)
        reader.start()
        loris = SlowLoris(self.server.port, count)
        try:
            self.assertGreaterEqual(self.server.metric("skein_http_connections"), 0.9 * count)
            for _ in range(20):
                loris.trickle()
                self.assertTrue(reader.wait_for_more(), reader.failures)
                for _ in range(10):
                    self.ok(self.server.complete("Hi", max_tokens=2))
            self.assertGreaterEqual(self.server.metric("skein_http_connections"), 0.9 * count)
        finally:
            reader.stopped.set()
            reader.join(60)
            loris.close()
        self.assertEqual(reader.failures, [])
        self.assertGreater(reader.streams, 0)
        self.assert_grown_less(before, count * CONNECTION_BYTES)
        self.assert_nothing_left()
        self.assertEqual(self.server.wait_metric("skein_http_connections", 1), 1)

    def test_readers_that_take_nothing_cost_their_own_streams_only(self):
        # A hundred stalled phones would take the memory of the server.
        whole = self.ok(self.server.complete("beside", **LONG))["choices"][0]["text"]
        before = self.server.forget_memory_peak()
        stalled = [self.server.open_stream("beside", buffer_bytes=4096, logprobs=20, **LONG) for _ in range(40)]
        self.assertGreaterEqual(self.server.wait_metric("skein_sequences_paused", len(stalled)), 1)
        answer = self.ok(self.server.complete("beside", **LONG))
        self.assertEqual(answer["choices"][0]["text"], whole)
        for stream in stalled:
            stream.close()
        # What is not sent is bounded at 256 KiB; a batch that has just come lies beside it.
        self.assert_grown_less(before, len(stalled) * 2 * 256 * 1024)
        self.assert_nothing_left()


# As templates of real models do: for every message they look through all of them. The second part grows a text with its own.
GREEDY_TEMPLATE = (
    "{% set ns = namespace(last=0, text='') %}"
    "{% for message in messages %}{% for other in messages %}{% if other.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
    "{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if messages[0].role == 'system' %}{% for letter in messages[0].content %}{% set ns.text = ns.text ~ messages[0].content %}{% endfor %}{% endif %}"
    "assistant: ")


class Bombs(Attacked):
    template = GREEDY_TEMPLATE

    def many_messages(self):
        """Quadratic in the template: 16 million rounds."""
        return {"messages": [{"role": "user", "content": "x"}] * 4096}

    def growing_text(self):
        """Quadratic in memory: 400 MB."""
        return {"messages": [{"role": "system", "content": "y" * 20_000}, {"role": "user", "content": "x"}]}

    def live_ms(self, enough):
        """The slowest of twenty times of /live, on new connections, until `enough()`: the 95th percentile."""
        taken = []
        while len(taken) < 60 or not enough():
            began = time.monotonic()
            self.assertEqual(self.server.get("/live").status, 200)
            taken.append(1000 * (time.monotonic() - began))
            time.sleep(0.005)
        return sorted(taken)[len(taken) * 19 // 20]

    def beside_load(self, attack):
        """Runs `attack(index)` again and again on threads while others generate: theirs are the texts as before, and /live answers."""
        prompts = [f"other {index}" for index in range(4)]
        kept = [self.ok(self.server.complete(prompt, **LONG))["choices"][0]["text"] for prompt in prompts]
        readers = [Reader(self.server, prompt, text) for prompt, text in zip(prompts, kept)]
        stopped, attacks = threading.Event(), [0] * ATTACKERS

        def keep_attacking(place):
            while not stopped.is_set():
                attack(attacks[place])
                attacks[place] += 1

        for reader in readers:
            reader.start()
        try:
            quiet_ms = self.live_ms(lambda: True)
            with ThreadPoolExecutor(ATTACKERS) as pool:
                attackers = [pool.submit(keep_attacking, place) for place in range(ATTACKERS)]
                try:
                    attacked_ms = self.live_ms(lambda: min(attacks) >= 3 or any(attacker.done() for attacker in attackers))
                    for reader in readers:
                        self.assertTrue(reader.wait_for_more(), reader.failures)
                finally:
                    stopped.set()
                for attacker in attackers:
                    attacker.result()
        finally:
            for reader in readers:
                reader.stopped.set()
            for reader in readers:
                reader.join(120)
        for reader in readers:
            self.assertEqual(reader.failures, [])
            self.assertGreater(reader.streams, 0)
        self.assertGreaterEqual(min(attacks), 3)
        self.assertLess(attacked_ms, LIVE_TIMES * quiet_ms)
        self.assert_nothing_left()

    def test_template_bombs_are_refused_and_cost_others_nothing(self):
        # One conversation that the model's template cannot bear would stop the server for all.
        bodies = [self.many_messages(), self.growing_text()]

        def attack(index):
            answer = self.server.request("POST", "/v1/chat/completions", bodies[index % len(bodies)], timeout=120)
            self.assert_error(answer, 400, param="messages")
            self.assertIn("template", answer.json()["error"]["message"])

        before = self.server.forget_memory_peak()
        self.beside_load(attack)
        # Two threads render, each within its budget of 96 MB; bodies and a few trees of values lie beside them.
        self.assert_grown_less(before, 512 << 20)

    def test_prompts_of_two_megabytes_are_refused_and_cost_others_nothing(self):
        # One pasted book would make every answer stutter.
        words, letters = "word " * (2 << 20 >> 2), "z" * (2 << 20)

        def attack(index):
            answer = self.server.chat(words) if index % 3 == 2 else self.server.complete((words, letters)[index % 3])
            self.assert_error(answer, 400, code="context_length_exceeded")

        self.beside_load(attack)


class FullDisk(unittest.TestCase):
    def test_a_full_disk_under_the_log_stops_no_answer_and_is_said(self):
        # A disk that somebody else filled would take the service with it, or nobody would know why the log ends.
        with RunningServer(MODEL, log_to="/dev/full") as server:
            texts = set()
            for _ in range(20):
                answer = server.complete("Once", max_tokens=20)
                self.assertEqual(answer.status, 200, answer.body)
                texts.add(answer.json()["choices"][0]["text"])
            self.assertEqual(len(texts), 1)
            self.assertEqual(server.events("/v1/completions", {"prompt": "Once"})[-1], "[DONE]")
            self.assertGreaterEqual(server.wait_at_least("skein_log_lines_lost_total", 20), 20)
            self.assertEqual(server.get("/ready").status, 200)


if __name__ == "__main__":
    unittest.main()
