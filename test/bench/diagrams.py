#!/usr/bin/env python3
"""Draws the pictures of docs/ that need no data.

    diagrams.py docs/img

test/pictures.py checks that the files in docs/img are what this script draws. Only the standard library is
used. svg.py says what the pictures have in common.
"""

import bisect
import math
import os
import sys

sys.dont_write_bytecode = True
from svg import WIDTH, Axis, Panel, arrow, box, lines_of_text, text, write


# ---- a guarded INSERT ---------------------------------------------------------------------------


def draw_guarded_insert(path):
    left, middle, right, width = 20, 300, 580, 240
    at = [left + width / 2, middle + width / 2, right + width / 2]
    parts = [text(20, 28, "A guarded INSERT, step by step", "heading")]

    parts += [box(left, 46, width, 62, "", "INSERT", ["of a row with the key 17"]),
              arrow([(left + width, 77), (middle, 77)]),
              box(middle, 46, width, 62, "", "Hash the key", ["17 becomes a number of 64 bits"], "1."),
              arrow([(middle + width, 77), (right, 77)]),
              box(right, 46, width, 62, "", "Look into the filter", ["into one line of one page"], "2.")]

    # What the filter says.
    parts += [arrow([(at[2] - 40, 134), (at[0], 134), (at[0], 160)]), arrow([(at[1], 134), (at[1], 160)]),
              arrow([(at[2] - 40, 108), (at[2] - 40, 160)]),
              arrow([(at[2] + 30, 160), (at[2] + 30, 108)], "back", "backhead"),
              text(at[2] + 38, 138, "look again", "small"),
              box(left, 160, width, 82, "good", "certainly new",
                  ["Nearly every new row.", "Nothing is searched."]),
              box(middle, 160, width, 82, "perhaps", "perhaps seen",
                  ["The filter has the key, or", "another one that looks like it."]),
              box(right, 160, width, 82, "", "in flight",
                  ["Another transaction is", "inserting the key: wait for it."])]

    # Who decides.
    parts += [arrow([(at[1], 242), (at[1], 290)]), arrow([(at[1], 266), (at[2], 266), (at[2], 290)]),
              box(middle, 290, width, 82, "", "exact guard",
                  ["looks for the key in the table,", "by an index of each partition"], "3."),
              box(right, 290, width, 82, "", "approximate guard",
                  ["believes the filter: refuses new", "rows, too, at the filter's rate"], "3.")]

    # What becomes of the row.
    parts += [arrow([(at[0], 242), (at[0], 430)]),
              arrow([(at[1] - 60, 372), (at[1] - 60, 430)]), text(at[1] - 68, 404, "not found", "small", "end"),
              arrow([(at[1] + 60, 372), (at[1] + 60, 430)]), text(at[1] + 68, 404, "found", "small"),
              arrow([(at[2], 372), (at[2], 430)]),
              box(left, 430, 380, 82, "good", "The row lands",
                  ["The key goes into the filter, marked with the", "transaction. The row goes into the table."], "4."),
              box(440, 430, 380, 82, "bad", "A duplicate, which is counted",
                  ["skip: left out · reject: error 23505", "mark: stored with a mark · divert: into a side table"], "4.")]

    # How the transaction ends.
    parts += [arrow([(110, 512), (110, 550)]), arrow([(310, 512), (310, 550)]),
              box(left, 550, 180, 82, "good", "COMMIT", ["Row and key count", "from now on."], "5."),
              box(220, 550, 180, 82, "", "ROLLBACK, crash", ["Neither counts. A retry", "is not a duplicate."], "5."),
              lines_of_text(440, 572, ["The filter is a few bytes a key, in pages of the database:",
                                       "transactional, crash-safe, replicated and dumped",
                                       "with the table."], "small")]
    write(path, "A guarded INSERT, step by step",
          "1. The key of the row is hashed. 2. The guard looks into one line of one page of the filter. If the key is "
          "certainly new, nothing is searched, and the row lands. If another transaction is inserting the key, the "
          "guard waits for it and looks again. If the key was perhaps seen: 3. An exact guard looks for the key in the "
          "table, by an index of each partition. If no row has the key, the row lands. If a row has it, the row is a "
          "duplicate. An approximate guard believes the filter. 4. A row that lands puts its key into the filter. A "
          "duplicate is left out, rejected, marked or put into a side table, and counted. 5. With COMMIT row and key "
          "count. After ROLLBACK or a crash neither counts.", 652, parts)


# ---- how a window forgets -----------------------------------------------------------------------

SLOTS = 38  # of a line of `recent` at a rate of 0.01, of which a window takes 0.8
FIFO_SLOTS = 40  # of a line of a live filter at that rate; a window takes as many keys as miss 0.001


def mixed(number):
    """A hash of 64 bits (splitmix64)."""
    number = (number + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    number = (number ^ number >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return number ^ number >> 31


def known_of_recent(ages):
    """The share of keys that `recent` still knows after so many further distinct keys, in windows: its rule
    is carried out for a stream of distinct keys."""
    lines = 128
    window = lines * SLOTS * 0.8
    keys = [[] for _ in range(lines)]
    came = [0] * lines
    lived = []
    for key in range(int(10 * window)):
        bits = mixed(key)
        one, two = (bits & 0xFFFFFFFF) * lines >> 32, (bits >> 32) * lines >> 32
        line = one if came[one] <= came[two] else two
        came[line] += 1
        keys[line].append(key)
        if len(keys[line]) > SLOTS:
            lived.append(key - keys[line].pop(0))
    lived = sorted(lived[len(lived) // 4:])  # once all lines are full
    return [(age, 1 - bisect.bisect_left(lived, age * window) / len(lived)) for age in ages]


def fewer(mean, most):
    """The chance that fewer than `most` of a Poisson number's come."""
    return sum(math.exp(i * math.log(mean) - mean - math.lgamma(i + 1)) for i in range(most)) if mean else 1.0


def known_of_fifo(ages):
    """The same for a live filter: a key goes when its line got as many further keys as it has slots."""
    low, high = 1.0, float(FIFO_SLOTS)
    for _ in range(60):
        mean = (low + high) / 2
        low, high = (mean, high) if fewer(mean, FIFO_SLOTS) > 0.999 else (low, mean)
    return [(age, fewer(age * low, FIFO_SLOTS)) for age in ages]


def draw_window_forgets(path):
    parts = [text(20, 28, "A window of the last n keys", "heading"), text(20, 48, "dedup_window(n)", "code"),
             text(440, 28, "A window of time", "heading"), text(440, 48, "dedup_create('f', ttl => '7 days')", "code")]

    # A line of keys.
    slot, y, first = 24, 118, 52
    parts.append(text(20, 74, "A key goes to the front of one of its two lines.", "small"))
    for i in range(12):
        shade = "good" if i < 10 else "perhaps"
        parts.append(f'<rect class="box {shade}" x="{first + slot * i}" y="{y}" width="{slot}" height="30"/>')
    parts += [arrow([(20, y + 15), (first, y + 15)]),
              arrow([(first + 12 * slot, y + 15), (first + 12 * slot + 34, y + 15)]),
              arrow([(first + 6.5 * slot, y), (first + 6.5 * slot, y - 18), (first + slot / 2, y - 18),
                     (first + slot / 2, y)], "back", "backhead"),
              text(first + 7 * slot, y - 14, "seen again", "small"),
              text(first, y + 50, "youngest", "small"), text(first + 12 * slot, y + 50, "oldest", "small", "end"),
              lines_of_text(20, y + 78, ["If the line is full, each new key pushes the oldest one out.",
                                         "Live filters: one line a key; seen again, it keeps its place."], "small")]

    # Generations.
    day, y, begin = 40, 114, 448
    parts.append(lines_of_text(440, 74, ["The ttl has 7 generations, here days. A key is kept in",
                                         "its own and the next 7. Then the whole generation goes."], "small"))
    for i in range(10):
        parts.append(f'<path class="grid" d="M{begin + day * i} {y - 6}V{y + 80}"/>')
        if i < 9:
            parts.append(text(begin + day * (i + 0.5), y + 96, f"day {i + 1}", "small", "middle"))
    for row, (since, words) in enumerate([(0.05, "early on day 1: kept for 8 days"),
                                          (0.95, "late on day 1: kept for 7 days"),
                                          (1.5, "on day 2: kept to the end of day 9")]):
        until = math.floor(since) + 8
        parts.append(f'<rect class="bar" x="{begin + day * since:g}" y="{y + 27 * row}" '
                     f'width="{day * (until - since):g}" height="20" rx="3"/>')
        parts.append(text(begin + day * (since + until) / 2, y + 27 * row + 14, words, "onbar", "middle"))

    # How much of it is known.
    share = Axis(0, 1, ticks=[0, 0.25, 0.5, 0.75, 1], text=lambda v: f"{100 * v:g} %")
    ages = [i * 0.025 for i in range(97)]
    by_number = Panel(0, 236, WIDTH / 2, 260, Axis(0, 2.4, ticks=[0, 0.5, 1, 1.5, 2], text=lambda v: (
        f"{v:g} n" if v else "0")), share)
    by_time = Panel(WIDTH / 2, 236, WIDTH / 2, 260, Axis(0, 10 / 7, ticks=[i / 7 for i in range(0, 11)], text=lambda v: (
        f"{7 * v:.0f}")), share)
    recent, fifo = known_of_recent(ages), known_of_fifo(ages)
    parts += [by_number.frame("Keys that the filter still knows", "further distinct keys since the key came", ""),
              by_time.frame("Keys that the filter still knows", "days since the key came, with a ttl of 7 days", ""),
              f'<path class="asked" d="{by_number.path([(1, 0), (1, 1)])}"/>',
              f'<path class="asked" d="{by_time.path([(1, 0), (1, 1)])}"/>',
              f'<path class="l0" d="{by_number.path(recent)}"/>',
              f'<path class="l1" stroke-dasharray="6 3" d="{by_number.path(fifo)}"/>',
              f'<path class="l0" d="{by_time.path([(0, 1), (1, 1), (8 / 7, 0), (10 / 7, 0)])}"/>',
              text(by_number.px(0.96), by_number.py(0.2), "as a value", "t0", "end"),
              text(by_number.px(2.37), by_number.py(0.66), "as a live filter", "t1", "end"),
              text(by_time.px(1) - 8, by_time.py(0.5), "known for the ttl,", "t0", "end"),
              text(by_time.px(1) - 8, by_time.py(0.5) + 17, "at most 1/7 longer", "t0", "end")]
    write(path, "How a window forgets",
          "Left, a window of the last n keys: a line of slots, in which each new key goes to the front and, once the "
          "line is full, pushes the oldest key out. A plot shows that nearly all of the last n keys are known, that "
          "half of the keys are forgotten after 1.25 n further ones, nearly all after 1.4 n; in a live filter keys go "
          "gradually, half of them after 1.7 n. "
          "Right, a window of time: the ttl is cut into 7 generations, and a key is kept in the one in which it came and "
          "the next 7. A plot shows that each key is known for the ttl, and at most a seventh of it longer.", 504, parts)


# ---- the folders of src -------------------------------------------------------------------------


def folder(x, y, width, height, kind, name, what, facts, beside=False):
    """A folder with facts about it; `beside`: what it is stands beside its name."""
    out = box(x, y, width, height, kind)
    out += text(x + 14, y + (26 if beside else 22), name, "name")
    out += text(x + (120 if beside else 14), y + (26 if beside else 42), what)
    from_y = y + (50 if beside else 62)
    return out + "".join(text(x + 14, from_y + 17 * i, fact, "small") for i, fact in enumerate(facts))


def draw_architecture(path):
    parts = [text(20, 22, "A folder includes what its arrows lead to, directly or over other folders. "
                          "module.cpp includes everything.", "small"),
             folder(20, 40, 800, 44, "", "module.cpp",
                    "_PG_init: defines the settings, registers callbacks, installs the hooks", [], True),
             folder(20, 124, 390, 108, "", "guard/", "triggers and an index that keep duplicate rows out of a table",
                    ["bytes: notes in memory, deleted keys in temporary files",
                     "locks: none of its own; row pages shared, for a look",
                     "raises: yes; not in callbacks of memory contexts and aborts"]),
             folder(430, 124, 390, 108, "", "query/", "window and set-returning functions; SELECT DISTINCT",
                    ["bytes: memory of the partition, the call or the plan node", "locks: none", "raises: yes"]),
             folder(20, 278, 390, 126, "", "live/", "live filters: relations that all sessions share",
                    ["bytes: pages in shared buffers, scratch copies of pages",
                     "locks: relation; main page, then its chain, one by one",
                     "raises: yes; not in a critical section, not after the commit",
                     "waits: for other transactions, with no page locked"]),
             folder(430, 278, 390, 126, "", "value/", "the type dedup_filter: input, output, functions, aggregates",
                    ["bytes: datums; expanded objects; copies at a call site",
                     "locks: none (the server's own when it fetches TOAST)", "raises: yes"]),
             folder(20, 450, 800, 66, "", "pg/",
                    "the server's headers; from SQL values to 64-bit hashes; settings; catalogs; base64",
                    ["bytes: the plan for a call site's keys, as long as the call site · locks: none · raises: yes"], True),
             folder(20, 562, 800, 66, "good", "core/",
                    "the filters; allocates nothing, knows no PostgreSQL. core/methods/: the methods",
                    ["bytes: none, the caller owns all of them · locks: none, the caller holds them · raises: never"], True)]
    for points in ([(215, 84), (215, 124)], [(625, 84), (625, 124)], [(150, 232), (150, 278)],
                   [(625, 232), (625, 278)], [(215, 404), (215, 450)], [(625, 404), (625, 450)],
                   [(420, 516), (420, 562)], [(410, 341), (430, 341)]):
        parts.append(arrow(points))
    parts += [arrow([(290, 278), (290, 232)], "back", "backhead"),
              text(302, 260, "calls what guard/ registers", "small")]
    write(path, "The folders of src and who may include whom",
          "module.cpp includes everything. guard/ includes live/. query/ and live/ include value/, value/ includes pg/, "
          "and pg/ includes core/. live/ calls what guard/ registers. With each folder: whose bytes it uses, which locks "
          "it takes, and whether it raises errors.", 650, parts)


PICTURES = {"guarded_insert": draw_guarded_insert, "window_forgets": draw_window_forgets,
            "architecture": draw_architecture}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, draw in PICTURES.items():
        draw(os.path.join(sys.argv[1], name))


if __name__ == "__main__":
    main()
