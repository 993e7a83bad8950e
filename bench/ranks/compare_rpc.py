#!/usr/bin/env python3
"""One model over two ranks of one core each, beside llama.cpp over two of its RPC servers: same file, same cores, alternating runs, medians of the ratios.

    bench/ranks/compare_rpc.py --llama-bench PATH --model FILE [--skein PATH] [--meshes tensor2/shm,pipe2/shm] [--tests pp512,tg64] [--rounds 5]

--llama-bench is one built with GGML_RPC=ON, with ggml-rpc-server beside it. Each server has a thread and a core, and the layers are all on servers, as
their documentation has it. Goes into bench/results/<machine type>/ranks_rpc.json. Standard library only."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
from compare_llama_cpp import ROOT, machine, run, sizes  # noqa: E402


class Servers:
    """Two RPC servers, a core each."""

    def __init__(self, program):
        self.program, self.processes, self.ports = program, [], []

    def __enter__(self):
        for core in sorted(os.sched_getaffinity(0))[:2]:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            self.processes.append(subprocess.Popen([self.program, "-H", "127.0.0.1", "-p", str(port), "-t", "1"], stdout=subprocess.DEVNULL,
                                                   stderr=subprocess.DEVNULL, preexec_fn=lambda core=core: os.sched_setaffinity(0, {core})))
            self.ports.append(port)
        for port in self.ports:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            else:
                sys.exit(f"{self.program} does not listen")
        return self

    def names(self):
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def __exit__(self, *ignored):
        for process in self.processes:
            process.kill()
            process.wait()


def ours(options, mesh, test):
    shape, transport = mesh.split("/")
    axis = shape.rstrip("0123456789")
    prompt, generate, depth, batch = sizes(test)
    row = json.loads(run([options.skein, "bench", "model", options.model, f"--{axis}", shape[len(axis):], "--transport", transport, "--threads", 2, "-p", prompt, "-n",
                          generate, "-d", depth, "-b", batch, "-r", 1, "--json"]))[0]
    return row["avg_ts"], row


def theirs(options, servers, test):
    prompt, generate, depth, _ = sizes(test)
    return json.loads(run([options.llama_bench, "-m", options.model, "--rpc", servers.names(), "-ngl", 99, "-t", 1, "-p", prompt, "-n", generate, "-d", depth, "-r", 1,
                           "-fa", 1, "-o", "json"]))[0]["avg_ts"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--llama-bench", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--meshes", default="tensor2/shm,pipe2/shm")
    parser.add_argument("--tests", default="pp512,tg64")
    parser.add_argument("--rounds", default=5, type=int, help="alternating rounds; one more warms up and does not count")
    parser.add_argument("--no-result", action="store_true")
    options = parser.parse_args()
    kind, processor = machine()
    path = ROOT / "bench" / "results" / kind / "ranks_rpc.json"
    results = json.loads(path.read_text()) if path.exists() else []
    print(f"{processor}, {options.model.name}")
    for mesh in options.meshes.split(","):
        for test in options.tests.split(","):
            pairs, row = [], {}
            with Servers(options.llama_bench.with_name("ggml-rpc-server")) as servers:
                for _ in range(options.rounds + 1):
                    speed, row = ours(options, mesh, test)
                    pairs.append((speed, theirs(options, servers, test)))
            ratios = [mine / other for mine, other in pairs[1:]]
            entry = {"date": date.today().isoformat(), "commit": row["build_commit"], "processor": processor, "model": options.model.name, "mesh": mesh, "test": test,
                     "skein_tokens_per_s": round(statistics.median(mine for mine, _ in pairs[1:]), 1),
                     "llama_cpp_rpc_tokens_per_s": round(statistics.median(other for _, other in pairs[1:]), 1),
                     "ratio": round(statistics.median(ratios), 3), "ratios": [round(ratio, 3) for ratio in ratios]}
            print(f"{mesh:12} {test:10} {entry['skein_tokens_per_s']:9.1f} {entry['llama_cpp_rpc_tokens_per_s']:9.1f} {entry['ratio']:6.2f}×   "
                  + " ".join(f"{ratio:.2f}" for ratio in ratios), flush=True)
            keys = ("commit", "model", "mesh", "test")
            results = [old for old in results if any(old[key] != entry[key] for key in keys)] + [entry]
            if not options.no_result:
                path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
