#!/usr/bin/env python3
"""Two ranks on two hosts (network namespaces of this machine, joined by a pair of virtual interfaces) beside one process with as many threads,
for each type of number on the wire and each rate of the link. Needs root, Open MPI and tc.

    bench/ranks/network.py --skein build/ci/skein --plugin build/ci/libskein_mpi.so --model 1b.gguf [--json FILE]

Each round runs every case once, in turn; figures are the best of the rounds. Links may be measured one at a time (--rates): rows of the others
stay in FILE, each beside the one process of its own run. The model: skein make-model --shape 1b --format Q4_0. Standard
library only."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ranks"))
from two_hosts import NET, Network, why_not  # noqa: E402

WIRES = ("fp32", "bf16", "int8")
RATES = (None, "1gbit", "100mbit")
ONE = ("one process", None, "")


def measure(options, network, environment, arguments):
    """Tokens a second of one run: (prefill, decode, what travelled)."""
    prompt = ",".join(str(5 + 7 * i % 200) for i in range(options.prompt))
    command = ["ip", "netns", "exec", network.name(1), options.skein, "run", options.model, "--prompt-tokens", prompt, "--json", "--quiet", "--ignore-eos",
               "--max-tokens", str(options.answer), "--temperature", "0", "--context", "1024", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return found["timing"]["prefill_tokens_per_s"], found["timing"]["decode_tokens_per_s"], found.get("outer_wire")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--skein", default="build/ci/skein")
    parser.add_argument("--plugin", default="build/ci/libskein_mpi.so")
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--answer", type=int, default=24, help="tokens of the answer")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rates", default="all", help="of all, or some of: unlimited,1gbit,100mbit")
    parser.add_argument("--wires", default=",".join((*WIRES, "auto")))
    parser.add_argument("--overlaps", default="auto", help="of auto and off: with computing while sums are on the way, and without")
    parser.add_argument("--json", help="where figures are written")
    options = parser.parse_args()
    if reason := why_not():
        raise SystemExit(reason)
    rates = [rate for rate in RATES if options.rates == "all" or (rate or "unlimited") in options.rates.split(",")]
    best, chosen = {}, {}

    def note(case, outcome):
        before = best.get(case, (0, 0))
        best[case] = (max(before[0], outcome[0]), max(before[1], outcome[1]))

    with tempfile.TemporaryDirectory() as folder, Network() as network:
        environment = {**network.environment(folder), "SKEIN_MPI_PLUGIN": str(Path(options.plugin).resolve())}
        for number in range(options.rounds):
            note(ONE, measure(options, network, environment, ["--threads", "2"]))
            for rate in rates:
                network.limit(rate)
                for wire in options.wires.split(","):
                    for overlap in options.overlaps.split(","):
                        case = (wire, rate, overlap)
                        outcome = measure(options, network, environment, ["--threads", "1", "--tensor", "2", "--hosts", f"{NET}.1,{NET}.2", "--wire", wire, "--overlap", overlap])
                        note(case, outcome)
                        chosen[case] = outcome[2]
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    one = best.pop(ONE)
    rows = [{"link": rate or "unlimited", "wire": wire, "overlap": overlap, "sent": chosen[(wire, rate, overlap)], "prefill_tokens_per_s": round(prefill, 2),
             "decode_tokens_per_s": round(decode, 2), "prefill_of_one_process": round(prefill / one[0], 3),
             "decode_of_one_process": round(decode / one[1], 3)} for (wire, rate, overlap), (prefill, decode) in best.items()]
    if options.json and Path(options.json).exists():
        key = lambda row: (row["link"], row["wire"], row.get("overlap", "off"))  # noqa: E731  (there was none before)
        measured = {key(row) for row in rows}
        rows = [row for row in json.loads(Path(options.json).read_text())["rows"] if key(row) not in measured] + rows
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    report = {"date": str(date.today()), "commit": commit, "cores": os.cpu_count(), "command": "bench/ranks/network.py",
              "model": "skein make-model --shape 1b --format Q4_0", "prompt_tokens": options.prompt, "answer_tokens": options.answer,
              "rounds": options.rounds, "hosts": 2, "ranks": 2, "threads_per_host": 1,
              "one_process_of_two_threads": {"prefill_tokens_per_s": round(one[0], 2), "decode_tokens_per_s": round(one[1], 2)}}
    text = json.dumps(report, indent=1)[:-2] + ',\n "rows": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]\n}\n"
    print(text, end="")
    if options.json:
        Path(options.json).write_text(text)


if __name__ == "__main__":
    main()
