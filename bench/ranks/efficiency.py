#!/usr/bin/env python3
"""How much of its ranks a mesh makes use of, recorded: `skein bench ranks` for some meshes of two ranks.

    bench/ranks/efficiency.py --skein PATH [--models default,1b.gguf] [--meshes tensor2/threads,tensor2/shm,pipe2/threads] [--rounds 5] [--prefix CMD]

Each mesh is one run, which takes its three ways to compute in turn and compares within a round. What was measured is put into
bench/results/<machine type>/ranks.json at once, in place of the same model and mesh before; --no-result only prints. --prefix stands before each
command (a lock, a processor mask). Standard library only."""

import argparse
import json
import shlex
import subprocess
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "model"))
from compare_llama_cpp import ROOT, machine  # noqa: E402


def command_of(options, model, mesh):
    shape, transport = mesh.split("/")
    axis = shape.rstrip("0123456789")
    command = [options.skein, "bench", "ranks", model, f"--{axis}", shape[len(axis):], "--transport", transport, "-p", options.prompts, "-n", options.generate,
               "-b", options.batches, "-r", options.rounds, "--json"]
    return shlex.split(options.prefix) + [str(word) for word in command]


def show(mesh, found):
    print(f"{found['model']}, {mesh}")
    for test in found["tests"]:
        parts = ", ".join(f"{name.replace('_', ' ')} {100 * share:.1f} %" for name, share in test["parts"].items() if name != "useful")
        bubble = f"; bubble {100 * test['bubble']:.1f} %, formula {100 * test['bubble_formula']:.1f} %, uneven {100 * test['bubble_uneven']:.1f} %" if "bubble" in test else ""
        print(f"  {test['test']:10} η {100 * test['efficiency']:5.1f} %, bound {100 * test['balance_bound']:5.1f} %, of one process {100 * test['of_one_process']:5.1f} %"
              f" ({parts}{bubble})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein")
    parser.add_argument("--models", default="default")
    parser.add_argument("--meshes", default="tensor2/threads,tensor2/shm,pipe2/threads")
    parser.add_argument("--prompts", default="512")
    parser.add_argument("--generate", default="32")
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--no-result", action="store_true")
    options = parser.parse_args()
    kind, description = machine()
    path = ROOT / "bench/results" / kind / "ranks.json"
    results = json.loads(path.read_text()) if path.exists() else []
    for model in options.models.split(","):
        for mesh in options.meshes.split(","):
            command = command_of(options, model, mesh)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{shlex.join(command)}\n{done.stderr[-1500:]}")
            found = json.loads(done.stdout)
            show(mesh, found)
            if options.no_result:
                continue
            shown = ["skein", *command[command.index("bench"):]]
            shown[3] = Path(model).name
            row = {"mesh_name": mesh, "machine": description, "date": date.today().isoformat(), "command": shlex.join(shown), **found}
            results = [old for old in results if (old["model"], old["mesh_name"], old["weight_format"]) != (row["model"], mesh, row["weight_format"])] + [row]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
