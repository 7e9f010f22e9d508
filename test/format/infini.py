"""The body of infini, a filter that grows with its keys: docs/format.md, section "infini".

An entry is a number of 64 bits: the first bits of a fingerprint, a bit 1 (the marker), then zeros.
"""

import math

from keys import M64, fast_range

TOP_STEP = 36
SLOTS = {2: 31, 3: 20, 4: 15, 5: 12}                # of a line, by the bytes of a slot
KEYS_A_LINE = {2: 22.5, 3: 14.5, 4: 9.0, 5: 6.5}
SECOND = 0xAAAAAAAAAAAAAAAC             # where the second of three lines begins in the first of two cells
THIRD = 0x5555555555555556              # where the third line begins in the second cell
NO_BITS = 1 << 63                       # the entry of length 0


def spread(hashes):
    """The order in which the hashes of a merge go into a table: all lines fill alike."""
    ordered = sorted(hashes)
    bits = (len(ordered) - 1).bit_length()
    places = (int(f"{i:0{bits}b}"[::-1], 2) for i in range(1 << bits))
    return [ordered[place] for place in places if place < len(ordered)]


def bits_at(step):
    """The bits of a cell's number."""
    return 5 + step // 2


def lines_at(step):
    return (2 + step % 2) << bits_at(step) - 1


def table_limit(w, step):
    """The number of keys at which a table grows."""
    return int(KEYS_A_LINE[w] * lines_at(step))


def step_for(w, keys):
    step = 0
    while step < TOP_STEP and table_limit(w, step) < keys:
        step += 1
    return step


def slot_bytes(fpr):
    """The bytes of a slot that keep the rate up to the largest table."""
    for w in (2, 3, 4):
        rate, before = 0.0, 0
        for step in range(step_for(w, 513), TOP_STEP + 1):
            end = table_limit(w, step)
            rate += (end - before) * math.ldexp(1.0, -(bits_at(step) + 8 * w - 1))
            before = end
        if rate <= fpr:
            return w
    return 5


# ---- entries ----------------------------------------------------------------------------

def marker(entry):
    return entry & -entry


def length(entry):
    return 64 - marker(entry).bit_length()


def entry_of(fingerprint, n):
    """The first n bits of a fingerprint."""
    m = 1 << 63 - n
    return fingerprint & ~(2 * m - 1) & M64 | m


def holds(entry, fingerprint):
    return entry ^ fingerprint <= 2 * marker(entry) - 1


def covers(entry, other):
    """Whether an entry holds all that the other one holds."""
    return marker(entry) >= marker(other) and holds(entry, other)


def first_of(entry):
    """The first fingerprint that an entry holds."""
    return entry ^ marker(entry)


def last_of(entry):
    return entry | marker(entry) - 1


def common(a, b):
    """The longest entry that covers both."""
    same = 64 - (a ^ b).bit_length()
    return entry_of(a, min(length(a), length(b), same))


# ---- lines ------------------------------------------------------------------------------

class Line:
    def __init__(self):
        self.own = []                   # entries of this line
        self.foreign = []               # pairs (distance, entry): entries of the line so many lines before
        self.reach = 0                  # the largest distance at which another line may have an entry of this one

    def room(self, w):
        return SLOTS[w] - len(self.own) - 2 * len(self.foreign)

    def bytes(self, w):
        slots = [0] * SLOTS[w]
        slots[:len(self.own)] = self.own
        for i, (distance, entry) in enumerate(self.foreign):
            slots[-1 - 2 * i], slots[-2 - 2 * i] = entry, distance << 48
        heads = b"".join((slot >> 48).to_bytes(2, "little") for slot in slots)
        tails = b"".join((slot >> 64 - 8 * w).to_bytes(w, "big")[2:] for slot in slots)
        numbers = len(self.own) | len(self.foreign) << 5 | self.reach << 9
        return (heads + tails).ljust(62, b"\0") + numbers.to_bytes(2, "little")

    @staticmethod
    def read(data, w):
        """A line, which may be one that the server would not write."""
        n, tail = SLOTS[w], w - 2
        slots = []
        for i in range(n):
            slot = int.from_bytes(data[2 * i:2 * i + 2], "little") << 8 * tail
            slot |= int.from_bytes(data[2 * n + tail * i:2 * n + tail * (i + 1)], "big")
            slots.append(slot << 64 - 8 * w)
        numbers = int.from_bytes(data[62:64], "little")
        own, foreign = numbers & 31, numbers >> 5 & 15
        if own + 2 * foreign > n or foreign > (n - 1) // 2:
            raise ValueError("has more entries than slots")
        line = Line()
        line.own = slots[:own]
        line.foreign = [(slots[-2 - 2 * i] >> 48, slots[-1 - 2 * i]) for i in range(foreign)]
        line.reach = numbers >> 9
        return line

    def join(self, entry):
        """Takes an entry for which there is no slot: the two that cost least become one."""
        entries = self.own + [entry]
        cost, i, j = min((marker(common(a, b)) // 2 - marker(a) // 2 - marker(b) // 2, i, j)
                         for i, a in enumerate(entries) for j, b in enumerate(entries) if i < j)
        entries[i] = common(entries[i], entries[j])
        entries[j] = entries[-1]
        self.own = entries[:-1]


def in_live_order(h, b):
    """A hash as a value has it that is a snapshot of a live filter with fingerprints of b bits."""
    line, rest = h * 103 >> 64, h * 103 % 2**64
    low = rest << b & 2**64 - 1
    return rest >> 64 - b << 64 - b | line << 57 - b | low >> b + 7


class Table:
    def __init__(self, w, step):
        self.w, self.step, self.keys = w, step, 0
        self.bits = bits_at(step)
        self.thirds = step % 2 == 1     # three lines for two cells
        self.two = 2 + step % 2         # lines of two cells
        self.lines = [Line() for _ in range(lines_at(step))]

    @staticmethod
    def of(w, hashes):
        """The table of these hashes in this order."""
        table = Table(w, step_for(w, len(hashes)))
        for h in hashes:
            table.insert(h)
        table.keys = len(hashes)                    # all count, even if an entry holds one by chance
        return table

    @staticmethod
    def read(w, step, keys, body):
        """Raises ValueError if a line is not one that the server would write."""
        table = Table(w, step)
        table.keys = keys
        for number in range(len(table.lines)):
            data = body[64 * number:64 * number + 64]
            try:
                line = table.lines[number] = Line.read(data, w)
                if 0 in line.own or any(entry == 0 for _, entry in line.foreign):
                    raise ValueError("has an entry of 0")
                if line.bytes(w) != data or line.reach > 15:
                    raise ValueError("has bits that are not used")
            except ValueError as error:
                raise ValueError(f"line {number} {error}") from None
        for number, line in enumerate(table.lines):
            for distance, _ in line.foreign:
                if not 1 <= distance <= 15 or distance > table.at(number - distance).reach:
                    raise ValueError(f"line {number} has an entry at a distance that its own line does not reach")
        return table

    def bytes(self):
        return b"".join(line.bytes(self.w) for line in self.lines)

    @property
    def counters(self):                 # count and state of the header
        return self.keys, self.step

    def at(self, line):
        return self.lines[line % len(self.lines)]

    def line_of(self, h):
        pair = h >> 65 - self.bits      # of cells
        return pair * self.two + fast_range(h << self.bits - 1 & M64, self.two)

    def fingerprint_of(self, h):
        return h << self.bits & M64

    def moved_entries(self, line):
        """The entries of a line that are stored in the lines behind it."""
        return [entry for distance in range(1, self.at(line).reach + 1)
                for d, entry in self.at(line + distance).foreign if d == distance]

    def seen(self, h):
        line, f = self.line_of(h), self.fingerprint_of(h)
        return (any(holds(entry, f) for entry in self.at(line).own)
                or any(holds(entry, f) for entry in self.moved_entries(line)))

    # ---- adding ---------------------------------------------------------------------

    def put(self, line, entry, may_displace=True):
        here = self.at(line)
        if here.room(self.w) >= 1:
            here.own.append(entry)
            return
        for distance in range(1, 16) if may_displace else ():
            nearby = self.at(line + distance)
            if len(nearby.foreign) < (SLOTS[self.w] - 1) // 2 and nearby.room(self.w) >= 2:
                nearby.foreign.append((distance, entry))
                here.reach = max(here.reach, distance)
                return
        here.join(entry)

    def insert(self, h):
        """Adds a key to a table that does not grow. Returns whether the key was new."""
        if self.seen(h):
            return False
        may_displace = self.step < TOP_STEP or self.keys < table_limit(self.w, TOP_STEP)
        self.put(self.line_of(h), entry_of(self.fingerprint_of(h), 8 * self.w - 1), may_displace)
        self.keys += 1
        return True

    def add(self, h):
        """Adds a key, and grows first if the table is full. Returns whether the key was new."""
        if self.step == TOP_STEP or self.keys < table_limit(self.w, self.step):
            return self.insert(h)
        if self.seen(h):
            return False
        larger = self.grown()
        larger.insert(h)
        larger.keys = self.keys + 1     # the key counts, whatever the larger table holds
        self.__dict__ = larger.__dict__
        return True

    # ---- growing --------------------------------------------------------------------

    def grown(self):
        new = Table(self.w, self.step + 1)
        new.keys = self.keys
        for number, line in enumerate(self.lines):
            others = []
            for entry in line.own:
                to, moved, simple = self.target(new, number, entry)
                if simple and new.at(to).room(self.w) >= 1:
                    new.at(to).own.append(moved)
                else:
                    others.append(entry)
            for entry in others:
                new.put_from_smaller(number, entry)
            for distance, entry in line.foreign:
                new.put_from_smaller((number - distance) % len(self.lines), entry)
        return new

    def target(self, new, number, entry):
        """Where an own entry of a line goes, what it becomes, and whether it needs no more than that."""
        pair, place = divmod(number, self.two)
        if new.thirds:                  # a line for each cell becomes three for two
            begin = (SECOND, THIRD)[place]
            second = first_of(entry) >= begin
            return 3 * pair + place + second, entry, (last_of(entry) >= begin) == second
        # Three lines for two cells become one for each of four cells. The entry loses its first bit.
        bit, begin = entry >> 63, (0, SECOND, THIRD)[place]
        simple = entry != NO_BITS and (first_of(entry) >= begin or bit < (place == 1))
        return 4 * pair + place + (bit != (place == 1)), entry << 1 & M64, simple

    def put_from_smaller(self, line, entry):
        """Takes an entry of a line of the smaller table, to two lines if it reaches over the end of one."""
        if self.thirds:
            for part in (1 << 62, 3 << 62) if entry == NO_BITS else (entry,):
                first, last = self.lines_of_cell_entry(line, part)
                self.put(first, part)
                if last != first:
                    self.put(last, part)
            return
        pair, place = divmod(line, 3)
        if entry == NO_BITS:
            self.put_unless_covered(4 * pair + place, entry)
            self.put_unless_covered(4 * pair + place + 1, entry)
            return
        cell, bit = cell_of(line, entry), entry >> 63
        if fast_range(place_of(cell, first_of(entry)), 3) != place:      # the line before has it as well
            self.put_unless_covered(2 * cell + bit, entry << 1 & M64)
        else:
            self.put(2 * cell + bit, entry << 1 & M64)

    def put_unless_covered(self, line, entry):
        if not any(covers(e, entry) for e in self.at(line).own + self.moved_entries(line)):
            self.put(line, entry)

    @staticmethod
    def lines_of_cell_entry(cell, entry):
        """The lines of the first and of the last fingerprint that an entry of a cell holds."""
        return [cell // 2 * 3 + fast_range(place_of(cell, f), 3) for f in (first_of(entry), last_of(entry))]

    # ---- counting -------------------------------------------------------------------

    def lengths(self):
        """How many entries have so many bits."""
        many = [0] * 40
        for number, line in enumerate(self.lines):
            entries = [(0, entry) for entry in line.own] + line.foreign
            for distance, entry in entries:
                if self.starts_in((number - distance) % len(self.lines), entry):
                    many[length(entry)] += 1
        return many

    def count(self):
        """The estimate of the number of keys: some left no entry, since others held them by chance."""
        shorter = held = 0.0
        for bits, n in enumerate(self.lengths()):
            rate = math.ldexp(float(n), -(self.bits + bits))
            if n > 0 and bits > self.thirds and shorter < 0.5:
                share = min(rate / (1 - shorter), 0.5)
                held += float(n) * (-math.log1p(-share) / (share * (1 - shorter)) - 1)
            shorter += rate
        return min(self.keys + min(held, float(self.keys)), float.fromhex("0x1.fffffffffffffp62"))

    def fpr_now(self):
        """The sum of the shares of all hashes that the entries hold."""
        return min(1.0, sum(math.ldexp(float(n), -(self.bits + bits)) for bits, n in enumerate(self.lengths())))

    def starts_in(self, line, entry):
        """Whether an entry starts in this line: one that is in two lines counts once."""
        if not self.thirds or entry == NO_BITS:
            return True
        h = cell_of(line, entry) << 64 - self.bits | first_of(entry) >> self.bits
        return self.line_of(h) == line


def cell_of(line, entry):
    """The cell of an entry, with three lines for two cells: the second line has the end of the first cell and
    the begin of the second."""
    pair, place = divmod(line, 3)
    return 2 * pair + (1 - (entry >> 63) if place == 1 else place // 2)


def place_of(cell, fingerprint):
    """The place of a fingerprint in a pair of cells, as a number of 64 bits."""
    return (cell & 1) << 63 | fingerprint >> 1
