"""The bodies of blocked_bloom and bloom: docs/format.md, the sections of their names and
"Size from capacity and rate"."""

import math

from keys import derived, fast_range

MOST_BYTES = 536870912                  # 512 MiB


class BloomFilter:
    """An array of bits. Both methods differ in the bits that a key has, and in their counts."""

    counters = (0, 0)                   # count and state of the header

    def __init__(self, M, k, body=None):
        self.M, self.k = M, k
        self.body = bytearray(body or bytes(M))

    def seen(self, h):
        return all(self.body[at] >> bit & 1 for at, bit in self.bits(h))

    def add(self, h):
        """Returns whether the key was new."""
        new = not self.seen(h)
        for at, bit in self.bits(h):
            self.body[at] |= 1 << bit
        return new

    def merge(self, other):
        self.body = bytearray(a | b for a, b in zip(self.body, other.body))

    def bytes(self):
        return bytes(self.body)

    def count(self):
        """The estimate of the number of keys."""
        return self.count_and_rate()[0]

    def fpr_now(self):
        return self.count_and_rate()[1]


class BlockedBloom(BloomFilter):
    def bits(self, h):
        """The byte and the bit of each position."""
        line = fast_range(h, self.M // 64)
        for i in range(self.k):
            position = derived(h, i // 7) >> 9 * (i % 7) & 511
            yield 64 * line + position // 8, position % 8

    def count_and_rate(self):
        lines = self.M // 64
        histogram = [0] * 513           # lines by the number of bits that are set
        for at in range(0, self.M, 64):
            histogram[popcount(self.body[at:at + 64])] += 1
        bits_set = rate = 0.0
        for bits in range(513):         # the order of the sums matters
            share = histogram[bits] / lines
            bits_set += share * bits
            rate += share * int_power(bits / 512, self.k)
        return keys_from_clear(1 - bits_set / 512, float(lines), 512.0, self.k), rate


class Bloom(BloomFilter):
    def bits(self, h):
        for i in range(self.k):
            position = fast_range(derived(h, i), 8 * self.M)
            yield position // 8, position % 8

    def count_and_rate(self):
        bits = float(8 * self.M)
        share = popcount(self.body) / bits
        return keys_from_clear(1 - share, 1.0, bits, self.k), int_power(share, self.k)


def popcount(data):
    return bin(int.from_bytes(data, "little")).count("1")


def keys_from_clear(clear, blocks, m, k):
    clear = max(clear, 0.5 / (blocks * m))
    stays_clear = math.exp(k * math.log1p(-1 / m))
    return max(0.0, math.log(clear) / math.log1p(-(1 - stays_clear) / blocks))


def int_power(base, exponent):
    """By squaring. math.pow rounds in another way."""
    result = 1.0
    while exponent > 0:
        if exponent & 1:
            result *= base
        exponent >>= 1
        base *= base
    return result


# ---- the size of a filter from its capacity and rate ------------------------------------

def all_set(m, t, k):
    """The probability that k random positions out of m are all set after t random settings."""
    one = math.exp(t * math.log1p(-1 / m))
    two = math.exp(t * math.log1p(-2 / m)) if m > 2 else 0.0
    mean = m * (1 - one)
    if mean <= 0:
        return 0.0
    variance = max(0.0, m * (m - 1) * two + m * one - m * m * one * one)
    spread = 0.5 * k * (k - 1) * variance / (mean * mean)
    return min(1.0, int_power(mean / m, k) * (1 + spread))


def bloom_rate(keys, units, k):
    return all_set(units * 64, keys * k, k)


def blocked_rate(keys, lines, k):
    """The mean of the rates of lines, over the number of keys in a line."""
    if lines <= 1:
        return min(1.0, all_set(512.0, keys * k, k))
    mean = keys / lines
    deviation = math.sqrt(mean)
    load = max(0.0, math.floor(mean - 9 * deviation - 4))
    high = math.ceil(mean + 10 * deviation + 24)
    poisson = lines >= 400
    q = 1 / lines
    if poisson:
        p = math.exp(load * math.log(mean) - mean - math.lgamma(load + 1))
    else:                               # binomial
        high = min(high, keys)
        p = math.exp(math.lgamma(keys + 1) - math.lgamma(load + 1) - math.lgamma(keys - load + 1)
                     + load * math.log(q) + (keys - load) * math.log1p(-q))
    rate = 0.0
    while load <= high:
        rate += p * all_set(512.0, load * k, k)
        p *= mean / (load + 1) if poisson else (keys - load) / (load + 1) * (q / (1 - q))
        load += 1
    return min(1.0, rate)


def least_where(low, high, good):
    """The least number from low to high that is good, by bisection, or high + 1."""
    if not good(high):
        return high + 1
    while low < high:
        middle = low + (high - low) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return low


def least_where_near(guess, low, high, good):
    """The same, in steps that double from a guess on. The rates that are computed are not quite monotone, so
    the order of the search matters."""
    guess = min(max(guess, low), high)
    step = guess // 64 + 1
    if good(guess):
        top = guess
        while top > low:
            below = top - step if top - low > step else low
            if not good(below):
                return least_where(below + 1, top, good)
            top = below
            step *= 2
        return low
    bottom = guess
    while bottom < high:
        above = bottom + step if high - bottom > step else high
        if good(above):
            return least_where(bottom + 1, above, good)
        bottom = above
        step *= 2
    return high + 1


def size(keys, fpr, blocked):
    """M and k of the smallest filter that keeps the rate."""
    unit, least, most_k, room, rate = (64, 1, 16, 1.05, blocked_rate) if blocked else (8, 8, 32, 1.0, bloom_rate)
    ideal = -math.log2(fpr)
    limit = MOST_BYTES // unit
    best = None
    for k in range(min(max(int(ideal * 0.5), 1), most_k), min(int(ideal + 1), most_k) + 1):
        def good(units):
            return rate(float(keys), float(units), k) <= fpr
        if not good(limit):
            continue
        bits = -k / math.log1p(-math.pow(fpr, 1.0 / k))
        units = least_where_near(int(float(keys) * bits * room / (8 * unit)), least, limit, good)
        best = unit * units, k
        if units == least:
            break
        limit = units - 1
    if best is None:
        raise ValueError("the filter would need more than 512 MiB")
    return best
