#!/usr/bin/python3
"""Compares reader.py with the server and with docs/format.md. test/tap/format.pl calls it.

usage: check.py FOLDER PAGE

Reads the files that the server wrote into FOLDER:

    filters     COPY: number, name, types of the key, empty filter, the arguments of Filter.make if it is one of
                dedup_filter, the filter as text and as bytea, dedup_count, and fpr_now of dedup_stats
    images      the same filters, COPY in binary
    N.keys      the keys of filter N in the order in which they were added; missing of a table that was merged
    N.probes    keys, and what dedup_contains said
    merges      COPY: the numbers of two filters, and the merged filter
    sizes       COPY: capacity, rate, and the empty filter that dedup_filter makes
    sketches    COPY: number of a filter, and what approx_count_distinct said of its keys

Writes files for the server:

    written     COPY: number, and the filter that the reader made of the keys
    written.bin the same filters, COPY in binary
    mutants     COPY: bytes that are similar to a filter, and what the reader says of them
    sketches_merged  COPY: two sketches with any bits in their registers, and the reader's merge of both
    claims      COPY: line of the page, an SQL expression, and its value on the page

Prints lines of "ok" or "not ok", a name, and what is wrong, separated by tabs.
"""

import hashlib
import math
import os
import random
import re
import struct
import sys
from datetime import date, datetime, time, timedelta, timezone

import bloom
import infini
import keys
import text
from reader import BLOCKED_BLOOM, BLOOM, EXALOGLOG, INFINI, Filter, NotSpecified, Refused, checksum


def ok(good, name, wrong=""):
    wrong = str(wrong).replace("\n", " ").replace("\t", " ")
    print("ok" if good else "not ok", name, wrong, sep="\t")


def same(got, expected, name):
    ok(got == expected, name, f"{got!r:.300} is not {expected!r:.300}")


def rows(folder, name):
    """The rows of a file of COPY."""
    with open(os.path.join(folder, name), encoding="utf-8", newline="\n") as stream:
        return [[text.unescape(field) for field in line.rstrip("\n").split("\t")] for line in stream]


def write(folder, name, lines):
    """Writes a file for COPY."""
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as stream:
        for line in lines:
            stream.write("\t".join(str(field).replace("\\", r"\\") for field in line) + "\n")


BINARY_COPY = b"PGCOPY\n\xff\r\n\0" + bytes(8)


def read_binary(folder, name):
    """The fields of a binary COPY of one column."""
    with open(os.path.join(folder, name), "rb") as stream:
        data = stream.read()
    assert data[:19] == BINARY_COPY
    at, fields = 19, []
    while data[at:at + 2] == b"\0\1":
        (length,) = struct.unpack(">i", data[at + 2:at + 6])
        fields.append(data[at + 6:at + 6 + length])
        at += 6 + length
    return fields


def write_binary(folder, name, fields):
    with open(os.path.join(folder, name), "wb") as stream:
        stream.write(BINARY_COPY)
        for field in fields:
            stream.write(struct.pack(">hi", 1, len(field)) + field)
        stream.write(b"\xff\xff")


# ---- what the server wrote --------------------------------------------------------------

def check_filter(folder, row, image):
    """The filter of a row of the file filters, and the one that the reader makes of its keys."""
    number, name, types, empty, made_by, as_text, as_bytea, count, fpr = row
    types = types.split(";")
    f, made = Filter.read(image), Filter.read(empty)
    if os.path.exists(os.path.join(folder, f"{number}.keys")):
        for key in rows(folder, f"{number}.keys"):
            made.add(*map(text.parse, types, key))
    else:
        made = f
    alike = {
        "text form": (Filter.read(as_text).image(), image),
        "bytea": (bytes.fromhex(as_bytea), image),
        "bytes written again": (f.image(), image),
        "bytes made of the keys": (made.image(), image),
        "dedup_count": (str(f.count()), count),
        "fpr_now": (f.fpr_now(), fpr and float(fpr)),
    }
    if made_by is not None:
        capacity, rate, seed = made_by.split(" ")
        own = Filter.make(None if capacity == "NULL" else int(capacity), float(rate), int(seed))
        alike["empty filter"] = own.text(), empty
    if f.method != EXALOGLOG:
        probes = rows(folder, f"{number}.probes")
        answers = [{True: "t", False: "f", None: None}[f.contains(*map(text.parse, types, p[:-1]))] for p in probes]
        alike["answers"] = answers, [p[-1] for p in probes]
    wrong = [f"{what}: {got!r:.200} is not {expected!r:.200}"
             for what, (got, expected) in alike.items() if got != expected]
    ok(not wrong, name, "; ".join(wrong))
    return f, made


def check_filters(folder):
    filters, written = {}, {}
    for row, image in zip(rows(folder, "filters"), read_binary(folder, "images")):
        filters[row[0]], written[row[0]] = check_filter(folder, row, image)
    write(folder, "written", [(number, f.text()) for number, f in written.items()])
    write_binary(folder, "written.bin", [f.image() for f in written.values()])
    for a, b, merged in rows(folder, "merges"):
        same(filters[a].merged(filters[b]).text(), merged, f"merge of {a} and {b}")
    sizes = rows(folder, "sizes")
    wrong = [size for size in sizes if Filter.make(int(size[0]), float(size[1])).text() != size[2]]
    ok(sizes and not wrong, f"{len(sizes)} sizes", wrong[:3])
    for number, count in rows(folder, "sketches"):
        same(str(filters[number].count()), count, f"approx_count_distinct of the keys of filter {number}")


# ---- what the server must say alike: bytes that are similar to a filter -----------------

def seal(image):
    return image[:8] + keys.le64(checksum(image)) + image[16:]


def verdict(image):
    """The count and the answers for the keys 1 to 20, or the error code; None if it is not specified."""
    try:
        f = Filter.read(image)
    except NotSpecified:
        return None
    except Refused as error:
        return error.sqlstate
    answers = "".join(str(int(f.contains(key))) for key in range(1, 21)) if f.method != EXALOGLOG else ""
    return f"{f.count()} {answers}"


def filled(f, n):
    for key in range(1, n + 1):
        f.add(key)
    return f


def sources():
    """Small filters of each method and form."""
    yield filled(Filter.make(5, 0.2, -3), 3)
    yield filled(Filter.make(5, 0.2), 40)
    yield filled(Filter.make(5, 1e-5), 3)
    yield filled(Filter.make(2, 1e-9), 50)
    yield filled(Filter.sketch(4), 3)
    yield filled(Filter.sketch(4), 1000)
    yield filled(Filter.make(), 5)
    for fpr in (0.01, 0.001, 1e-6, 1e-9):
        f = Filter.make(None, fpr)
        for key in range(1, 801):       # a third of them crowd the first lines, so others take their entries
            h = f.hash.key(key)
            f.add_hash(h >> 5 if key % 3 == 0 else h)
        yield f


def mutants_of(f, chance):
    image = f.image()
    yield image
    for change in (image[:-1], image + b"\0", image[:59], image[:60], b""):
        yield change
        if len(change) >= 60:
            yield seal(change)
    for at in range(60):
        for byte in {image[at] ^ 1, image[at] ^ 0x80, 0, chance.randrange(256)} - {image[at]}:
            change = image[:at] + bytes([byte]) + image[at + 1:]
            yield change
            yield seal(change)
    if len(image) == 60:
        return
    # The body may have any bits; of infini only some, mostly in the numbers at the end of a line.
    for _ in range(60):
        change = bytearray(image)
        at = chance.randrange(60, len(image))
        if f.method == INFINI and f.body and chance.random() < 0.5:
            at = 60 + (at - 60) // 64 * 64 + chance.choice((60, 61, 62, 63))
        change[at] ^= chance.choice((1 << chance.randrange(8), chance.randrange(256)))
        yield seal(bytes(change))
    if f.method == EXALOGLOG and f.body:
        for _ in range(60):
            yield seal(image[:60] + chance.randbytes(len(image) - 60))


def at_the_limits():
    """Filters at the limits of what the server accepts, and one beyond."""
    def bits(rate):
        return struct.unpack("<Q", struct.pack("<d", rate))[0]

    usual = {"M": 640, "detail": 5, "keys": 10, "fpr": bits(0.01)}
    rates = (1e-9, math.nextafter(1e-9, 0), 0.5, math.nextafter(0.5, 1), math.nan, -0.01, 0.0)
    for method in (BLOCKED_BLOOM, BLOOM):
        for name, values in (("M", (0, 56, 60, 64, 72, 536870912, 536870976)), ("detail", (0, 1, 16, 17, 32, 33)),
                             ("keys", (0, 1, 1 << 40, (1 << 40) + 1)), ("fpr", map(bits, rates))):
            for value in values:
                yield Filter(method, **{**usual, name: value}).image()
        for hashes in (range(8), range(9)):
            f = Filter(method, **{**usual, "M": 64})
            f.hashes = set(hashes)
            yield f.image()
    for p in (3, 4, 26, 27):
        yield Filter.sketch(p).image()
        yield Filter(EXALOGLOG, 7 << p, p).image()
    # Hashes out of order, and one that occurs twice.
    for hashes in ((5, 4), (5, 5)):
        image = bytearray(filled(Filter.make(5, 0.2), 2).image())
        image[60:] = b"".join(map(keys.le64, hashes))
        yield seal(bytes(image))
    f = filled(Filter.make(), 513)
    for number in (0, infini.table_limit(2, 0), infini.table_limit(2, 0) + 1):
        f.body.keys = number
        yield f.image()
    # The second line has only entries of the first: as many as a line may have, and one more.
    for fpr in (0.001, 1e-6, 1e-9):
        f = filled(Filter.make(None, fpr), 513)
        slots = infini.SLOTS[f.detail]
        for number in ((slots - 1) // 2, slots // 2):
            first, second = f.body.lines[:2] = infini.Line(), infini.Line()
            first.reach = 1
            second.foreign = [(1, infini.entry_of(i << 50, 20)) for i in range(number)]
            yield f.image()


def write_mutants(folder):
    chance = random.Random(17)
    lines = [(r"\x" + image.hex(), verdict(image)) for image in at_the_limits()]
    for f in sources():
        # A damaged header of a table takes long to read, and one of these is enough.
        large = f.method == INFINI and f.body and f.detail > 2
        for image in list(mutants_of(f, chance))[-60 if large else 0:]:
            said = verdict(image)
            if said is not None:
                lines.append((r"\x" + image.hex(), said))
    accepted = sum(" " in said for _, said in lines)
    ok(accepted > 1000 and len(lines) - accepted > 1000, "mutants that are filters, and mutants that are not", accepted)
    write(folder, "mutants", lines)
    # Without a new checksum no change of a byte goes unnoticed.
    image = filled(Filter.make(5, 0.2), 40).image()
    damaged = [verdict(image[:at] + bytes([image[at] ^ 4]) + image[at + 1:]) for at in range(len(image))]
    same([at for at, said in enumerate(damaged) if said and " " in said], [], "each damaged byte is noticed")


def write_merges(folder):
    """Update values that no key of the other tests has, and bits that no key sets."""
    chance = random.Random(18)
    lines = []
    for p, other in ((4, 7), (5, 5), (9, 6)) * 5:
        exact, high, full = (Filter.sketch(each) for each in (p, p, other))
        for _ in range(5):
            exact.add_hash(chance.randrange(1 << 64))
        for _ in range(3000):
            high.add_hash(chance.randrange(1 << 64) >> chance.randrange(64))
            full.add_hash(chance.randrange(1 << 64) >> chance.randrange(64))
        any_bits = Filter.read(seal(full.image()[:60] + chance.randbytes(full.M)))
        for a in exact, high:
            for b in full, any_bits:
                lines.append(r"\x" + f.image().hex() for f in (a, b, a.merged(b)))
    write(folder, "sketches_merged", lines)


# ---- the page ---------------------------------------------------------------------------

ALIASES = {"int": "integer", "float8": "double precision", "float4": "real", "char(8)": "char", "mood": "text",
           "positive": "integer"}


def split(expressions):
    """The parts between commas that are not in quotes or brackets."""
    parts, depth, quoted = [""], 0, False
    for c in expressions:
        quoted ^= c == "'"
        depth += not quoted and (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def value_of(sql):
    """The value of an SQL expression of the page."""
    if sql in ("true", "false"):
        return sql == "true"
    if sql.startswith("repeat("):
        of, times = split(sql[7:-1])
        return value_of(of) * int(times)
    if sql.startswith("ROW("):
        return tuple(map(value_of, split(sql[4:-1])))
    if sql.startswith(("ARRAY[", "[")):
        return list(map(value_of, split(sql[sql.index("[") + 1:-1])))
    literal, _, of = sql.rpartition("::") if "::" in sql else (sql, "", "text" if sql[0] == "'" else "integer")
    if literal == "NULL":
        return None
    element = of.removesuffix("[]")
    return text.parse(ALIASES.get(element, element) + of[len(element):], literal.strip("'"))


def reversed_hex(h):
    return bytes.fromhex(h)[::-1].hex()


class Page:
    def __init__(self, path):
        with open(path, encoding="utf-8") as stream:
            self.text = stream.read()
        self.claims = []                # line, SQL, and what it must return

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def claim(self, at, sql, expected):
        self.claims.append((self.line(at), sql, expected))

    def tables(self):
        """The rows of tables: place, heading of the section, cells."""
        section = ""
        for m in re.finditer(r"^#+ (.*)$|^\| (.*) \|$", self.text, re.MULTILINE):
            if m[1]:
                section = m[1]
            else:
                yield m.start(), section, [cell.strip() for cell in m[2].replace(r"\|", "/").split(" | ")]

    def check_vectors(self):
        vectors, sip_vectors = {}, {}       # canonical bytes, if the page shows them
        for at, section, cells in self.tables():
            if section != "Test vectors" or not re.fullmatch("[0-9a-f]{16}", cells[-1]):
                continue
            sip = self.text.rfind("SipHash, for filters", 0, at) > self.text.rfind("### Test vectors", 0, at)
            sql, *canonical, plain, negative = cells
            sql = sql.strip("`")
            value = [value_of(each) for each in split(sql)]
            if canonical:
                times, of = re.fullmatch(r"(?:(\d+) times )?(.*)", canonical[0].replace("no bytes", "")).groups()
                canonical = of * int(times or 1)
                same(keys.canonical(value[0]).hex(), canonical, f"canonical bytes of {sql}")
            (sip_vectors if sip else vectors)[sql] = canonical
            for seed, expected in ((0, plain), (-2, negative)):
                h = keys.KeyHash(seed, sip).key(*value)
                same(f"{h:016x}", expected, f"hash of {sql} with seed {seed}, {'SipHash' if sip else 'XXH3'}")
                empty = f"dedup_method('bloom', NULL, 'keys=1000 hash={'sip' if sip else 'xxh3'}', {seed})"
                self.claim(at, f"encode(substring(dedup_add({empty}, {sql})::bytea FROM 61), 'hex')",
                           reversed_hex(expected))
        ok(len(vectors) >= 70 and len(sip_vectors) >= 4, "test vectors were found")
        found = re.findall(r"`derived\((\w+), (\d+)\)` is\s+([0-9a-f]{16})", self.text)
        same([f"{keys.derived(int(h, 0), int(i)):016x}" for h, i, _ in found], [each[-1] for each in found], "derived")
        ok(len(found) == 3, "examples of derived were found")
        # Python's own types, which text.py does not make.
        for sql, value in (
                ("'2024-02-29'::date", date(2024, 2, 29)), ("'12:34:56.789'::time", time(12, 34, 56, 789000)),
                ("'2024-02-29 12:34:56.789012'::timestamp", datetime(2024, 2, 29, 12, 34, 56, 789012)),
                ("'2024-02-29 12:34:56.789012+02'::timestamptz",
                 datetime(2024, 2, 29, 12, 34, 56, 789012, timezone(timedelta(hours=2))))):
            same(keys.canonical(value).hex(), vectors[sql], f"canonical bytes of Python's {value!r}")

    def check_sizes(self):
        found = 0
        for at, section, cells in self.tables():
            if section.startswith("Size from") and cells[0][0].isdigit():
                capacity, fpr, method, M, k = (cell.replace(",", "").strip("`") for cell in cells)
                size = bloom.size(int(capacity), float(fpr), method == "blocked_bloom")
                same(size, (int(M), int(k)), f"size of {method} for {capacity} keys, {fpr}")
                self.claim(at, f"substring(dedup_filter({capacity}, {fpr})::bytea FROM 5 FOR 4) ||"
                               f" substring(dedup_filter({capacity}, {fpr})::bytea FROM 41 FOR 8)",
                           r"\x" + (struct.pack("<I", size[0]) + keys.le64(size[1])).hex())
            elif section == "Slots and steps" and cells[0].endswith(" and more"):
                fpr, w = float(cells[0].split()[0]), int(cells[1])
                for rate, slot in ((fpr, w), (math.nextafter(fpr, 0), w + 1)):
                    same(infini.slot_bytes(rate), slot, f"bytes of a slot for {rate!r}")
                    self.claim(at, f"get_byte(dedup_filter(NULL, {rate!r})::bytea, 40)", slot)
            else:
                continue
            found += 1
        ok(found >= 11, "sizes were found", found)

    def example(self, sql):
        """The filter of an SQL expression of the page, made by the reader."""
        prototype = re.search(r"dedup_filter\((NULL|\d*)(?:, ([-\d.e]+))?\)"
                              r"|dedup_method\('exaloglog', '(\d+)kB'\)", sql)
        capacity, fpr, kilobytes = prototype.groups()
        if kilobytes:
            f = Filter.sketch(max(p for p in range(4, 27) if 7 << p - 1 <= 1024 * int(kilobytes)))
        else:
            f = Filter.make(int(capacity) if capacity not in ("", "NULL") else None, float(fpr or 0.01))
        series = re.search(r"generate_series\(1, (\d+)\)", sql)
        listed = re.search(r"ARRAY\[([\d, ]+)\]", sql)
        for key in range(1, int(series[1]) + 1) if series else eval(f"[{listed[1]}]") if listed else ():
            f.add(key)
        return f

    def check_examples(self):
        """A block of hexadecimal digits, a SHA-256 or a count is of the last filter that was named."""
        found = 0
        sql = image = None
        # In the pattern a blank may be the end of a line.
        pattern = (r"`(dedup_(?:filter|add_all)\([^`]*)`|```text listing\n([0-9a-f\n]+)```"
                   r"|SHA-256 of the image is ([0-9a-f]{64})|Its count is ([\d,]+)\.|The image has ([\d,]+) bytes"
                   r"|The same as text: `(\S+)`")
        for m in re.finditer(pattern.replace(" ", r"\s+"), self.text):
            code, block, sha, count, size, as_text = m.groups()
            if code:
                sql = code if "fpr" not in code and "keys" not in code and "capacity" not in code else None
                image = sql and self.example(sql).image()
                continue
            if m[0].startswith("```text listing\ndf01180100000020"):        # the header of a table's second row
                sql = "dedup_add_all(dedup_filter(NULL, 0.01), ARRAY(SELECT generate_series(1, 3000)))"
                image = self.example(sql).image()
            found += 1
            name = f"line {self.line(m.start())}, {sql}"
            if block:
                expected = block.replace("\n", "")
                same(image.hex()[:len(expected)], expected, f"{name}: bytes")
                self.claim(m.start(), f"substring(encode(({sql})::bytea, 'hex') FOR {len(expected)})", expected)
            elif sha:
                same(hashlib.sha256(image).hexdigest(), sha, f"{name}: SHA-256")
                self.claim(m.start(), f"encode(sha256(({sql})::bytea), 'hex')", sha)
            elif as_text:
                same(Filter.read(image).text(), as_text, f"{name}: text")
                self.claim(m.start(), sql, as_text)
            else:
                expected = int((count or size).replace(",", ""))
                got = Filter.read(image).count() if count else len(image)
                function = "dedup_count({})" if count else "length(({})::bytea)"
                same(got, expected, f"{name}: {function.format('')}")
                self.claim(m.start(), function.format(sql), expected)
        ok(found >= 17, "examples were found", found)

    def check_growing(self):
        found = 0
        for at, section, cells in self.tables():
            if section == "A whole filter" and re.fullmatch("[0-9a-f]{64}", cells[-2]):
                fpr, n, w, count, step, size, sha, keys_now = (cell.replace(",", "") for cell in cells)
                f = filled(Filter.make(None, float(fpr)), int(n))
                same((f.detail, *f.body.counters, len(f.image()), hashlib.sha256(f.image()).hexdigest(), f.count()),
                     (int(w), int(count), int(step), int(size), sha, int(keys_now)), f"infini, {fpr}, {n} keys")
                sql = f"dedup_add_all(dedup_filter(NULL, {fpr}), ARRAY(SELECT generate_series(1, {n})))"
                self.claim(at, f"concat_ws(' ', encode(sha256({sql}::bytea), 'hex'), dedup_count({sql}))",
                           f"{sha} {keys_now}")
                found += 1
        same(found, 6, "examples of infini were found")

    def check_code(self):
        """The page's code is complete, and does what the reader does."""
        code = {"xxh3": keys.xxh3}
        for m in re.finditer(r"```python\n(.*?)```", self.text, re.DOTALL):
            # Lines before it, so that an error names the page's line.
            exec(compile("\n" * self.line(m.start()) + m[1], "docs/format.md", "exec"), code)
        hashes = [code["H"](code["le64"](i), -2) for i in range(1, 2001)]
        for capacity, fpr in ((1000, 0.01), (1000, 1e-5)):
            name = "blocked_bloom" if fpr == 0.01 else "bloom"
            own, (M, k) = filled(Filter.make(capacity, fpr, -2), 2000), code[f"{name}_size"](capacity, fpr)
            body = bytearray(M)
            for h in hashes:
                for at, bit in code[f"{name}_bits"](h, M, k):
                    body[at] |= 1 << bit
            head = code["header"](own.method, 1, M, -2, capacity, fpr, k, 0, 0)
            same(code["seal"](head + body), own.image(), f"the page's code: {name}")
            same(code[f"{name}_count"](body, k), own.body.count_and_rate(), f"the page's code: count of {name}")
        own, body = filled(Filter.sketch(8, -2), 2000), bytearray(7 << 7)
        for h in hashes:
            code["add_to_sketch"](body, 8, h)
        same(body, own.body.bytes(), "the page's code: exaloglog")
        same(code["exaloglog_count"](body, 8), own.body.count(), "the page's code: count of exaloglog")
        same(code["reduced"](body, 8, 5), own.body.reduced(5).bytes(), "the page's code: a smaller exaloglog")
        for fpr in (0.01, 0.001, 1e-6, 1e-9):
            own = filled(Filter.make(None, fpr, -2), 2000)
            image = code["infini_image"](fpr, -2 & keys.M64, hashes)
            same(image, own.image(), f"the page's code: infini, {fpr}")
            table = code["read_infini"](image)
            same(code["infini_count"](table), (own.body.count(), own.body.fpr_now()),
                 f"the page's code: count of infini, {fpr}")
            same([code["seen"](table, h) for h in range(0, 1 << 64, 1 << 54)],
                 [own.body.seen(h) for h in range(0, 1 << 64, 1 << 54)], f"the page's code: answers of infini, {fpr}")
        for name in ("TOP_STEP", "SLOTS", "KEYS_A_LINE", "SECOND", "THIRD", "NO_BITS"):
            same(code[name], getattr(infini, name), f"the page's code: {name}")
        data = [bytes(range(n)) for n in range(40)]
        same([code["sip_hash"](d, -2) for d in data], [keys.siphash(d, -2) for d in data], "the page's code: SipHash")
        some = [(1, 2, -1), (-1, 0, 90_000_000_000), (0, -5, -86_400_000_000)]
        same([code["interval"](*i) for i in some], [keys.canonical(keys.Interval(*i)) for i in some],
             "the page's code: interval")
        own = keys.KeyHash(-2)
        same(code["fold_null"](code["fold"](0, own.of(7), -2), -2), own.of((7, None)), "the page's code: fold")

    def check(self, folder):
        self.check_vectors()
        self.check_sizes()
        self.check_examples()
        self.check_growing()
        self.check_code()
        write(folder, "claims", self.claims)


def main(folder, page):
    check_filters(folder)
    write_mutants(folder)
    write_merges(folder)
    Page(page).check(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
