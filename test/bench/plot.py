#!/usr/bin/env python3
"""Draws the plots of docs/ from what the benchmarks print.

    curves streams DIR > OUT/streams.tsv
    curves ages > OUT/ages.tsv
    curves bits > OUT/bits.tsv
    core_bench --benchmark_out=OUT/speed.json --benchmark_out_format=json
    plot.py OUT docs/img

It draws those whose file is in OUT. test/bench/all.sh leaves speed.json in the folder of its results.
Only the standard library is used. Each plot is an SVG of the width of a README that
is readable on light and dark ground: a viewer's preference picks the colours, and each
line has a dash pattern and a mark of its own beside its colour.
"""

import csv
import json
import math
import os
import sys
from xml.sax.saxutils import escape

WIDTH = 840

# Colours that are told apart by the colour-blind, on light and on dark ground.
COLOURS = [
    ("#0060a8", "#6cb6ff"), ("#b34700", "#ff9d57"), ("#00755a", "#4fd1ae"),
    ("#9b2d86", "#f08fdd"), ("#7a6000", "#e3c64a"), ("#b3123a", "#ff7f96"),
    ("#4a4a4a", "#c8c8c8"), ("#3c3fb5", "#a5a8ff"), ("#5c7a00", "#b5d94a"),
    ("#7a4a2a", "#d9a97f"), ("#006b7a", "#55c8da"), ("#666699", "#b9b9e8"),
]
DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "4 2"]
MARKS = ["circle", "square", "triangle", "diamond", "cross"]


def style():
    rules = [
        "text{font:12px system-ui,sans-serif;fill:#24292f}",
        ".title{font-weight:600;font-size:13px}",
        ".axis{stroke:#57606a;stroke-width:1;fill:none}",
        ".grid{stroke:#57606a;stroke-opacity:.22;stroke-width:1;fill:none}",
        ".bound{stroke:#24292f;stroke-width:2.5;fill:none}",
    ]
    dark = ["text{fill:#e6edf3}", ".axis{stroke:#9198a1}",
            ".grid{stroke:#9198a1}", ".bound{stroke:#e6edf3}"]
    for i, (light, night) in enumerate(COLOURS):
        rules.append(f".l{i}{{stroke:{light};fill:none;stroke-width:1.8}}"
                     f".m{i}{{fill:{light};stroke:{light}}}")
        dark.append(f".l{i}{{stroke:{night}}}.m{i}{{fill:{night};stroke:{night}}}")
    return ("<style>" + "".join(rules) + "@media(prefers-color-scheme:dark){" +
            "".join(dark) + "}</style>")


def mark(kind, x, y, series):
    c = f'class="m{series % len(COLOURS)}"'
    if kind == "circle":
        return f'<circle {c} cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>'
    if kind == "square":
        return f'<rect {c} x="{x - 2.4:.1f}" y="{y - 2.4:.1f}" width="4.8" height="4.8"/>'
    if kind == "triangle":
        return f'<path {c} d="M{x:.1f} {y - 3.2:.1f}l3 5.4h-6z"/>'
    if kind == "diamond":
        return f'<path {c} d="M{x:.1f} {y - 3.4:.1f}l3.2 3.4-3.2 3.4-3.2-3.4z"/>'
    return (f'<path {c} style="fill:none" d="M{x - 2.8:.1f} {y - 2.8:.1f}l5.6 5.6'
            f'm0-5.6l-5.6 5.6"/>')


class Axis:
    """Maps values to 0 .. 1, linear or logarithmic, and knows its ticks."""

    def __init__(self, low, high, log=False, ticks=None, text=None):
        self.low, self.high, self.log = low, high, log
        self.text = text or (lambda v: f"{v:g}")
        if ticks is not None:
            self.ticks = ticks
        elif log:
            first = math.ceil(math.log10(low) - 1e-9)
            last = math.floor(math.log10(high) + 1e-9)
            self.ticks = [10.0 ** e for e in range(first, last + 1)]
        else:
            step = 10 ** math.floor(math.log10((high - low) / 4))
            while (high - low) / step > 6:
                step *= 2 if str(step)[0] != "2" else 2.5
            self.ticks = [low + i * step for i in range(int((high - low) / step + 1e-9) + 1)]

    def at(self, value):
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def panel(x, y, width, height, title, x_axis, y_axis, x_label, y_label, lines, bounds=()):
    """lines: (series number, points); bounds: points of a line that none can pass."""
    left, top, right, bottom = x + 56, y + 24, x + width - 16, y + height - 40

    def px(value):
        return left + x_axis.at(value) * (right - left)

    def py(value):
        return bottom - y_axis.at(value) * (bottom - top)

    out = [f'<text class="title" x="{left}" y="{y + 14}">{escape(title)}</text>']
    for tick in x_axis.ticks:
        out.append(f'<path class="grid" d="M{px(tick):.1f} {top}V{bottom}"/>'
                   f'<text x="{px(tick):.1f}" y="{bottom + 15}" text-anchor="middle">'
                   f'{escape(x_axis.text(tick))}</text>')
    for tick in y_axis.ticks:
        out.append(f'<path class="grid" d="M{left} {py(tick):.1f}H{right}"/>'
                   f'<text x="{left - 5}" y="{py(tick) + 4:.1f}" text-anchor="end">'
                   f'{escape(y_axis.text(tick))}</text>')
    out.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
    out.append(f'<text x="{(left + right) / 2:.0f}" y="{bottom + 32}" text-anchor="middle">'
               f'{escape(x_label)}</text>')
    out.append(f'<text x="{x + 12}" y="{(top + bottom) / 2:.0f}" text-anchor="middle" '
               f'transform="rotate(-90 {x + 12} {(top + bottom) / 2:.0f})">'
               f'{escape(y_label)}</text>')
    for points in bounds:
        path = "L".join(f"{px(a):.1f} {py(b):.1f}" for a, b in points)
        out.append(f'<path class="bound" d="M{path}"/>')
    for series, points in lines:
        path = "L".join(f"{px(a):.1f} {py(b):.1f}" for a, b in points)
        dash = DASHES[series // 2 % len(DASHES)]
        out.append(f'<path class="l{series % len(COLOURS)}" stroke-dasharray="{dash}" d="M{path}"/>')
        step = max(1, len(points) // 8)
        for a, b in points[::step]:
            out.append(mark(MARKS[series % len(MARKS)], px(a), py(b), series))
    return "".join(out)


def legend(names, y, bound=None, left=16, right=WIDTH):
    """Rows of names with their lines; returns the SVG and its height."""
    out, x, row = [], left, y + 14
    entries = [(i, name) for i, name in enumerate(names)]
    if bound:
        entries.append((None, bound))
    for series, name in entries:
        width = 44 + 7.0 * len(name) + 14
        if x + width > right and x > left:
            x, row = left, row + 20
        if series is None:
            out.append(f'<path class="bound" d="M{x} {row - 4}h32"/>')
        else:
            dash = DASHES[series // 2 % len(DASHES)]
            out.append(f'<path class="l{series % len(COLOURS)}" stroke-dasharray="{dash}" '
                       f'd="M{x} {row - 4}h32"/>' +
                       mark(MARKS[series % len(MARKS)], x + 16, row - 4, series))
        out.append(f'<text x="{x + 38}" y="{row}">{escape(name)}</text>')
        x += width
    return "".join(out), row + 14 - y


def write(path, title, height, parts):
    with open(path, "w", encoding="utf-8") as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
                  f'width="{WIDTH}" height="{height:.0f}" role="img">'
                  f'<title>{escape(title)}</title>{style()}' + "".join(parts) + "</svg>\n")


def read(path):
    with open(path, encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def bytes_text(value):
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} GiB"


def chosen(rows, first, left_out):
    """The methods of the rows to draw: `first` in that order, then all others that are not left
    out, so that a new method is drawn too."""
    names = list(dict.fromkeys(row["method"] for row in rows))
    return ([m for m in first if m in names] +
            [m for m in names if m not in first and m not in left_out])


# Of alike ones a plot shows one.
STREAM_METHODS = ["recent", "ring", "a2", "apbf", "lru", "bloom", "qht 3 bits", "sqf k=1 r=2",
                  "cuckoo", "sbf 10 %", "rsbf", "qqhtd"]
STREAM_LEFT_OUT = ["blocked_bloom", "counting_bloom", "cuckoo strict", "quotient", "ring refresh",
                   "fifo", "b_dbf", "fp_lru", "sbf", "sqf", "dsqf", "qht", "qhtd", "qqht"]


def draw_streams(rows, path):
    streams = list(dict.fromkeys(row["stream"] for row in rows))
    methods = chosen(rows, STREAM_METHODS, STREAM_LEFT_OUT)
    parts, y = legend(methods, 0)
    parts = [parts]
    y += 8
    x_axis = Axis(0.5, 32, log=True, ticks=[0.5, 1, 2, 4, 8, 16, 32])
    width, height = WIDTH / 2, 240
    for place, stream in enumerate(streams):
        lines = []
        for series, method in enumerate(methods):
            points = [(float(r["bits_a_distinct_key"]), float(r["FPR"]) + float(r["FNR"]))
                      for r in rows if r["stream"] == stream and r["method"] == method]
            if points:
                lines.append((series, points))
        parts.append(panel(place % 2 * width, y + place // 2 * height, width, height, stream,
                           x_axis, Axis(0, 100), "memory, bits a distinct key of the stream",
                           "FPR + FNR, %", lines))
    y += (len(streams) + 1) // 2 * height
    write(path, "FPR + FNR against memory, by stream", y, parts)


AGE_METHODS = ["recent", "ring", "fifo", "a2", "apbf", "b_dbf", "lru", "sbf", "rsbf", "qht", "qqhtd",
               "cuckoo"]
AGE_LEFT_OUT = ["ring refresh", "fp_lru", "sbf 10 %", "sqf", "sqf k=1 r=2", "dsqf", "qht 3 bits",
                "qhtd", "qqht"]


def draw_ages(rows, path):
    methods = chosen(rows, AGE_METHODS, AGE_LEFT_OUT)
    parts, y = legend(methods, 0)
    parts = [parts]
    lines = []
    for series, method in enumerate(methods):
        points = [(float(r["age"]), max(float(r["missed"]), 0.01))
                  for r in rows if r["method"] == method]
        lines.append((series, points))
    high = max(float(r["age"]) for r in rows)
    size = bytes_text(max(int(r["bytes"]) for r in rows if r["method"] == "recent"))
    x_axis = Axis(0, high, ticks=[i * 50000 for i in range(int(high / 50000) + 1)],
                  text=lambda v: f"{v / 1000:g}k")
    y_axis = Axis(0.01, 100, log=True, text=lambda v: "≤ 0.01" if v < 0.02 else f"{v:g}")
    parts.append(panel(0, y + 8, WIDTH, 380, f"Keys missed, filters of {size} asked for 1 %",
                       x_axis, y_axis, "distinct keys since the key came", "missed, %", lines))
    write(path, "Keys missed against age", y + 392, parts)


def draw_bits(rows, path):
    kinds = [("set", "Sets: a key is never missed"), ("window", "Windows, and what chance leaves")]
    methods = list(dict.fromkeys(r["method"] for r in rows))
    wanted = [m for m in methods if "%" not in m and "bits" not in m and "r=2" not in m
              and m not in ("lru", "fp_lru", "ring refresh", "dsqf", "qhtd", "qqht")]
    parts, y = legend(wanted, 0, "lower bound, log2 1/FPR")
    parts = [parts]
    x_axis = Axis(1e-5, 0.3, log=True, text=lambda v: f"{100 * v:g} %")
    bound = [(10 ** (-5 + i * 4.477 / 40), -math.log2(10 ** (-5 + i * 4.477 / 40)))
             for i in range(41)]
    for place, (kind, title) in enumerate(kinds):
        lines = []
        for series, method in enumerate(wanted):
            points = sorted((float(r["FPR"]), float(r["bits_a_key"])) for r in rows
                            if r["method"] == method and r["kind"] == kind
                            and float(r["FPR"]) >= 1e-5 and float(r["bits_a_key"]) <= 48)
            if points:
                lines.append((series, points))
        parts.append(panel(place * WIDTH / 2, y + 8, WIDTH / 2, 360, title, x_axis,
                           Axis(0, 48, ticks=[0, 8, 16, 24, 32, 40, 48]),
                           "false-positive rate measured", "bits a key", lines, [bound]))
    write(path, "Bits a key against the false-positive rate", y + 372, parts)


# By what the benchmark says of each run.
SPEED_GROUPS = [("Sets", "set"), ("Windows", "window"), ("By chance", "chance")]
SPEED_LEFT_OUT = ["ring_refresh"]


def draw_speed(path_in, path):
    with open(path_in, encoding="utf-8") as text:
        runs = json.load(text)["benchmarks"]
    times, kinds = {}, {}
    for run in runs:
        name = run["name"].split("/iterations")[0].split("/")
        if len(name) != 4 or "ns/key" not in run:
            continue
        method, size, operation, how = name
        if method in SPEED_LEFT_OUT:
            continue
        kinds[method] = run["label"]
        times[(method, operation, how, int(size.replace("MiB", "")))] = run["ns/key"]
        if method != "recent":  # whose limit is two lines
            limit = ("one random line", operation, how, int(size.replace("MiB", "")))
            times[limit] = min(run["limit_ns"], times.get(limit, run["limit_ns"]))
    sizes = sorted({k[3] for k in times})
    x_axis = Axis(sizes[0], sizes[-1], log=True, ticks=sizes)
    y_axis = Axis(2, 4000, log=True, ticks=[2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000])
    parts, width, legends = [], WIDTH / 3, 130
    for place, (title, kind) in enumerate(SPEED_GROUPS):
        methods = [m for m in kinds if kinds[m] == kind]
        left = place * width
        parts.append(legend(methods, 0, "one random cache line", left + 12, left + width)[0])
        lines = []
        for series, method in enumerate(methods):
            points = [(s, times[(method, "add", "batch", s)]) for s in sizes
                      if (method, "add", "batch", s) in times]
            lines.append((series, points))
        bound = [(s, times[("one random line", "add", "batch", s)]) for s in sizes]
        parts.append(panel(left, legends, width, 420, title, x_axis, y_axis,
                           "memory of the filter, MiB", "ns a key", lines, [bound]))
    write(path, "Time of test-and-add in batches, against size", legends + 432, parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    os.makedirs(target, exist_ok=True)
    for name, draw in (("streams", draw_streams), ("ages", draw_ages), ("bits", draw_bits)):
        path = os.path.join(source, name + ".tsv")
        if os.path.exists(path):
            draw(read(path), os.path.join(target, name + ".svg"))
    path = os.path.join(source, "speed.json")
    if os.path.exists(path):
        draw_speed(path, os.path.join(target, "speed.svg"))


if __name__ == "__main__":
    main()
