#!/usr/bin/env python3
"""How much sooner the second turn of a long conversation starts than the first, because its beginning is in the prefix index.

    bench/serving/second_turn.py --model FILE [--tokens 6000] [--rounds 5]

Each round is a conversation of its own: a prompt of `tokens` tokens and an answer of 32; then the same prompt, that answer and 40
tokens more. Prints the median time to the first token of both, and what `cached_tokens` said; writes
bench/results/<machine type>/second_turn.json.
"""

import argparse
import json
import random
import statistics
import time
import urllib.request
from datetime import date
from pathlib import Path

from serving_tools import ROOT, SkeinServer, machine, write_result

ANSWER, MORE = 32, 40


def ask(url, prompt):
    """(seconds to the first token, token ids of the answer, usage) of one streamed completion."""
    body = {"prompt": prompt, "max_tokens": ANSWER, "temperature": 0, "ignore_eos": True, "stream": True, "return_token_ids": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    began, first, ids, usage = time.monotonic(), None, [], None
    with urllib.request.urlopen(request, timeout=600) as answer:
        for line in answer:
            if not line.startswith(b"data: ") or b"[DONE]" in line:
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            for choice in event["choices"]:
                first = first or time.monotonic() - began
                ids += choice.get("token_ids") or []
    return first, ids, usage


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build" / "release" / "skein", type=Path)
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", default=6000, type=int)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--no-result", action="store_true")
    options = parser.parse_args()
    firsts, seconds, cached = [], [], []
    with SkeinServer(options.skein, options.model) as server:
        version = json.loads(server.get("/version")[1])
        for turn in range(options.rounds):
            source = random.Random(turn)
            prompt = [source.randrange(300, 40_000) for _ in range(options.tokens)]
            first, answer, _ = ask(server.url, prompt)
            more = [source.randrange(300, 40_000) for _ in range(MORE)]
            second, _, usage = ask(server.url, prompt + answer + more)
            firsts.append(first)
            seconds.append(second)
            cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    first, second = statistics.median(firsts), statistics.median(seconds)
    print(f"first turn {1000 * first:.0f} ms, second turn {1000 * second:.1f} ms: {first / second:.0f} times sooner; cached {min(cached)} of {options.tokens + ANSWER + MORE}")
    if not options.no_result:
        kind, processor = machine()
        entry = {"test": f"second turn after {options.tokens}", "first_ms": 1000 * first, "second_ms": 1000 * second, "ratio": first / second,
                 "cached_tokens": min(cached), "rounds": options.rounds, "processor": processor, "commit": version.get("commit"),
                 "date": str(date.today()), "command": f"bench/serving/second_turn.py --tokens {options.tokens} --rounds {options.rounds}"}
        print(write_result(kind, "second_turn.json", [entry], lambda each: each["test"]).relative_to(ROOT))
    return 0 if first / second >= 20 else 1


if __name__ == "__main__":
    raise SystemExit(main())
