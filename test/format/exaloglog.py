"""The body of exaloglog, a sketch that counts: docs/format.md, section "exaloglog"."""

import math

WINDOW = 1 << 20


class Sketch:
    """2^p registers. A register is u, the largest update value that it has seen, and 20 bits for the values
    below u."""

    counters = (0, 0)                   # count and state of the header

    def __init__(self, p, body=None):
        self.p = p
        if body is None:
            self.registers = [0] * (1 << p)
        else:                           # two registers in seven bytes
            pairs = (int.from_bytes(body[at:at + 7], "little") for at in range(0, len(body), 7))
            self.registers = [half for pair in pairs for half in (pair & (1 << 28) - 1, pair >> 28)]

    def bytes(self):
        pairs = zip(self.registers[::2], self.registers[1::2])
        return b"".join((low | high << 28).to_bytes(7, "little") for low, high in pairs)

    def seen(self, h):
        raise ValueError("exaloglog counts keys and does not answer whether a key was seen")

    def add(self, h):
        """Returns whether the sketch changed."""
        low = (1 << self.p + 2) - 1
        nlz = 64 - (h | low).bit_length()
        i, k = h >> 2 & (1 << self.p) - 1, 4 * nlz + (h & 3) + 1
        before = self.registers[i]
        self.registers[i] = updated(before, k)
        return self.registers[i] != before

    def merge(self, other):
        self.registers = [joined(a, b) for a, b in zip(self.registers, other.registers)]

    def reduced(self, to):
        """The sketch of the smaller p that the same keys would have made."""
        small = Sketch(to)
        last_group = 4 * (62 - self.p)  # values above this had no bit 1 among the bits looked at
        for i, value in enumerate(self.registers):
            u, at = value >> 20, i & (1 << to) - 1
            if u == 0:
                continue
            result = small.registers[at]
            if u <= last_group:
                result = joined(result, value)
            else:
                zeros = self.p - to - (i >> to).bit_length()
                for back in range(min(u - 1, 20), -1, -1):
                    if back == 0 or value & WINDOW >> back:
                        k = u - back
                        if k > last_group:
                            k += 4 * zeros
                        result = updated(result, min(k, 4 * (63 - to)))
            small.registers[at] = result
        return small

    def count(self):
        """The estimate of the number of keys."""
        unseen, seen = self.statistics()
        return estimate(self.p, unseen, seen) if sum(seen) else 0.0

    def statistics(self):
        """The summed probability of all values that no register can have seen, in units of 2^(p-64), and the
        number of values that were seen, by group."""
        p, groups = self.p, 63 - self.p
        unit = [1 << 64 - p - min(g + 3, 64 - p) for g in range(groups)]
        above = [4 * sum(unit[g:]) for g in range(groups)] + [0]       # of all values from group g on
        unseen, seen = 0, [0] * groups
        for value in self.registers:
            u = min(value >> 20, 4 * groups)
            end = (u + 3) // 4 * 4      # of the group of u
            unseen += above[end // 4] + (end - u) * (unit[(u - 1) // 4] if u else 0)
            if u:
                seen[(u - 1) // 4] += 1
            for k in range(max(1, u - 20), u):
                if value & WINDOW >> u - k:
                    seen[(k - 1) // 4] += 1
                else:
                    unseen += unit[(k - 1) // 4]
        return unseen, seen


def updated(value, k):
    """A register that sees the value k."""
    u = value >> 20
    if k > u:
        return k << 20 | (WINDOW | value & WINDOW - 1) >> k - u
    if u - 20 <= k < u:
        return value | WINDOW >> u - k
    return value                        # k is u, or too far below it


def joined(a, b):
    u, v = a >> 20, b >> 20
    if u == v:
        return a | b
    if u < v:
        return joined(b, a)
    return a if v == 0 else a | (WINDOW | b & WINDOW - 1) >> u - v


def exp_minus_1(v):
    halvings = 0
    while v > 0.03125:
        v *= 0.5
        halvings += 1
    total = term = v
    for i in range(2, 11):
        term = term * v / i
        total += term
    for _ in range(halvings):
        total = total * (total + 2)
    return total


def estimate(p, unseen, seen):
    """The number of keys of maximum likelihood: Newton's method, from below."""
    weight = [0.0] * 65                 # by j, the negative exponent of a value's probability
    half_sum = 0.0
    for g, number in enumerate(seen):
        if number > 0:
            j = min(g + 3, 64 - p)
            weighted = math.ldexp(float(number), 64 - p - j)
            weight[j] += weighted
            half_sum += 0.5 * weighted
    present = [j for j in range(65) if weight[j] > 0]
    least, most = present[0], present[-1]
    unseen = float(max(unseen, 1))
    v = math.ldexp(float(sum(seen)), 64 - p - most) / (unseen + half_sum)
    for _ in range(200):
        x, value, slope, scale = exp_minus_1(v), 0.0, 0.0, 1.0
        for j in range(most, least - 1, -1):
            if not x < 1e100:
                break
            part = weight[j] / x
            value += part
            slope += part * scale * (1 + 1 / x)
            x = x * (x + 2)
            scale *= 2
        new = v + (value - unseen) / slope
        if not new > v:
            break
        v = new
    return min(math.ldexp(v, p + most) / (1 + 0.10554 / (1 << p)), 2.0**63 - 1024)
