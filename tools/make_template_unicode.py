#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/template_unicode_tables.inc: the character properties and case maps that the template
interpreter needs to answer as Python's str does (Unicode's data as this Python knows it)."""
import sys

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out = []
    for c in range(0x110000):
        if test(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def is_final(text):
    return text.lower()[-1] == "ς"


def case_ranges(pairs):
    """(first, last, stride, delta) runs of single-character maps."""
    out = []
    for c, m in pairs:
        d = m - c
        if out and out[-1][3] == d:
            first, last, stride, _ = out[-1]
            if first == last and c - last in (1, 2):
                out[-1][1], out[-1][2] = c, c - last
                continue
            if first != last and c - last == stride:
                out[-1][1] = c
                continue
        out.append([c, c, 1, d])
    return out


def table(out, name, rows, kind):
    out.append(f"constexpr {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        piece = " {" + ", ".join(f"0x{v:x}" if v > 9 else str(v) for v in row) + "},"
        if len(line) + len(piece) > 118:
            out.append(line)
            line = "   "
        line += piece
    out.append(line)
    out.append("};")
    out.append("")


def main():
    out = ["// SPDX-License-Identifier: Apache-2.0", "//",
           "// Made by tools/make_template_unicode.py from Unicode's data; do not edit.", ""]
    properties = {
        "kAlpha": str.isalpha, "kDecimal": str.isdecimal, "kDigit": str.isdigit, "kNumeric": str.isnumeric,
        "kLower": str.islower, "kUpper": str.isupper, "kTitle": lambda c: c.istitle() and not c.isupper(),
        "kPrintable": str.isprintable, "kSpace": str.isspace,
        "kIgnorable": lambda c: is_final("A" + c + "Σ") and not is_final("1" + c + "Σ"),
        "kNameStart": str.isidentifier, "kNameRest": lambda c: ("a" + c).isidentifier(),
    }
    for name, test in properties.items():
        table(out, name, ranges(test), "CharRange")
    for name, mapped in {"Lower": str.lower, "Upper": str.upper, "TitleCase": str.title, "Fold": str.casefold}.items():
        base = {"TitleCase": str.upper, "Fold": str.lower}.get(name, lambda c: c)
        single, special = [], []
        for c in ALL:
            m = mapped(chr(c))
            if m == base(chr(c)):
                continue
            if len(m) == 1:
                single.append((c, ord(m)))
            else:
                special.append([c] + [ord(x) for x in m] + [0] * (3 - len(m)))
        table(out, f"k{name}Runs", case_ranges(single), "CaseRun")
        if special:
            table(out, f"k{name}Special", special, "CaseSpecial")
    text = "\n".join(out).rstrip() + "\n"
    open(sys.argv[1], "w").write(text)


main()
