#!/usr/bin/env python3
"""Speed of skein beside llama.cpp: same file, same threads, alternating runs, medians of the ratios.

    bench/model/compare_llama_cpp.py --llama-bench PATH --model FILE [--rounds 5] [--tests pp512,tg128,tg64@d1024,tg64xb8]
    bench/model/compare_llama_cpp.py --llama-bench PATH --model FILE --table

A test is pp (prompt) or tg (answer) with its tokens, @d after so many tokens of context, xb so many answers at once.
--table measures what decides on every kind of hardware: the model as it is, the same weights in other types (made by
llama-quantize beside llama-bench), and random weights of a 1B shape (made by `skein make-model`); made files are kept in
--work (default: beside the model). `best` compares with the fastest of the peer's types of the same weights.

Writes bench/results/<machine type>/model.json (one entry per commit, file and test, earlier ones are kept) and prints a table.
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
TEST = re.compile(r"(pp|tg)(\d+)(?:@d(\d+))?(?:xb(\d+))?$")
TYPES = ("Q4_0", "Q8_0", "BF16")
# File of the table, and its tests. The first is the model itself; `best`: against the fastest of its types.
TABLE = (
    ("", "pp512,pp2048,tg128,tg64@d1024,tg64xb8,tg64xb16"),
    ("best", "pp512"),
    ("Q4_0", "pp512,pp2048,tg128,tg64@d1024,tg64xb8"),
    ("Q8_0", "pp512,tg128"),
    ("BF16", "pp512,pp2048,tg128"),
    ("1b-Q4_0", "pp512,tg32"),
    ("1b-Q8_0", "pp512"),
    ("1b-BF16", "pp512"),
)


def machine():
    text = Path("/proc/cpuinfo").read_text()
    flags = set(re.search(r"^flags\s*: (.*)$", text, re.M).group(1).split())
    kind = "amx" if "amx_bf16" in flags else "avx512vnni" if "avx512_vnni" in flags else "avx2"
    return kind, re.search(r"^model name\s*: (.*)$", text, re.M).group(1)


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, check=True, text=True).stdout


def sizes(test):
    """Tokens of the prompt, of the answer, before them, and how many at once."""
    kind, count, depth, batch = TEST.match(test).groups()
    return (int(count) if kind == "pp" else 0, 0 if kind == "pp" else int(count), int(depth or 0), int(batch or 1))


def ours(options, model, test):
    prompt, generate, depth, batch = sizes(test)
    row = json.loads(run([options.skein, "bench", "model", model, "-p", prompt, "-n", generate, "-d", depth, "-b", batch, "-r", 1,
                          "--threads", options.threads, "--json"]))[0]
    return row["avg_ts"], row


def theirs(options, model, test):
    prompt, generate, depth, batch = sizes(test)
    if batch == 1:
        return json.loads(run([options.llama_bench, "-m", model, "-p", prompt, "-n", generate, "-d", depth, "-t", options.threads,
                               "-r", 1, "-fa", 1, "-o", "json"]))[0]["avg_ts"]
    lines = run([options.llama_bench.with_name("llama-batched-bench"), "-m", model, "-npp", 16, "-ntg", generate, "-npl", batch, "-t",
                 options.threads, "-c", batch * (generate + 32), "-fa", "on", "--output-format", "jsonl"]).splitlines()
    return next(json.loads(line) for line in lines if line.startswith("{"))["speed_tg"]


def file_of(options, name):
    """The file of a row of the table; made when it is missing."""
    if name in ("", "best"):
        return options.model
    if name.startswith("1b-"):
        file = options.work / f"{name}.gguf"
        if not file.exists():
            run([options.skein, "make-model", "--shape", "1b", "--format", name[3:], "--out", file])
        return file
    file = options.work / f"{options.model.stem}-{name}.gguf"
    if not file.exists():
        run([options.llama_bench.with_name("llama-quantize"), "--allow-requantize", options.model, file, name])
    return file


def measure(options, model, rivals, test):
    """One entry: rounds of ours, then each rival's; the first round warms up and does not count."""
    mine, others = [], {rival: [] for rival in rivals}
    for _ in range(options.rounds + 1):
        speed, row = ours(options, model, test)
        mine.append(speed)
        for rival in rivals:
            others[rival].append(theirs(options, rival, test))
    best = max(rivals, key=lambda rival: statistics.median(others[rival][1:]))
    pairs = list(zip(mine, others[best]))[1:]
    ratios = [one / other for one, other in pairs]
    return {
        "date": date.today().isoformat(), "commit": row["build_commit"], "processor": options.processor, "threads": options.threads,
        "model": model.name, **({"peer_model": best.name} if best != model else {}), "test": test, "kernels": row["kernels"],
        "skein_tokens_per_s": round(statistics.median(one for one, _ in pairs), 1),
        "llama_cpp_tokens_per_s": round(statistics.median(other for _, other in pairs), 1),
        "ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios],
    }


def record(kind, entry):
    """Adds an entry to the file of this machine type, in place of one of the same commit, files and test."""
    folder = ROOT / "bench" / "results" / kind
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.json"
    earlier = json.loads(file.read_text()) if file.exists() else []
    keys = ("commit", "model", "peer_model", "test", "threads")
    earlier = [old for old in earlier if any(old.get(key) != entry.get(key) for key in keys)]
    file.write_text(json.dumps(earlier + [entry], indent=1, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--llama-bench", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=5, type=int, help="alternating rounds; one more warms up and does not count")
    parser.add_argument("--tests", default="pp512,tg128,tg64@d1024")
    parser.add_argument("--table", action="store_true", help="all rows of the table instead of --tests")
    parser.add_argument("--rows", default="", help="of the table: only rows whose file name has this in it")
    parser.add_argument("--work", type=Path, help="folder for files that the table needs (default: the model's)")
    options = parser.parse_args()
    kind, options.processor = machine()
    options.work = options.work or options.model.parent
    rows = [row for row in TABLE if options.rows in row[0]] if options.table else [("", options.tests)]
    print(f"{options.processor}, machine type {kind}, {options.threads} threads")
    print(f"{'file':44} {'test':12} {'skein':>9} {'llama.cpp':>10} {'ratio':>7}   ratios of the rounds")
    for name, tests in rows:
        model = file_of(options, name)
        rivals = [model, *(file_of(options, other) for other in TYPES)] if name == "best" else [model]
        for test in tests.split(","):
            entry = measure(options, model, rivals, test)
            record(kind, entry)
            print(f"{entry.get('peer_model', entry['model'])[-44:]:44} {test:12} {entry['skein_tokens_per_s']:9.1f} "
                  f"{entry['llama_cpp_tokens_per_s']:10.1f} {entry['ratio']:6.2f}×   "
                  + " ".join(f"{ratio:.2f}" for ratio in entry["ratios"]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
