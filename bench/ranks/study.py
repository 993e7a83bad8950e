#!/usr/bin/env python3
"""Which mesh wins where: 2 to 64 hosts on links of 1, 10, 25 and 100 Gbit/s, on paper.

    bench/ranks/study.py [--json FILE] [--svg FILE]

Times are computed from three measured numbers of a host (operations and bytes a second that the kernels reach, `skein bench kernels`) and two of
a link (microseconds a message, bytes a second, `skein bench comm` between two network namespaces); nothing here runs a model. A step of n rows
on a mesh of T tensor ranks and P stages, one rank a host:

    layer    max(2 parameters n / operations, bytes of weights / bandwidth) / T
    sums     two all-reduces a layer of n x hidden numbers in bf16: the shorter of  a + (T - 1) s / b  and  2 a + 2 (T - 1) / T s / b
    stages   P - 1 messages of n x hidden fp32
    bubble   (P - 1) / (m + P - 1) for m parts of the work

Standard library only."""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "model"))
from svg_chart import chart  # noqa: E402

# A host of two cores as measured (bench/results/avx512vnni/curves.json: int8 products at 0.7 of 945 G/s, 40 GB/s), and one with sixteen times its
# cores and six times its memory channels.
HOSTS = {"2 cores": {"operations": 0.66e12, "bandwidth": 40e9}, "32 cores": {"operations": 16 * 0.66e12, "bandwidth": 6 * 40e9}}
LINKS = {"1 Gbit/s": (30e-6, 0.117e9), "10 Gbit/s": (20e-6, 1.17e9), "25 Gbit/s": (12e-6, 2.9e9), "100 Gbit/s": (6e-6, 11.7e9)}  # TCP: seconds, bytes/s
MODELS = {  # layers, hidden, parameters of a layer, of the head
    "1B": (16, 2048, 60.8e6, 262e6),
    "8B": (32, 4096, 218e6, 525e6),
    "70B": (80, 8192, 856e6, 1050e6),
}
WEIGHT_BYTES = 0.6  # of a 4-bit weight with its scale
LOADS = {  # rows of a step, rows whose logits are wanted, parts that a pipe may work on at once
    "one answer": (1, 1, 1),
    "a prompt of 2048": (2048, 1, 4),
    "64 answers": (64, 64, 64),
}


def step_seconds(model, load, host, link, tensor, pipe):
    layers, hidden, layer, head = MODELS[model]
    rows, outputs, parts = LOADS[load]
    alpha, beta = LINKS[link]
    parts = min(parts, 4 * pipe)
    n = rows / parts if pipe > 1 else rows

    def product(parameters, count):
        return max(2 * parameters * count / host["operations"], parameters * WEIGHT_BYTES / host["bandwidth"]) / tensor

    message = n * hidden * 2
    reduce = 0
    if tensor > 1:
        reduce = min(alpha + (tensor - 1) * message / beta, 2 * alpha + 2 * (tensor - 1) / tensor * message / beta)
    outputs = max(1, outputs / parts) if pipe > 1 else outputs
    total = layers * (product(layer, n) + 2 * reduce) + product(head, outputs)
    if pipe == 1:
        return total
    hop = alpha + n * hidden * 4 / beta
    # Each part takes a stage's time; the last one is through after parts + stages - 1 of them.
    return (parts + pipe - 1) * (total / pipe + hop)


def meshes(hosts):
    tensor = 1
    while tensor <= hosts:
        yield tensor, hosts // tensor
        tensor *= 2


def study():
    rows = []
    for host_name, host in HOSTS.items():
        for model in MODELS:
            for load in LOADS:
                for link in LINKS:
                    one = step_seconds(model, load, host, link, 1, 1)
                    for hosts in (2, 4, 8, 16, 32, 64):
                        times = {mesh: step_seconds(model, load, host, link, *mesh) for mesh in meshes(hosts) if mesh[1] <= MODELS[model][0]}
                        best = min(times, key=times.get)
                        rows.append({"host": host_name, "model": model, "load": load, "link": link, "hosts": hosts, "tensor": best[0], "pipe": best[1],
                                     "times_one_host": one / times[best], "efficiency": one / times[best] / hosts,
                                     "pays": times[best] < 0.8 * one})
    return rows


def deciding_number(model, host, link):
    """Time to send a row's sums of a layer over the link, in the time of computing the row's layer on one host."""
    _, hidden, layer, _ = MODELS[model]
    return (4 * hidden * 2 / LINKS[link][1]) / (2 * layer / host["operations"])


def print_table(rows):
    print("| host | model | load | " + " | ".join(LINKS) + " |")
    print("|---|---|---|" + "---|" * len(LINKS))
    for host in HOSTS:
        for model in MODELS:
            for load in LOADS:
                cells = []
                for link in LINKS:
                    found = [r for r in rows if (r["host"], r["model"], r["load"], r["link"], r["hosts"]) == (host, model, load, link, 8)][0]
                    shape = "tensor 8" if found["pipe"] == 1 else "pipe 8" if found["tensor"] == 1 else f"{found['tensor']} × {found['pipe']}"
                    cells.append(f"{shape}: {found['times_one_host']:.1f}×" if found["pays"] else f"one host ({found['times_one_host']:.2f}×)")
                print(f"| {host} | {model} | {load} | " + " | ".join(cells) + " |")
    print("\nThe number that decides for prompts, sums over computing (below 1: a tensor mesh pays):\n")
    print("| host | model | " + " | ".join(LINKS) + " |")
    print("|---|---|" + "---|" * len(LINKS))
    for name, host in HOSTS.items():
        for model in MODELS:
            print(f"| {name} | {model} | " + " | ".join(f"{deciding_number(model, host, link):.2f}" for link in LINKS) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    options = parser.parse_args()
    rows = study()
    print_table(rows)
    if options.json:
        Path(options.json).write_text(json.dumps({"command": "bench/ranks/study.py", "hosts": HOSTS, "links": {k: {"seconds": a, "bytes_per_s": b} for k, (a, b) in LINKS.items()},
                                                  "rows": [{k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()} for row in rows]}, indent=1) + "\n")
    if options.svg:
        series = {}
        for link in LINKS:
            series[f"skein, {link}"] = [(r["hosts"], r["times_one_host"]) for r in rows
                                        if (r["host"], r["model"], r["load"], r["link"]) == ("32 cores", "8B", "a prompt of 2048", link)]
        series["roof, every host added pays in full"] = [(n, n) for n in (2, 4, 8, 16, 32, 64)]
        Path(options.svg).write_text(chart("A prompt of 2048 tokens, 8B, hosts of 32 cores (computed)", "best mesh for each number of hosts; bench/ranks/study.py",
                                           "hosts", "times one host", series))


if __name__ == "__main__":
    main()
