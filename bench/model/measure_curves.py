#!/usr/bin/env python3
"""Measures how speed changes with prompt length, context, batch and threads, beside llama.cpp and this machine's ceilings.

    bench/model/measure_curves.py --skein PATH --llama-bin FOLDER [--models default,1b.gguf] [--rounds 3] [--few] [--minutes 20] [--prefix CMD]

Every point is a short run of skein and one of llama.cpp right after it, `--rounds` times over all points, so that a machine
that slows down slows both. What was measured is written to bench/results/<machine type>/curves.json at once: an interrupted run goes on
where it stopped, and points of an older build are measured again. --prefix stands before each command (a lock, a processor
mask). Points that would take longer than --seconds are left out. curves.py draws the pictures. Standard library only.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

from compare_llama_cpp import ROOT, machine

FULL = {"prefill": [128, 256, 512, 1024, 2048, 4096, 8000, 16000, 32000], "decode": [1, 256, 512, 1024, 2048, 4096, 8000, 16000, 32000],
        "batch": [1, 2, 4, 8, 16, 32, 64], "threads": [1, 2]}
FEW = {"prefill": [128, 512, 2048], "decode": [1, 1024, 4096], "batch": [1, 8, 32], "threads": [1, 2]}
GENERATED = 32     # tokens of a decode point
BATCH_PROMPT = 64  # context of the batch curve


def run_json(options, command):
    words = shlex.split(options.prefix) + [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(words)}\n{done.stderr[-1500:]}")
    return done.stdout


def ours(options, point):
    command = [options.skein, "bench", "model", point["path"], "-r", 1, "--threads", point["threads"], "--json"]
    kind, x = point["curve"], point["x"]
    if kind == "prefill":
        command += ["-p", x, "-n", 0]
    elif kind == "decode":
        command += ["-p", 0, "-n", GENERATED, "-d", x]
    elif kind == "batch":
        command += ["-p", 0, "-n", GENERATED, "-d", BATCH_PROMPT, "-b", x]
    else:
        command += ["-p", 512, "-n", GENERATED]
    rows = json.loads(run_json(options, command))
    return {row["test"][:2]: row["avg_ts"] for row in rows}


def theirs(options, point):
    kind, x = point["curve"], point["x"]
    if kind == "batch":
        context = x * (BATCH_PROMPT + GENERATED + 8)
        lines = run_json(options, [options.llama_bin / "llama-batched-bench", "-m", point["path"], "-t", point["threads"], "-tb", point["threads"],
                                   "-fa", "on", "-c", context, "-npp", BATCH_PROMPT, "-ntg", GENERATED, "-npl", x, "--output-format", "jsonl"])
        return {"tg": json.loads(lines.strip().split("\n")[-1])["speed_tg"]}
    command = [options.llama_bin / "llama-bench", "-m", point["path"], "-t", point["threads"], "-r", 1, "-fa", 1, "-o", "json"]
    command += {"prefill": ["-p", x, "-n", 0], "decode": ["-p", 0, "-n", GENERATED, "-d", x], "threads": ["-p", 512, "-n", GENERATED]}[kind]
    return {"pp" if row["n_gen"] == 0 else "tg": row["avg_ts"] for row in json.loads(run_json(options, command))}


def shape_of(options, path):
    """What the roofs are computed from."""
    told = json.loads(run_json(options, [options.skein, "inspect", path, "--json"]))
    metadata, prefix = told["metadata"], told["metadata"]["general.architecture"] + "."
    matrices = [tensor for tensor in told["tensors"] if len(tensor["shape"]) == 2 and tensor["name"].startswith("blk.")]
    head = [tensor for tensor in told["tensors"] if tensor["name"] in ("output.weight", "token_embd.weight")][-1]  # tied: the embedding
    heads, hidden = metadata[prefix + "attention.head_count"], metadata[prefix + "embedding_length"]
    return {"matrix_parameters": sum(tensor["shape"][0] * tensor["shape"][1] for tensor in matrices),
            "head_parameters": head["shape"][0] * head["shape"][1], "weights_bytes": told["memory"]["weights_bytes"], "kv_bytes_per_token": told["memory"]["kv_bytes_per_token"],
            "layers": metadata[prefix + "block_count"], "heads": heads,
            "head_dim": metadata.get(prefix + "attention.key_length", hidden // heads), "arithmetic": told["memory"]["arithmetic"],
            "context": metadata[prefix + "context_length"]}


def estimate_seconds(data, point):
    """About how long a point takes, from the nearest one that is known; 0 when nothing is."""
    known = [other for other in data["points"] if other["curve"] == point["curve"] and other["model"] == point["model"] and other["took_s"]]
    if not known:
        return 0
    nearest = min(known, key=lambda other: abs(other["x"] - point["x"]))
    growth = max(1.0, point["x"] / max(nearest["x"], 512))  # loading and starting take as long as 512 tokens or so
    return max(nearest["took_s"]) * growth ** (1.5 if point["curve"] == "prefill" else 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--llama-bin", required=True, type=Path)
    parser.add_argument("--models", default="default", help="files, or names that skein knows; the first one gets all curves, others prefill and decode")
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--few", action="store_true", help="few points, to see that it works")
    parser.add_argument("--seconds", default=55, type=float, help="the longest run of one engine")
    parser.add_argument("--minutes", default=1e9, type=float, help="stops after that; start again to go on")
    parser.add_argument("--prefix", default="")
    options = parser.parse_args()
    kind, processor = machine()
    file = ROOT / "bench" / "results" / kind / "curves.json"
    data = json.loads(file.read_text()) if file.exists() else {"ceilings": {}, "shapes": {}, "points": []}
    data["processor"] = processor

    def save():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(data, indent=1) + "\n")

    stop = time.monotonic() + 60 * options.minutes
    build = run_json(options, [options.skein, "--version"]).split("commit ")[-1].strip(" )\n")
    if not data["ceilings"]:
        data["ceilings"] = json.loads(run_json(options, [options.skein, "bench", "kernels", "--threads", options.threads, "--json"]))
        save()
    wanted = []
    for place, name in enumerate(options.models.split(",")):
        path = name if Path(name).exists() else run_json(options, [options.skein, "models", "--path", name]).strip()
        model = Path(path).stem
        data["shapes"][model] = shape_of(options, path)
        for curve, xs in (FEW if options.few else FULL).items():
            if place > 0 and curve in ("batch", "threads"):
                continue
            for x in xs:
                if curve in ("prefill", "decode") and x + GENERATED > data["shapes"][model]["context"]:
                    continue
                wanted.append({"curve": curve, "model": model, "path": path, "x": x, "threads": x if curve == "threads" else options.threads})
    save()
    for done in range(1, options.rounds + 1):
        for want in wanted:
            same = [p for p in data["points"] if all(p[key] == want[key] for key in ("curve", "model", "x", "threads"))]
            if same and same[0]["commit"] != build:
                data["points"].remove(same.pop(0))
            point = same[0] if same else {key: want[key] for key in ("curve", "model", "x", "threads")} | {"commit": build, "date": "", "skein": {}, "llama_cpp": {}, "took_s": []}
            if time.monotonic() > stop:
                print("time is up; start again to go on")
                return 0
            if len(point["took_s"]) >= done or estimate_seconds(data, want) > options.seconds:
                continue
            begin = time.monotonic()
            mine, other = ours(options, want), theirs(options, want)
            point["date"] = date.today().isoformat()
            point["took_s"].append(round((time.monotonic() - begin) / 2, 2))
            for engine, rates in (("skein", mine), ("llama_cpp", other)):
                for test, rate in rates.items():
                    point[engine].setdefault(test, []).append(round(rate, 2))
            if not same:
                data["points"].append(point)
            save()
            print(f"{want['model']:30} {want['curve']:8} {want['x']:6} skein {mine} llama.cpp {other}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
