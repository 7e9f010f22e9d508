"""Key hashing: from Python values to the 64-bit hashes of a filter.

docs/format.md, section "Keys", describes it. The hash does not depend on the type of a value, so
each type of PostgreSQL is one of these Python types (text.py makes them from PostgreSQL's text):

    bool, int            boolean, integers, oid, pg_lsn, xid8, tid
    float                real (widened from 32 bits), double precision
    Decimal              numeric
    str                  text, varchar, char(n) without trailing blanks, name, enums
    bytes, UUID          bytea, uuid, macaddr
    date, time           date, time; the infinities as int
    datetime             timestamp; timestamptz if it has a time zone
    IPv4Interface, ...   inet, cidr
    list, Array          arrays; Array has lower bounds
    tuple                a row
    Range, Multirange, Interval, TimeTz, Json

None is NULL.
"""

import struct
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Interface, IPv6Interface
from typing import NamedTuple
from uuid import UUID

import xxhash

M64 = (1 << 64) - 1
DAY = 86_400_000_000                    # microseconds
INFINITE_DATE = {"infinity": 2**31 - 1, "-infinity": -2**31}
INFINITE_TIMESTAMP = {"infinity": 2**63 - 1, "-infinity": -2**63}


class Array(NamedTuple):
    dimensions: list                    # pairs (length, lower bound), from the outermost in
    elements: list                      # of all dimensions, in the order in which they are written


class Range(NamedTuple):                # normal form: integers and dates have [lower, upper)
    lower: object                       # None is infinite
    upper: object
    lower_inclusive: bool = True
    upper_inclusive: bool = False
    empty: bool = False


class Multirange(NamedTuple):
    ranges: list


class Interval(NamedTuple):
    months: int
    days: int
    microseconds: int


class TimeTz(NamedTuple):
    microseconds: int
    west_of_utc: int                    # seconds


class Json(NamedTuple):                 # jsonb; numbers are Decimal or int
    value: object


def xxh3(data, seed):
    return xxhash.xxh3_64_intdigest(data, seed & M64)


def le64(n):
    return struct.pack("<Q", n & M64)


def derived(h, i):
    """Number i, from 0, of a hash: SplitMix64."""
    z = h + (i + 1) * 0x9E3779B97F4A7C15 & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def fast_range(u, n):
    """Scales 64 bits onto 0 to n - 1."""
    return u * n >> 64


def siphash(data, seed):
    """SipHash-2-4. Its key of 128 bits is derived from the seed."""
    k0, k1 = derived(seed & M64, 0), derived(seed & M64, 1)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def half_round(a, b, c, d, by_b, by_d):
        v[a], v[c] = v[a] + v[b] & M64, v[c] + v[d] & M64
        v[b] = (v[b] << by_b | v[b] >> 64 - by_b) & M64 ^ v[a]
        v[d] = (v[d] << by_d | v[d] >> 64 - by_d) & M64 ^ v[c]
        v[a] = (v[a] << 32 | v[a] >> 32) & M64

    def rounds(n):
        for _ in range(n):
            half_round(0, 1, 2, 3, 13, 16)
            half_round(2, 1, 0, 3, 17, 21)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def microseconds(duration):
    return duration // timedelta(microseconds=1)


def numeric_text(value):
    """The shortest decimal text, without an exponent."""
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "-Infinity" if value < 0 else "Infinity"
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def canonical(value):
    """The canonical bytes of a value that does not contain others."""
    if isinstance(value, int):          # bool is an int
        return le64(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, float):
        if value != value:
            return le64(0x7FF8000000000000)
        return struct.pack("<d", value + 0.0)       # -0 + 0 is 0
    if isinstance(value, Decimal):
        return numeric_text(value).encode()
    if isinstance(value, datetime):     # datetime is a date
        zone = timezone.utc if value.tzinfo else None
        return le64(microseconds(value - datetime(2000, 1, 1, tzinfo=zone)))
    if isinstance(value, date):
        return le64((value - date(2000, 1, 1)).days)
    if isinstance(value, time):
        return le64(microseconds(datetime.combine(date.min, value) - datetime.min))
    if isinstance(value, TimeTz):
        return le64(value.microseconds) + le64(value.west_of_utc)
    if isinstance(value, Interval):     # a month has 30 days, and a day has 24 hours
        days, rest = divmod(value.microseconds, DAY)
        return le64(30 * value.months + value.days + days) + le64(rest)
    if isinstance(value, (IPv4Interface, IPv6Interface)):
        return bytes([value.version, value.network.prefixlen]) + value.ip.packed
    raise TypeError(f"no canonical bytes for {type(value).__name__}")


class KeyHash:
    """The key hash of a filter, which has the filter's seed and hash function."""

    def __init__(self, seed=0, sip=False):
        self.seed = seed & M64
        self.H = siphash if sip else xxh3

    def key(self, *columns):
        """The hash of a key, or None if a column is NULL: the server skips such a key."""
        if any(column is None for column in columns):
            return None
        if len(columns) == 1:
            return self.of(columns[0])
        h = len(columns)
        for column in columns:
            h = self.fold(h, self.of(column))
        return h

    def of(self, value):
        """The hash of a value."""
        if isinstance(value, list):
            value = array_of(value)
        for kind, function in ((Array, self.of_array), (Range, self.of_range), (Multirange, self.of_multirange),
                               (Json, self.of_json)):
            if isinstance(value, kind):
                return function(value)
        if type(value) is tuple:        # the classes above and below are tuples, too
            return self.fold_all(0, value)
        return self.H(canonical(value), self.seed)

    def fold(self, h, element):
        return self.H(le64(h) + le64(element), self.seed)

    def fold_all(self, h, elements):
        for element in elements:
            h = self.H(le64(h), ~self.seed & M64) if element is None else self.fold(h, self.of(element))
        return h

    def of_array(self, array):
        h = len(array.dimensions)
        for length, lower in array.dimensions:
            h = self.fold(h, length << 32 | lower & 0xFFFFFFFF)
        return self.fold_all(h, array.elements)

    def of_range(self, r):
        h = int(r.empty)
        if not r.empty:
            for bound, inclusive in ((r.lower, r.lower_inclusive), (r.upper, r.upper_inclusive)):
                if bound is None:
                    h = self.fold(h, 2)
                else:
                    h = self.fold(self.fold(h, int(inclusive)), self.of(bound))
        return self.H(le64(h), self.seed)

    def of_multirange(self, multirange):
        h = len(multirange.ranges)
        for r in multirange.ranges:
            h = self.fold(h, self.of(r))
        return self.H(le64(h), self.seed)

    def of_json(self, json):
        if isinstance(json.value, (list, dict)):
            return self.json_walk(0, json.value, None)
        h = self.fold(self.fold(0, 4), 1)
        return self.fold(self.json_walk(h, json.value, 3), 5)

    def json_walk(self, h, value, token):
        if isinstance(value, list):
            h = self.fold(self.fold(h, 4), 0)
            for element in value:
                h = self.json_walk(h, element, 3)
            return self.fold(h, 5)
        if isinstance(value, dict):
            h = self.fold(h, 6)
            for key in sorted(value, key=lambda key: (len(key.encode()), key.encode())):
                h = self.json_walk(self.json_scalar(self.fold(h, 1), key), value[key], 2)
            return self.fold(h, 7)
        return self.json_scalar(self.fold(h, token), value)

    def json_scalar(self, h, value):
        if value is None:
            return self.fold(h, 0)
        if isinstance(value, str):
            return self.fold(self.fold(h, 1), self.of(value))
        if isinstance(value, bool):
            return self.fold(self.fold(h, 3), int(value))
        return self.fold(self.fold(h, 2), self.of(Decimal(value)))


def array_of(nested):
    """The Array of a list, or of lists of lists of equal lengths."""
    dimensions, elements = [(len(nested), 1)] if nested else [], nested
    while elements and isinstance(elements[0], list):
        length = len(elements[0])
        if any(not isinstance(row, list) or len(row) != length for row in elements):
            raise ValueError("the rows of an array must have equal lengths")
        dimensions.append((length, 1))
        elements = [element for row in elements for element in row]
    return Array(dimensions, elements)
