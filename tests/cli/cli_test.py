#!/usr/bin/env python3
"""The program from outside, as people and scripts meet it, on a tiny model with random weights. Standard library only.
SKEIN is the binary, SKEIN_TINY_MODEL the model (`skein make-model --shape tiny`)."""

import base64
import json
import os
import select
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SKEIN = os.environ.get("SKEIN", "build/ci/skein")
MODEL = os.environ.get("SKEIN_TINY_MODEL", "tiny.gguf")
COMMANDS = ["run", "chat", "serve", "models", "pull", "make-model", "doctor", "inspect", "tokenize", "detokenize", "template",
            "eval", "eval logits", "eval perplexity", "eval choices", "bench", "bench comm", "bench kernels", "bench model", "bench ranks", "bench serve",
            "mesh", "mesh check", "mesh top"]
GREEDY = ("--temperature", "0", "--max-tokens", "8")


def skein(*arguments, stdin=b"", env=None, limit_bytes=None, cwd=None):
    command = [SKEIN, *map(str, arguments)]
    if limit_bytes is not None:
        command = ["sh", "-c", f'ulimit -v {limit_bytes // 1024}; exec "$@"', "sh", *command]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SKEIN_")}
    return subprocess.run(command, input=stdin if isinstance(stdin, bytes) else stdin.encode(), capture_output=True,
                          env={**clean, **(env or {})}, timeout=100, cwd=cwd)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def ok(self, *arguments, **options):
        outcome = skein(*arguments, **options)
        self.assertEqual(outcome.returncode, 0, outcome.stderr.decode())
        return outcome.stdout

    def json(self, *arguments, **options):
        return json.loads(self.ok(*arguments, "--json", **options))

    def refused(self, code, *arguments, **options):
        """One line on standard error, nothing on standard output, and the exit status."""
        outcome = skein(*arguments, **options)
        lines = outcome.stderr.decode().splitlines()
        self.assertEqual((outcome.returncode, len(lines), outcome.stdout), (code, 1, b""), f"{arguments}: {lines}")
        self.assertTrue(lines[0].startswith("skein: "), lines)
        return lines[0]


class Help(Case):
    def test_every_help_fits_a_screen(self):
        # A newcomer's first look would scroll away.
        for command in ["", *COMMANDS]:
            lines = self.ok(*command.split(), "--help").decode().splitlines()
            self.assertTrue(0 < len(lines) <= 50, f"{command}: {len(lines)} lines")
            self.assertLessEqual(max(map(len, lines)), 100, command)
        overview = self.ok("--help").decode()
        for command in COMMANDS:
            self.assertIn(command, overview)
        self.assertRegex(self.ok("--version").decode(), r"skein \d+\.\d+\.\d+ \(commit .+\)")

    def test_the_documentation_lists_every_flag(self):
        # Documentation made by hand would drift.
        documentation = self.ok("help", "docs").decode()
        for flag in ("--max-tokens", "SKEIN_MAX_TOKENS", "--max-num-batched-tokens", "--n-prompt"):
            self.assertIn(flag, documentation)
        written = Path(__file__).resolve().parents[2] / "docs" / "options.md"
        self.assertEqual(written.read_text(), documentation, "write it anew: skein help docs > docs/options.md")

    def test_help_is_quick(self):
        # Shell completion and scripts call it often.
        self.ok("--help")
        begin = time.monotonic()
        for _ in range(5):
            self.ok("--help")
        self.assertLess((time.monotonic() - begin) / 5, 0.25)  # about 10 ms; the machine may be busy


class Usage(Case):
    def test_misspelt_words_get_the_nearest(self):
        # "unknown flag" alone sends people to a search engine.
        for arguments, near in ((["run", MODEL, "x", "--max-token", "3"], "--max-tokens"),
                                (["run", MODEL, "x", "--temprature", "0"], "--temperature"),
                                (["bnech"], "bench"), (["tokenise", MODEL], "tokenize"), (["eval", "logit"], "logits")):
            self.assertIn(near, self.refused(2, *arguments))

    def test_wrong_values_are_refused_and_named(self):
        # A silent default in place of a typo gives wrong results for hours.
        for flag, value in (("--max-tokens", "many"), ("--max-tokens", "-3"), ("--temperature", "-1"), ("--top-p", "1.5"),
                            ("--top-p", "nan"), ("--seed", "9" * 26), ("--threads", "0"), ("--kernels", "abacus"),
                            ("--arithmetic", "abacus"), ("--kv-dtype", "fp4"), ("--prompt-tokens", "1,x,3")):
            prompt = [] if flag == "--prompt-tokens" else ["hi"]
            self.assertIn(flag, self.refused(2, "run", MODEL, *prompt, flag, value))

    def test_missing_pieces(self):
        for arguments in ([], ["run"], ["run", MODEL], ["run", MODEL, ""], ["eval", "logits", MODEL], ["make-model"],
                          ["template", MODEL], ["bench", "model", MODEL, "-p", "0", "-n", "0"], ["pull", "elephant"]):
            self.refused(2, *arguments)

    def test_errors_as_json(self):
        # A script must not parse sentences.
        outcome = skein("run", MODEL, "x", "--top-k", "x", "--json")
        error = json.loads(outcome.stdout)["error"]
        self.assertEqual((outcome.returncode, error["code"], error["field"]), (2, "invalid_argument", "--top-k"))

    def test_what_is_no_model(self):
        text = self.folder / "text"
        text.write_text("no model\n" * 100)
        (self.folder / "empty").mkdir()
        (self.folder / "none.gguf").write_bytes(b"")
        for path in (text, self.folder / "empty", self.folder / "none.gguf", "/dev/zero", "/dev/null"):
            self.refused(4, "run", path, "hi")
        self.assertIn("no-such.gguf", self.refused(2, "run", self.folder / "no-such.gguf", "hi"))

    def test_the_default_model_says_how_to_get_it(self):
        message = self.refused(3, "run", "default", "hi", env={"SKEIN_CACHE": str(self.folder)})
        self.assertIn("skein pull default", message)
        self.assertIn(str(self.folder), message)

    def test_an_index_that_cannot_be_reached(self):
        # Behind a firewall people need to know which file to carry in, and where to.
        try:
            subprocess.run(["python3", "-m", "pip", "--version"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no pip here")
        message = self.refused(5, "pull", "default", env={
            "SKEIN_CACHE": str(self.folder), "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0",
            "PIP_CONFIG_FILE": os.devnull})
        self.assertIn("SmolLM2-135M-Instruct", message)
        self.assertIn(str(self.folder), message)
        self.assertEqual(list((self.folder / "models").iterdir()), [])


class Run(Case):
    def test_shape_of_the_json(self):
        answer = self.json("run", MODEL, "ab cd", "--raw", *GREEDY, "--ignore-eos", "--logprobs", "3")
        self.assertEqual(len(answer["tokens"]), 8)
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["mesh"], {"data": 1, "pipe": 1, "seq": 1, "tensor": 1})
        self.assertLessEqual({"name", "architecture", "parameters", "weight_format"}, set(answer["model"]))
        for entry, token in zip(answer["logprobs"], answer["tokens"], strict=True):
            self.assertEqual(entry["token"], token)
            self.assertEqual(entry["top"][0], {"token": token, "logprob": entry["logprob"]})
            self.assertEqual(len(entry["top"]), 3)
        for key in ("load_ms", "ttft_ms", "prefill_tokens_per_s", "decode_tokens_per_s", "total_ms"):
            self.assertGreaterEqual(answer["timing"][key], 0)
        again = self.json("run", MODEL, "--prompt-tokens", ",".join(map(str, answer["prompt_tokens"])), *GREEDY, "--ignore-eos")
        self.assertEqual(again["tokens"], answer["tokens"])

    def test_ways_to_give_a_prompt(self):
        file = self.folder / "prompt"
        file.write_text("ab cd")
        wanted = self.ok("run", MODEL, "ab cd", "--raw", *GREEDY, "--quiet")
        self.assertEqual(self.ok("run", MODEL, "-", "--raw", *GREEDY, stdin="ab cd"), wanted)
        self.assertEqual(self.ok("run", MODEL, "--prompt-file", file, "--raw", *GREEDY), wanted)
        self.refused(2, "run", MODEL, "ab", "--prompt-file", file)
        self.refused(2, "run", MODEL, "--prompt-file", self.folder / "none")
        self.refused(2, "run", MODEL, "-", "--raw")

    def test_a_seed_gives_the_same_answer(self):
        # Whoever reports a bad answer must be able to show it again.
        ask = ("run", MODEL, "ab", "--raw", "--temperature", "1", "--max-tokens", "16", "--ignore-eos", "--seed")
        first, again = self.json(*ask, "5")["tokens"], self.json(*ask, "5", "--threads", "1")["tokens"]
        self.assertEqual(first, again)
        self.assertNotEqual(first, self.json(*ask, "6")["tokens"])

    def test_stop_cuts_exactly(self):
        ask = ("run", MODEL, "ab", "--raw", "--temperature", "0", "--max-tokens", "24", "--ignore-eos")
        text = self.json(*ask)["text"]
        stop = text[5:9]
        cut = self.json(*ask, "--stop", stop)
        self.assertEqual((cut["text"], cut["finish_reason"]), (text[:text.index(stop)], "stop"))

    def test_settings(self):
        # A flag wins over the environment, that over the file.
        file = self.folder / "skein.toml"
        file.write_text("max-tokens = 3\nharbour = 1\n[bench-model]\nrepetitions = 2\n")
        ask = ("run", MODEL, "ab", "--raw", "--temperature", "0", "--ignore-eos", "--config", file)
        with self.assertRaises(AssertionError):
            self.json(*ask)  # no command has an option of this name
        file.write_text("max-tokens = 3\nrepetitions = 2\n[run]\nseed = 4\n")
        count = lambda *extra, env={}: len(self.json(*ask, *extra, env=env)["tokens"])
        self.assertEqual(count(), 3)
        self.assertEqual(count(env={"SKEIN_MAX_TOKENS": "4"}), 4)
        self.assertEqual(count("--max-tokens", "5", env={"SKEIN_MAX_TOKENS": "4"}), 5)

    def test_a_profile_is_a_trace(self):
        file = self.folder / "trace.json"
        self.ok("run", MODEL, "ab", "--raw", *GREEDY, "--ignore-eos", "--profile", file)
        names = [event["name"] for event in json.loads(file.read_text())["traceEvents"]]
        self.assertEqual(names[:2] + [names.count("token")], ["load", "prompt", 7])


class Pipes(Case):
    def test_output_is_the_answer_and_nothing_else(self):
        loud, quiet = skein("run", MODEL, "ab", "--raw", *GREEDY), skein("run", MODEL, "ab", "--raw", *GREEDY, "--quiet")
        self.assertEqual(loud.stdout, quiet.stdout)
        self.assertEqual(quiet.stderr, b"")
        self.assertNotIn(b"\r", loud.stderr)
        self.assertNotIn(b"\x1b", loud.stderr + loud.stdout)

    def test_a_reader_that_leaves_is_no_crash(self):
        outcome = subprocess.run(["sh", "-c", '"$@" | head -c 1', "sh", SKEIN, "run", MODEL, "ab", "--raw", "--max-tokens",
                                  "200", "--ignore-eos", "--quiet"], capture_output=True, timeout=60)
        self.assertEqual((len(outcome.stdout), outcome.stderr), (1, b""))

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "wb") as full:
            for arguments in (["run", MODEL, "ab", "--raw", *GREEDY, "--quiet"], ["tokenize", MODEL, "ab"], ["inspect", MODEL, "--json"]):
                outcome = subprocess.run([SKEIN, *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(outcome.returncode, 3, arguments)
                self.assertIn(b"cannot be written", outcome.stderr)

    def test_ctrl_c_ends_with_130(self):
        with subprocess.Popen([SKEIN, "run", MODEL, "ab", "--raw", "--max-tokens", "100000", "--ignore-eos", "--quiet", "--context",
                               "200000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            child.stdout.read(1)
            child.send_signal(signal.SIGINT)
            child.communicate(timeout=30)
        self.assertIn(child.returncode, (130, 6, 0))  # 6, 0: the tiny model had said all it could

    def test_files_are_whole_or_absent(self):
        # Half a file that looks like a whole one is the worst outcome of an error.
        ids = self.folder / "ids.json"
        ids.write_text("[1, 2, 99999999]")
        self.refused(6, "eval", "logits", MODEL, "--tokens", ids, "--out", self.folder / "out.f32")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["ids.json"])


class Inside(Case):
    def test_inspect(self):
        found = self.json("inspect", MODEL)
        self.assertLessEqual({"name", "shape", "format", "bytes"}, set(found["tensors"][0]))
        self.assertGreater(found["memory"]["weights_bytes"], 0)
        self.assertGreater(found["memory"]["kv_bytes_per_token"], 0)
        self.assertIn("general.architecture", found["metadata"])
        self.assertIn(b"Tensors", self.ok("inspect", MODEL))

    def test_text_to_ids_and_back(self):
        text = "the cat – Ünïcödé 😀"
        lines = [{"text": text, "add_special": False}, {"bytes_base64": base64.b64encode(text.encode()).decode(), "add_special": False}]
        answers = [json.loads(line) for line in
                   self.ok("tokenize", MODEL, "--jsonl", stdin="".join(json.dumps(line) + "\n" for line in lines)).splitlines()]
        self.assertEqual(answers[0], answers[1])
        back = self.ok("detokenize", MODEL, "--jsonl", stdin=json.dumps(answers[0]) + "\n")
        self.assertEqual(json.loads(back), {"text": text})
        ids = self.ok("tokenize", MODEL, text, "--no-special").decode().strip()
        self.assertEqual(self.ok("detokenize", MODEL, ids).decode(), text + "\n")

    def test_every_line_has_its_answer(self):
        # A service that feeds lines must not lose count at a bad one.
        answers = self.ok("tokenize", MODEL, "--jsonl", stdin='{"text": "a"}\n[1]\nnot json\n{"text": 3}\n{"text": "a"}\n').splitlines()
        self.assertEqual(["error" in json.loads(answer) for answer in answers], [False, True, True, True, False])

    def test_lines_are_answered_as_they_come(self):
        # A program that waits for each answer before it asks again would wait for ever.
        with subprocess.Popen([SKEIN, "tokenize", MODEL, "--jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            for text in ("a", "b" * 300000, "c"):
                child.stdin.write(json.dumps({"text": text}).encode() + b"\n")
                child.stdin.flush()
                self.assertTrue(select.select([child.stdout], [], [], 20)[0], "no answer")
                self.assertIn("ids", json.loads(child.stdout.readline()))
            child.stdin.write(b'{"text": "no end of line"}')
            child.stdin.close()
            self.assertIn("ids", json.loads(child.stdout.read()))

    def test_ids_outside_the_vocabulary(self):
        # An empty text in place of an error hides that ids and model do not belong together.
        self.assertIn("99999999", self.refused(6, "detokenize", MODEL, "1,99999999"))
        lines = '{"ids": [99999999]}\n{"ids": [98]}\n'
        first, second = map(json.loads, self.ok("detokenize", MODEL, "--jsonl", stdin=lines).splitlines())
        self.assertIn("vocabulary", first["error"])
        self.assertIn("text", second)

    def test_templates(self):
        lines = '{"template": "{{ a + 1 }}", "context": {"a": 2}}\n{"template": "{{ a", "context": {}}\n'
        first, second = self.ok("template", "--expressions", "--jsonl", stdin=lines).splitlines()
        self.assertEqual(json.loads(first), {"text": "3"})
        self.assertIn("error", json.loads(second))
        file = self.folder / "t.jinja"
        file.write_text("{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
        line = json.dumps({"messages": [{"role": "user", "content": "hi"}], "kwargs": {"bos_token": "<s>"}}) + "\n"
        self.assertEqual(json.loads(self.ok("template", "--template", file, "--jsonl", stdin=line)), {"text": "<s>user: hi\n"})

    def test_doctor(self):
        report = self.json("doctor")
        self.assertGreaterEqual(len(report["findings"]), 3)
        for finding in report["findings"]:
            self.assertIn(finding["status"], ("ok", "warn", "fail"))
            self.assertTrue(finding["status"] == "ok" or finding["fix"], finding)
        self.assertEqual(report["kernels"][-1], "ref")
        self.assertIn("exact", report["arithmetics"])

    def test_models_lists_the_cache(self):
        (self.folder / "models").mkdir()
        os.symlink(os.path.abspath(MODEL), self.folder / "models" / "small.gguf")
        env = {"SKEIN_CACHE": str(self.folder)}
        self.assertEqual(self.json("models", env=env)["models"][0]["name"], "small")
        self.ok("run", "small", "ab", "--raw", *GREEDY, env=env)

    def test_made_models_are_reproducible(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            self.ok("make-model", "--shape", "tiny", "--format", "Q8_0", "--seed", seed, "--out", self.folder / name, "--quiet")
        a, b, c = ((self.folder / name).read_bytes() for name in "abc")
        self.assertEqual(a, b)
        self.assertNotEqual(a, c)


class Evaluating(Case):
    def test_logits_do_not_depend_on_the_step(self):
        ids = self.folder / "ids.json"
        ids.write_text(json.dumps(list(range(1, 41))))
        files = []
        for step in (1, 7, 512):
            files.append(self.folder / f"{step}.f32")
            self.ok("eval", "logits", MODEL, "--tokens", ids, "--out", files[-1], "--max-num-batched-tokens", step)
        data = [file.read_bytes() for file in files]
        self.assertEqual(len(data[0]) % (4 * 40), 0)
        self.assertTrue(data[0] == data[1] == data[2])

    def test_perplexity_counts_what_it_scores(self):
        text = self.folder / "text"
        text.write_text("abcdefgh " * 400)
        count = len(json.loads(self.ok("tokenize", MODEL, "--json", "-", "--no-special", stdin=text.read_bytes()))["ids"])
        found = self.json("eval", "perplexity", MODEL, "--text", text, "--context", "64")
        self.assertEqual(found["tokens"], count // 64 * 63)
        self.assertGreater(found["perplexity"], 1)
        self.refused(2, "eval", "perplexity", MODEL, "--text", text, "--context", "100000")

    def test_choices(self):
        file = self.folder / "choices"
        file.write_text(json.dumps({"prompt": "ab", "choices": [" cd", " ef gh"], "answer": 1}) + "\n")
        found = json.loads(self.ok("eval", "choices", MODEL, "--jsonl", file, "--json"))
        self.assertEqual(len(found["scores"]), 2)
        self.assertEqual(found["choice"], max(range(2), key=lambda place: found["scores"][place]))


class Measuring(Case):
    def test_rows_of_a_benchmark(self):
        rows = self.json("bench", "model", MODEL, "-p", "16", "-n", "4", "-d", "0,8", "-b", "1,3", "-r", "2")
        self.assertEqual([row["test"] for row in rows],
                         ["pp16", "tg4", "pp16@d8", "tg4@d8", "pp16×b3", "tg4×b3", "pp16@d8×b3", "tg4@d8×b3"])
        for row in rows:
            self.assertEqual(len(row["samples_ts"]), 2)
            self.assertGreater(row["avg_ts"], 0)
        self.assertTrue(self.ok("bench", "model", MODEL, "-p", "8", "-n", "2", "-r", "1", "--md").startswith(b"| test"))
        self.assertTrue(self.ok("bench", "model", MODEL, "-p", "8", "-n", "2", "-r", "1", "--csv").startswith(b"test,"))

    def test_kernels_want_a_shape(self):
        self.assertIn("2048x8192", self.refused(2, "bench", "kernels", "--shape", "5x5"))

    def test_collectives(self):
        # Ranks as threads and as processes; everything that was asked for is a row.
        for transport in ("threads", "shm"):
            found = self.json("bench", "comm", "--ranks", "2", "--transport", transport, "--size", "1024,5000", "--rounds", "1")
            rows = {(row["wire"], row["algorithm"], row["bytes"]) for row in found["rows"]}
            for size in (1024, 5000):
                self.assertIn(("bf16", "one_shot", size), rows)
                self.assertIn(("int8", "auto", size), rows)
                self.assertIn(("", "message", size), rows)
            self.assertTrue(all(row["median_us"] >= row["best_us"] > 0 for row in found["rows"]))
            self.assertEqual([link["transport"] for link in found["links"]], [transport])
        self.assertIn("--pretend-hosts", self.refused(2, "bench", "comm", "--ranks", "2", "--pretend-hosts", "3"))

    def test_efficiency_of_ranks(self):
        # Parts that do not add up would send people looking for time that was never lost.
        for mesh in (("--tensor", "2"), ("--pipe", "2"), ("--tensor", "2", "--transport", "shm")):
            found = self.json("bench", "ranks", MODEL, *mesh, "-p", "16", "-n", "6", "-b", "1,2", "-r", "1")
            self.assertEqual([test["test"] for test in found["tests"]], ["pp16", "tg6", "pp16×b2", "tg6×b2"])
            self.assertEqual(len(found["ranks"]), 2)
            for test in found["tests"]:
                self.assertAlmostEqual(sum(test["parts"].values()), 1, places=6)
                self.assertGreater(test["efficiency"], 0)
                self.assertTrue(0 < test["balance_bound"] <= 1 + 1e-9, test)
                self.assertEqual("bubble" in test, mesh[0] == "--pipe")
                for rank in test["ranks"]:
                    self.assertGreater(rank["steps"], 0, f"a rank tells nothing of its work: {mesh}")
                    self.assertGreater(rank["busy"], 0)
                self.assertGreater(test["bytes_per_token"], 0)
        self.assertIn("--threads", self.refused(2, "bench", "ranks", MODEL, "--tensor", "2", "--threads", "3"))
        self.assertIn(b"bubble", self.ok("bench", "ranks", MODEL, "--pipe", "2", "-p", "0", "-n", "4", "-b", "1", "-r", "1"))

    def test_a_trace_has_communication(self):
        # Where the time of ranks goes could not be seen.
        trace = self.folder / "trace.json"
        for ranks, names in (("1", {"load", "prompt", "token", "compute"}), ("2", {"load", "prompt", "token", "compute", "communication"})):
            self.ok("run", MODEL, "ab cd", "--raw", *GREEDY, "--ignore-eos", "--tensor", ranks, "--profile", trace)
            # Rows of tokens and of their steps; what is below are the phases of steps.
            events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X" and event["tid"] <= 2]
            self.assertEqual({event["name"] for event in events}, names)
            for event in events:
                self.assertGreaterEqual(event["dur"], 0)
                self.assertTrue(0 < event.get("args", {}).get("share", 0.5) <= 1, event)

    def test_mesh_check_here(self):
        # Whoever sets up ranks would find out one failure at a time.
        found = {finding["name"]: finding for finding in self.json("mesh", "check", "--transport", "shm")["findings"]}
        self.assertLessEqual({"cores", "memory", "huge pages", "shared memory", "shm"}, set(found))
        self.assertNotIn("mpi", found)
        self.assertIn("GB/s", found["shm"]["meaning"])
        self.assertTrue(all(finding["fix"] for finding in found.values() if finding["status"] != "ok"))
        self.assertIn("--hosts", self.refused(2, "mesh", "check", "--hosts", "-oProxyCommand=touch"))

    def test_mesh_check_of_hosts(self):
        # One host that is away would hide what is wrong with the others.
        agent = self.folder / "agent"
        agent.write_text("#!/bin/sh\nhost=$1\nshift\ncase $host in 127.0.0.1) exec sh -c \"$*\";; 127.0.0.2) exec sleep 100;;\n"
                         "127.0.0.3) echo 'skein 0.0.0 (commit other)'; date +%s%N;; *) echo refused >&2; exit 255;; esac\n")
        agent.chmod(0o755)
        outcome = skein("mesh", "check", "--hosts", "127.0.0.1,127.0.0.2,127.0.0.4,127.0.0.5", "--agent", agent, "--patience", "1", "--json")
        self.assertEqual(outcome.returncode, 5)
        found = {finding["name"]: finding for finding in json.loads(outcome.stdout)["findings"]}
        self.assertEqual(found["127.0.0.1 reach"]["status"], "ok")
        self.assertEqual(found["127.0.0.1 version"]["status"], "ok")
        self.assertEqual(found["127.0.0.1 clock"]["status"], "ok")
        self.assertIn("no answer", found["127.0.0.2 reach"]["meaning"])
        self.assertIn("refused", found["127.0.0.4 reach"]["meaning"])
        self.assertEqual({name.split()[0] for name in found}, {"127.0.0.1", "127.0.0.2", "127.0.0.4", "127.0.0.5"})
        other = skein("mesh", "check", "--hosts", "127.0.0.3", "--agent", agent, "--json")
        found = {finding["name"]: finding for finding in json.loads(other.stdout)["findings"]}
        self.assertEqual(found["127.0.0.3 version"]["status"], "fail")

    def test_mesh_top(self):
        # The ranks of a server that runs slowly could not be looked at.
        server = subprocess.Popen([SKEIN, "serve", MODEL, "--port", "0", "--tensor", "2"], stderr=subprocess.PIPE, text=True)
        try:
            url = next(line.split(" at ")[1].split()[0] for line in server.stderr if line.startswith("skein: serving"))
            found = self.json("mesh", "top", "--url", url, "--interval-ms", "100")
            self.assertEqual([(rank["rank"], rank["tensor"]) for rank in found["ranks"]], [(0, "0"), (1, "1")])
            self.assertTrue(all(rank["memory_bytes"] > 0 and rank["busy"] == 0 for rank in found["ranks"]), found)
            self.assertEqual(len(self.ok("mesh", "top", "--url", url, "--interval-ms", "100").splitlines()), 3)
        finally:
            server.terminate()
            server.communicate(timeout=60)
        self.refused(5, "mesh", "top", "--url", url)
        self.refused(2, "mesh", "top", "--url", "somewhere")


class Limits(Case):
    def test_prompts_beyond_the_limits(self):
        message = self.refused(6, "run", MODEL, "--prompt-tokens", ",".join(["5"] * 300), "--context", "256", "--max-tokens", "1")
        self.assertIn("300", message)
        self.assertIn("256", message)
        self.refused(6, "run", MODEL, "--prompt-tokens", "99999999", "--max-tokens", "1")

    def test_little_memory(self):
        # A model that fits runs, in whatever context fits; one that does not is refused with numbers, not killed.
        self.ok("run", MODEL, "ab", "--raw", *GREEDY, limit_bytes=256 << 20)
        message = self.refused(6, "run", MODEL, "ab", "--raw", "--context", "16000000", limit_bytes=256 << 20)
        self.assertRegex(message, r"\d+(\.\d+)? (MB|GB|TB)")


class Surroundings(Case):
    """Signals, limits and closed streams."""

    def start(self, *arguments):
        return subprocess.Popen([SKEIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def shell(self, line, *arguments):
        return subprocess.run(["sh", "-c", line, "sh", SKEIN, *map(str, arguments)], capture_output=True, timeout=100)

    def test_ctrl_c_at_any_moment(self):
        # Scripts tell "the user has had enough" from a crash by 130; and no half file may be left.
        out = self.folder / "big.gguf"
        for moment in (0.1, 0.3):
            with self.start("make-model", "--shape", "1b", "--out", out) as child:
                time.sleep(moment)
                child.send_signal(signal.SIGINT)
                stdout, stderr = child.communicate(timeout=30)
            self.assertEqual((child.returncode, stdout, stderr), (130, b"", b""))
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_an_interrupted_answer_is_one_document(self):
        with self.start("run", MODEL, "ab", "--raw", "--max-tokens", "16000000", "--ignore-eos", "--json", "--context", "100000",
                        "--threads", "1") as child:
            time.sleep(1.5)
            child.send_signal(signal.SIGINT)
            stdout, _ = child.communicate(timeout=60)
        if child.returncode != 130:
            self.skipTest("the answer was complete by then, or memory is short")
        if stdout:  # empty: it was loading still
            self.assertEqual(json.loads(stdout)["finish_reason"], "cancelled")

    def test_a_limit_of_file_sizes(self):
        # A batch system's quota ended the program by a signal and left half a file.
        outcome = self.shell('ulimit -f 10; exec "$@"', "make-model", "--shape", "tiny", "--out", self.folder / "x.gguf")
        self.assertEqual(outcome.returncode, 3, outcome)
        self.assertIn(b"File too large", outcome.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_closed_streams(self):
        # The first file opened takes the number of a closed stream: messages would go into it.
        out = self.folder / "x.gguf"
        for closed in ("<&-", "2>&-", "<&- >&- 2>&-"):
            outcome = self.shell(f'exec "$@" {closed}', "make-model", "--shape", "tiny", "--out", out)
            self.assertEqual(outcome.returncode, 0, outcome)
            self.ok("inspect", out)
        trace = self.folder / "trace.json"
        self.assertEqual(self.shell('exec "$@" <&- 2>&-', "run", MODEL, "ab", "--raw", *GREEDY, "--profile", trace).returncode, 0)
        json.loads(trace.read_text())
        self.assertEqual(self.shell('exec "$@" <&- >&-', "run", MODEL, "ab", "--raw", *GREEDY, "--profile", trace).returncode, 3)
        json.loads(trace.read_text())

    def test_a_profile_that_cannot_be_written_is_said_first(self):
        self.refused(2, "run", MODEL, "ab", "--raw", *GREEDY, "--profile", self.folder / "none" / "trace.json")

    def test_errors_are_json_however_json_was_chosen(self):
        outcome = skein("run", MODEL, "--prompt-tokens", "99999999", env={"SKEIN_JSON": "1"})
        self.assertEqual(json.loads(outcome.stdout)["error"]["code"], "limit")

    def test_no_home(self):
        # Not /tmp: there anybody could plant a model.
        with_home, without = (skein("models", env={"HOME": home, "XDG_CACHE_HOME": ""}).stderr.decode() for home in ("/h", ""))
        self.assertNotIn(" /tmp/", without)
        self.assertTrue("/h/.cache" in with_home)


if __name__ == "__main__":
    unittest.main()
