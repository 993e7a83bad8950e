#!/usr/bin/env python3
"""Latency of answers while somebody sends conversations that the model's template cannot bear.

    bench/serving/bombs.py --model FILE.gguf [--clients 8] [--attackers 4] [--rounds 3]

The model's template is exchanged for one that goes through all messages for each message, in a copy of the file, and attackers send 4096
messages over and over: every rendering spends its whole budget and is refused. Beside them `skein bench serve` generates, alternately with
and without the attack. Prints tokens a second and the time between tokens of each round, and the medians of their ratios; wanted is that
the time between tokens rises by less than a fifth.
"""

import argparse
import http.client
import json
import statistics
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

from serving_tools import ROOT, SkeinServer, bench

GREEDY = (b"{% for message in messages %}{% for other in messages %}{% if other.role == 'user' %}{% set last = loop.index0 %}{% endif %}{% endfor %}"
          b"{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: ")
BOMB = json.dumps({"messages": [{"role": "user", "content": "x"}] * 4096, "max_tokens": 1})


def with_greedy_template(model, target):
    """A copy of a GGUF file whose template, which must be longer, is GREEDY and blanks in a comment."""
    data = bytearray(Path(model).read_bytes())
    key = b"tokenizer.chat_template"
    length_at = data.index(key) + len(key) + 4  # behind the type of the value: a string
    length = struct.unpack_from("<Q", data, length_at)[0]
    data[length_at + 8 : length_at + 8 + length] = GREEDY + b"{# " + b" " * (length - len(GREEDY) - 6) + b" #}"
    Path(target).write_bytes(data)
    return target


class Attack:
    def __init__(self, url, attackers):
        self.address, self.count, self.stopped = url[7:], 0, threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(attackers)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)

    def _run(self):
        while not self.stopped.is_set():
            connection = http.client.HTTPConnection(self.address, timeout=60)
            connection.request("POST", "/v1/chat/completions", BOMB, {"Content-Type": "application/json"})
            status = connection.getresponse().status
            connection.close()
            if status != 400:
                raise RuntimeError(f"a bomb is expected to be answered 400, found {status}")
            self.count += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--threads", default=2, type=int)
    parser.add_argument("--clients", default=8, type=int)
    parser.add_argument("--attackers", default=4, type=int)
    parser.add_argument("--rounds", default=3, type=int)
    options = parser.parse_args()
    load = ["--random-input-len", 64, "--random-output-len", 64, "--ignore-eos", "--num-prompts", 6 * options.clients,
            "--max-concurrency", options.clients]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        model = with_greedy_template(options.model, Path(folder) / "greedy.gguf")
        with SkeinServer(options.skein, model, "--threads", options.threads) as server:
            bench(options.skein, server.url, *load, "--seed", 1)
            for count in range(options.rounds):
                calm = bench(options.skein, server.url, *load, "--seed", 2 + 2 * count)
                with Attack(server.url, options.attackers) as attack:
                    attacked = bench(options.skein, server.url, *load, "--seed", 3 + 2 * count)
                ratios.append([attacked[key] / calm[key] for key in ("mean_itl_ms", "output_throughput")])
                print(f"calm {calm['output_throughput']:.0f} tokens/s, {calm['mean_itl_ms']:.2f} ms between; attacked {attacked['output_throughput']:.0f}, "
                      f"{attacked['mean_itl_ms']:.2f}; {attack.count} bombs", flush=True)
    between, speed = (statistics.median(column) for column in zip(*ratios))
    print(f"time between tokens × {between:.2f} (wanted < 1.20), tokens a second × {speed:.2f}")
    return 0 if between < 1.2 else 1


if __name__ == "__main__":
    sys.exit(main())
