#!/usr/bin/env python3
"""`skein bench serve` against servers of known delays and of known malice. Standard library only. SKEIN is the binary."""

import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

# A certificate of localhost and 127.0.0.1, signed by itself for a hundred years, and its key: for this test and nothing else.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIULp9yTWYzexzfRQZib/etL8qCfdcwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDE0MTkzN1oYDzIxMjYxMTA2
MTQxOTM3WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAS//JMK6SQCjHpRV0jUM+zgUE+8nBLKC4tuw5RebsCwCPXV3NjW9IyM
Hmz1NYam19hPdV8rvXBmm0VvsSu8khkdo28wbTAdBgNVHQ4EFgQUelSEaiex7mw4
83Sl1ueutZkA2DIwHwYDVR0jBBgwFoAUelSEaiex7mw483Sl1ueutZkA2DIwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhALFiuvE5KDWwNOd1YzXB4xBfWnKKA7z5CaGyhshsM2xDAiBv
wsxHBGXOj2eD5dA5eqQ4zX1PJtz/VWgiAq3J3KBT3A==
-----END CERTIFICATE-----
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIBfPdekIViScDUihwZ9CYuqxtkBVx+f18c2AALu63kWsoAoGCCqGSM49
AwEHoUQDQgAEv/yTCukkAox6UVdI1DPs4FBPvJwSyguLbsOUXm7AsAj11dzY1vSM
jB5s9TWGptfYT3VfK71wZptFb7ErvJIZHQ==
-----END EC PRIVATE KEY-----
"""


def chunk(text):
    data = text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value):
    return chunk("data: " + (value if isinstance(value, str) else json.dumps(value)) + "\n\n")


class FakeServer:
    """Answers every POST by `answer(connection, body, count)`; one thread a connection. `tls`: an ssl.SSLContext, for https."""

    def __init__(self, answer, tls=None):
        self.answer, self.tls = answer, tls
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.lock = threading.Lock()
        self.bodies, self.key = [], None

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as reader:
                while self._one(connection, reader):
                    pass
        except (OSError, ValueError):  # it left, or speaks another language
            pass

    def _one(self, connection, reader):
        line = reader.readline()
        if not line:
            return False
        length = 0
        while (header := reader.readline()) not in (b"\r\n", b""):
            if header.lower().startswith(b"content-length:"):
                length = int(header.split(b":")[1])
            if header.lower().startswith(b"authorization:"):
                self.key = header.split(b":")[1].strip().decode()
        if line.startswith(b"GET /v1/models"):
            models = json.dumps({"data": [{"id": "fake"}]}).encode()
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(models), models))
            return True
        body = json.loads(reader.read(length))
        with self.lock:
            self.bodies.append(body)
            count = len(self.bodies)
        return self.answer(connection, body, count)


def paced(first_s, between_s):
    """Waits `first_s`, then a token each `between_s`."""

    def answer(connection, body, _):
        connection.sendall(HEAD)
        for i in range(body["max_tokens"]):
            time.sleep(between_s if i else first_s)
            connection.sendall(event({"choices": [{"text": "x", "finish_reason": None}]}))
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": body["max_tokens"]}
        connection.sendall(event({"choices": [], "usage": usage}) + event("[DONE]") + b"0\r\n\r\n")
        return True

    return answer


def bench(url, *arguments):
    command = [SKEIN, "bench", "serve", "--base-url", url, "--num-prompts", "8", "--random-input-len", "10", "--random-output-len", "5",
               "--json", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


class BenchServe(unittest.TestCase):
    def figures(self, url, *arguments, code=0):
        outcome = bench(url, *arguments)
        self.assertEqual(outcome.returncode, code, outcome.stderr)
        return json.loads(outcome.stdout)

    def test_known_delays(self):
        # Figures that are off by a factor decide which server is bought. Delays can only be longer on a busy machine.
        with FakeServer(paced(0.2, 0.05)) as server:
            found = self.figures(server.url, "--max-concurrency", 4, "--goodput", "ttft:60000", "tpot:60000", "--ignore-eos")
            self.assertEqual((found["completed"], found["failed"], found["model_id"]), (8, 0, "fake"))
            self.assertEqual((found["total_input_tokens"], found["total_output_tokens"]), (80, 40))
            self.assertEqual((found["max_concurrency"], found["max_concurrent_requests"], found["request_rate"]), (4, 4, "inf"))
            for key, least in (("median_ttft_ms", 200), ("median_itl_ms", 45), ("mean_tpot_ms", 50), ("median_e2el_ms", 400), ("p99_ttft_ms", 200)):
                self.assertTrue(least <= found[key] < 30 * least, f"{key}: {found[key]}")
            self.assertGreaterEqual(found["duration"], 0.8)
            self.assertAlmostEqual(found["output_throughput"], 40 / found["duration"], places=3)
            self.assertAlmostEqual(found["request_goodput"], 8 / found["duration"], places=3)
            self.assertTrue(all(body["ignore_eos"] and len(body["prompt"]) == 10 for body in server.bodies))

    def test_same_seed_same_prompts(self):
        sent = []
        for seed in (1, 1, 2):
            with FakeServer(paced(0, 0)) as server:
                self.figures(server.url, "--seed", seed, "--dataset", "shared-prefix", "--random-prefix-len", 30)
                sent.append(sorted(map(tuple, (body["prompt"] for body in server.bodies))))
        self.assertEqual(sent[0], sent[1])
        self.assertNotEqual(sent[0], sent[2])
        self.assertEqual({prompt[:30] for prompt in sent[0]}, {sent[0][0][:30]})

    def test_arrivals_and_results_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder, FakeServer(paced(0, 0)) as server:
            trace, result = Path(folder, "t.jsonl"), Path(folder, "r.json")
            trace.write_text("".join(json.dumps({"timestamp_ms": 100 * i, "input_length": 3 + i, "output_length": 2}) + "\n" for i in range(5)))
            command = [SKEIN, "bench", "serve", "--base-url", server.url, "--dataset", f"trace:{trace}", "--save-result", result]
            outcome = subprocess.run(command, capture_output=True, text=True, timeout=100)
            self.assertIn("first token (ttft)", outcome.stdout)
            found = json.loads(result.read_text())
            self.assertEqual((found["completed"], found["total_input_tokens"], found["total_output_tokens"]), (5, 25, 10))
            self.assertGreaterEqual(found["duration"], 0.4)

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder, FakeServer(paced(0, 0)) as server:
            keys = Path(folder, "keys")
            keys.write_text("# ours\n\n  secret-1 tenant admin\nsecret-2\n")
            self.figures(server.url, "--api-key-file", keys)
            self.assertEqual(server.key, "Bearer secret-1")
            for text in ("", "# none\n", "#"):
                keys.write_text(text)
                self.assertEqual(bench(server.url, "--api-key-file", keys).returncode, 2)

    def test_https(self):
        # A server behind TLS could not be measured, or anybody in between could be measured instead of it.
        with tempfile.TemporaryDirectory() as folder:
            certificate = Path(folder, "localhost.pem")
            certificate.write_text(CERTIFICATE)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            with FakeServer(paced(0.01, 0.01), tls) as server:
                for host, flags in (("127.0.0.1", ["--ca-file", certificate]), ("localhost", ["--ca-file", certificate]), ("127.0.0.1", ["--insecure"])):
                    found = self.figures(server.url.replace("http://127.0.0.1", f"https://{host}"), "--max-concurrency", 3, *flags)
                    self.assertEqual((found["completed"], found["failed"], found["total_output_tokens"]), (8, 0, 40), (host, flags))
                url = server.url.replace("http", "https")
                for flags in ([], ["--model", "m"]):  # a certificate that nobody vouches for
                    outcome = bench(url, *flags)
                    self.assertEqual(outcome.returncode, 5)
                    self.assertIn("certificate", outcome.stdout + outcome.stderr)
                self.assertEqual(bench(url, "--ca-file", "/nonexistent").returncode, 4)
                self.assertEqual(bench(server.url, "--model", "m").returncode, 5)  # plain words to a server of TLS
            with FakeServer(paced(0, 0)) as server:  # and the other way round
                self.assertEqual(bench(server.url.replace("http", "https"), "--insecure").returncode, 5)
            # Answers of more than a record, and cut ones, are read as without TLS.
            long = {"choices": [{"text": "x" * 50_000}]}
            with FakeServer(lambda connection, *_: connection.sendall(HEAD + event(long) + event("[DONE]") + b"0\r\n\r\n") or True, tls) as server:
                found = self.figures(server.url.replace("http", "https"), "--insecure")
                self.assertEqual((found["completed"], found["failed"]), (8, 0))
            with FakeServer(lambda connection, *_: connection.sendall(HEAD + event(long)), tls) as server:
                found = self.figures(server.url.replace("http", "https"), "--insecure", code=5)
                self.assertEqual((found["completed"], found["failed"]), (0, 8))

    def test_two_thousand_streams(self):
        # A client that runs out of anything measures itself.
        with FakeServer(paced(0.5, 0)) as server:
            found = self.figures(server.url, "--num-prompts", 2000)
            self.assertEqual((found["completed"], found["failures"]), (2000, {}))

    def test_hostile_servers(self):
        # A hang, or a crash, or a failure counted as a success: each makes a measurement worthless.
        def close(connection, *_):
            return False

        def half(connection, *_):
            connection.sendall(HEAD + event({"choices": [{"text": "x"}]}))
            return False

        def garbage(connection, *_):
            connection.sendall(os.urandom(5000))
            return False

        def refuse(connection, *_):
            body = b'{"error":{"message":"queue is full"}}'
            connection.sendall(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            return True

        def silent(connection, *_):
            time.sleep(60)

        def trickle(connection, *_):
            connection.sendall(HEAD)
            while True:
                connection.sendall(chunk(": x\n"))
                time.sleep(0.05)

        def fails(connection, *_):
            connection.sendall(HEAD + event({"choices": [{"text": "x"}]}) + event({"error": {"message": "no blocks"}}) + b"0\r\n\r\n")
            return True

        def endless_line(connection, *_):
            connection.sendall(HEAD)
            while True:
                connection.sendall(chunk("x" * 65536))

        cases = {close: "closed without an answer", half: "closed within its answer", garbage: "no HTTP", refuse: "status 429: queue is full",
                 silent: "--timeout", trickle: "--timeout", fails: "no blocks", endless_line: "longer than"}
        for answer, reason in cases.items():
            with self.subTest(answer.__name__), FakeServer(answer) as server:
                found = self.figures(server.url, "--timeout", "1", code=5)
                self.assertEqual((found["completed"], found["failed"]), (0, 8))
                self.assertIn(reason, " ".join(found["failures"]))

    def test_some_fail(self):
        def every_other(connection, body, count):
            if count % 2:
                connection.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
                return True
            return paced(0, 0)(connection, body, count)

        with FakeServer(every_other) as server:
            found = self.figures(server.url, "--max-concurrency", 1)
            self.assertEqual((found["completed"], found["failed"]), (4, 4))

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        self.assertEqual(bench(url).returncode, 5)
        self.assertEqual(bench(url, "--model", "m").returncode, 5)

    def test_wrong_usage(self):
        for arguments in (["--request-rate", "0"], ["--request-rate", "x"], ["--dataset", "sharegpt"], ["--goodput", "x:1"], ["ttft:5"],
                          ["--endpoint", "/v1/completions HTTP"], ["--dataset", "trace:/nonexistent"], ["--dataset", "trace:/dev/zero"]):
            self.assertEqual(bench("http://127.0.0.1:9", "--model", "m", *arguments).returncode, 2, arguments)
        for url in ("127.0.0.1:9", "ftp://127.0.0.1:9", "https://127.0.0.1:99999999", "http://127.0.0.1:99999999", "http://", "http://a b/"):
            self.assertEqual(bench(url, "--model", "m").returncode, 2, url)

    def test_ctrl_c(self):
        with FakeServer(lambda *_: time.sleep(60)) as server:
            child = subprocess.Popen([SKEIN, "bench", "serve", "--base-url", server.url, "--num-prompts", "3"], stderr=subprocess.PIPE)
            while len(server.bodies) < 3:
                time.sleep(0.02)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)
            self.assertEqual(child.returncode, 130)


if __name__ == "__main__":
    unittest.main()
