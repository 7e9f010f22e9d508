#!/usr/bin/env python3
"""Draws the plots of docs/ from data.

    plot.py test/bench/data docs/img
    plot.py build/benchmarks docs/img

It draws those whose data is in the first folder. The data of all plots but one does not depend on the
machine, and is in test/bench/data; these commands write it there, with OUT for the folder:

    curves streams DIR > OUT/streams.tsv
    curves ages > OUT/ages.tsv
    curves bits > OUT/bits.tsv
    psql -X -f test/bench/growth.sql > OUT/growth.tsv
    psql -X -f test/bench/sizes.sql > OUT/sizes.tsv

Times are in OUT/speed.json, which test/bench/all.sh leaves in build/benchmarks, the folder of its results:

    core_bench --benchmark_out=OUT/speed.json --benchmark_out_format=json

test/pictures.py checks that the plots in docs/img are what this script draws. Only the standard library
is used. svg.py says what the pictures have in common.
"""

import json
import math
import os
import sys

sys.dont_write_bytecode = True
from svg import (DASHES, MARKS, WIDTH, Axis, Panel, legend, mark, plot, read, text, write)


def binary_size(value):
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:g} {unit}"
        value /= 1024
    return f"{value:g} GiB"


# As PostgreSQL writes it.
def size_text(value):
    return f"{value} bytes" if value < 1024 else binary_size(value).replace("KiB", "kB").replace("iB", "B")


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
        parts.append(plot(place % 2 * width, y + place // 2 * height, width, height, stream,
                           x_axis, Axis(0, 100), "memory, bits a distinct key of the stream",
                           "FPR + FNR, %", lines))
    y += (len(streams) + 1) // 2 * height
    write(path, "FPR + FNR against memory, by stream",
          "A plot for each stream: the sum of false-positive rate and false-negative rate, against bits a "
          "distinct key, with a line for each method. docs/papers.md has figures.", y, parts)


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
    size = binary_size(max(int(r["bytes"]) for r in rows if r["method"] == "recent"))
    x_axis = Axis(0, high, ticks=[i * 50000 for i in range(int(high / 50000) + 1)],
                  text=lambda v: f"{v / 1000:g}k")
    y_axis = Axis(0.01, 100, log=True, text=lambda v: "≤ 0.01" if v < 0.02 else f"{v:g}")
    parts.append(plot(0, y + 8, WIDTH, 380, f"Keys missed, filters of {size} asked for 1 %",
                       x_axis, y_axis, "distinct keys since the key came", "missed, %", lines))
    write(path, "Keys missed against age",
          "The share of keys that a filter does not find any more, against the number of distinct keys that "
          "came since, with a line for each method that forgets.", y + 392, parts)


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
        parts.append(plot(place * WIDTH / 2, y + 8, WIDTH / 2, 360, title, x_axis,
                           Axis(0, 48, ticks=[0, 8, 16, 24, 32, 40, 48]),
                           "false-positive rate measured", "bits a key", lines, [bound]))
    write(path, "Bits a key against the false-positive rate",
          "Two plots, one for sets and one for windows: bits a key against the measured false-positive rate, "
          "with a line for each method and the lower bound.", y + 372, parts)


# By what the benchmark says of each run.
SPEED_GROUPS = [("Sets", "set"), ("Windows", "window"), ("By chance", "chance")]
# Kernels for other processors are variants of one method.
SPEED_LEFT_OUT = ["ring_refresh", "blocked_bloom_avx2", "blocked_bloom_plain"]


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
        parts.append(plot(left, legends, width, 420, title, x_axis, y_axis,
                           "memory of the filter, MiB", "ns a key", lines, [bound]))
    write(path, "Time of test-and-add in batches, against size",
          "Three plots, for sets, windows and methods that forget by chance: nanoseconds a key against the "
          "memory of the filter, with a line for each method.", legends + 432, parts)


GROWTH_EXACT = "dedup_filter(1000000)"  # the one that is exact for the longest


def draw_growth(rows, path):
    """Each filter: its bytes, and below them its rate, over the number of keys."""
    filters = list(dict.fromkeys(row["filter"] for row in rows))
    data = {f: [(int(r["keys"]), int(r["bytes"]), r["exact"] == "t", float(r["fpr"]))
                for r in rows if r["filter"] == f] for f in filters}
    most = max(point[0] for points in data.values() for point in points)
    x_axis = Axis(1, most, log=True, text=lambda v: f"{v:,.0f}")
    sizes = Panel(0, 4, WIDTH, 330, x_axis, Axis(64, 64 << 20, log=True, ticks=[64 << 4 * i for i in range(6)],
                                                 text=size_text), 76)
    nothing = 1e-6  # where 0 is on the axis
    rates = Panel(0, 338, WIDTH, 270, x_axis, Axis(nothing, 1, log=True, text=lambda v: (
        "0" if v < 2 * nothing else f"{v:.6f}".rstrip("0").rstrip("."))), 76)
    parts = [sizes.frame("Bytes of a filter that was asked for a rate of 0.01", "keys", "bytes"),
             rates.frame("Its false-positive rate", "keys", "false-positive rate"),
             f'<path class="asked" d="{rates.path([(1, 0.01), (most, 0.01)])}"/>',
             text(rates.px(1.4), rates.py(0.01) - 6, "asked for: 0.01", "small")]
    exact = [(keys, size) for keys, size, is_exact, _ in data[GROWTH_EXACT] if is_exact]
    for series, name in enumerate(filters):
        points = data[name]
        first = next(i for i, point in enumerate(points) if not point[2])
        limit, size = points[first - 1][:2]
        color = f'class="l{series}" stroke-dasharray="{DASHES[series]}"'
        parts.append(f'<path {color} d="{sizes.steps([(k, b) for k, b, _, _ in points[first - 1:]])}"/>')
        parts.append(f'<path {color} d="{rates.path([(limit, nothing)] + [(k, r) for k, _, _, r in points[first:]])}"/>')
        parts.append(mark("circle", sizes.px(limit), sizes.py(size), series))
        parts.append(text(sizes.px(limit) - 8, sizes.py(size) - 6, f"{limit:,} keys", f"t{series}", "end"))
        keys, size = points[-1][:2]
        dx, dy, anchor = [(-6, -14, "end"), (6, 4, "start"), (0, 30, "end")][series]
        parts.append(text(sizes.px(keys) + dx, sizes.py(size) + dy, name, f"t{series}", anchor))
        made_for = name[13:-1]
        if made_for:
            made_for = int(made_for)
            rate = next(r for k, _, _, r in points if k == made_for)
            parts.append(mark("square", rates.px(made_for), rates.py(rate), series))
            parts.append(text(rates.px(made_for) - 8, rates.py(rate) - 6, f"{made_for:,} keys", f"t{series}", "end"))
            parts.append(text(rates.px(2 * made_for) - 8, rates.py(0.18), name, f"t{series}", "end"))
        else:
            parts.append(text(rates.px(15000), rates.py(0.001), name, f"t{series}"))
    parts.append(f'<path class="bound" d="{sizes.path(exact)}"/>')
    parts.append(f'<path class="bound" d="{rates.path([(k, nothing) for k, _ in exact])}"/>')
    parts.append(text(sizes.px(30), sizes.py(300) + 22, "exact: 64-bit hashes, 8 bytes a key"))
    parts.append(text(rates.px(1.4), rates.py(nothing) - 8, "exact: no false positives in practice"))
    write(path, "From exact to approximate, over the number of keys",
          "Two plots over the number of keys. A filter first keeps the 64-bit hashes of its keys: 8 bytes a key, "
          "and a false-positive rate of 0. A filter without a number of keys does so up to 512 keys, and then "
          "grows with its keys and keeps a rate below 0.01. A filter for a number of keys does so until the hashes "
          "take as many bytes as its method: 1,552 keys for 10,000, and 154,976 keys for a million. Then its size "
          "does not change, and its rate rises: to 0.01 at that number of keys, and to 0.1 at twice as many.",
          612, parts)


def draw_sizes(rows, path):
    """Bits a key against the rate, of the methods that most filters have."""
    def points(method):
        return sorted((float(r["fpr"]), float(r["bits"])) for r in rows if r["method"] == method)

    names = ["blocked_bloom", "recent", "bloom"]
    parts, y = legend(["blocked_bloom: dedup_filter(n)", "recent: dedup_window(n)",
                       "bloom: dedup_filter(n) below 0.0001"], 0, "lower bound, log2 1/rate")
    parts = [parts]
    x_axis = Axis(1e-6, 0.3, log=True, text=lambda v: f"{v:.6f}".rstrip("0"))
    panel = Panel(0, y + 8, WIDTH, 400, x_axis, Axis(0, 90, ticks=list(range(0, 91, 10))))
    parts.append(panel.frame("Bits a key, by the false-positive rate that is asked for",
                             "false-positive rate asked for", "bits a key"))
    # A table grows by 3/2 and by 4/3, so just before it has two thirds of the most bits a key.
    most = points("infini")
    above = panel.steps(most)
    below = panel.steps([(fpr, bits / 1.5) for fpr, bits in most])
    last = most[-1]
    back = ""
    for fpr, bits in reversed(most[:-1]):
        back += f"V{panel.py(bits / 1.5):.1f}H{panel.px(fpr):.1f}"
    parts.append(f'<path class="a3" d="{above}V{panel.py(last[1] / 1.5):.1f}{back}z"/>'
                 f'<path class="l3" d="{above}"/><path class="l3" d="{below}"/>')
    parts.append(text(panel.px(3.2e-5), panel.py(44) + 4, "infini: dedup_filter(), while it grows",
                      "t3"))
    bound = [(1e-6 * 3e5 ** (i / 40), -math.log2(1e-6 * 3e5 ** (i / 40))) for i in range(41)]
    parts.append(f'<path class="bound" d="{panel.path(bound)}"/>')
    for series, name in enumerate(names):
        dash = DASHES[series // 2 % len(DASHES)]
        line = panel.steps(points(name)) if name == "recent" else panel.path(points(name))
        parts.append(f'<path class="l{series}" stroke-dasharray="{dash}" d="{line}"/>')
        for fpr, bits in points(name)[::20]:
            parts.append(mark(MARKS[series], panel.px(fpr), panel.py(bits), series))
    write(path, "Bits a key against the false-positive rate",
          "Bits a key against the false-positive rate that is asked for. From 0.1 to 0.000001 bloom takes 4.8 to 28.8 "
          "bits a key, blocked_bloom 4.8 to 38.8, and recent 12.8 to 35.5 for each key of its window. infini takes "
          "23 to 34 bits down to 0.01, 35 to 53 down to 0.0000251, and 57 to 85 below.", y + 412, parts)


PLOTS = {"streams": draw_streams, "ages": draw_ages, "bits": draw_bits,
         "growth": draw_growth, "sizes": draw_sizes}
# Where the name of the data says less than that of the picture.
PICTURES = {"growth": "exact_to_approximate", "sizes": "size_against_rate"}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = sys.argv[1:]
    os.makedirs(target, exist_ok=True)
    for name, draw in PLOTS.items():
        path = os.path.join(source, name + ".tsv")
        if os.path.exists(path):
            draw(read(path), os.path.join(target, PICTURES.get(name, name)))
    path = os.path.join(source, "speed.json")
    if os.path.exists(path):
        draw_speed(path, os.path.join(target, "speed"))


if __name__ == "__main__":
    main()
