"""Values in PostgreSQL's text form (DateStyle ISO, IntervalStyle postgres), as the Python values of keys.py.

A type is its name in SQL, `type[]` for an array, or `row(type,type)` for a row. Dates and times become their
numbers (int), because Python's own types have neither PostgreSQL's range nor its infinities.
"""

import json
import re
import struct
from datetime import date
from decimal import Decimal
from ipaddress import ip_interface
from uuid import UUID

import keys

TIME = r"([-+]?)(\d+):(\d+)(?::(\d+)(?:\.(\d{1,6}))?)?"


def time_of(text):
    sign, hours, minutes, seconds, fraction = re.fullmatch(TIME, text).groups()
    total = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
    total = total * 1_000_000 + int((fraction or "0").ljust(6, "0"))
    return -total if sign == "-" else total


def east_of_utc(zone):                  # +02, -03:30, +00:00:30
    return time_of(zone + ":00" if ":" not in zone else zone) // 1_000_000


def date_of(text):
    if text in keys.INFINITE_DATE:
        return keys.INFINITE_DATE[text]
    year, month, day = map(int, text.removesuffix(" BC").split("-"))
    if text.endswith(" BC"):
        year = 1 - year
    # The calendar repeats after 400 years.
    cycles, year = divmod(year - 1, 400)
    return (date(year + 1, month, day) - date(2000, 1, 1)).days + cycles * 146097


def timestamp_of(text):
    if text in keys.INFINITE_TIMESTAMP:
        return keys.INFINITE_TIMESTAMP[text]
    day, clock, zone, era = re.fullmatch(r"(\S+) ([\d:.]+)([-+][\d:]+)?( BC)?", text).groups()
    east = east_of_utc(zone) if zone else 0
    return date_of(day + (era or "")) * keys.DAY + time_of(clock) - east * 1_000_000


def timetz_of(text):
    clock, zone = re.fullmatch(r"([\d:.]+)([-+].*)", text).groups()
    return keys.TimeTz(time_of(clock), -east_of_utc(zone))


def interval_of(text):
    if text in keys.INFINITE_TIMESTAMP:
        n = keys.INFINITE_DATE[text]
        return keys.Interval(n, n, keys.INFINITE_TIMESTAMP[text])
    months = days = microseconds = 0
    for number, unit in re.findall(r"([-+]?\d+) (year|mon|day|hour)", text):
        months += int(number) * {"year": 12, "mon": 1}.get(unit, 0)
        days += int(number) * (unit == "day")
        microseconds += int(number) * (unit == "hour") * 3_600_000_000
    clock = re.search(TIME, text)
    return keys.Interval(months, days, microseconds + (time_of(clock[0]) if clock else 0))


def bytea_of(text):
    if not text.startswith(r"\x"):
        raise ValueError("bytea must be in hexadecimal form")
    return bytes.fromhex(text[2:])


def json_of(text):
    return keys.Json(json.loads(text, parse_int=Decimal, parse_float=Decimal))


def lsn_of(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def tid_of(text):
    block, offset = text.strip("()").split(",")
    return int(block) << 16 | int(offset)


def boolean_of(text):
    return {"t": True, "true": True, "f": False, "false": False}[text]


def macaddr_of(text):
    return bytes.fromhex(text.replace(":", ""))


def real_of(text):
    return struct.unpack("<f", struct.pack("<f", float(text)))[0]


SCALARS = {
    "boolean": boolean_of, "smallint": int, "integer": int, "bigint": int, "oid": int, "xid8": int,
    "real": real_of, "double precision": float, "numeric": Decimal, "text": str, "varchar": str, "name": str,
    "char": lambda text: text.rstrip(" "), '"char"': str, "bytea": bytea_of, "uuid": UUID, "macaddr": macaddr_of,
    "macaddr8": macaddr_of, "date": date_of, "time": time_of, "timetz": timetz_of, "timestamp": timestamp_of,
    "timestamptz": timestamp_of, "interval": interval_of, "inet": ip_interface, "cidr": ip_interface,
    "pg_lsn": lsn_of, "tid": tid_of, "jsonb": json_of,
}
RANGES = {"int4range": "integer", "int8range": "bigint", "numrange": "numeric", "daterange": "date",
          "tsrange": "timestamp", "tstzrange": "timestamptz"}


def parse(type_name, text):
    """The value that PostgreSQL shows as `text`; None is NULL."""
    if text is None:
        return None
    if type_name.endswith("[]"):
        return array_of(type_name[:-2], text)
    if type_name.startswith("row("):
        return row_of(type_name[4:-1].split(","), text)
    if type_name in RANGES:
        return range_of(RANGES[type_name], text)
    if type_name.endswith("multirange"):
        of = type_name.replace("multirange", "range")
        return keys.Multirange([parse(of, r) for r in re.findall(r"[\[(][^\])]*[\])]", text)])
    return SCALARS[type_name](text)


def quoted_or_plain(text, at, stops):
    """The word at a place, up to one of the stops; whether it had quotes; and the place behind it."""
    word, quoted, inside = "", False, False
    while inside or text[at] not in stops:
        c = text[at]
        if c == "\\":
            at += 1
            word += text[at]
        elif c != '"':
            word += c
        elif inside and text[at + 1] == '"':        # "" in a row is one quote
            at += 1
            word += c
        else:
            inside, quoted = not inside, True
        at += 1
    return word, quoted, at


def array_of(element, text):
    bounds, _, body = text.rpartition("=") if text.startswith("[") else ("", "", text)
    lengths, elements, depth, at = [], [], 0, 0
    counts = [0] * 8                    # elements so far, by depth
    while at < len(body):
        if body[at] == "{":
            depth += 1
            counts[depth] = 0
            at += 1
        elif body[at] == "}":
            lengths[depth - 1:depth] = [counts[depth]]
            depth -= 1
            counts[depth] += 1
            at += 1
        elif body[at] == ",":
            at += 1
        else:
            word, quoted, at = quoted_or_plain(body, at, ",}")
            elements.append(None if word == "NULL" and not quoted else parse(element, word))
            counts[depth] += 1
            lengths.extend([0] * (depth - len(lengths)))
    if not elements:
        return keys.Array([], [])
    lower = [int(n) for n in re.findall(r"\[(-?\d+):", bounds)] or [1] * len(lengths)
    return keys.Array(list(zip(lengths, lower)), elements)


def row_of(types, text):
    columns, at = [], 1
    for of in types:
        word, quoted, at = quoted_or_plain(text, at, ",)")
        columns.append(parse(of, word) if word or quoted else None)
        at += 1
    return tuple(columns)


def range_of(element, text):
    if text == "empty":
        return keys.Range(None, None, empty=True)
    lower, quoted, at = quoted_or_plain(text, 1, ",")
    upper, quoted, at = quoted_or_plain(text, at + 1, "])")
    return keys.Range(parse(element, lower or None), parse(element, upper or None), text[0] == "[", text[-1] == "]")


def unescape(text):
    """A field of COPY's text format."""
    if text == r"\N":
        return None
    if "\\" not in text:
        return text
    named = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
    return re.sub(r"\\(.)", lambda m: named.get(m[1], m[1]), text, flags=re.DOTALL)
