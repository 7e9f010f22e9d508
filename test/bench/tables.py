#!/usr/bin/env python3
"""Writes the tables of docs/benchmarks.md from what test/bench/all.sh measured.

    tables.py RESULTS [PAGE [OUT]]

RESULTS is the folder of all.sh. The tables stand in PAGE (docs/benchmarks.md) between the lines

    <!-- table NAME -->
    <!-- end -->

and what stands there is replaced. OUT is another file to write to. NAME is one of the layouts
below, or a part of all.sh that prints tables as psql does and needs no layout. A table whose part
was not run stays as it is. Its name is printed, as are parts that come from another machine or
another commit than most. A command stands above each table, and whether the machine was busy.

Cells with two numbers are best / median. Only the standard library is used.
"""

import csv
import os
import re
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "benchmarks.md")
MACHINE = ["processor", "instruction sets", "memory", "kernel", "server", "compiler", "commit"]
LAYOUTS = {}


class Missing(Exception):
    """A part, a table or a column that is not there."""


class Table:
    """One table as psql prints it: columns and rows of text, and the lines before it."""

    def __init__(self, title, section, columns):
        self.title, self.section, self.columns, self.rows = title, section, columns, []

    def records(self):
        """Rows as dictionaries. The second column of one name is "NAME 2"."""
        names = []
        for name in self.columns:
            names.append(name if name not in names else f"{name} 2")
        return [dict(zip(names, row)) for row in self.rows]


class Part:
    """What one part of all.sh printed."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.head = dict(re.findall(r"^#: ([^:]+): (.*)$", self.text, re.M))
        self.tables = []
        section, title, lines = "", "", self.text.splitlines()
        for i, line in enumerate(lines):
            if line.startswith("== "):
                section = line[3:]
            if i > 0 and re.fullmatch(r"-[-+]*-", line.strip()) and "|" in lines[i - 1]:
                table = Table(title, section, [cell.strip() for cell in lines[i - 1].split("|")])
                for row in lines[i + 1:]:
                    if "|" not in row:
                        break
                    table.rows.append([cell.strip() for cell in row.split("|")])
                self.tables.append(table)
            elif line.strip() and "|" not in line:
                title = line.strip()

    def table(self, *columns, title="", section=""):
        for table in self.tables:
            if (set(columns) <= set(table.columns) and re.search(title, table.title)
                    and re.search(section, table.section)):
                return table
        raise Missing(f"no table with {', '.join(columns) or title or section}")

    def records(self, *columns, title="", section=""):
        return self.table(*columns, title=title, section=section).records()


class Results:
    """All parts of a folder that ran to their end."""

    def __init__(self, folder):
        self.parts = {}
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".txt"):
                continue
            part = Part(os.path.join(folder, name))
            if part.head.get("exit") == "0" and "skipped" not in part.head:
                self.parts[name[:-4]] = part

    def __getitem__(self, name):
        if name not in self.parts:
            raise Missing(f"part {name} was not run")
        return self.parts[name]

    def common(self, key):
        """What most parts say."""
        said = [part.head.get(key, "") for part in self.parts.values()]
        return max(sorted(set(said)), key=said.count) if said else ""


# ---- Cells

def number(value):
    """A number to three figures at least, with commas. Text without a point is a whole number."""
    whole = isinstance(value, str) and "." not in value
    try:
        value = float(value)
    except (TypeError, ValueError):
        return str(value or "")
    if abs(value) >= 100 or whole or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def pair(best, median):
    if best in ("", None) and median in ("", None):
        return ""
    return f"{number(best)} / {number(median)}"


def ratio(a, b):
    return float(a) / float(b) if a not in ("", None) and b not in ("", None) and float(b) else None


def pair_of_ratios(a, b, best="min s", median="median s"):
    return pair(ratio(a[best], b[best]), ratio(a[median], b[median]))


def by(records, *keys):
    return {tuple(r[k] for k in keys) if len(keys) > 1 else r[keys[0]]: r for r in records}


def layout(function):
    LAYOUTS[function.__name__] = function
    return function


def folded(table):
    """A table of psql as it is, columns "min X" and "median X" in one, without empty columns."""
    columns, header, cells = table.columns, [], []
    i = 0
    while i < len(columns):
        pairs = i + 1 < len(columns) and columns[i + 1].startswith("median") and re.match("min |best|.*, best$", columns[i])
        if any(row[i] for row in table.rows):
            header.append(re.sub("^(min|best) |, best$", "", columns[i]) if pairs else columns[i])
            cells.append((i, i + 1) if pairs else (i,))
        i += 2 if pairs else 1
    return header, [[pair(row[c[0]], row[c[1]]) if len(c) == 2 else number(row[c[0]]) for c in cells] for row in table.rows]


# ---- The machine, and the core

@layout
def machine(results):
    return ["", ""], [[key, results.common(key)] for key in MACHINE] + [
        ["date", results.common("date").split(" ")[0]]]


def core_rows(part):
    """By method, MiB, operation and batch: the counters of core_bench."""
    start = part.text.find("name,iterations")
    if start < 0:
        raise Missing("no output of core_bench")
    rows = {}
    for row in csv.DictReader(part.text[start:].splitlines()):
        place = re.match(r"(\w+)/(\d+)MiB/(add|ask)/(batch|single)", row["name"] or "")
        if place and row.get("ns/key"):
            rows[place.group(1), int(place.group(2)), place.group(3), place.group(4)] = row
    return rows


@layout
def core(results):
    rows = core_rows(results["core"])
    columns = [(mib, operation, way) for mib in (1, 16, 256) for way in ("batch", "single")
               for operation in ("ask", "add") if any(k[1:] == (mib, operation, way) for k in rows)]
    header = ["", "bits a key", "FPR %"] + [
        f"{operation} {mib} MiB{', single keys' if way == 'single' else ''}" for mib, operation, way in columns]
    limit = ["one random line", "", ""]
    for column in columns:
        of_column = [r for k, r in rows.items() if k[1:] == column and k[0] != "recent"]
        limit.append(pair(min(float(r["limit_ns"]) for r in of_column),
                          sorted(float(r["limit_median"]) for r in of_column)[len(of_column) // 2]) if of_column else "")
    lines = [limit]
    for method in dict.fromkeys(k[0] for k in rows):
        if method.endswith(("_avx2", "_plain")):    # kernels for other processors are in core_limits
            continue
        mine = {k[1:]: r for k, r in rows.items() if k[0] == method}
        at = next((r for k, r in mine.items() if k[0] == 16), next(iter(mine.values())))
        name = {"ring_refresh": "`ring` `refresh=on`", "cuckoo_strict": "`cuckoo` `strict=on`"}.get(method, f"`{method}`")
        lines.append([name, f"{float(at['bits/key']):.1f}", f"{float(at['FPR%']):.2g}"] +
                     [pair(mine[c]["ns/key"], mine[c]["median"]) if c in mine else "" for c in columns])
    return header, lines


@layout
def core_limits(results):
    lines = []
    for part, processor in (("core", "as the processor is"), ("core_plain", "without AVX-512")):
        if part not in results.parts:
            continue
        rows = core_rows(results[part])
        # Kernels for other processors have names such as blocked_bloom_plain.
        blocked = [m for m in dict.fromkeys(key[0] for key in rows) if m.startswith("blocked_bloom")]
        for method in blocked + ["recent", "fifo", "ring", "infini"]:
            cells = [pair(rows[k]["ratio"], rows[k]["median_ratio"]) if k in rows else ""
                     for k in ((method, mib, op, "batch") for mib in (16, 256) for op in ("ask", "add"))]
            if any(cells):
                lines.append([f"`{method}`, {processor}"] + cells)
    if not lines:
        raise Missing("part core was not run")
    return ["", "ask 16 MiB", "add 16 MiB", "ask 256 MiB", "add 256 MiB"], lines


@layout
def errors(results):
    lines = []
    for line in results["errors"].text.splitlines():
        cells = line.split("\t")
        if len(cells) == 5 and cells[0] != "keys":
            lines.append([f"{float(cells[0]):,.0f}", cells[2], f"{float(cells[3]):+.3f} ± {float(cells[4]):.3f}"])
    return ["keys", "standard error, %", "bias, %"], lines


# ---- SQL

def with_memory(record):
    memory = record.get("work_mem", "")
    return record["what"] + (f", work_mem {memory}" if memory not in ("", "4MB") else "")


def side_by_side(tables, first=None):
    """Queries in rows; for each table seconds, and times the first query's."""
    header, lines = [""], {}
    for name, records in tables:
        header += [f"{name}, s" if name else "s", first or "times the first"]
        for record in records:
            lines.setdefault(with_memory(record), []).extend([
                pair(record["min s"], record["median s"]), pair_of_ratios(record, records[0])])
    return header, [[what] + cells for what, cells in lines.items()]


@layout
def aggregate(results):
    part = results["aggregate"]
    return side_by_side([(t, part.records("min s", title=f" {t} keys")) for t in ("bigint", "text")], "times hll")


@layout
def window(results):
    return side_by_side([("", results["window"].records("min s"))], "times row_number()")


@layout
def groups(results):
    records = results["groups"].records("min s")
    return side_by_side([(f"work_mem {memory}", [dict(r, work_mem="") for r in records if r["work_mem"] == memory])
                         for memory in ("4MB", "1GB")])


@layout
def plpgsql(results):
    return side_by_side([("", results["plpgsql"].records("min s"))])


TYPES = {"bigint": "bigint", "text": "text, 52 bytes", "two": "two int4"}


def of_types(part, comparison, cell):
    """Queries in rows, and a column for each type that was measured."""
    header, lines = [""], {}
    for table in part.tables:
        found = re.match(rf"{comparison} (\w+) (\d+) rows", table.title)
        if not found:
            continue
        header.append(f"{TYPES[found.group(1)]}, {number(found.group(2))} rows")
        for record in table.records():
            what = f"{record['what']}, work_mem {record['work_mem']}" if comparison == "distinct" else with_memory(record)
            lines.setdefault(what, []).append(cell(record))
    if not lines:
        raise Missing(f"no table of {comparison}")
    return header, [[what] + cells for what, cells in lines.items()]


def ns_and_files(record):
    return f"{pair(record['wall ns/row'], record['median wall ns/row'])} ({number(record['temp MB'])} MB)"


def wall(record):
    return pair(record["wall s"], record["median wall s"])


@layout
def distinct(results):
    return of_types(results["distinct"], "distinct", ns_and_files)


@layout
def large(results):
    header, lines = of_types(results["large"], "distinct", ns_and_files)
    answers = of_types(results["large"], "distinct", lambda record: number(record["answer"]))[1]
    return header + ["rows returned"], [line + answer[1:] for line, answer in zip(lines, answers)]


@layout
def count(results):
    return of_types(results["count"], "count", wall)


@layout
def parallel(results):
    return of_types(results["parallel"], "parallel", wall)


@layout
def duckdb(results):
    part, lines = results["duckdb"], []
    version = re.search(r"^DuckDB (\S+)$", part.text, re.M)
    for table in part.tables:
        for r in table.records():
            lines.append([f"{table.section.split(',')[0]}: {r['what']}", pair(r["min s"], r["median s"]),
                          pair(r["DuckDB min s"], r["DuckDB median s"]), pair(r["times DuckDB"], r["median"]),
                          number(r["answer"]), number(r["DuckDB answer"])])
    return ["", "s", f"DuckDB {version.group(1) if version else ''}, s", "times DuckDB", "answer", "DuckDB's"], lines


# ---- Live filters

def live(part):
    return part.records("what", "min cpu s")


def live_layout(name):
    def function(results):
        return ["", "CPU, s", "wall, s", "thousand rows a second", "WAL, MB", "rows stored"], [
            [r["what"], pair(r["min cpu s"], r["median cpu s"]), pair(r["min s"], r["median s"]), number(r["thousand rows/s"]),
             number(r["min WAL MB"]), number(r["stored"])] for r in live(results[name])]
    LAYOUTS[name] = function


live_layout("insert")
live_layout("preloaded")


def pgbench_rates(part):
    rates = {}
    for clients, table, tps in re.findall(r"^(\d+) clients, round \d+, (\w+): (\d+)", part.text, re.M):
        rates.setdefault((int(clients), table), []).append(float(tps))
    # The median of an even number of rounds is the lower one of the two.
    return {key: (max(values), sorted(values)[(len(values) - 1) // 2]) for key, values in rates.items()}


@layout
def pgbench(results):
    rates = pgbench_rates(results["pgbench"])
    return ["clients", "guarded", "unique index", "guarded, times the index"], [
        [str(c), pair(*rates[c, "guarded"]), pair(*rates[c, "indexed"]),
         pair(*(a / b for a, b in zip(rates[c, "guarded"], rates[c, "indexed"])))]
        for c in sorted({clients for clients, _ in rates})]


@layout
def rows(results):
    return ["filter made for", "keys", "rows, s", "batch, s", "batch, times the rows"], [
        [number(r["filter made for"]), r["keys"].replace("new, known", "known"), pair(r["rows, least"], r["rows, median"]),
         pair(r["batch, least"], r["batch, median"]), pair(r["times"], r["times 2"])]
        for r in results["rows"].records("rows, least")]


def new_keys_rows(part):
    """By connections, keys and who: best and median rate, least and median CPU."""
    found = {}
    for c, keys, who, *figures in re.findall(
            r"^ +(\d+) (new|known) +(\S.*?) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", part.text, re.M):
        if not re.match(r"[\d.]", who):
            found[int(c), keys, who] = [float(f) for f in figures]
    if not found:
        raise Missing("no rates of new_keys")
    return found


WAYS = [(1, "new"), (1, "known"), (4, "new"), (4, "known")]


@layout
def new_keys(results):
    lines = []
    for name, present in (("new_keys", "from empty"), ("new_keys_present", "keys present")):
        if name not in results.parts:
            continue
        found = new_keys_rows(results[name])
        for who in dict.fromkeys(k[2] for k in found):
            lines.append([f"{present}: {who}"] + [pair(*found[way + (who,)][:2]) for way in WAYS] +
                         [pair(*found[way + (who,)][2:]) for way in WAYS[:2]])
    if not lines:
        raise Missing("part new_keys was not run")
    return ["", "1 connection: new", "known", "4 connections: new", "known", "CPU, us a key, 1 connection: new", "known"], lines


@layout
def redisbloom(results):
    text = results["redisbloom"].text
    sizes = re.findall(r"^ +(\d+) +([\d.]+) +([\d.]+) +[\d.]+$", text, re.M)
    rates = {keys: rest for keys, *rest in re.findall(r"^ +(\d+) +([\d.]+)% +([\d.]+)% +([\d.]+)%$", text, re.M)}
    lines = [[number(keys), a, b] + [f"{float(rate):.2f} %" for rate in rates.get(keys, ["nan", "nan"])[:2]]
             for keys, a, b in sizes]
    over = re.search(r"over (\d+) sizes.*least ([\d.]+), mean ([\d.]+), most ([\d.]+); value ([\d.]+), ([\d.]+), ([\d.]+)", text)
    if over:
        n, *figures = over.groups()
        lines.append([f"{n} sizes: least, mean, most", ", ".join(figures[:3]), ", ".join(figures[3:]), "", ""])
    return ["keys", "bytes a key: RedisBloom", "`dedup_filter()`", "measured rate: RedisBloom", "`dedup_filter()`"], lines


@layout
def growing_live(results):
    lines = [[f"{how}, {number(first)} to {number(last)} keys", mean, most, sized]
             for how, first, last, mean, most, sized in re.findall(
                 r"^(.*), (\d+) to (\d+) keys: ([\d.]+) bytes a key \(at most ([\d.]+)\); made for \d+: ([\d.]+) when full$",
                 results["growing_live"].text, re.M)]
    if not lines:
        raise Missing("no sizes of growing_live")
    return ["", "bytes a key, mean of eight sizes", "the largest", "made for the last number, full"], lines


@layout
def growing_live_cost(results):
    records = results["growing_live"].records("keys", "images", "wal times")
    return (["keys in a transaction", "page images in WAL", "CPU, s: with a number", "grows", "times", "WAL, bytes a key: with a number",
             "grows", "times"], [[r["keys"], {"t": "yes", "f": "no"}[r["images"]]] + [number(r[c]) for c in ("sized cpu s", "grows cpu s", "times",
                                "sized wal a key", "grows wal a key", "wal times")] for r in records])


@layout
def growing_live_window(results):
    lines = [[when, number(grows), number(sized), ratio] for when, grows, sized, ratio in re.findall(
        r"^ +(.*) window_grows: \d+ bytes, ([\d.]+) a live key$\n"
        r"^ +\1 window_sized: \d+ bytes, ([\d.]+) a live key$\n"
        r"^ +\1, grows/sized: ([\d.]+)$", results["growing_live"].text, re.M)]
    if not lines:
        raise Missing("no window of growing_live")
    return ["after ten windows", "grows: bytes for each key that is alive", "with a number", "times"], lines


# ---- Guards

KINDS = {"none": "no check", "approximate": "approximate guard", "no_index": "approximate guard, no index on the key",
         "exact": "exact guard", "unique": "unique index", "exists": "trigger with EXISTS"}


def guard_rows(part):
    """By section, work and kind: one record of guards.sql."""
    found = {}
    for table in part.tables:
        if "median cpu us" in table.columns and "kind" in table.columns:
            for r in table.records():
                found[table.section, r["what"], r["kind"]] = r
    if not found:
        raise Missing("no table of guards.sql")
    return found


def guards(part, ratios):
    found, lines = guard_rows(part), []
    kinds = [k for k in KINDS if any(key[2] == k for key in found)]
    for section in dict.fromkeys(key[0] for key in found):
        for what in ("new rows", "mixed", "duplicates of today", "duplicates of any day"):
            cells = [found.get((section, what, kind)) for kind in kinds]
            line = [f"{section}: {what}"] + [pair(r["min cpu us"], r["median cpu us"]) if r else "" for r in cells]
            exists = found.get((section, what, "exists"))
            for kind in ratios:
                mine = found.get((section, what, kind))
                line.append(pair_of_ratios(exists, mine, "min cpu us", "median cpu us") if exists and mine else "")
            lines.append(line)
    return [""] + [KINDS[k] for k in kinds] + [f"{KINDS[k]}: times as fast as EXISTS" for k in ratios], lines


@layout
def daily(results):
    return guards(results["daily"], ["exact"])


@layout
def partitions(results):
    return guards(results["partitions"], ["no_index", "exact"])


@layout
def deletes(results):
    return ["", "wall, s", "CPU, s (median)", "rows that land again"], [
        [r["what"], pair(r["min s"], r["median s"]), number(r["median cpu s"]), number(r["landed"])]
        for r in results["deletes"].records("what", "median cpu s")]


# ---- Citus

@layout
def citus(results):
    text = results["citus"].text
    times = re.findall(r"^(\S.*?) {2,}(\d+)  (\d+) to (\d+)$", text, re.M)
    moved = {name: (kilobytes, answer) for name, kilobytes, answer in
             re.findall(r"^(\S.*?) {2,}(\d+)  (\d[\d|]*)$", text, re.M)}
    return ["", "ms: best / median", "kB between the nodes", "result"], [
        [name, pair(least, median), number(moved.get(name, [""])[0]),
         ", ".join(number(n) for n in moved.get(name, ["", ""])[1].split("|"))]
        for name, median, least, most in times]


# ---- What was aimed at

def aims_of(results):
    """(what, "at least" or "at most", bound, best, median), for all parts that were run."""
    found = []

    def aim(what, way, bound, figures):
        try:
            best, median = figures()
            if best is not None and median is not None:
                found.append((what, way, bound, float(best), float(median)))
        except (Missing, KeyError, StopIteration):
            pass

    for connections, keys, bound in ((1, "new", 1), (4, "new", 2 / 3), (1, "known", 1), (4, "known", 1)):
        for part, present in (("new_keys", "from empty"), ("new_keys_present", "keys present")):
            def rates(part=part, connections=connections, keys=keys):
                of = new_keys_rows(results[part])
                ours, theirs = of[connections, keys, "dedup_new_keys()"], of[connections, keys, "BF.MADD"]
                return ours[0] / theirs[0], ours[1] / theirs[1]
            aim(f"`dedup_new_keys` of 100 {keys} keys, {connections} connection{'s' if connections > 1 else ''}, {present}: "
                "times BF.MADD's rate", "at least", bound, rates)
    try:
        for r in results["rows"].records("rows, least"):
            aim(f"one batch of 300,000 keys ({r['keys'].replace('new, known', 'known')}), filter for "
                f"{number(r['filter made for'])}: times `is_new` row by row", "at most", 0.5,
                lambda r=r: (r["times"], r["times 2"]))
    except Missing:
        pass

    def of_window():
        of = by(results["window"].records("min s"), "what")
        a, b = of["dedup_is_new(k)"], of["no question: row_number()"]
        return ratio(a["min s"], b["min s"]), ratio(a["median s"], b["median s"])
    aim("`dedup_is_new(k) OVER`: times `row_number()`", "at most", 3.5 / 6.0, of_window)

    for part, bound, present in (("insert", 3.5, "from empty"), ("preloaded", 8, "keys present")):
        def of_live(part=part):
            of = by(live(results[part]), "what")
            a, b = of["unique index, ON CONFLICT DO NOTHING"], of["guarded by a live filter"]
            return ratio(a["min cpu s"], b["min cpu s"]), ratio(a["median cpu s"], b["median cpu s"])
        aim(f"guarded INSERT … SELECT, {present}: times as fast as a unique index", "at least", bound, of_live)

    for type in ("bigint", "text"):
        for what in ("dedup_agg(k)", "dedup_agg(dedup_filter(rows, 0.01), k)"):
            def of_aggregate(type=type, what=what):
                of = by(results["aggregate"].records("min s", title=f" {type} keys"), "what")
                a, b = of[what], of["hll_add_agg"]
                return ratio(a["min s"], b["min s"]), ratio(a["median s"], b["median s"])
            aim(f"`{what}` of {type}: times hll", "at most", 1.25, of_aggregate)
        for what, one, bound in (("SELECT DISTINCT, most rows pass", "filter", 1 / 0.75),
                                 ("SELECT DISTINCT of few keys", "filter, few keys", 1.8),
                                 ("approx_count_distinct", "approx_count_distinct(k)", 1.8)):
            def of_parallel(type=type, one=one):
                of = by(results["parallel"].records("wall s", title=f"parallel {type} "), "what")
                a, b = of[one], of[f"{one}, two workers"]
                return ratio(a["wall s"], b["wall s"]), ratio(a["median wall s"], b["median wall s"])
            aim(f"{what}, {type}: two workers, times as fast as none", "at least", bound, of_parallel)
    try:
        for r in results["workers"].records("what", "way", "times none, best"):
            if r["way"] == "two workers" and not r["what"].startswith("count("):
                aim(f"`{r['what']}`: two workers, times as fast as one process", "at least", 1.8,
                    lambda r=r: (r["times none, best"], r["median"]))
    except Missing:
        pass

    for part, processor in (("core", "as the processor is"), ("core_plain", "without AVX-512")):
        for method, bounds in (("blocked_bloom", {16: 2.0, 256: 1.5}), ("blocked_bloom_avx2", {16: 2.0, 256: 1.5}),
                               ("blocked_bloom_plain", {16: 2.0, 256: 1.5}), ("recent", {16: 4.0, 256: 4.0})):
            for mib, bound in bounds.items():
                def of_core(part=part, method=method, mib=mib):
                    r = core_rows(results[part])[method, mib, "add", "batch"]
                    return r["ratio"], r["median_ratio"]
                aim(f"`{method}`, adding in batches, {mib} MiB, {processor}: times the limit", "at most", bound, of_core)

    try:
        for c in sorted({clients for clients, _ in pgbench_rates(results["pgbench"])}):
            aim(f"guarded INSERT of one row, {c} client{'s' if c > 1 else ''}: times a unique index's rate", "at least", 1,
                lambda c=c: [a / b for a, b in zip(pgbench_rates(results["pgbench"])[c, "guarded"],
                                                   pgbench_rates(results["pgbench"])[c, "indexed"])])
    except Missing:
        pass
    try:
        for table in results["daily"].tables:
            for r in table.records() if "aim" in table.columns else []:
                if not r["aim"]:
                    continue
                way, bound = re.match(r"(at \w+) ([\d.]+)", r["aim"]).groups()
                if "exact guard" in r:
                    what, best, median = r["exact guard"], r["min cpu"], r["median cpu"]
                else:
                    what, best = f"the check of {r['the check of']}: times that of a new row", r["times that of a new row"]
                    median = best
                aim(f"exact guard, {table.section}: {what}", way, float(bound),
                    lambda best=best, median=median: (best or None, median or None))
    except Missing:
        pass
    return found


@layout
def aims(results):
    lines = []
    for what, way, bound, best, median in aims_of(results):
        met = [figure >= bound if way == "at least" else figure <= bound for figure in (best, median)]
        figures = " / ".join(f"{figure:.3g}" for figure in (best, median))
        lines.append([what, f"{way} {bound:.3g}", figures,
                      "yes" if all(met) else "by the best" if met[0] else "by the median" if met[1] else "**no**"])
    if not lines:
        raise Missing("no part with an aim was run")
    return ["", "aim", "measured", "met"], lines


# ---- The page

# Parts whose results a table is made of, if it has another name.
PARTS_OF = {"core_limits": ["core", "core_plain"], "new_keys": ["new_keys", "new_keys_present"], "machine": [], "aims": [],
            "growing_live_cost": ["growing_live"], "growing_live_window": ["growing_live"]}


def notes(results, name):
    """The commands of a table, and what is unusual about its run."""
    lines = []
    for part in PARTS_OF.get(name, [name]):
        if part not in results.parts:
            continue
        head = results[part].head
        lines.append(f"`{head.get('command', '')}`")
        for key, unusual in (("busy before", "%s of the processors' time went to other work just before."),
                             ("taken by the host", "The host took %s of the time.")):
            if float(head.get(key, "0").split(" ")[0]) > 5:
                lines.append(unusual % head[key])
        for key in ("processor", "commit"):
            if head.get(key) != results.common(key):
                lines.append(f"Here the {key} is {head.get(key)}.")
    return lines


def markdown(header, lines):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return out + ["| " + " | ".join(line + [""] * (len(header) - len(line))) + " |" for line in lines]


def render(results, name):
    if name in LAYOUTS:
        table = markdown(*LAYOUTS[name](results))
    else:
        table = []
        for one in results[name].tables:
            table += [""] * bool(table) + markdown(*folded(one))
        if not table:
            raise Missing(f"part {name} printed no table")
    said = notes(results, name)
    return (["  \n".join(said), ""] if said else []) + table


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    results = Results(sys.argv[1])
    page = sys.argv[2] if len(sys.argv) > 2 else PAGE
    out = sys.argv[3] if len(sys.argv) > 3 else page
    if results.common("sizes") != "whole" and out == page:
        sys.exit("tables.py: these are the smallest sizes (all.sh --tiny); name another file to write to")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    used = set()

    def replace(found):
        name = found.group(1)
        used.update([name] + PARTS_OF.get(name, []))
        try:
            body = "\n".join(render(results, name))
        except Missing as missing:
            print(f"kept as it is: {name} ({missing})")
            return found.group(0)
        return f"<!-- table {name} -->\n{body}\n<!-- end -->"

    text = re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", replace, text, flags=re.S)
    for name, part in results.parts.items():
        if name not in used:
            print(f"in no table of the page: {name}")
        for key in ("processor", "commit", "sizes"):
            if part.head.get(key) != results.common(key):
                print(f"{name}: another {key}: {part.head.get(key)}")
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main()
