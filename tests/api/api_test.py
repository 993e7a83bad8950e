#!/usr/bin/env python3
"""The HTTP API from outside, as clients and operators meet it, on a tiny model with random weights. SKEIN is the binary,
SKEIN_TINY_MODEL the model (`skein make-model --shape tiny`)."""

import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from running_server import SKEIN, TEMPLATE, RunningServer, with_chat_template

MODEL = os.environ.get("SKEIN_TINY_MODEL", "tiny.gguf")
LONG = {"max_tokens": 3000, "ignore_eos": True}


class Case(unittest.TestCase):
    arguments = ()
    template = TEMPLATE

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = with_chat_template(MODEL, Path(cls.folder.name) / "tiny-chat.gguf", cls.template)
        cls.server = cls.enterClassContext(RunningServer(cls.path, *cls.arguments))
        cls.addClassCleanup(cls.folder.cleanup)

    def ok(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def assert_error(self, answer, status, **wanted):
        self.assertEqual(answer.status, status, answer.body)
        error = answer.json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        for name, value in wanted.items():
            self.assertEqual(error[name], value, error)

    def assert_nothing_left(self, server=None):
        server = server or self.server
        for name in ("vllm:kv_cache_usage_perc", "vllm:num_requests_running", "vllm:num_requests_waiting", "skein_requests_admitted"):
            self.assertEqual(server.wait_metric(name, 0), 0, name)


class Answers(Case):
    def test_whole_and_streamed_answers_agree(self):
        # Two clients that ask the same would get two answers.
        for seed in range(8):
            fields = {"seed": seed, "temperature": 1.0, "max_tokens": 40, "n": 2, "stop": ["e", "ab"], "logprobs": 2}
            whole = self.ok(self.server.complete("Once", **fields))
            parts = self.server.events("/v1/completions", {"prompt": "Once", "stream_options": {"include_usage": True}, **fields})
            self.assertEqual(parts.pop(), "[DONE]")
            chunks = [json.loads(part) for part in parts]
            self.assertEqual(chunks[-1]["choices"], [])
            self.assertEqual(chunks[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
            for index in range(2):
                mine = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
                wanted = whole["choices"][index]
                self.assertEqual("".join(choice["text"] for choice in mine), wanted["text"])
                self.assertEqual([choice["finish_reason"] for choice in mine if choice["finish_reason"]], [wanted["finish_reason"]])
                self.assertIsNotNone(mine[-1]["finish_reason"])
                values = [value for choice in mine for value in (choice["logprobs"] or {}).get("token_logprobs", [])]
                self.assertEqual(values, wanted["logprobs"]["token_logprobs"])

    def test_stop_texts_cut_exactly(self):
        # Text past the stop would be shown, or paid for.
        whole = self.ok(self.server.complete("Once", max_tokens=60, ignore_eos=True))["choices"][0]["text"]
        for begin in range(0, len(whole) - 5, 7):
            stop = whole[begin : begin + 5]
            answer = self.ok(self.server.complete("Once", max_tokens=60, ignore_eos=True, stop=stop))
            self.assertEqual(answer["choices"][0]["text"], whole[: whole.index(stop)])
            self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
            self.assertLessEqual(answer["usage"]["completion_tokens"], 60)

    def test_prompts_and_choices_have_their_places(self):
        # An evaluation would score the wrong answers.
        alone = [self.ok(self.server.complete(prompt, seed=5, temperature=1.0))["choices"][0]["text"] for prompt in ("One", "Two")]
        body = self.ok(self.server.complete(["One", "Two"], n=2, seed=5, temperature=1.0))
        self.assertEqual([choice["index"] for choice in body["choices"]], [0, 1, 2, 3])
        self.assertEqual([body["choices"][0]["text"], body["choices"][2]["text"]], alone)
        self.assertNotEqual(body["choices"][0]["text"], body["choices"][1]["text"])

    def test_echo_scores_the_prompt(self):
        # Evaluation harnesses measure with nothing else.
        body = self.ok(self.server.complete("Hello world", echo=True, max_tokens=0, logprobs=1))
        found = body["choices"][0]["logprobs"]
        self.assertEqual(body["choices"][0]["text"], "Hello world")
        self.assertEqual(body["usage"]["completion_tokens"], 0)
        self.assertEqual(len(found["token_logprobs"]), body["usage"]["prompt_tokens"])
        self.assertIsNone(found["token_logprobs"][0])
        self.assertTrue(all(value < 0 for value in found["token_logprobs"][1:]))
        self.assertEqual(found["text_offset"][0], 0)
        both = self.ok(self.server.complete("Hello world", echo=True, max_tokens=3, logprobs=1, ignore_eos=True))
        self.assertEqual(both["choices"][0]["logprobs"]["token_logprobs"][: len(found["token_logprobs"])], found["token_logprobs"])
        self.assertTrue(both["choices"][0]["text"].startswith("Hello world"))
        listed = self.ok(self.server.complete("Hello world", max_tokens=1, prompt_logprobs=2))
        entries = listed["choices"][0]["prompt_logprobs"]
        self.assertIsNone(entries[0])
        self.assertTrue(all(2 <= len(entry) <= 3 for entry in entries[1:]))

    def test_token_ids_come_back(self):
        # Training loops need the ids that were sampled, not a text that reads the same.
        body = self.ok(self.server.complete([5, 6, 7], return_token_ids=True, ignore_eos=True))
        self.assertEqual(body["choices"][0]["prompt_token_ids"], [5, 6, 7])
        self.assertEqual(len(body["choices"][0]["token_ids"]), 8)

    def test_chat(self):
        # The plainest request of all.
        body = self.ok(self.server.chat("Hello", logprobs=True, top_logprobs=2, ignore_eos=True))
        choice = body["choices"][0]
        self.assertEqual((body["object"], choice["message"]["role"]), ("chat.completion", "assistant"))
        self.assertEqual(len(choice["logprobs"]["content"]), 8)
        self.assertTrue(b"".join(bytes(item["bytes"]) for item in choice["logprobs"]["content"])[:1])
        first = json.loads(self.server.events("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})[0])
        self.assertEqual(first["choices"][0]["delta"]["role"], "assistant")

    def test_a_repeated_prompt_is_found_again(self):
        # The second turn of a conversation would be computed from its beginning.
        prompt = "many words " * 100
        first = self.ok(self.server.complete(prompt))
        again = self.ok(self.server.complete(prompt))
        self.assertEqual(first["choices"][0]["text"], again["choices"][0]["text"])
        self.assertGreater(again["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
        apart = self.ok(self.server.complete(prompt, cache_salt="somebody else's"))
        self.assertEqual(apart["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_models(self):
        # Clients list models first, and choose by id.
        self.assertEqual(self.ok(self.server.get("/v1/models"))["data"][0]["id"], "tiny-chat")
        self.assertEqual(self.ok(self.server.get("/v1/models/tiny-chat"))["id"], "tiny-chat")
        self.assert_error(self.server.get("/v1/models/other"), 404, code="model_not_found")


class Streams(Case):
    def read_all(self, stream):
        """Up to the last chunk."""
        raw = b""
        while not raw.endswith(b"\r\n0\r\n\r\n"):
            piece = stream.recv(1 << 20)
            self.assertTrue(piece, raw[-200:])
            raw += piece
        return raw

    def test_what_fails_before_the_first_token_has_a_status(self):
        # A stream that begins with 200 and then fails cannot be tried again by a client.
        self.assert_error(self.server.complete("Hi", stream=True, temperature=-1), 400, param="temperature")
        self.assert_error(self.server.complete("x " * 9000, stream=True), 400)

    def test_a_deadline_ends_a_stream_with_an_error_event(self):
        # A client would take half an answer for a whole one.
        # Nobody reads until the deadline is over, so the answer cannot be done before.
        with self.server.open_stream("Hi", buffer_bytes=4096, timeout=4, logprobs=20, **LONG) as stream:
            self.assertEqual(self.server.wait_metric("skein_sequences_paused", 1), 1)
            self.assert_nothing_left()
            raw = self.read_all(stream)
        self.assertTrue(raw.startswith(b"HTTP/1.1 200"), raw[:200])
        self.assertNotIn(b"[DONE]", raw)
        self.assertIn(b'data: {"error":', raw[-1000:])

    def test_a_deadline_of_a_whole_answer_is_a_status(self):
        # Somebody would wait for an answer that is of no use any more.
        self.assert_error(self.server.complete("Hi", timeout=0.2, n=64, **LONG), 504)
        self.assert_nothing_left()

    def test_a_slow_reader_holds_up_nobody_and_loses_nothing(self):
        # One stalled phone would take the server's memory, or everybody's tokens.
        whole = self.ok(self.server.complete("slow", logprobs=20, **LONG))["choices"][0]["text"]
        with self.server.open_stream("slow", buffer_bytes=4096, logprobs=20, **LONG) as slow:
            self.assertEqual(self.server.wait_metric("skein_sequences_paused", 1), 1)
            self.assertEqual(self.server.complete("Hi").status, 200)
            raw = self.read_all(slow)
        self.assertIn(b"data: [DONE]", raw[-100:])
        payload = _without_chunks(raw.split(b"\r\n\r\n", 1)[1]).decode()
        chunks = [json.loads(line[6:]) for line in payload.split("\n\n") if line.startswith("data: {")]
        self.assertEqual("".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]), whole)

    def test_a_reader_that_stops_reading_is_cut(self):
        # Sequences of dead connections would keep their memory for ever.
        gone = self.server.metric("skein_clients_gone_total")
        with self.server.open_stream("dead", buffer_bytes=4096, logprobs=20, **LONG):
            self.assertEqual(self.server.wait_metric("skein_clients_gone_total", gone + 1), gone + 1)
        self.assert_nothing_left()


def _without_chunks(raw):
    out = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        count = int(size, 16)
        if count == 0:
            break
        out, raw = out + raw[:count], raw[count + 2 :]
    return out


class Leaving(Case):
    def test_clients_that_leave_take_their_work_with_them(self):
        # Tokens for nobody, and blocks that never come back.
        source = random.Random(7)
        kept = {seed: self.ok(self.server.complete(f"client {seed}", max_tokens=50, ignore_eos=True))["choices"][0]["text"] for seed in range(25)}

        def leave(seed):
            prompt = f"leaver {seed} " * source.choice([1, 300])
            with self.server.open_stream(prompt, **LONG, n=source.choice([1, 3])) as stream:
                if source.random() < 0.7:
                    stream.recv(source.choice([1, 200, 2000]))

        def stay(seed):
            return seed, self.ok(self.server.complete(f"client {seed}", max_tokens=50, ignore_eos=True))["choices"][0]["text"]

        with ThreadPoolExecutor(50) as pool:
            leavers = [pool.submit(leave, seed) for seed in range(25)]
            texts = dict(pool.map(stay, range(25)))
            for leaver in leavers:
                leaver.result()
        self.assertEqual(texts, kept)
        self.assert_nothing_left()

    def test_no_token_is_made_once_nobody_listens(self):
        # The machine would stay busy for a client that closed its window.
        with self.server.open_stream("gone", **LONG, n=4) as stream:
            stream.recv(1)
        self.assert_nothing_left()
        made = self.server.metric("vllm:generation_tokens_total")
        self.assertEqual(self.server.complete("one", max_tokens=1, ignore_eos=True).status, 200)
        self.assertEqual(self.server.metric("vllm:generation_tokens_total"), made + 1)


class Load(Case):
    arguments = ("--max-concurrency", 1, "--max-queue", 2)

    def test_beyond_the_queue_is_429_and_those_inside_are_served(self):
        # An overloaded server would let everybody wait until all have given up.
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda seed: self.server.complete(f"{seed}", logprobs=5, **LONG), range(12)))
        codes = [answer.status for answer in answers]
        self.assertGreaterEqual(codes.count(200), 3, codes)
        self.assertGreaterEqual(codes.count(429), 1, codes)
        self.assertEqual(set(codes), {200, 429})
        refused = next(answer for answer in answers if answer.status == 429)
        self.assert_error(refused, 429, code="queue_full")
        self.assertGreaterEqual(int(refused.headers["retry-after"]), 1)
        self.assert_nothing_left()

    def test_who_waits_may_leave(self):
        # A place in the queue would be lost for ever.
        running = self.server.open_stream("running", **LONG, logprobs=20, buffer_bytes=4096)
        self.server.wait_metric("skein_requests_admitted", 1)
        waiting = [self.server.open_stream(f"waiting {seed}", max_tokens=5) for seed in range(2)]
        self.assertEqual(self.server.wait_metric("skein_requests_queued", 2), 2)
        self.assert_error(self.server.complete("one too many"), 429)
        for stream in (*waiting, running):
            stream.close()
        self.assertEqual(self.server.wait_metric("skein_requests_queued", 0), 0)
        self.assertEqual(self.server.complete("again").status, 200)
        self.assert_nothing_left()

    def test_refusals_keep_no_place(self):
        # After so many bad requests nobody would be served any more.
        for _ in range(10):
            self.assert_error(self.server.complete("Hi", temperature="hot"), 400, param="temperature")
        self.assertEqual(self.server.complete("Hi").status, 200)


class ManyChoices(Case):
    def test_an_engine_full_of_choices_is_429_too(self):
        # Clients try again after 429 and Retry-After; an error of the server's they report.
        full = [self.server.open_stream(["a", "b"], n=128, **LONG, logprobs=20, buffer_bytes=4096) for _ in range(16)]
        self.assertEqual(self.server.wait_metric("skein_requests_admitted", 16), 16)
        refused = self.server.complete("one too many")
        self.assert_error(refused, 429, code="queue_full")
        self.assertGreaterEqual(int(refused.headers["retry-after"]), 1)
        for stream in full:
            stream.close()
        self.assert_nothing_left()
        deadline = time.monotonic() + 10  # the engine lets go of them with its next step
        while (status := self.server.complete("again").status) == 429 and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(status, 200)


class Simulated(Case):
    arguments = ("--simulated", "--max-num-seqs", 512, "--max-concurrency", 512)

    def test_hundreds_of_streams_at_once_are_each_whole_and_in_order(self):
        # With many users tokens would be lost, or be somebody else's. No model is fast enough here for so many; the rest is the real one.
        kept = {seed: self.ok(self.server.complete(f"user {seed}", seed=seed, max_tokens=40, ignore_eos=True, return_token_ids=True))
                for seed in range(10)}
        wanted = {seed: body["choices"][0]["token_ids"] for seed, body in kept.items()}
        self.assertEqual(len({tuple(ids) for ids in wanted.values()}), 10)

        def stream(number):
            seed = number % 10
            parts = self.server.events("/v1/completions", {"prompt": f"user {seed}", "seed": seed, "max_tokens": 40, "ignore_eos": True,
                                                           "return_token_ids": True})
            ids = [token for part in parts[:-1] for choice in json.loads(part)["choices"] for token in choice.get("token_ids") or []]
            return parts[-1] == "[DONE]" and ids == wanted[seed]

        with ThreadPoolExecutor(300) as pool:
            self.assertEqual(list(pool.map(stream, range(600))).count(True), 600)
        self.assertGreater(self.server.metric("skein_engine_steps_total"), 0)
        self.assert_nothing_left()


class Ending(unittest.TestCase):
    def status_of(self, ask):
        """0 when the door is shut, or is being shut just now."""
        try:
            return ask().status
        except OSError:
            return 0

    def status_once_draining(self, server):
        """What /ready says once it no longer says yes."""
        deadline = time.monotonic() + 10
        status = 200
        while status == 200 and time.monotonic() < deadline:
            status = self.status_of(lambda: server.get("/ready"))
        return status

    def test_a_drain_finishes_what_runs_and_takes_nothing_new(self):
        # A new version could not be rolled out without torn answers.
        with RunningServer(MODEL) as server:
            box = {}
            body = {"prompt": "Once", **LONG}
            thread = threading.Thread(target=lambda: box.update(parts=server.events("/v1/completions", body)))
            thread.start()
            self.assertEqual(server.wait_metric("vllm:num_requests_running", 1), 1)
            server.process.send_signal(signal.SIGTERM)
            if self.status_once_draining(server) == 503:
                self.assertIn(self.status_of(lambda: server.complete("new")), (0, 503))
            thread.join(60)
            self.assertEqual(box["parts"][-1], "[DONE]")
            self.assertEqual(server.process.wait(30), 0)

    def test_a_drain_waits_for_a_slow_reader(self):
        # Who reads slowly would lose the end of an answer that was complete.
        with RunningServer(MODEL) as server:
            with server.open_stream("slow", **LONG, logprobs=20, buffer_bytes=4096) as slow:
                self.assertEqual(server.wait_metric("vllm:num_requests_running", 1), 1)
                server.process.send_signal(signal.SIGTERM)
                self.assertNotEqual(self.status_once_draining(server), 200)
                said = b""
                while part := slow.recv(4096):
                    said += part
                self.assertIn(b"data: [DONE]", said[-64:])
            self.assertEqual(server.process.wait(30), 0)

    def test_a_second_signal_does_not_wait(self):
        # An operator who means it would have to kill, and leave sockets and memory to chance.
        with RunningServer(MODEL) as server:
            with server.open_stream("slow", **LONG, logprobs=20, buffer_bytes=4096):
                self.assertEqual(server.wait_metric("vllm:num_requests_running", 1), 1)
                server.process.send_signal(signal.SIGTERM)
                self.assertNotEqual(self.status_once_draining(server), 200)
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(30), 130)

    def test_idle_it_ends_at_once(self):
        # Every restart would cost a timeout.
        with RunningServer(MODEL) as server:
            server.process.send_signal(signal.SIGINT)
            self.assertEqual(server.process.wait(30), 0)


class Operating(unittest.TestCase):
    def test_names_that_no_request_can_say_are_refused_at_the_start(self):
        # The server would run for hours before somebody finds that nobody can ask it by its name.
        for name in ("", "two\nlines", "x" * 513):
            with self.subTest(name=name[:20]):
                done = subprocess.run([SKEIN, "serve", MODEL, "--port", "0", "--served-model-name", name],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2)
                self.assertIn("--served-model-name takes 1 to 512 bytes", done.stderr)

    def test_the_log_tells_of_each_request_and_never_its_prompt(self):
        # Nobody could say later what happened, or everybody could read what users wrote.
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with RunningServer(MODEL, "--log-format", "json") as server:
            answer = server.complete("a secret of mine", headers={"X-Request-Id": "my-id.7", "traceparent": trace})
            self.assertEqual(answer.headers["x-request-id"], "my-id.7")
            self.assertEqual(answer.headers["traceparent"], trace)
            server.get("/v1/no-such-route")
        lines = [json.loads(line) for line in server.log if line.startswith("{")]
        mine = [line for line in lines if line.get("id") == "my-id.7"]
        self.assertEqual(len(mine), 1)
        self.assertEqual((mine[0]["route"], mine[0]["status"], mine[0]["traceparent"]), ("/v1/completions", 200, trace))
        self.assertGreater(mine[0]["prompt_tokens"], 0)
        self.assertGreater(mine[0]["ttft_ms"], 0)
        self.assertTrue(any(line.get("status") == 404 for line in lines), lines)
        self.assertNotIn("secret", "\n".join(server.log))

    def test_keys_and_names(self):
        # A server on a network would be open to everybody.
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys"
            keys.write_text("# for tests\nfirst-key-123 team-a\n")
            keys.chmod(0o600)
            with RunningServer(MODEL, "--api-key-file", keys, "--served-model-name", "small") as server:
                self.assertEqual(server.model, "small")
                self.assertEqual(server.get("/v1/models").status, 401)
                self.assertEqual(server.get("/no-such-route").status, 401)
                self.assertEqual(server.get("/live").status, 200)
                right = {"Authorization": "Bearer first-key-123"}
                self.assertEqual(server.complete("Hi", headers=right).status, 200)
                self.assertEqual(server.get("/metrics", headers=right).status, 200)
            self.assertTrue(any("tenant=team-a" in line for line in server.log), server.log)
            with RunningServer(MODEL, env={"SKEIN_API_KEYS": "second-key-456"}) as server:
                self.assertEqual(server.get("/version").status, 401)
                self.assertEqual(server.get("/version", headers={"Authorization": "Bearer second-key-456"}).status, 200)

    def test_readiness_and_liveness(self):
        # Load balancers send users where these say yes.
        with RunningServer(MODEL) as server:
            made = server.metric("vllm:generation_tokens_total")
            for path in ("/live", "/ready", "/health"):
                self.assertEqual(server.get(path).status, 200, path)
            self.assertGreater(server.metric("skein_engine_steps_total"), 0)
            self.assertEqual(server.metric("vllm:generation_tokens_total"), made)


if __name__ == "__main__":
    unittest.main()
