#!/usr/bin/env python3
"""Speed of skein beside llama.cpp: same file, same threads, alternating runs, medians of the ratios.

    bench/model/compare_llama_cpp.py --llama-bench PATH [--model FILE] [--rounds 5] [--tests pp512,tg128,tg64@d1024]

Writes bench/results/<machine type>/model.json (one entry per commit and test, earlier ones are kept) and prints a table.
The machine type is what decides speed: amx, avx512vnni or avx2. Tokens a second mean little alone on a shared machine; the
ratio of two runs that followed each other does. Standard library only.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEST = re.compile(r"(pp|tg)(\d+)(?:@d(\d+))?$")


def machine():
    text = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.M).group(1).split())
    kind = "amx" if "amx_bf16" in flags else "avx512vnni" if "avx512_vnni" in flags else "avx2"
    return kind, re.search(r"^model name\s*: (.*)$", text, re.M).group(1)


def run_json(command):
    return json.loads(subprocess.run([str(word) for word in command], capture_output=True, check=True, text=True).stdout)


def sizes(test):
    kind, count, depth = TEST.match(test).groups()
    return (int(count), 0, int(depth or 0)) if kind == "pp" else (0, int(count), int(depth or 0))


def ours(options, test):
    prompt, generate, depth = sizes(test)
    row = run_json([options.skein, "bench", "model", options.model, "-p", prompt, "-n", generate, "-d", depth, "-r", 1,
                    "--threads", options.threads, "--json"])[0]
    return row["avg_ts"], row


def theirs(options, test):
    prompt, generate, depth = sizes(test)
    return run_json([options.llama_bench, "-m", options.model, "-p", prompt, "-n", generate, "-d", depth, "-t", options.threads,
                     "-r", 1, "-fa", 1, "-o", "json"])[0]["avg_ts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--llama-bench", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=5, type=int, help="alternating rounds; the first one warms up and does not count")
    parser.add_argument("--tests", default="pp512,tg128,tg64@d1024")
    options = parser.parse_args()
    kind, processor = machine()
    entries = []
    print(f"{processor}, machine type {kind}, {options.threads} threads, {options.model.name}")
    print(f"{'test':12} {'skein':>9} {'llama.cpp':>10} {'ratio':>7}   ratios of the rounds")
    for test in options.tests.split(","):
        pairs = []
        for _ in range(options.rounds + 1):
            mine, row = ours(options, test)
            pairs.append((mine, theirs(options, test)))
        pairs = pairs[1:]
        ratios = [mine / other for mine, other in pairs]
        entry = {
            "date": date.today().isoformat(), "commit": row["build_commit"], "processor": processor, "threads": options.threads,
            "model": options.model.name, "test": test, "kernels": row["kernels"],
            "skein_tokens_per_s": round(statistics.median(mine for mine, _ in pairs), 1),
            "llama_cpp_tokens_per_s": round(statistics.median(other for _, other in pairs), 1),
            "ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios],
        }
        entries.append(entry)
        print(f"{test:12} {entry['skein_tokens_per_s']:9.1f} {entry['llama_cpp_tokens_per_s']:10.1f} {entry['ratio']:6.2f}×   "
              + " ".join(f"{ratio:.2f}" for ratio in ratios), flush=True)
    folder = ROOT / "bench" / "results" / kind
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.json"
    earlier = json.loads(file.read_text()) if file.exists() else []
    same = lambda a, b: all(a[key] == b[key] for key in ("commit", "model", "test", "threads"))
    earlier = [entry for entry in earlier if not any(same(entry, new) for new in entries)]
    file.write_text(json.dumps(earlier + entries, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
