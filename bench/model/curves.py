#!/usr/bin/env python3
"""Draws the curves that measure_curves.py measured: bench/results/<machine type>/curves.json to SVG files beside it.

    bench/model/curves.py [MACHINE_TYPE]     default: every machine type that has curves

Each line of skein stands beside llama.cpp's and beside the roof, which is computed from the ceilings measured in the same
session (`skein bench kernels`): a prompt can be no faster than its multiplications (int8 for the matrices of int8g32, bf16 for
attention and the other arithmetics), an answer no faster than reading weights, keys and values once. Points are medians.
"""

import json
import statistics
import sys

from compare_llama_cpp import ROOT
from svg_chart import chart


class Roof:
    def __init__(self, data, model, threads):
        ceilings = data["ceilings"]
        rate = "one_thread_per_s" if threads == 1 else "per_s"
        self.of = {ceiling["name"]: ceiling[rate] for ceiling in ceilings["ceilings"]}
        self.shape = data["shapes"][model]
        self.matrices = self.of["int8" if self.shape["arithmetic"] == "int8g32" else "bf16"]

    def prefill_seconds(self, tokens):
        attention = 2.0 * self.shape["layers"] * self.shape["heads"] * self.shape["head_dim"] * tokens * tokens
        return 2.0 * self.shape["matrix_parameters"] * tokens / self.matrices + attention / self.of["bf16"]

    def decode_rate(self, context, batch=1):
        read = (self.shape["weights_bytes"] + batch * context * self.shape["kv_bytes_per_token"]) / self.of["DRAM"]
        multiplied = self.shape["matrix_parameters"] + self.shape["head_parameters"]
        return batch / max(read, batch * 2.0 * multiplied / self.matrices)


def lines(points, test, value):
    """Skein's and llama.cpp's line."""
    out = {}
    for name, engine in (("skein", "skein"), ("llama.cpp", "llama_cpp")):
        line = [(point["x"], value(point, statistics.median(point[engine][test]))) for point in points if point[engine].get(test)]
        if line:
            out[name] = line
    return out


def pictures(data):
    """(file name, SVG) of every curve of every model."""
    for model in data["shapes"]:
        of_model = [point for point in data["points"] if point["model"] == model]
        for curve in ("prefill", "decode", "batch", "threads"):
            points = sorted((point for point in of_model if point["curve"] == curve), key=lambda point: point["x"])
            if len(points) < 2:
                continue
            commits = sorted({point["commit"][:8] for point in points})
            threads = points[0]["threads"]
            note = f"{data['processor']}, {'1 and 2' if curve == 'threads' else threads} threads, skein {', '.join(commits)}"
            roof, xs = Roof(data, model, threads), [point["x"] for point in points]
            name = f"{model.lower()}-{curve}.svg"
            if curve == "prefill":
                series = lines(points, "pp", lambda point, rate: point["x"] / rate)
                series["roof"] = [(x, roof.prefill_seconds(x)) for x in xs]
                yield name, chart(f"{model}: time of a prompt", note, "tokens of the prompt", "seconds", series)
            elif curve == "decode":
                series = lines(points, "tg", lambda _, rate: rate)
                series["roof"] = [(x, roof.decode_rate(x)) for x in xs]
                yield name, chart(f"{model}: answer over context", note, "tokens before", "tokens a second", series)
            elif curve == "batch":
                series = lines(points, "tg", lambda _, rate: rate)
                series["roof"] = [(x, roof.decode_rate(80, x)) for x in xs]
                yield name, chart(f"{model}: answers at once", note, "sequences", "tokens a second, of all", series)
            else:
                series = {}
                for test, told, rate in (("pp", "prompt of 512", lambda r: 512 / r.prefill_seconds(512)), ("tg", "answer", lambda r: r.decode_rate(16))):
                    series |= {f"{engine}, {told}": line for engine, line in lines(points, test, lambda _, found: found).items()}
                    series[f"roof, {told}"] = [(point["x"], rate(Roof(data, model, point["threads"]))) for point in points]
                yield name, chart(f"{model}: threads", note, "threads", "tokens a second", series)


def main():
    results = ROOT / "bench" / "results"
    kinds = sys.argv[1:] or sorted(file.parent.name for file in results.glob("*/curves.json"))
    for kind in kinds:
        data = json.loads((results / kind / "curves.json").read_text())
        for name, svg in pictures(data):
            (results / kind / name).write_text(svg)
            print(results.relative_to(ROOT) / kind / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
