#!/usr/bin/python3
"""Reads and writes stored filters, written from docs/format.md alone.

This is the reference for other languages: plain Python with the package xxhash.

    from reader import Filter
    f = Filter.make(1000000, 0.01)              # as dedup_filter(1000000, 0.01)
    f = Filter.read(image)                      # the bytes, or the text (base64)
    f.add(5)                                    # whether the key was new; f.add(5, "abc") has two columns
    f.contains(5)
    f.count(), f.fpr_now()
    f.image(), f.text()

usage: reader.py show FILE                       parameters and counts of a filter
       reader.py contains FILE TYPE... < KEYS    t or f for each key
       reader.py add FILE TYPE... < KEYS         the text of the filter with these keys

FILE has the bytes or the text of a filter. KEYS has a line for each key, as COPY writes it, and a TYPE for each
column: bigint, text, 'integer[]', 'row(integer,text)'.
"""

import base64
import binascii
import hashlib
import math
import struct
import sys

import bloom
import exaloglog
import infini
import text
from keys import KeyHash, le64, xxh3

HEADER = struct.Struct("<BBBBIQQQQQQI")         # 60 bytes
BLOCKED_BLOOM, BLOOM, EXALOGLOG, INFINI = 1, 2, 22, 24
NAMES = {BLOCKED_BLOOM: "blocked_bloom", BLOOM: "bloom", EXALOGLOG: "exaloglog", INFINI: "infini"}
EXACT, FULL = 0, 1
MOST_BYTES = 536870912                          # 512 MiB


class Refused(ValueError):
    """The server would refuse this image, too. sqlstate is its error code for bytea and binary input."""

    def __init__(self, message, sqlstate="22P03"):
        super().__init__(message)
        self.sqlstate = sqlstate


class NotSpecified(ValueError):
    """A method that docs/format.md does not specify."""


def require(condition, message, sqlstate="22P03"):
    if not condition:
        raise Refused(message, sqlstate)


def checksum(image):
    head = image[:8] + bytes(8) + image[16:60]
    return xxh3(image[60:], xxh3(head, 0))


def rounded(x):
    """To the nearest whole number, a half away from zero (x is not negative)."""
    whole = math.floor(x)
    return whole + (x - whole >= 0.5)


class Filter:
    """A filter in one of its two forms: `hashes` is a set, or `body` is the body of the method."""

    def __init__(self, method, M, detail, seed=0, keys=0, fpr=0, hash_number=0):
        self.method, self.M, self.detail, self.seed = method, M, detail, seed
        self.keys, self.fpr, self.hash_number = keys, fpr, hash_number      # fpr: the eight bytes as a number
        self.hash = KeyHash(seed, sip=hash_number == 1)
        self.hashes, self.body = set(), None
        self.limit = 512 if method == INFINI else min(M // 8, 67108603)     # hashes in the exact form

    @classmethod
    def make(cls, keys=None, fpr=0.01, seed=0):
        """An empty filter, as dedup_filter(keys, fpr, seed) makes it."""
        rate = struct.unpack("<Q", struct.pack("<d", fpr))[0]
        if keys is None:
            return cls(INFINI, MOST_BYTES, infini.slot_bytes(fpr), seed, 0, rate)
        blocked = fpr >= 0.0001
        return cls(BLOCKED_BLOOM if blocked else BLOOM, *bloom.size(keys, fpr, blocked), seed, keys, rate)

    @classmethod
    def sketch(cls, p=12, seed=0):
        """An empty exaloglog; with p = 12 the one inside approx_count_distinct."""
        return cls(EXALOGLOG, 7 << p - 1, p, seed)

    # ---- reading and writing --------------------------------------------------------

    @classmethod
    def read(cls, image):
        """Reads the bytes or the text of a filter. Raises Refused if the server would not accept it."""
        if isinstance(image, str) or image[:1] == b"3":
            require(len(image) % 4 == 0, "is not base64 with its padding", "22P02")
            try:
                image = base64.b64decode(image, validate=True)
            except binascii.Error as error:
                raise Refused(f"is not base64: {error}", "22P02") from None
        require(len(image) >= 60, f"a filter has at least 60 bytes, not {len(image)}")
        magic, version, method, form, M, check, seed, keys, fpr, detail, count, state = HEADER.unpack_from(image)
        form, hash_number = form & 15, form >> 4
        require(magic == 0xDF, "does not start with 0xDF")
        require(version == 1, f"has version {version}, not 1", "0A000")
        require(1 <= method <= 24, f"has method {method}", "0A000")
        if method not in NAMES:
            raise NotSpecified(f"method {method}")
        require(form <= 3, f"has form {form}")
        require(hash_number <= 1, f"has hash function {hash_number}", "0A000")
        f = cls(method, M, detail, seed, keys, fpr, hash_number)
        f.check_shape()
        if form == EXACT:
            require(state == 0, f"is exact and has state {state}")
            require(count <= f.limit, f"is exact and has {count} hashes; the limit is {f.limit}")
            require(len(image) == 60 + 8 * count, f"has {len(image)} bytes, and {count} hashes")
        else:
            f.check_counters(count, state)
            size = M if method != INFINI else 64 * infini.lines_at(state)
            require(len(image) == 60 + size, f"has {len(image)} bytes and not {60 + size}")
        require(form <= FULL, f"has form {form}, which is for memory only")
        require(check == checksum(image), "has another checksum than its bytes")
        if form == EXACT:
            hashes = struct.unpack_from(f"<{count}Q", image, 60)
            require(all(a < b for a, b in zip(hashes, hashes[1:])), "has hashes that are not in rising order")
            f.hashes = set(hashes)
        else:
            f.hashes = None
            f.body = f.body_of(image[60:], count, state)
        return f

    def check_shape(self):
        M, detail = self.M, self.detail
        rate = struct.unpack("<d", le64(self.fpr))[0]
        require(1 <= M <= MOST_BYTES, f"has a body of {M} bytes")
        if self.method == EXALOGLOG:
            require(self.fpr == 0, "is a sketch and has a false-positive rate")
        else:
            require(1e-9 <= rate <= 0.5, f"has the false-positive rate {rate}")
        if self.method in (EXALOGLOG, INFINI):
            require(self.keys == 0, f"has a capacity of {self.keys}")
        else:
            require(1 <= self.keys <= 1 << 40, f"has a capacity of {self.keys}")
        if self.method == BLOCKED_BLOOM:
            require(M % 64 == 0 and 1 <= detail <= 16, f"has a body of {M} bytes and {detail} bits for each key")
        elif self.method == BLOOM:
            require(M % 8 == 0 and M >= 64 and 1 <= detail <= 32,
                    f"has a body of {M} bytes and {detail} bits for each key")
        elif self.method == EXALOGLOG:
            require(4 <= detail <= 26 and M == 7 << detail - 1, f"has a body of {M} bytes and p {detail}")
        else:
            live = detail & 0x300 == 0x200 and 12 <= detail >> 10 <= 37
            require(M == MOST_BYTES and (detail & 255 if live else detail & ~256) in (2, 3, 4, 5),
                    f"has slots of {detail} bytes")

    def check_counters(self, count, state):
        """Count and state in the full form."""
        if self.method != INFINI:
            require(count == 0 and state == 0, f"has count {count} and state {state}")
            return
        require(state <= infini.TOP_STEP, f"has grown {state} steps")
        most = 2**63 - 1 if state == infini.TOP_STEP else infini.table_limit(self.detail & 255, state)
        require(count <= most, f"has {count} keys in a table for {most}")

    def body_of(self, body=None, count=0, state=0):
        if self.method == EXALOGLOG:
            return exaloglog.Sketch(self.detail, body)
        if self.method != INFINI:
            return (bloom.BlockedBloom if self.method == BLOCKED_BLOOM else bloom.Bloom)(self.M, self.detail, body)
        try:
            return infini.Table.read(self.detail & 255, state, count, body)
        except ValueError as error:
            raise Refused(str(error)) from None

    def image(self):
        """The bytes of the filter."""
        if self.body is None:
            count, state, form = len(self.hashes), 0, EXACT
            rest = b"".join(le64(h) for h in sorted(self.hashes))
        else:
            count, state, form = *self.body.counters, FULL
            rest = self.body.bytes()
        image = HEADER.pack(0xDF, 1, self.method, form | self.hash_number << 4, self.M, 0, self.seed & (1 << 64) - 1,
                            self.keys, self.fpr, self.detail, count, state) + rest
        return image[:8] + le64(checksum(image)) + image[16:]

    def text(self):
        return base64.b64encode(self.image()).decode()

    # ---- keys -----------------------------------------------------------------------

    def contains(self, *key):
        """Whether the key was seen, or None if a column is NULL."""
        h = self.hash.key(*key)
        if h is None:
            return None
        return h in self.hashes if self.body is None else self.body.seen(self.ordered(h))

    def ordered(self, h):
        """The number that a body has in the place of a hash."""
        return infini.in_live_order(h, self.detail >> 10) if self.method == INFINI and self.detail & 512 else h

    def add(self, *key):
        """Adds a key, and returns whether it was new. A key with a NULL column is not added."""
        h = self.hash.key(*key)
        return h is not None and self.add_hash(h)

    def add_hash(self, h):
        if self.body is not None:
            return self.body.add(self.ordered(h))
        if h in self.hashes:
            return False
        if len(self.hashes) < self.limit:
            self.hashes.add(h)
        elif self.method == INFINI:     # the full form: the hashes first, then the new one
            hashes = [self.ordered(each) for each in sorted(self.hashes) + [h]]
            self.hashes, self.body = None, infini.Table.of(self.detail & 255, hashes)
        else:
            self.take(self.hashes | {h})
        return True

    # ---- merging --------------------------------------------------------------------

    def shape(self):
        return self.method, self.M, self.detail, self.seed & (1 << 64) - 1, self.keys, self.fpr, self.hash_number

    def empty(self):
        """An empty filter of the same shape."""
        return Filter(self.method, self.M, self.detail, self.seed, self.keys, self.fpr, self.hash_number)

    def merged(self, other):
        """The filter that dedup_merge returns. Merging tables of infini is not specified."""
        a, b = self, other
        if a.method == b.method == EXALOGLOG and a.detail != b.detail:
            p = min(a.detail, b.detail)
            a, b = a.reduced(p), b.reduced(p)
        if a.shape() != b.shape():
            raise ValueError("filters of different shapes cannot be merged")
        if a.method == INFINI and (a.body or b.body):
            raise NotSpecified("merging tables of infini")
        result = a.empty()
        if a.body is None and b.body is None:
            result.take(a.hashes | b.hashes)
            return result
        result.hashes, result.body = None, result.body_of()
        for part in sorted((a, b), key=lambda part: part.body is None):     # the bodies first
            if part.body is not None:
                result.body.merge(part.body)
            else:
                for h in part.hashes:
                    result.body.add(h)
        return result

    def take(self, hashes):
        """Gives an empty filter all these hashes at once."""
        if len(hashes) <= self.limit:
            self.hashes = set(hashes)
        elif self.method == INFINI:
            hashes = [self.ordered(h) for h in infini.spread(hashes)]
            self.hashes, self.body = None, infini.Table.of(self.detail & 255, hashes)
        else:
            self.hashes, self.body = None, self.body_of()
            for h in hashes:
                self.body.add(h)

    def reduced(self, p):
        """A sketch as the same keys would have made it with a smaller p."""
        result = Filter.sketch(p, self.seed)
        result.hash_number, result.hash = self.hash_number, self.hash
        if self.body is None:
            result.take(self.hashes)
        else:
            result.hashes, result.body = None, self.body if p == self.detail else self.body.reduced(p)
        return result

    # ---- counting -------------------------------------------------------------------

    def count(self):
        """The number of distinct keys, as dedup_count returns it."""
        return len(self.hashes) if self.body is None else rounded(self.body.count())

    def fpr_now(self):
        """The false-positive rate now, or None: a sketch has none."""
        if self.method == EXALOGLOG:
            return None
        return math.ldexp(len(self.hashes), -64) if self.body is None else self.body.fpr_now()


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("show", "contains", "add"):
        sys.exit(__doc__.rstrip())
    command, file, *types = arguments
    with open(file, "rb") as stream:
        image = stream.read()
    try:
        f = Filter.read(image.rstrip() if image[:1] == b"3" else image)
    except ValueError as error:
        sys.exit(f"{file}: {error}")
    if command == "show":
        print(f"method {NAMES[f.method]}, {'exact' if f.body is None else 'full'}, M {f.M}, detail {f.detail},",
              f"capacity {f.keys}, seed {f.seed - (f.seed >> 63 << 64)}, hash {f.hash_number},",
              f"count {f.count()}, fpr_now {f.fpr_now()}, SHA-256 {hashlib.sha256(f.image()).hexdigest()}")
        return
    for line in sys.stdin:
        fields = line.rstrip("\n").split("\t")
        if len(fields) != len(types):
            sys.exit(f"a key has {len(fields)} columns and not {len(types)}")
        key = [text.parse(of, text.unescape(field)) for of, field in zip(types, fields)]
        if command == "add":
            f.add(*key)
        else:
            print({True: "t", False: "f", None: r"\N"}[f.contains(*key)])
    if command == "add":
        print(f.text())


if __name__ == "__main__":
    main(sys.argv[1:])
