#!/usr/bin/env python3
"""Overload of `skein serve`: what is left of its goodput when five times as much arrives as it can do, and how it comes back.

    bench/serving/overload.py --model FILE [--seconds 120] [--times 5] [--input 256] [--output 64]

1. Peak: a closed loop finds how many requests a second the server completes, and how fast (median) at that load.
2. Overload: requests arrive at `times` that rate for `seconds`, in Poisson arrivals, while memory is sampled and single
   requests measure how soon a refusal (429) comes.
3. After: 10 s later the server answers a light load; its median time to first token is compared with that before. Then the peak is measured once
   more: what overload left is compared with the mean of the two.

Goodput counts requests that keep the goals: twice the latency of the peak's slowest hundredth, or --ttft and --tpot. Prints each figure
beside what is wanted (goodput at least 90 % of peak, refusals within 100 ms, memory flat, normal again), and writes
bench/results/<machine type>/overload.json.
"""

import argparse
import http.client
import json
import re
import statistics
import sys
import threading
import time
from datetime import date
from pathlib import Path

from serving_tools import ROOT, SkeinServer, bench, machine, write_result

RECOVERY_S = 10


class Watcher:
    """Beside the load: memory of the server, and how long refusals take."""

    def __init__(self, server):
        self.server = server
        self.memory, self.refusals_ms = [], []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._watch_memory, self._ask)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(30)

    def _watch_memory(self):
        while not self.stopped.wait(0.5):
            self.memory.append(self.server.rss_bytes())

    def _ask(self):
        body = json.dumps({"model": json.loads(self.server.get("/v1/models")[1])["data"][0]["id"], "prompt": "x", "max_tokens": 1})
        while not self.stopped.wait(0.2):
            connection = http.client.HTTPConnection(self.server.url[7:], timeout=20)
            try:
                connection.connect()
                began = time.monotonic()
                connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
                if connection.getresponse().status == 429:
                    self.refusals_ms.append(1000 * (time.monotonic() - began))
            except OSError:
                pass  # one that was taken in and waits: not what is measured here
            finally:
                connection.close()


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else float("nan")


def step_seconds(server):
    return float(re.search(r"^skein_engine_step_seconds_total (\S+)$", server.get("/metrics")[1], re.M).group(1))


def run(options, server):
    lengths = ["--random-input-len", options.input, "--random-output-len", options.output, "--ignore-eos"]
    light = [*lengths, "--num-prompts", 8, "--max-concurrency", 1]
    closed = [*lengths, "--num-prompts", 2 * options.clients, "--max-concurrency", options.clients]
    before = bench(options.skein, server.url, *light, "--seed", 1)
    peaks = [bench(options.skein, server.url, *closed, "--seed", 2)]
    ttft = options.ttft or 2 * peaks[0]["p99_ttft_ms"]
    tpot = options.tpot or 2 * peaks[0]["p99_tpot_ms"]
    rate = options.times * peaks[0]["request_throughput"]
    count = max(10, round(rate * options.seconds))
    print(f"peak {peaks[0]['request_throughput']:.2f} requests/s; now {rate:.1f}/s for {options.seconds} s; good: ttft {ttft:.0f} ms, tpot {tpot:.0f} ms", flush=True)
    with Watcher(server) as watcher:
        stepped = step_seconds(server)
        over = bench(options.skein, server.url, *lengths, "--num-prompts", count, "--request-rate", f"{rate:.4f}", "--seed", 3,
                     "--goodput", f"ttft:{ttft:.1f},tpot:{tpot:.1f}", timeout=options.seconds * 10 + 600)
        stepped = step_seconds(server) - stepped
    time.sleep(RECOVERY_S)
    after = bench(options.skein, server.url, *light, "--seed", 4)
    # Once more: the speed of a shared machine drifts by a tenth within minutes.
    peaks.append(bench(options.skein, server.url, *closed, "--seed", 5))
    peak = statistics.mean(one["request_throughput"] for one in peaks)
    memory = watcher.memory or [server.rss_bytes()]
    third = max(1, len(memory) // 3)
    refused = sum(number for reason, number in over["failures"].items() if reason.startswith("status 429"))
    return {
        "peak_requests_per_s": peak, "peaks_per_s": [one["request_throughput"] for one in peaks], "offered_requests_per_s": rate, "requests": count, "completed": over["completed"],
        "refused": refused, "failed_otherwise": over["failed"] - refused, "failures": over["failures"], "goals_ms": {"ttft": ttft, "tpot": tpot},
        "goodput_per_s": over["request_goodput"], "goodput_share": over["request_goodput"] / max(peak, 1e-9),
        "completed_share": over["request_throughput"] / max(peak, 1e-9), "engine_busy_share": stepped / over["duration"],
        "refusal_ms": {"count": len(watcher.refusals_ms), "median": percentile(watcher.refusals_ms, 0.5), "p99": percentile(watcher.refusals_ms, 0.99)},
        "memory_growth": statistics.median(memory[-third:]) / statistics.median(memory[third : 2 * third] or memory) - 1,
        "memory_max_bytes": max(memory), "first_token_ms": {"before": before["median_ttft_ms"], "after": after["median_ttft_ms"]},
        "failed_after": after["failed"], "commit": over["build_commit"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--seconds", default=120, type=float)
    parser.add_argument("--times", default=5, type=float)
    parser.add_argument("--input", default=256, type=int)
    parser.add_argument("--output", default=64, type=int)
    parser.add_argument("--clients", default=32, type=int, help="of the closed loop that finds the peak, and requests admitted at once")
    parser.add_argument("--queue", default=32, type=int, help="requests that wait; what waits longer than the goals is no good to anybody")
    parser.add_argument("--ttft", type=float, help="goal in ms")
    parser.add_argument("--tpot", type=float, help="goal in ms")
    parser.add_argument("--serve-flags", default="", help="further flags of skein serve, in one text")
    parser.add_argument("--no-result", action="store_true", help="only prints")
    options = parser.parse_args()
    kind, processor = machine()
    flags = ["--threads", options.threads, "--max-concurrency", options.clients, "--max-queue", options.queue, *options.serve_flags.split()]
    with SkeinServer(options.skein, options.model, *flags) as server:
        found = run(options, server)
    first = found["first_token_ms"]
    wanted = [
        ("goodput, share of peak", found["goodput_share"], ">= 0.90", found["goodput_share"] >= 0.9),
        ("refusal, p99 ms", found["refusal_ms"]["p99"], "<= 100", found["refusal_ms"]["p99"] <= 100),
        ("memory growth", found["memory_growth"], "<= 0.02", found["memory_growth"] <= 0.02),
        ("first token after / before", first["after"] / first["before"], "<= 1.50", first["after"] <= 1.5 * first["before"]),
        ("failed otherwise", found["failed_otherwise"], "0", found["failed_otherwise"] == 0 and found["failed_after"] == 0),
    ]
    for name, value, bound, holds in wanted:
        print(f"{name:28} {value:9.3f}   wanted {bound:8} {'' if holds else 'MISSED'}")
    if not options.no_result:
        entry = {"date": date.today().isoformat(), "processor": processor, "threads": options.threads, "model": options.model.name,
                 "seconds": options.seconds, "times": options.times, "serve_flags": " ".join(map(str, flags)), **found}
        write_result(kind, "overload.json", [entry], lambda one: [one.get(key) for key in ("commit", "model", "seconds", "times", "serve_flags")])
    return 0 if all(holds for *_, holds in wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
