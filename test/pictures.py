#!/usr/bin/env python3
"""Compares the pictures in docs/img with the scripts that draw them, and the pages with the pictures.

    test/pictures.py          prints what is wrong; exits non-zero if anything is
    test/pictures.py --draw   draws the pictures into docs/img

The pictures are drawn by test/bench/diagrams.py, and by test/bench/plot.py from test/bench/data. Each must
be what its script draws, byte for byte. `speed` is drawn from a measurement and is not compared. Each
picture needs two files, for light and for dark pages, a title and a description. A page shows a picture by

    <picture>
      <source media="(prefers-color-scheme: dark)" srcset="img/NAME-dark.svg">
      <img alt="..." src="img/NAME.svg" width="840">
    </picture>

and each picture must be on a page.
"""

import glob
import os
import re
import subprocess
import sys
import tempfile

MEASURED = {"speed"}  # by plot.py, from times

top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
complaints = []


def draw(target):
    for command in (["diagrams.py"], ["plot.py", "test/bench/data"]):
        script = os.path.join(top, "test/bench", command[0])
        subprocess.run([sys.executable, script, *command[1:], target], check=True, cwd=top)


def content(path):
    with open(path, encoding="utf-8") as text:
        return text.read()


def names_in(folder):
    return {os.path.basename(path)[:-4] for path in glob.glob(os.path.join(folder, "*.svg"))}


def check_files():
    folder = os.path.join(top, "docs/img")
    names = names_in(folder)
    with tempfile.TemporaryDirectory() as drawn:
        draw(drawn)
        for name in sorted(names | names_in(drawn)):
            if name.removesuffix("-dark") in MEASURED:
                continue
            if name not in names_in(drawn):
                complaints.append(f"docs/img/{name}.svg: no script draws this picture")
            elif name not in names or content(f"{folder}/{name}.svg") != content(f"{drawn}/{name}.svg"):
                complaints.append(f"docs/img/{name}.svg is not what its script draws: "
                                  "run test/pictures.py --draw")
    for name in sorted(names):
        pair = name.removesuffix("-dark") if name.endswith("-dark") else name + "-dark"
        if pair not in names:
            complaints.append(f"docs/img/{name}.svg: there is no {pair}.svg")
        svg = content(f"{folder}/{name}.svg")
        for element in ("title", "desc"):
            if not re.search(rf"<{element}[^>]*>[^<]+</{element}>", svg):
                complaints.append(f"docs/img/{name}.svg has no {element}")
        if re.search(r"https?://(?!www\.w3\.org/2000/svg\")|@import|url\(", svg):
            complaints.append(f"docs/img/{name}.svg needs something from outside")
    return names


def check_pages(names):
    shown = set()
    for path in [os.path.join(top, "README.md")] + sorted(glob.glob(os.path.join(top, "docs/*.md"))):
        page = os.path.relpath(path, top)
        folder = "docs/img/" if page == "README.md" else "img/"
        markdown = content(path)
        pictures = re.findall(r"<picture>(.*?)</picture>", markdown, re.S)
        for picture in pictures:
            dark = re.search(r'<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">', picture)
            light = re.search(r'<img [^>]*\bsrc="([^"]+)"', picture)
            if not dark or not light:
                complaints.append(f"{page}: a picture without a dark and a light file")
                continue
            name = light[1].removeprefix(folder).removesuffix(".svg")
            if name not in names or light[1] != f"{folder}{name}.svg" or dark[1] != f"{folder}{name}-dark.svg":
                complaints.append(f"{page}: {light[1]} and {dark[1]} are not the two files of a picture")
            if not re.search(r'\balt="[^"]+"', picture):
                complaints.append(f"{page}: {light[1]} has no alt text")
            shown.add(name)
        rest = re.sub(r"<picture>.*?</picture>", "", markdown, flags=re.S)
        for target in re.findall(r'(?:!\[[^\]]*\]\(|src=")((?:docs/)?img/[^)"]+\.svg)', rest):
            complaints.append(f"{page}: {target} is shown without its dark file")
    for name in sorted(names - shown):
        if not name.endswith("-dark"):
            complaints.append(f"docs/img/{name}.svg is on no page")
    return len(shown)


def main():
    if sys.argv[1:] == ["--draw"]:
        draw(os.path.join(top, "docs/img"))
        return
    if sys.argv[1:]:
        sys.exit(__doc__)
    names = check_files()
    shown = check_pages(names)
    for complaint in complaints:
        print(complaint)
    print(f"{shown} pictures on the pages, {len(complaints)} wrong")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
