#!/usr/bin/env python3
"""What shares that follow speeds bring when one rank is slow: two ranks in processes, a core each, of which the second one's group may use its core for
1 ms of every 2 (a control group's quota: root, Linux).

    bench/ranks/unlike.py --skein PATH [--model default] [--speeds 1,0.5] [--rounds 5] [--no-result]

Two servers hold the model, one with equal shares and one with --rank-speeds; the same prompts of 512 tokens go to them in turn. The median over
rounds of the ratios of their times goes into bench/results/<machine type>/ranks_unlike.json. Answers are not measured so: their phases are shorter
than a millisecond, and whoever waits for a rank that is not running gains nothing by having more to do itself. Standard library only."""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
from compare_llama_cpp import ROOT, machine  # noqa: E402


class HalfSpeed:
    """A control group whose processes run for 1 ms of every 2."""

    def __enter__(self):
        one = Path("/sys/fs/cgroup/cpu")
        self.folder = (one if one.is_dir() else Path("/sys/fs/cgroup")) / f"skein-unlike-{os.getpid()}"
        try:
            self.folder.mkdir()
            if one.is_dir():
                (self.folder / "cpu.cfs_period_us").write_text("2000")
                (self.folder / "cpu.cfs_quota_us").write_text("1000")
            else:
                (self.folder / "cpu.max").write_text("1000 2000")
        except OSError as error:
            sys.exit(f"no control group with a quota can be had here: {error}")
        return self

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *ignored):
        self.folder.rmdir()


class Server:
    def __init__(self, options, half_speed, extra):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen([options.skein, "serve", options.model, "--tensor", "2", "--transport", "shm", "--threads", "2", "--port", str(self.port),
                                         "--no-prefix-cache", *extra], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5):
                    break
            except OSError:
                if self.process.poll() is not None:
                    sys.exit("skein serve ended at its start")
                time.sleep(0.1)
        # Ranks are children in the order of their numbers; each gets a core.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        ranks = sorted(int(pid) for path in children.parents[1].glob("*/children") for pid in path.read_text().split())
        assert len(ranks) == 2, ranks
        for core, pid in zip(sorted(os.sched_getaffinity(0)), ranks):
            for task in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {core})
        half_speed.add(ranks[1])

    def seconds(self, prompt_tokens):
        body = {"prompt": [3 + 7 * i % 1000 for i in range(prompt_tokens)], "max_tokens": 1, "temperature": 0}
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=60) as answer:
            body["model"] = json.load(answer)["data"][0]["id"]
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        begin = time.monotonic()
        with urllib.request.urlopen(request, timeout=300) as answer:
            answer.read()
        return time.monotonic() - begin

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein")
    parser.add_argument("--model", default="default")
    parser.add_argument("--speeds", default="1,0.5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-result", action="store_true")
    options = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two cores are needed")
    ratios = []
    with HalfSpeed() as half_speed:
        servers = []
        try:
            servers += [Server(options, half_speed, [])]
            servers += [Server(options, half_speed, ["--rank-speeds", options.speeds])]
            for server in servers:
                server.seconds(512)
            for _ in range(options.rounds):
                equal, by_speed = (server.seconds(512) for server in servers)
                ratios.append(equal / by_speed)
                print(f"equal shares {1e3 * equal:.0f} ms, by speed {1e3 * by_speed:.0f} ms", flush=True)
        finally:
            for server in servers:
                server.stop()
    ratio = statistics.median(ratios)
    print(f"shares by speed are {ratio:.2f} times as fast as equal ones")
    if options.no_result:
        return
    kind, description = machine()
    path = ROOT / "bench/results" / kind / "ranks_unlike.json"
    commit = subprocess.run([options.skein, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    path.write_text(json.dumps({"machine": description, "date": date.today().isoformat(), "program": commit, "model": Path(options.model).name, "mesh": "tensor 2, shm",
                                "slowed": "rank 1 may use its core for 1 ms of every 2", "rank_speeds": options.speeds, "rounds": options.rounds,
                                "prompt_tokens": 512, "times_as_fast": round(ratio, 3)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
