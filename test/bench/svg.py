"""What the scripts that draw the pictures of docs/img have in common.

A picture is two files: NAME.svg for pages with a light ground and NAME-dark.svg for those with a dark
one. They differ in their colours only. Text stays text, in a font of the viewer's system, and a title and
a description are there for screen readers. The same input gives the same bytes.
"""

import csv
import math
import re
from xml.sax.saxutils import escape

WIDTH = 840

# Each colour on light and on dark ground.
COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "text": ("#24292f", "#e6edf3"),
    "soft": ("#57606a", "#9198a1"),
    "box": ("#f6f8fa", "#161b22"),
    "good": ("#1a7f37", "#3fb950"), "good_box": ("#ddf4e4", "#12261a"),
    "perhaps": ("#9a6700", "#d29922"), "perhaps_box": ("#fff5cc", "#2b2411"),
    "bad": ("#b3123a", "#ff7f96"), "bad_box": ("#ffe9ec", "#2f151b"),
    "arrow": ("#0060a8", "#6cb6ff"),
    "back": ("#b34700", "#ff9d57"),
}

# The lines of a plot: colours that the colour-blind can tell apart. A line has a pattern and a mark of its
# own, too.
SERIES = [
    ("#0060a8", "#6cb6ff"), ("#b34700", "#ff9d57"), ("#00755a", "#4fd1ae"),
    ("#9b2d86", "#f08fdd"), ("#7a6000", "#e3c64a"), ("#b3123a", "#ff7f96"),
    ("#4a4a4a", "#c8c8c8"), ("#3c3fb5", "#a5a8ff"), ("#5c7a00", "#b5d94a"),
    ("#7a4a2a", "#d9a97f"), ("#006b7a", "#55c8da"), ("#666699", "#b9b9e8"),
]
DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "4 2"]
MARKS = ["circle", "square", "triangle", "diamond", "cross"]

# The rules of each class, with names of colours in braces.
RULES = {
    "ground": "fill:{ground}",
    "heading": "font-weight:600;font-size:15px",
    "title": "font-weight:600;font-size:13px",
    "name": "font-weight:600;font-size:14px",
    "small": "fill:{soft}",
    "code": "font-family:ui-monospace,Menlo,Consolas,monospace",
    "axis": "stroke:{soft};stroke-width:1;fill:none",
    "grid": "stroke:{soft};stroke-opacity:.22;stroke-width:1;fill:none",
    "bound": "stroke:{text};stroke-width:2.5;fill:none",
    "asked": "stroke:{soft};stroke-width:1.2;stroke-dasharray:4 4;fill:none",
    "box": "fill:{box};stroke:{soft};stroke-width:1.2",
    "good": "fill:{good_box};stroke:{good}",
    "perhaps": "fill:{perhaps_box};stroke:{perhaps}",
    "bad": "fill:{bad_box};stroke:{bad}",
    "bar": "fill:{good};stroke:none",
    "onbar": "fill:{ground};font-weight:600",
    "arrow": "stroke:{arrow};stroke-width:1.8;fill:none",
    "head": "fill:{arrow}",
    "back": "stroke:{back};stroke-width:1.5;stroke-dasharray:5 3;fill:none",
    "backhead": "fill:{back}",
}


def series_rules(theme):
    rules = {}
    for i, colours in enumerate(SERIES):
        rules[f"l{i}"] = f"stroke:{colours[theme]};fill:none;stroke-width:1.8"
        rules[f"m{i}"] = f"fill:{colours[theme]};stroke:{colours[theme]}"
        rules[f"a{i}"] = f"fill:{colours[theme]};fill-opacity:.2"
        rules[f"t{i}"] = f"fill:{colours[theme]};font-weight:600"
    return rules


def style(theme, body):
    """The rules of the classes that are used. `theme`: 0 is light, 1 is dark."""
    used = set(" ".join(re.findall(r'class="([^"]*)"', body)).split())
    colours = {name: pair[theme] for name, pair in COLOURS.items()}
    rules = [f"text{{font:12px system-ui,sans-serif;fill:{colours['text']}}}"]
    for name, rule in {**RULES, **series_rules(theme)}.items():
        if name in used:
            rules.append(f".{name}{{{rule.format(**colours)}}}")
    return "<style>" + "".join(rules) + "</style>"


def write(path, title, description, height, parts):
    """Writes PATH.svg and PATH-dark.svg."""
    body = f'<rect class="ground" width="{WIDTH}" height="{height:.0f}" rx="6"/>' + "".join(parts)
    for theme, suffix in enumerate(["", "-dark"]):
        with open(path + suffix + ".svg", "w", encoding="utf-8", newline="\n") as out:
            out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
                      f'width="{WIDTH}" height="{height:.0f}" role="img" aria-labelledby="title desc">'
                      f'<title id="title">{escape(title)}</title>'
                      f'<desc id="desc">{escape(description)}</desc>{style(theme, body)}{body}</svg>\n')


def read(path):
    with open(path, encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def text(x, y, words, classes="", anchor=""):
    classes = f' class="{classes}"' if classes else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{classes}{anchor}>{escape(words)}</text>'


def lines_of_text(x, y, lines, classes="", anchor=""):
    return "".join(text(x, y + 17 * i, line, classes, anchor) for i, line in enumerate(lines))


# ---- plots ----------------------------------------------------------------------------------


def mark(kind, x, y, series):
    c = f'class="m{series % len(SERIES)}"'
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


class Panel:
    """A plot's frame, and where the values are in it."""

    def __init__(self, x, y, width, height, x_axis, y_axis, margin=56):
        self.x, self.y = x, y
        self.x_axis, self.y_axis = x_axis, y_axis
        self.left, self.top, self.right, self.bottom = x + margin, y + 24, x + width - 16, y + height - 40

    def px(self, value):
        return self.left + self.x_axis.at(value) * (self.right - self.left)

    def py(self, value):
        return self.bottom - self.y_axis.at(value) * (self.bottom - self.top)

    def path(self, points):
        return "M" + "L".join(f"{self.px(a):.1f} {self.py(b):.1f}" for a, b in points)

    def steps(self, points):
        """The path of values that stay as they are up to the next point."""
        path = ""
        for i, (a, b) in enumerate(points):
            path += (f"M{self.px(a):.1f} {self.py(b):.1f}" if i == 0 else
                     f"H{self.px(a):.1f}V{self.py(b):.1f}")
        return path

    def frame(self, title, x_label, y_label):
        left, top, right, bottom = self.left, self.top, self.right, self.bottom
        out = [f'<text class="title" x="{left}" y="{self.y + 14}">{escape(title)}</text>']
        for tick in self.x_axis.ticks:
            out.append(f'<path class="grid" d="M{self.px(tick):.1f} {top}V{bottom}"/>'
                       f'<text x="{self.px(tick):.1f}" y="{bottom + 15}" text-anchor="middle">'
                       f'{escape(self.x_axis.text(tick))}</text>')
        for tick in self.y_axis.ticks:
            out.append(f'<path class="grid" d="M{left} {self.py(tick):.1f}H{right}"/>'
                       f'<text x="{left - 5}" y="{self.py(tick) + 4:.1f}" text-anchor="end">'
                       f'{escape(self.y_axis.text(tick))}</text>')
        out.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
        out.append(f'<text x="{(left + right) / 2:.0f}" y="{bottom + 32}" text-anchor="middle">'
                   f'{escape(x_label)}</text>')
        out.append(f'<text x="{self.x + 12}" y="{(top + bottom) / 2:.0f}" text-anchor="middle" '
                   f'transform="rotate(-90 {self.x + 12} {(top + bottom) / 2:.0f})">'
                   f'{escape(y_label)}</text>')
        return "".join(out)


def plot(x, y, width, height, title, x_axis, y_axis, x_label, y_label, lines, bounds=()):
    """lines: (series number, points); bounds: points of a line that none can pass."""
    panel = Panel(x, y, width, height, x_axis, y_axis)
    out = [panel.frame(title, x_label, y_label)]
    for points in bounds:
        out.append(f'<path class="bound" d="{panel.path(points)}"/>')
    for series, points in lines:
        dash = DASHES[series // 2 % len(DASHES)]
        out.append(f'<path class="l{series % len(SERIES)}" stroke-dasharray="{dash}" '
                   f'd="{panel.path(points)}"/>')
        step = max(1, len(points) // 8)
        for a, b in points[::step]:
            out.append(mark(MARKS[series % len(MARKS)], panel.px(a), panel.py(b), series))
    return "".join(out)


def legend(names, y, bound=None, left=16, right=WIDTH):
    """Rows of names with their lines; returns the SVG and its height."""
    out, x, row = [], left, y + 20
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
            out.append(f'<path class="l{series % len(SERIES)}" stroke-dasharray="{dash}" '
                       f'd="M{x} {row - 4}h32"/>' +
                       mark(MARKS[series % len(MARKS)], x + 16, row - 4, series))
        out.append(f'<text x="{x + 38}" y="{row}">{escape(name)}</text>')
        x += width
    return "".join(out), row + 14 - y


# ---- diagrams ---------------------------------------------------------------------------------


def box(x, y, width, height, kind="", name="", lines=(), number=""):
    """A rectangle with a name and lines below it."""
    classes = f"box {kind}".strip()
    name = f"{number} {name}".strip()
    return (f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>' +
            (text(x + 12, y + 22, name, "name") if name else "") +
            lines_of_text(x + 12, y + (41 if name else 22), lines))


def arrow(points, kind="arrow", head="head"):
    """A line over points, horizontal and vertical, with a head at its end."""
    (x0, y0), (x1, y1) = points[-2:]
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    stop = points[:-1] + [(x1 - 8 * dx, y1 - 8 * dy)]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in stop)
    tip = (f"M{x1:g} {y1:g}L{x1 - 9 * dx - 5 * dy:g} {y1 - 9 * dy - 5 * dx:g}"
           f"L{x1 - 9 * dx + 5 * dy:g} {y1 - 9 * dy + 5 * dx:g}z")
    return f'<path class="{kind}" d="{path}"/><path class="{head}" d="{tip}"/>'
