#!/usr/bin/env python3
"""Serving speed of skein beside llama-server: same file, same threads, alternating servers, medians of the rounds.

    bench/serving/compare_llama_server.py --llama-server PATH --model FILE [--rounds 3] [--cases 512x128,1024+512x128] [--clients 1,8,32]

A case is INPUTxOUTPUT tokens, or PREFIX+INPUTxOUTPUT where all prompts begin with the same PREFIX tokens. Closed loop: as many
requests are under way as there are clients, through `skein bench serve`; greedy, end tokens ignored, so that both write the same
number of tokens. Writes bench/results/<machine type>/serving.json (earlier entries of other commits are kept) and prints a table.
"""

import argparse
import re
import statistics
import sys
from datetime import date
from pathlib import Path

from serving_tools import ROOT, LlamaServer, SkeinServer, bench, machine, write_result

CASE = re.compile(r"(?:(\d+)\+)?(\d+)x(\d+)$")
REQUESTS_PER_CLIENT = {1: 4, 8: 3, 32: 2}


def measure(options, url, case, clients, turn):
    prefix, given, output = (int(text or 0) for text in CASE.match(case).groups())
    lengths = ["--random-prefix-len", prefix, "--random-input-len", given, "--random-output-len", output]
    bench(options.skein, url, "--num-prompts", 1, "--random-input-len", 16, "--random-output-len", 4, "--ignore-eos", "--seed", 10**6 + turn)
    figures = bench(options.skein, url, *lengths, "--num-prompts", clients * REQUESTS_PER_CLIENT.get(clients, 2), "--max-concurrency", clients,
                    "--ignore-eos", "--seed", 1000 * turn + clients)
    if figures["failed"]:
        print(f"{case}, {clients} clients at {url}: {figures['failures']}", file=sys.stderr)
    return figures


def compare(options, case, clients):
    prefix, given, output = (int(text or 0) for text in CASE.match(case).groups())
    ours, theirs = [], []
    for turn in range(options.rounds):
        with SkeinServer(options.skein, options.model, "--threads", options.threads) as server:
            ours.append(measure(options, server.url, case, clients, turn))
        with LlamaServer(options.llama_server, options.model, options.threads, clients, prefix + given + output + 32) as server:
            theirs.append(measure(options, server.url, case, clients, turn))
    middle = lambda runs, key: statistics.median(run[key] for run in runs)
    entry = {"date": date.today().isoformat(), "commit": ours[0]["build_commit"], "threads": options.threads, "model": options.model.name,
             "case": case, "clients": clients, "rounds": options.rounds, "failed": [sum(run["failed"] for run in runs) for runs in (ours, theirs)],
             "command": f"bench/serving/compare_llama_server.py --cases {case} --clients {clients} --rounds {options.rounds} --threads {options.threads}"}
    for key in ("output_throughput", "median_ttft_ms", "median_tpot_ms", "p99_itl_ms"):
        entry[key] = {"skein": round(middle(ours, key), 2), "llama_server": round(middle(theirs, key), 2)}
    entry["throughput_ratio"] = round(entry["output_throughput"]["skein"] / max(entry["output_throughput"]["llama_server"], 1e-9), 3)
    entry["first_token_ratio"] = round(entry["median_ttft_ms"]["llama_server"] / max(entry["median_ttft_ms"]["skein"], 1e-9), 3)
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--llama-server", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--cases", default="512x128,1024+512x128")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--no-result", action="store_true", help="only prints")
    options = parser.parse_args()
    cases = options.cases.split(",")
    for case in cases:
        if not CASE.match(case):
            parser.error(f"--cases takes INPUTxOUTPUT or PREFIX+INPUTxOUTPUT, found {case!r}")
    kind, processor = machine()
    print(f"{processor}, machine type {kind}, {options.threads} threads, {options.model.name}")
    print(f"{'case':16} {'clients':>7}   {'output tokens/s':>17} {'ratio':>6}   {'first token, ms':>17} {'sooner':>6}")
    entries = []
    for case in cases:
        for clients in map(int, options.clients.split(",")):
            entry = {"processor": processor, **compare(options, case, clients)}
            entries.append(entry)
            speed, first = entry["output_throughput"], entry["median_ttft_ms"]
            print(f"{case:16} {clients:7}   {speed['skein']:8.1f} {speed['llama_server']:8.1f} {entry['throughput_ratio']:5.2f}×   "
                  f"{first['skein']:8.0f} {first['llama_server']:8.0f} {entry['first_token_ratio']:5.2f}×", flush=True)
    if not options.no_result:
        write_result(kind, "serving.json", entries, lambda entry: [entry.get(key) for key in ("commit", "model", "case", "clients", "threads")])
    return 1 if any(entry["failed"][0] for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
