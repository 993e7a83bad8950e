#!/usr/bin/env python3
"""Instructions per token of a steady-state step: a fixed small model, one thread, counted by valgrind. No clock is asked.

    bench/model/instructions.py --skein PATH --folder FOLDER --compiler "GNU 12.2.0" [--record] [--only avx2/Q4_0]

The models are made in FOLDER by `skein make-model` from a fixed seed. A count is the difference of two runs that differ in the
number of tokens only, so loading and ending do not count. Compares with bench/results/instructions.json and fails when a token
takes more than 5 % more than there; --record writes that file. Counts depend on the compiler, so those of another one are not
compared (exit status 77: skipped). valgrind knows AVX2 and not AVX-512: of the other paths, the code around the kernels is the
same. Standard library only.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "bench" / "results" / "instructions.json"
ALLOWED = 1.05
SKIPPED = 77
CASES = ["avx2/Q4_0", "avx2/Q4_1", "avx2/Q8_0", "avx2/BF16", "ref/Q4_0"]
PROMPT, ANSWER, MORE = 32, 8, 32  # tokens; MORE is what a count is divided by


def count(skein, model, kernels, prompt, answer):
    """Instructions of a whole run."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = ",".join(str(3 + 7 * i % 500) for i in range(prompt))
        command = ["valgrind", "--tool=callgrind", "--dump-instr=no", f"--callgrind-out-file={folder}/out", str(skein), "run", str(model),
                   "--prompt-tokens", tokens, "--max-tokens", str(answer), "--temperature", "0", "--ignore-eos", "--threads", "1",
                   "--kernels", kernels, "--context", "512", "--max-num-batched-tokens", "128", "--json", "--quiet"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        counted = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or counted is None:
            sys.exit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        if len(json.loads(done.stdout)["tokens"]) != answer:
            sys.exit(f"{answer} tokens expected: {done.stdout}")
        return int(counted.group(1))


def measure(skein, model, case):
    kernels, _ = case.split("/")
    base = count(skein, model, kernels, PROMPT, ANSWER)
    return {"decode": (count(skein, model, kernels, PROMPT, ANSWER + MORE) - base) // MORE,
            "prefill": (count(skein, model, kernels, PROMPT + MORE, ANSWER) - base) // MORE}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path, help="where the models are made")
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", help="one case")
    options = parser.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if subprocess.run(["which", "valgrind"], capture_output=True, check=False).returncode != 0:
        print("skipped: there is no valgrind (scripts/install test)")
        return SKIPPED
    if not options.record and recorded.get("compiler") != options.compiler:
        print(f"skipped: counts are recorded for {recorded.get('compiler')}, this is {options.compiler}")
        return SKIPPED
    cases = [options.only] if options.only else CASES
    found, failed = {}, False
    for case in cases:
        weights = case.split("/")[1]
        model = options.folder / f"instructions-{weights}.gguf"
        if not model.exists():
            subprocess.run([str(options.skein), "make-model", "--shape", "tiny", "--format", weights, "--seed", "7", "--out", str(model), "--quiet"],
                           check=True)
        found[case] = measure(options.skein, model, case)
        for kind, now in found[case].items():
            before = recorded.get("instructions_per_token", {}).get(case, {}).get(kind)
            change = now / before if before else 1.0
            worse = not options.record and change > ALLOWED
            failed = failed or worse
            print(f"{case:10} {kind:8} {now:10} per token" + (f", recorded {before}, {100 * (change - 1):+.1f} %" if before else "")
                  + ("  MORE THAN 5 % MORE" if worse else ""), flush=True)
    again = f"bench/model/instructions.py --skein {options.skein} --folder {options.folder} --compiler \"{options.compiler}\" --record"
    if options.record:
        counts = {**recorded.get("instructions_per_token", {}), **found}
        RECORDED.write_text(json.dumps({"compiler": options.compiler, "model": "make-model --shape tiny --seed 7",
                                        "tokens": {"prompt": PROMPT, "answer": ANSWER, "counted": MORE},
                                        "instructions_per_token": counts}, indent=1) + "\n")
    elif failed:
        print(f"A token takes more instructions than recorded. If that is meant, say why in the commit and record anew:\n  {again}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
