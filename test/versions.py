#!/usr/bin/env python3
"""Checks that all files that name the version or the licence agree, and that META.json is as PGXN wants it.

    test/versions.py

The version is that of streamdedup.control. Prints what is wrong and exits with 1.
"""

import json
import os
import re
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
wrong = []


def text(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as file:
        return file.read()


def expect(what, found, wanted):
    if found != wanted:
        wrong.append(f"{what}: {found!r} instead of {wanted!r}")


def first(pattern, name):
    found = re.search(pattern, text(name), re.M)
    return found.group(1) if found else None


version = first(r"^default_version = '(.*)'", "streamdedup.control")
expect("streamdedup.control: version", bool(re.fullmatch(r"\d+\.\d+\.\d+", version or "")), True)

meta = json.loads(text("META.json"))
script = f"src/install/streamdedup--{version}.sql"
for key in ("name", "abstract", "version", "maintainer", "license", "provides", "meta-spec"):
    expect(f"META.json: {key}", key in meta, True)
provided = meta["provides"]["streamdedup"]
expect("META.json: version", meta["version"], version)
expect("META.json: provided version", provided["version"], version)
expect("META.json: file", provided["file"], script)
expect("META.json: license", meta["license"], "postgresql")
for name in (provided["file"], provided["docfile"]):
    expect(name, os.path.isfile(os.path.join(TOP, name)), True)

expect("LICENSES/PostgreSQL.txt: that of LICENSE", text("LICENSES/PostgreSQL.txt") == text("LICENSE"), True)
for name in ("src/module.cpp", "Makefile", script):
    expect(f"{name}: licence", first(r"SPDX-License-Identifier: (\S+)", name), "PostgreSQL")

expect("src/module.cpp: version", first(r'\.version = "(.*?)"', "src/module.cpp"), version)
expect("debian/changelog: version", first(r"^streamdedup \((.*)-\d+\)", "debian/changelog"), version)
expect("CHANGELOG.md: version", first(r"^## (\S+)", "CHANGELOG.md"), version)

lowest = first(r"PostgreSQL (\d+) to \d+", "README.md")
expect("META.json: PostgreSQL", meta["prereqs"]["runtime"]["requires"]["PostgreSQL"], f"{lowest}.0.0")
expect("debian/pgversions", text("debian/pgversions").strip(), f"{lowest}+")

for line in wrong:
    print(line)
print(f"version {version}: {len(wrong)} wrong")
sys.exit(1 if wrong else 0)
