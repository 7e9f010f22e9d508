// recent: the keys seen most recently, as fingerprints in two candidate lines.
//
// A line is 64 bytes: k slots of f-bit fingerprints, the youngest first, stored as k low bytes and
// then the k packed high parts. The last byte counts insertions modulo 256. A key has two candidate
// lines. A key that is found moves its slot to the front of its line (exact LRU within the line). A
// new key goes to the front of the line whose counter is behind, and evicts the oldest slot of that
// line. Fingerprint 0 is an empty slot. (This is our method, after the fingerprints of cuckoo
// filters, Fan et al., CoNEXT 2014, and the power of two choices, Azar et al., STOC 1994.)
//
// Promise: at any moment at most 0.1 % of the last `keys` distinct keys are reported as new. Older
// keys are evicted. `keys` is 0.8 of all slots, and a little less if a line has fewer than 21
// (rates below 0.00001).
// FPR: 1 - (1 - 1/(2^f - 1))^(2k), at most the requested rate.
// Cost: two cache lines a key; 16.8 bits a key of the window at 0.01.
// State: the lines. Counters::count and Counters::state stay zero.

#ifndef STREAMDEDUP_CORE_METHODS_RECENT_HPP_
#define STREAMDEDUP_CORE_METHODS_RECENT_HPP_

#include <cmath>
#include <cstdio>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"

namespace dedup::recent {

inline constexpr unsigned kSlotBits = 504;  // of a line, without the counter byte
inline constexpr unsigned kLowBits = 8;     // of a fingerprint, stored in the low bytes
inline constexpr unsigned kMaxSlots = kSlotBits / kLowBits;
inline constexpr unsigned kMaxFingerprintBits = 40;
inline constexpr unsigned kWords = kLineBytes / 8;
inline constexpr size_t kCounterByte = kLineBytes - 1;

// The slots of a line and the bits of a fingerprint.
struct Layout {
  unsigned k;
  unsigned f;
  unsigned high_bits() const noexcept { return f - kLowBits; }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff),
          static_cast<unsigned>(shape.detail >> 8 & 0xff)};
}
inline uint64_t Lines(const Shape& shape) noexcept { return shape.bytes / kLineBytes; }

// ---- sizes ------------------------------------------------------------------

// Returns the most slots whose fingerprints are long enough for the rate and fit into a line.
inline Layout LayoutFor(double fpr) noexcept {
  for (unsigned k = kMaxSlots; k > 1; --k) {
    unsigned f = kLowBits;
    while (std::ldexp(1.0, static_cast<int>(f)) < 2 * k / fpr + 1) ++f;
    if (k * f <= kSlotBits) return {k, f};
  }
  return {1, kMaxFingerprintBits};
}

// Returns the share of the slots, in thousandths, that a window may count on. The fewer slots a
// line has, the more often it gets more keys than its share: at 0.8, lines of 19 slots miss 0.13 %
// of the window, and lines of 14 slots 0.37 %.
inline uint64_t UsableShare(unsigned slots) noexcept {
  return slots >= 21 ? 800 : slots >= 18 ? 760 : slots >= 16 ? 730 : 680;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Layout layout = LayoutFor(request.fpr);
  const uint64_t usable = UsableShare(layout.k) * layout.k;  // thousandths of a line
  uint64_t lines = request.memory / kLineBytes;
  uint64_t keys = request.keys;
  if (keys > 0) {
    lines = (1000 * keys + usable - 1) / usable;
  } else {
    if (lines == 0) return PlanStatus::kMemoryTooSmall;
    keys = lines * usable / 1000;
  }
  if (lines > kMaxBodyBytes / kLineBytes) return PlanStatus::kTooLarge;
  shape->bytes = static_cast<uint32_t>(lines * kLineBytes);
  shape->keys = keys;
  shape->fpr = request.fpr;
  shape->detail = layout.k | layout.f << 8;
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return shape.detail >> 16 == 0 && layout.k >= 1 && layout.f >= kLowBits &&
         layout.f <= kMaxFingerprintBits && layout.k * layout.f <= kSlotBits &&
         shape.bytes >= kLineBytes && shape.bytes % kLineBytes == 0 && counters.count == 0 &&
         counters.state == 0;
}

// Returns the rate of a filter in whose lines a new key is missed with probability `miss` on
// average. A key's two lines are independent, except for one key in `lines` whose candidates are
// the same line.
inline double RateOf(double miss, uint64_t lines) noexcept {
  const double same = 1 / static_cast<double>(lines);
  return 1 - (same * miss + (1 - same) * miss * miss);
}

// Returns the probability that a slot in use does not hold a new key's fingerprint.
inline double SlotMiss(const Layout& layout) noexcept {
  return 1 - 1 / (std::ldexp(1.0, static_cast<int>(layout.f)) - 1);
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  double occupied = keys / static_cast<double>(Lines(shape));
  if (occupied > layout.k) occupied = layout.k;
  return RateOf(std::pow(SlotMiss(layout), occupied), Lines(shape));
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "slots=%u fingerprint_bits=%u lines=%llu", layout.k, layout.f,
                static_cast<unsigned long long>(Lines(shape)));
}

// ---- one line ---------------------------------------------------------------

// Returns `width` bits (0 to 56) from bit `at` of a line.
inline uint64_t Field(const uint8_t* line, unsigned at, unsigned width) noexcept {
  constexpr unsigned kLast = kLineBytes - 8;  // a load from here ends at the end of the line
  const unsigned byte = at / 8 < kLast ? at / 8 : kLast;
  return LoadU64(line + byte) >> (at - 8 * byte) & LowMask(width);
}

inline uint64_t SlotOf(const uint8_t* line, const Layout& layout, unsigned slot) noexcept {
  return line[slot] |
         Field(line, layout.k * kLowBits + slot * layout.high_bits(), layout.high_bits())
             << kLowBits;
}

// Returns bits: bit i is set if byte i of the line equals `low`.
inline uint64_t MatchLow(const uint8_t* line, uint8_t low) noexcept {
#if defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(low));
  uint64_t mask = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + i * 16));
    const auto equal = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(part, wanted)));
    mask |= static_cast<uint64_t>(equal) << (i * 16);
  }
  return mask;
#else
  constexpr uint64_t kLow7 = 0x7f7f7f7f7f7f7f7fu;
  uint64_t mask = 0;
  for (unsigned i = 0; i < kWords; ++i) {
    const uint64_t x = LoadU64(line + i * 8) ^ (0x0101010101010101u * low);
    const uint64_t zero = ~(((x & kLow7) + kLow7) | x | kLow7);  // 0x80 in each zero byte
    mask |= ((zero >> 7) * 0x0102040810204080u >> 56) << (i * 8);
  }
  return mask;
#endif
}

// Returns the slots whose low byte is the fingerprint's.
inline uint64_t Candidates(const uint8_t* line, const Layout& layout,
                           uint64_t fingerprint) noexcept {
  return MatchLow(line, static_cast<uint8_t>(fingerprint)) & LowMask(layout.k);
}

// Returns the youngest of these candidates that holds the fingerprint, or -1.
inline int FindAmong(uint64_t candidates, const uint8_t* line, const Layout& layout,
                     uint64_t fingerprint) noexcept {
  const unsigned width = layout.high_bits(), base = layout.k * kLowBits;
  for (; candidates != 0; candidates &= candidates - 1) {
    const int slot = std::countr_zero(candidates);
    if (Field(line, base + static_cast<unsigned>(slot) * width, width) == fingerprint >> kLowBits) {
      return slot;
    }
  }
  return -1;
}

inline bool Holds(const uint8_t* line, const Layout& layout, uint64_t fingerprint) noexcept {
  return FindAmong(Candidates(line, layout, fingerprint), line, layout, fingerprint) >= 0;
}

// Masks of the bits of a line below a bit. A mask is a window of 64 bytes over 64 bytes of ones, a
// byte of 0 to 7 ones, and zeros.
struct BelowTable {
  uint8_t bytes[8][2 * kLineBytes];

  constexpr BelowTable() noexcept : bytes() {
    for (unsigned ones = 0; ones < 8; ++ones) {
      for (unsigned i = 0; i < kLineBytes; ++i) bytes[ones][i] = 0xff;
      bytes[ones][kLineBytes] = static_cast<uint8_t>((1u << ones) - 1);
    }
  }
};
inline constexpr BelowTable kBelow;

inline const uint8_t* Below(unsigned bit) noexcept {
  return kBelow.bytes[bit % 8] + kLineBytes - bit / 8;
}

// Puts the fingerprint into slot 0. The slots 0 to slot-1 move back by one, and the old content of
// `slot` is dropped. The line is shifted as one number, once by a low byte and once by a high part,
// and the two are combined by masks. All of the line is read before any of it is written, because a
// load from a line with a wide store pending stalls.
inline void PushFront(uint8_t* line, const Layout& layout, unsigned slot,
                      uint64_t fingerprint) noexcept {
  const unsigned width = layout.high_bits(), base = layout.k * kLowBits;
  const uint8_t* low_end = Below((slot + 1) * kLowBits);  // low bytes that move
  const uint8_t* high_start = Below(base);                // high parts that move
  const uint8_t* high_end = Below(base + (slot + 1) * width);
  const uint8_t* high_first = Below(base + width);  // except the first, which is new
#if defined(__SSE2__)
  const auto load = [](const uint8_t* from, unsigned i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i);
  };
  const __m128i left = _mm_cvtsi32_si128(static_cast<int>(width));
  const __m128i right = _mm_cvtsi32_si128(static_cast<int>(64 - width));
  __m128i part[4], moved[4];
  for (unsigned i = 0; i < 4; ++i) part[i] = load(line, i);
  // The new low byte is shifted in from below.
  __m128i before = _mm_slli_si128(_mm_cvtsi32_si128(static_cast<int>(fingerprint & 0xff)), 15);
  for (unsigned i = 0; i < 4; ++i) {
    const __m128i low = _mm_or_si128(_mm_slli_si128(part[i], 1), _mm_srli_si128(before, 15));
    const __m128i carry = _mm_or_si128(_mm_slli_si128(part[i], 8), _mm_srli_si128(before, 8));
    const __m128i high = _mm_or_si128(_mm_sll_epi64(part[i], left), _mm_srl_epi64(carry, right));
    const __m128i low_mask = load(low_end, i);
    const __m128i high_mask = _mm_andnot_si128(load(high_start, i), load(high_end, i));
    const __m128i stays = _mm_andnot_si128(_mm_or_si128(low_mask, high_mask), part[i]);
    const __m128i moves =
        _mm_or_si128(_mm_and_si128(low, low_mask),
                     _mm_and_si128(high, _mm_andnot_si128(load(high_first, i), high_mask)));
    moved[i] = _mm_or_si128(stays, moves);
    before = part[i];
  }
  for (unsigned i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(line) + i, moved[i]);
  }
#else
  uint64_t word[kWords];
  for (unsigned i = 0; i < kWords; ++i) word[i] = LoadU64(line + i * 8);
  uint64_t before = fingerprint << 56;
  for (unsigned i = 0; i < kWords; ++i) {
    const uint64_t low = word[i] << kLowBits | before >> 56;
    // There are two steps, so that a width of 0 shifts the carry out completely.
    const uint64_t high = word[i] << width | before >> 1 >> (63 - width);
    const uint64_t low_mask = LoadU64(low_end + i * 8);
    const uint64_t high_mask = LoadU64(high_end + i * 8) & ~LoadU64(high_start + i * 8);
    StoreU64(line + i * 8, (word[i] & ~(low_mask | high_mask)) | (low & low_mask) |
                               (high & high_mask & ~LoadU64(high_first + i * 8)));
    before = word[i];
  }
#endif
  // Sets the new high part; its place is clear.
  const unsigned word_at = base / 64 * 8, shift = base % 64;
  const uint64_t high = fingerprint >> kLowBits;
  StoreU64(line + word_at, LoadU64(line + word_at) | high << shift);
  if (shift + width > 64) {
    StoreU64(line + word_at + 8, LoadU64(line + word_at + 8) | high >> (64 - shift));
  }
}

// ---- keys -------------------------------------------------------------------

struct Place {
  uint64_t first;  // byte offset of the first candidate line
  uint64_t second;
  uint64_t fingerprint;
};

inline Place PlaceOf(uint64_t hash, uint64_t lines, const Layout& layout) noexcept {
  return {FastRange(hash, lines) * kLineBytes, FastRange(Derived(hash, 0), lines) * kLineBytes,
          1 + FastRange(Derived(hash, 1), LowMask(layout.f))};
}

// Returns the line to which a key that was not found goes.
inline uint8_t* LineBehind(uint8_t* body, const Place& place) noexcept {
  const auto lead = static_cast<int8_t>(
      static_cast<uint8_t>(body[place.first + kCounterByte] - body[place.second + kCounterByte]));
  return body + (lead > 0 ? place.second : place.first);
}

inline void InsertAt(uint8_t* body, const Layout& layout, const Place& place) noexcept {
  uint8_t* line = LineBehind(body, place);
  const auto count = static_cast<uint8_t>(line[kCounterByte] + 1);
  PushFront(line, layout, layout.k - 1, place.fingerprint);
  line[kCounterByte] = count;
}

inline bool TestAndAddOne(uint8_t* body, const Layout& layout, const Place& place) noexcept {
  uint8_t* first = body + place.first;
  uint8_t* second = body + place.second;
  const uint64_t in_first = Candidates(first, layout, place.fingerprint);
  const uint64_t in_second = Candidates(second, layout, place.fingerprint);
  if ((in_first | in_second) != 0) {
    uint8_t* line = first;
    int slot = FindAmong(in_first, first, layout, place.fingerprint);
    if (slot < 0) {
      line = second;
      slot = FindAmong(in_second, second, layout, place.fingerprint);
    }
    if (slot > 0) PushFront(line, layout, static_cast<unsigned>(slot), place.fingerprint);
    if (slot >= 0) return true;
  }
  InsertAt(body, layout, place);
  return false;
}

// Runs step(layout, place, i) for every hash, and prefetches the lines of later keys. Each place is
// computed once, and waits in a ring of two groups.
template <typename Step>
inline void ForEachPlace(const Shape& shape, const uint8_t* body, const uint64_t* hashes, size_t n,
                         Step step) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t lines = Lines(shape);
  constexpr size_t kKeys = kGroup / 2;  // two lines each
  Place places[2 * kKeys];
  InGroups<kKeys>(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        Place& place = places[i % (2 * kKeys)];
        place = PlaceOf(hashes[i], lines, layout);
        PrefetchToWrite(body + place.first);
        PrefetchToWrite(body + place.second);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE { step(layout, places[i % (2 * kKeys)], i); });
}

inline size_t TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t i) {
    const bool found = TestAndAddOne(body, layout, place);
    if (seen != nullptr) seen[i] = found;
  });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t i) {
    seen[i] = Holds(body + place.first, layout, place.fingerprint) ||
              Holds(body + place.second, layout, place.fingerprint);
  });
}

inline size_t Insert(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t) {
    InsertAt(body, layout, place);
  });
  return n;
}

// ---- whole filters ----------------------------------------------------------

// Merges line by line by age rank; on ties, the left filter's slot is the younger. Equal
// fingerprints are kept once, and the counters are added. Two full filters keep half of the window
// of each.
inline bool Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights& weights) noexcept {
  const Layout layout = LayoutOf(shape);
  const auto merge_line = [&](size_t at) {
    uint8_t* line = body + at;
    uint64_t merged[kMaxSlots];
    unsigned used = 0;
    auto take = [&](uint64_t fingerprint) {
      if (fingerprint == 0) return;
      for (unsigned i = 0; i < used; ++i) {
        if (merged[i] == fingerprint) return;
      }
      merged[used++] = fingerprint;
    };
    for (unsigned left = 0, right = 0; used < layout.k && (left < layout.k || right < layout.k);) {
      // The age of a slot is its rank divided by its filter's weight.
      const bool from_left =
          right == layout.k ||
          (left < layout.k && uint64_t{left} * weights.right <= uint64_t{right} * weights.left);
      take(from_left ? SlotOf(line, layout, left++) : SlotOf(other + at, layout, right++));
    }
    const auto count = static_cast<uint8_t>(line[kCounterByte] + other[at + kCounterByte]);
    std::memset(line, 0, kLineBytes);
    for (unsigned slot = used; slot-- > 0;) PushFront(line, layout, layout.k - 1, merged[slot]);
    line[kCounterByte] = count;
  };
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += kLineBytes) merge_line(at);
  });
  return true;
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t lines = Lines(shape);
  uint64_t histogram[kMaxSlots + 1] = {};  // number of lines by their slots in use
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (const uint8_t* line = body + from; line < body + to; line += kLineBytes) {
      unsigned used = 0;
      for (unsigned slot = 0; slot < layout.k; ++slot) used += SlotOf(line, layout, slot) != 0;
      ++histogram[used];
    }
  });
  const double miss = SlotMiss(layout);
  double total = 0, one = 0;
  for (unsigned used = 0; used <= layout.k; ++used) {
    total += static_cast<double>(histogram[used]) * used;
    one += static_cast<double>(histogram[used]) / static_cast<double>(lines) *
           IntPower(miss, static_cast<int>(used));
  }
  Reading reading;
  reading.count = total;
  reading.fpr = RateOf(one, lines);
  return reading;
}

inline constexpr OptionSpec kOptions[] = {kFprOption, kKeysOption};

extern const Method kMethod;

}  // namespace dedup::recent

#endif  // STREAMDEDUP_CORE_METHODS_RECENT_HPP_
