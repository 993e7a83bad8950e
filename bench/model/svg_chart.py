"""A line chart with logarithmic axes as SVG text. Standard library only; used by curves.py."""

import math
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 56, 54
COLOURS = {"skein": "#1f5fbf", "llama.cpp": "#b5532a", "roof": "#6b6b6b"}
DASHES = {"roof": "2 5"}


def ticks(low, high):
    """1, 2, 5 times powers of ten from below `low` to above `high`."""
    values, power = [], math.floor(math.log10(low))
    while True:
        for factor in (1, 2, 5):
            value = factor * 10.0 ** power
            if value >= low * 0.999 and value <= high * 1.001:
                values.append(value)
            if value > high:
                return values
        power += 1


def short(value):
    if value >= 1000 and value % 1000 == 0:
        return f"{value / 1000:g}K"
    return f"{value:g}"


def chart(title, note, x_label, y_label, series):
    """`series`: {name: [(x, y)…]}; a name's first word, before a comma, decides its colour."""
    points = [point for line in series.values() for point in line]
    x_low, x_high = min(p[0] for p in points), max(p[0] for p in points)
    y_low, y_high = min(p[1] for p in points) / 1.25, max(p[1] for p in points) * 1.25
    if x_low == x_high:
        x_low, x_high = x_low / 2, x_high * 2

    def place(x, y):
        across = math.log(x / x_low) / math.log(x_high / x_low)
        up = math.log(y / y_low) / math.log(y_high / y_low)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="#222">',
           f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
           f'<text x="{LEFT}" y="40" fill="#666" font-size="11">{escape(note)}</text>']
    for value in ticks(y_low, y_high):
        _, y = place(x_low, value)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    last = -100.0
    for value in sorted({p[0] for p in points}):
        x, _ = place(value, y_low)
        out.append(f'<path d="M{x:.1f} {HEIGHT - BOTTOM}v5" stroke="#999"/>')
        if x - last > 34:
            out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(value)}</text>')
            last = x
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#999"/>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>')
    out.append(f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    ends = []
    for name, line in series.items():
        kind = name.split(",")[0]
        colour, dash = COLOURS.get(kind, "#444"), DASHES.get(kind, "")
        places = [place(*point) for point in sorted(line)]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        if not dash:
            out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        ends.append([places[-1][1], name, colour, places[-1][0]])
    ends.sort()
    for above, below in zip(ends, ends[1:]):  # names at the ends of lines, apart
        below[0] = max(below[0], above[0] + 14)
    out += [f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{colour}">{escape(name)}</text>' for y, name, colour, x in ends]
    return "\n".join(out) + "\n</svg>\n"
