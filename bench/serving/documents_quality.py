#!/usr/bin/env python3
"""How good answers are when documents are computed as segments, each attending to the shared head and itself only (the form that
docs/decisions/0010-documents-segments.md describes), beside the plain causal prompt of the same words.

The task: some documents, each of which names the password of one project; which is the password of this one? Asked are the likeliest of
the passwords in the documents, and whether it is the likeliest of all tokens. Four ways to compute the same tokens:

  plain      causal, positions one after the other
  shuffled   the same with the documents in another order: what order alone changes
  masked     segments by the mask alone, positions as in plain: what is lost by documents not seeing each other
  segments   the form of the decision: every segment begins where the head ends, the question behind the longest one

The model runs in numpy, in fp32 with the weights as stored (llama family in GGUF); `--check` compares it with `skein eval logits --exact`.
"""

import argparse
import json
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WAYS = ("plain", "shuffled", "masked", "segments")
PROJECTS = ["Falcon", "Harbor", "Maple", "Comet", "Granite", "Willow", "Copper", "Lantern", "Meadow", "Orchid", "Pebble", "Raven", "Saffron", "Thistle",
            "Velvet", "Walnut", "Amber", "Birch", "Coral", "Dune"]
PASSWORDS = ["tiger", "river", "guitar", "window", "banana", "castle", "doctor", "engine", "flower", "garden", "hammer", "island", "jacket", "kitchen",
             "lemon", "mirror", "needle", "orange", "pencil", "rabbit"]
FILLERS = ["It was started by three people in a small office.", "Its reports are due at the end of every month.", "The team meets on Tuesdays.",
           "Most of the work is done in the morning.", "Visitors are welcome in spring.", "The budget was approved last year.",
           "Two of its members moved to another city.", "A newsletter tells what has been done."]


# GGUF: numbers, strings and arrays as https://github.com/ggml-org/ggml/blob/master/docs/gguf.md describes them.
class Gguf:
    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 8
        tensors, keys = self._read("Q"), self._read("Q")
        self.metadata = {}
        for _ in range(keys):
            name = self._string()
            self.metadata[name] = self._value(self._read("I"))
        self.tensors = {}
        for _ in range(tensors):
            name = self._string()
            shape = [self._read("Q") for _ in range(self._read("I"))]
            self.tensors[name] = (shape[::-1], self._read("I"), self._read("Q"))
        alignment = self.metadata.get("general.alignment", 32)
        self.begin = -(-self.at // alignment) * alignment

    def _read(self, form):
        size = struct.calcsize("<" + form)
        value = struct.unpack("<" + form, self.data[self.at : self.at + size].tobytes())[0]
        self.at += size
        return value

    def _string(self):
        size = self._read("Q")
        self.at += size
        return self.data[self.at - size : self.at].tobytes().decode("utf-8", "replace")

    def _value(self, kind):
        if kind == 8:
            return self._string()
        if kind == 9:
            inner, count = self._read("I"), self._read("Q")
            return [self._value(inner) for _ in range(count)]
        return self._read(self.SCALARS[kind])

    def tensor(self, name):
        """fp32, [rows, columns] or [columns]."""
        shape, kind, offset = self.tensors[name]
        count = int(np.prod(shape))
        bytes_of = {0: 4 * count, 1: 2 * count, 2: 18 * count // 32, 3: 20 * count // 32, 8: 34 * count // 32}
        raw = np.array(self.data[self.begin + offset : self.begin + offset + bytes_of[kind]])
        if kind == 0:
            return raw.view(np.float32).reshape(shape)
        if kind == 1:
            return raw.view(np.float16).astype(np.float32).reshape(shape)
        blocks = raw.reshape(count // 32, -1)
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        if kind == 8:  # Q8_0
            return (scale * blocks[:, 2:].view(np.int8)).reshape(shape)
        codes = blocks[:, 4 if kind == 3 else 2 :]
        values = np.concatenate([codes & 15, codes >> 4], axis=1).astype(np.float32)
        if kind == 3:  # Q4_1
            return (scale * values + blocks[:, 2:4].copy().view(np.float16).astype(np.float32)).reshape(shape)
        return (scale * (values - 8)).reshape(shape)  # Q4_0


class Model:
    """A decoder of the llama family over whole prompts, with any mask and any positions."""

    def __init__(self, path):
        file = Gguf(path)
        get = lambda name: file.metadata["llama." + name]  # noqa: E731
        self.layers, self.heads, self.kv_heads = get("block_count"), get("attention.head_count"), get("attention.head_count_kv")
        self.epsilon, self.base = get("attention.layer_norm_rms_epsilon"), get("rope.freq_base")
        self.embedding = file.tensor("token_embd.weight")
        self.output = file.tensor("output.weight") if "output.weight" in file.tensors else self.embedding
        self.norm = file.tensor("output_norm.weight")
        names = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
        self.blocks = [{name: file.tensor(f"blk.{i}.{name}.weight") for name in names} for i in range(self.layers)]
        self.head_dim = self.embedding.shape[1] // self.heads

    def _normed(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * weight

    def _rotated(self, x, positions):
        """x: [tokens, heads, head_dim]; neighbours are a pair, as GGUF stores this family."""
        angles = positions[:, None] * self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim)
        cosine, sine = np.cos(angles)[:, None].astype(np.float32), np.sin(angles)[:, None].astype(np.float32)
        even, odd = x[..., ::2], x[..., 1::2]
        return np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(x.shape)

    def logits(self, tokens, positions, sees, rows):
        """fp32 [rows, vocabulary]. sees: [tokens, tokens], whether a token (first) sees another one."""
        x = self.embedding[tokens]
        count, group = len(tokens), self.heads // self.kv_heads
        bias = np.where(sees, np.float32(0), np.float32(-np.inf))
        for block in self.blocks:
            h = self._normed(x, block["attn_norm"])
            q = self._rotated((h @ block["attn_q"].T).reshape(count, self.heads, -1), positions)
            k = self._rotated((h @ block["attn_k"].T).reshape(count, self.kv_heads, -1), positions)
            v = (h @ block["attn_v"].T).reshape(count, self.kv_heads, -1)
            mixed = np.empty_like(q)
            for head in range(self.heads):
                scores = q[:, head] @ k[:, head // group].T / np.float32(np.sqrt(self.head_dim)) + bias
                scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
                mixed[:, head] = scores @ v[:, head // group] / scores.sum(axis=-1, keepdims=True)
            x = x + mixed.reshape(count, -1) @ block["attn_output"].T
            h = self._normed(x, block["ffn_norm"])
            gate = h @ block["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
        return self._normed(x[rows], self.norm) @ self.output.T


def encode(skein, model, texts):
    lines = "".join(json.dumps({"text": text, "add_special": False, "parse_special": True}) + "\n" for text in texts)
    outcome = subprocess.run([skein, "tokenize", model, "--jsonl"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line)["ids"] for line in outcome.stdout.splitlines()]


def make_question(source, count):
    """(head, documents, question, the right password, all passwords) as texts."""
    projects, passwords = source.sample(PROJECTS, count), source.sample(PASSWORDS, count)
    documents = []
    for project, password in zip(projects, passwords):
        lines = source.sample(FILLERS, source.randint(2, 4))
        lines.insert(source.randint(0, len(lines)), f"The password of the {project} project is {password}.")
        documents.append(f"About the {project} project. " + " ".join(lines) + "\n")
    asked = source.randrange(count)
    head = "<|im_start|>system\nYou answer questions about the documents below.<|im_end|>\n<|im_start|>user\n"
    question = (f"What is the password of the {projects[asked]} project?<|im_end|>\n<|im_start|>assistant\n"
                f"The password of the {projects[asked]} project is")
    return head, documents, question, passwords[asked], passwords


def laid_out(head, documents, question, way, source):
    """(tokens, positions, sees) of the ids."""
    if way == "shuffled":
        documents = source.sample(documents, len(documents))
    parts = [head, *documents, question]
    tokens = np.array([token for part in parts for token in part])
    place = np.arange(len(tokens))
    sees = place[:, None] >= place[None, :]
    if way in ("plain", "shuffled"):
        return tokens, place, sees
    owner = np.concatenate([np.full(len(part), index) for index, part in enumerate(parts)])
    isolated = (owner > 0) & (owner <= len(documents))
    sees &= ~(isolated[:, None] & isolated[None, :] & (owner[:, None] != owner[None, :]))
    if way == "masked":
        return tokens, place, sees
    longest = max(map(len, documents))
    begins = [0] + [len(head)] * len(documents) + [len(head) + longest]
    positions = np.concatenate([begin + np.arange(len(part)) for begin, part in zip(begins, parts)])
    return tokens, positions, sees


def measure(model, skein, path, count, questions, seed):
    source = random.Random(f"{seed} {count}")
    asked = [make_question(source, count) for _ in range(questions)]
    texts = [text for head, documents, question, *_ in asked for text in (head, *documents, question)]
    ids = encode(skein, path, texts)
    words = dict(zip(PASSWORDS, (one[0] for one in encode(skein, path, [" " + word for word in PASSWORDS]))))
    assert len(set(words.values())) == len(words)
    found = {way: {"right": 0, "greedy": 0, "logprob": 0.0, "same_choice_as_plain": 0} for way in WAYS}
    for index, (_, _, _, right, passwords) in enumerate(asked):
        parts = ids[index * (count + 2) : (index + 1) * (count + 2)]
        choice = {}
        for way in WAYS:
            tokens, positions, sees = laid_out(parts[0], parts[1:-1], parts[-1], way, source)
            row = model.logits(tokens, positions, sees, [-1])[0].astype(np.float64)
            row -= row.max() + np.log(np.exp(row - row.max()).sum())
            choice[way] = max(passwords, key=lambda word: row[words[word]])
            result = found[way]
            result["right"] += choice[way] == right
            result["greedy"] += int(row.argmax()) == words[right]
            result["logprob"] += row[words[right]]
            result["same_choice_as_plain"] += choice[way] == choice["plain"]
    return found


def check(model, skein, path):
    """The largest difference of a log-probability from the engine's, and whether all first choices agree."""
    tokens = encode(skein, path, ["The quick brown fox jumps over the lazy dog, and the dog sleeps on in the warm afternoon sun."])[0]
    with tempfile.TemporaryDirectory() as folder:
        ids, out = Path(folder, "ids.json"), Path(folder, "out.f32")
        ids.write_text(json.dumps(tokens))
        subprocess.run([skein, "eval", "logits", path, "--tokens", ids, "--out", out, "--exact"], check=True, capture_output=True)
        theirs = np.fromfile(out, dtype=np.float32).reshape(len(tokens), -1)
    place = np.arange(len(tokens))
    ours = model.logits(np.array(tokens), place, place[:, None] >= place[None, :], place)
    logprobs = [rows - rows.max(1, keepdims=True) - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) for rows in (ours, theirs)]
    return float(np.abs(logprobs[0] - logprobs[1]).max()), bool((ours.argmax(1) == theirs.argmax(1)).all())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skein", default=ROOT / "build/release/skein", type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--documents", default="4,12", help="how many in a prompt")
    parser.add_argument("--questions", default=10, type=int, help="for each number of documents")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--check", action="store_true", help="compares the model with `skein eval logits --exact` instead")
    options = parser.parse_args()
    model = Model(options.model)
    if options.check:
        difference, agree = check(model, options.skein, options.model)
        print(f"largest difference of a log-probability {difference:.4f}, first choices {'agree' if agree else 'DIFFER'}")
        return 0 if agree else 1
    for count in map(int, options.documents.split(",")):
        found = measure(model, options.skein, options.model, count, options.questions, options.seed)
        print(json.dumps({"documents": count, "questions": options.questions, "seed": options.seed, "found": found}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
