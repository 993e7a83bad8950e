#!/usr/bin/env python3
"""What a reader relies on and a compiler does not check: who may include whom, how files begin, that documents name
files that exist, and words that do not belong in the repository. Standard library only; run by ctest, or by hand from
the repository's folder."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# architecture.md, section 2. `api` is the public C++ library in front of the engine.
MAY_INCLUDE = {
    "base": set(),
    "tensor": {"base"},
    "kernels": {"tensor", "base"},
    "comm": {"kernels", "tensor", "base"},
    "formats": {"tensor", "base"},
    "text": {"formats", "base"},
    "scheduler": {"base"},
    "model": {"formats", "comm", "kernels", "tensor", "base"},
    "engine": {"scheduler", "model", "comm", "kernels", "tensor", "text", "base"},
    "supervisor": {"engine", "scheduler", "comm", "kernels", "tensor", "base"},
    "server": {"engine", "scheduler", "text", "base"},
    "api": {"supervisor", "engine", "scheduler", "model", "comm", "kernels", "formats", "tensor", "text", "base"},
}
BANNED = [
    (re.compile(r"(?<![\w./])/(?:work|root|home/[a-z]+)/", re.I), "an absolute path of a machine"),
    (re.compile(r"\bAI assistant\b(?! named)", re.I), "how it was made"),
    (re.compile(r"\bFIXME\b|\bXXX\b"), "say what is missing with TODO and why it can wait"),
]


def sources(*suffixes):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in listed if name.endswith(suffixes) and (ROOT / name).exists()]


class Style(unittest.TestCase):
    def test_modules_include_downwards_only(self):
        # A cycle between modules would make the simulator drag in kernels, and every change rebuild everything.
        for path in sources(".h", ".cc", ".inc"):
            parts = path.relative_to(ROOT).parts
            if parts[0] != "src":
                continue
            module = parts[1]
            for included in re.findall(r'^#include "([a-z_]+)/', path.read_text(), re.M):
                if included in MAY_INCLUDE and included != module:
                    # A unit test may also use what only tests need from modules below its own.
                    self.assertIn(included, MAY_INCLUDE[module], f"{path.relative_to(ROOT)} includes {included}/")

    def test_cmake_deps_say_what_is_included(self):
        # A missing DEPS line would link by luck.
        for module in MAY_INCLUDE:
            cmake = ROOT / "src" / module / "CMakeLists.txt"
            if not cmake.exists():
                continue
            found = re.search(r"\bDEPS([a-z_\s]*)", cmake.read_text())
            self.assertIsNotNone(found, f"{cmake.relative_to(ROOT)} has no DEPS line")
            said = set(found.group(1).split())
            self.assertLessEqual(said, MAY_INCLUDE[module], f"DEPS of {module}")
            used = set()
            for path in (ROOT / "src" / module).rglob("*"):
                if path.suffix in (".h", ".cc") and not path.stem.endswith("_test"):
                    used |= set(re.findall(r'^#include "([a-z_]+)/', path.read_text(), re.M))
            used = (used & set(MAY_INCLUDE)) - {module}
            reached = set(said)
            for name in said:
                reached |= MAY_INCLUDE[name]
            self.assertLessEqual(used, reached, f"{module} includes what its DEPS line does not bring")

    def test_a_source_includes_its_header_first(self):
        # So that compiling the source shows that the header needs nothing before it.
        for path in sources(".cc"):
            header = path.with_suffix(".h")
            if header.exists() and path.is_relative_to(ROOT / "src"):
                first = re.search(r'^#include [<"]([^">]+)[">]', path.read_text(), re.M).group(1)
                self.assertEqual(first, str(header.relative_to(ROOT / "src")), path.relative_to(ROOT))

    def test_files_begin_with_licence_and_purpose(self):
        # A newcomer opens a file and must learn in its first lines what it is.
        for path in sources(".h", ".cc"):
            lines = path.read_text().split("\n")
            name = path.relative_to(ROOT)
            self.assertEqual(lines[0], "// SPDX-License-Identifier: Apache-2.0", name)
            if path.suffix == ".h":
                self.assertIn("#pragma once", lines, name)
                self.assertTrue(lines[1] == "//" and lines[2].startswith("// "), f"{name}: no opening paragraph")

    def test_words(self):
        # The repository speaks of the project alone.
        for path in sources(".h", ".cc", ".md", ".py", ".txt", ".cmake", ".json", ".toml", "/demo", "/test", "/install", "/build", "/run"):
            if path == Path(__file__).resolve() or "testdata" in path.parts:
                continue
            text = path.read_text()
            for pattern, why in BANNED:
                found = pattern.search(text)
                self.assertIsNone(found, f"{path.relative_to(ROOT)}: {found and found.group(0)!r}: {why}")

    def test_documents_name_files_that_exist(self):
        # Directions to a file that is gone send people away.
        for path in sources(".md"):
            base = path.parent
            text = path.read_text()
            for link in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", text):
                self.assertTrue((base / link).exists(), f"{path.relative_to(ROOT)} links to {link}")
        for document in ("docs/life_of_a_token.md", "docs/architecture.md"):
            path = ROOT / document
            if not path.exists():
                continue
            for name in re.findall(r"`((?:src|apps|include|tests|scripts|examples|bench|docs|cmake|tools)/[\w./-]+)`", path.read_text()):
                there = (ROOT / name).exists() or any((ROOT / (name + suffix)).exists() for suffix in (".h", ".cc"))
                self.assertTrue(there, f"{document} names {name}")

    def test_scripts_can_run(self):
        # `permission denied` as the first answer of the first command.
        for name in ("scripts/demo", "scripts/test", "scripts/install", "scripts/build", ".ci/run"):
            self.assertTrue((ROOT / name).stat().st_mode & 0o100, name)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
