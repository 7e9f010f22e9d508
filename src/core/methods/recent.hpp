// recent: the keys seen most recently, as fingerprints in two candidate lines.
//
// A line is 64 bytes: k slots of f-bit fingerprints, youngest first, stored as k
// low bytes and then the k packed high parts; the last byte counts insertions
// modulo 256. A key has two candidate lines. A hit moves its slot to the front of
// its line (exact LRU within the line); a miss goes to the front of the line whose
// counter is behind and pushes that line's oldest out. Fingerprint 0 is an empty
// slot. (Ours; after cuckoo filters' fingerprints, Fan et al., CoNEXT 2014, and
// the power of two choices, Azar et al., STOC 1994.)
//
// Promise: at any moment at most 0.1 % of the last `keys` distinct keys are
// answered new; older keys give way. `keys` is 0.8 of all slots.
// FPR: 1 - (1 - 1/(2^f - 1))^(2k), at most the rate asked for.
// Cost: two cache lines a key; 16.8 bits a key of the window at 0.01.
// State: the lines; the counters in the header stay zero.

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

namespace dedup::recent {

inline constexpr unsigned kSlotBits = 504;  // of a line, without the counter byte
inline constexpr unsigned kLowBits = 8;     // of a fingerprint, in the low bytes
inline constexpr unsigned kMaxSlots = kSlotBits / kLowBits;
inline constexpr unsigned kMaxFingerprintBits = 40;
inline constexpr unsigned kWords = kLineBytes / 8;
inline constexpr size_t kCounterByte = kLineBytes - 1;

// Slots a line and bits a fingerprint.
struct Layout {
  unsigned k;
  unsigned f;
  unsigned high_bits() const noexcept { return f - kLowBits; }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff), static_cast<unsigned>(shape.detail >> 8 & 0xff)};
}
inline uint64_t Lines(const Shape& shape) noexcept { return shape.bytes / kLineBytes; }

// ---- sizes ------------------------------------------------------------------

// The most slots whose fingerprints are long enough for the rate and fit a line.
inline Layout LayoutFor(double fpr) noexcept {
  for (unsigned k = kMaxSlots; k > 1; --k) {
    unsigned f = kLowBits;
    while (std::ldexp(1.0, static_cast<int>(f)) < 2 * k / fpr + 1) ++f;
    if (k * f <= kSlotBits) return {k, f};
  }
  return {1, kMaxFingerprintBits};
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Layout layout = LayoutFor(request.fpr);
  uint64_t lines = request.memory / kLineBytes;
  uint64_t keys = request.keys;
  if (keys > 0) {
    lines = (5 * keys + 4 * layout.k - 1) / (4 * layout.k);  // keys / (0.8 k), rounded up
  } else {
    if (lines == 0) return PlanStatus::kMemoryTooSmall;
    keys = lines * layout.k * 4 / 5;
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

// Rate with `occupied` slots in use in each of a key's two lines.
inline double RateAt(const Layout& layout, double occupied) noexcept {
  return -std::expm1(2 * occupied * std::log1p(-1 / (std::ldexp(1.0, static_cast<int>(layout.f)) - 1)));
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  double occupied = keys / static_cast<double>(Lines(shape));
  if (occupied > layout.k) occupied = layout.k;
  return RateAt(layout, occupied);
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "slots=%u fingerprint_bits=%u lines=%llu", layout.k, layout.f,
                static_cast<unsigned long long>(Lines(shape)));
}

// ---- one line ---------------------------------------------------------------

// A line in registers, as one 512-bit little-endian number. All of it is read
// before any of it is written: a load from a line with a wide store pending
// stalls.
struct Line {
  uint64_t word[kWords + 1];  // the last is zero, so that a field may be read across it

  explicit Line(const uint8_t* bytes) noexcept {
    for (unsigned i = 0; i < kWords; ++i) word[i] = LoadU64(bytes + i * 8);
    word[kWords] = 0;
  }
  void Store(uint8_t* bytes) const noexcept {
    for (unsigned i = 0; i < kWords; ++i) StoreU64(bytes + i * 8, word[i]);
  }

  // `width` bits (0 to 63) from bit `at`.
  uint64_t Field(unsigned at, unsigned width) const noexcept {
    const unsigned index = at / 64, shift = at % 64;
    uint64_t value = word[index] >> shift;
    if (shift != 0) value |= word[index + 1] << (64 - shift);
    return value & LowMask(width);
  }
  void OrField(unsigned at, uint64_t value) noexcept {
    const unsigned index = at / 64, shift = at % 64;
    word[index] |= value << shift;
    if (shift != 0) word[index + 1] |= value >> (64 - shift);
  }
};

inline uint64_t SlotOf(const Line& line, const Layout& layout, unsigned slot) noexcept {
  return line.Field(slot * kLowBits, kLowBits) |
         line.Field(layout.k * kLowBits + slot * layout.high_bits(), layout.high_bits()) << kLowBits;
}

// Bit i is set where byte i of the line equals `low`.
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

// The slot that holds the fingerprint, youngest first, or -1.
inline int Find(const uint8_t* bytes, const Layout& layout, uint64_t fingerprint) noexcept {
  uint64_t candidates =
      MatchLow(bytes, static_cast<uint8_t>(fingerprint)) & LowMask(layout.k);
  if (candidates == 0) return -1;
  const uint64_t high = fingerprint >> kLowBits;
  const unsigned width = layout.high_bits(), base = layout.k * kLowBits;
  const Line line(bytes);
  do {
    const int slot = std::countr_zero(candidates);
    if (line.Field(base + static_cast<unsigned>(slot) * width, width) == high) return slot;
    candidates &= candidates - 1;
  } while (candidates != 0);
  return -1;
}

// Mask of the bits below bit `end` of the line that lie in word `i`.
inline uint64_t Below(unsigned i, unsigned end) noexcept {
  return end <= i * 64 ? 0 : LowMask(end - i * 64);
}

// Puts the fingerprint into slot 0; the slots 0 to slot-1 move back by one, and
// what was in `slot` is gone.
inline void PushFront(uint8_t* bytes, const Layout& layout, unsigned slot,
                      uint64_t fingerprint) noexcept {
  const unsigned width = layout.high_bits(), base = layout.k * kLowBits;
  const unsigned low_end = (slot + 1) * kLowBits, high_end = base + (slot + 1) * width;
  const Line old(bytes);
  Line line = old;
  for (unsigned i = 0; i < kWords; ++i) {
    const uint64_t carry = i == 0 ? 0 : old.word[i - 1];
    const uint64_t low_mask = Below(i, low_end);
    const uint64_t high_mask = Below(i, high_end) & ~Below(i, base);
    const uint64_t low = old.word[i] << kLowBits | carry >> (64 - kLowBits);
    // Two steps, so that a width of 0 shifts the carry out altogether.
    const uint64_t high = old.word[i] << width | carry >> 1 >> (63 - width);
    line.word[i] = (old.word[i] & ~(low_mask | high_mask)) | (low & low_mask) |
                   (high & high_mask & ~(Below(i, base + width)));
  }
  line.word[0] |= fingerprint & LowMask(kLowBits);
  line.OrField(base, fingerprint >> kLowBits);
  line.Store(bytes);
}

// ---- keys -------------------------------------------------------------------

struct Place {
  uint64_t first;   // byte offset of the first candidate line
  uint64_t second;
  uint64_t fingerprint;
};

inline Place PlaceOf(uint64_t hash, uint64_t lines, const Layout& layout) noexcept {
  return {FastRange(hash, lines) * kLineBytes, FastRange(Derived(hash, 0), lines) * kLineBytes,
          1 + FastRange(Derived(hash, 1), LowMask(layout.f))};
}

// The line that a key which was not found goes to.
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
  uint8_t* line = body + place.first;
  int slot = Find(line, layout, place.fingerprint);
  if (slot < 0) {
    line = body + place.second;
    slot = Find(line, layout, place.fingerprint);
  }
  if (slot < 0) {
    InsertAt(body, layout, place);
    return false;
  }
  if (slot > 0) PushFront(line, layout, static_cast<unsigned>(slot), place.fingerprint);
  return true;
}

// Runs step(place) for every hash, with the lines of the keys to come on their
// way into the cache. Places are kept in a small ring so that each is made once.
template <typename Step>
inline void ForEachPlace(const Shape& shape, const uint8_t* body, const uint64_t* hashes, size_t n,
                         Step step) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t lines = Lines(shape);
  if (n == 1) {
    step(layout, PlaceOf(hashes[0], lines, layout), 0);
    return;
  }
  Place ahead[kPrefetchAhead];
  auto fetch = [&](size_t i) {
    const Place place = PlaceOf(hashes[i], lines, layout);
    PrefetchToWrite(body + place.first);
    PrefetchToWrite(body + place.second);
    ahead[i % kPrefetchAhead] = place;
  };
  for (size_t i = 0; i < n && i < kPrefetchAhead; ++i) fetch(i);
  for (size_t i = 0; i < n; ++i) {
    const Place place = ahead[i % kPrefetchAhead];
    if (i + kPrefetchAhead < n) fetch(i + kPrefetchAhead);
    step(layout, place, i);
  }
}

inline void TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                       size_t n, uint8_t* seen) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t i) {
    const bool found = TestAndAddOne(body, layout, place);
    if (seen != nullptr) seen[i] = found;
  });
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t i) {
    seen[i] = Find(body + place.first, layout, place.fingerprint) >= 0 ||
              Find(body + place.second, layout, place.fingerprint) >= 0;
  });
}

inline void Insert(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                   size_t n) noexcept {
  ForEachPlace(shape, body, hashes, n, [&](const Layout& layout, const Place& place, size_t) {
    InsertAt(body, layout, place);
  });
}

// ---- whole filters ----------------------------------------------------------

// Line by line by age rank, the left's slot the younger on ties, equal
// fingerprints once, counters added. Two full filters keep half the window of
// each.
inline void Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other) noexcept {
  const Layout layout = LayoutOf(shape);
  for (size_t at = 0; at < shape.bytes; at += kLineBytes) {
    const Line left(body + at), right(other + at);
    uint64_t merged[kMaxSlots];
    unsigned used = 0;
    auto take = [&](uint64_t fingerprint) {
      if (fingerprint == 0 || used == layout.k) return;
      for (unsigned i = 0; i < used; ++i) {
        if (merged[i] == fingerprint) return;
      }
      merged[used++] = fingerprint;
    };
    for (unsigned slot = 0; slot < layout.k && used < layout.k; ++slot) {
      take(SlotOf(left, layout, slot));
      take(SlotOf(right, layout, slot));
    }
    const auto count = static_cast<uint8_t>(body[at + kCounterByte] + other[at + kCounterByte]);
    uint8_t* line = body + at;
    std::memset(line, 0, kLineBytes);
    for (unsigned slot = used; slot-- > 0;) PushFront(line, layout, layout.k - 1, merged[slot]);
    line[kCounterByte] = count;
  }
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t lines = Lines(shape);
  uint64_t histogram[kMaxSlots + 1] = {};  // lines by slots in use
  for (uint64_t i = 0; i < lines; ++i) {
    const uint8_t* bytes = body + i * kLineBytes;
    const Line line(bytes);
    unsigned used = 0;
    for (unsigned slot = 0; slot < layout.k; ++slot) used += SlotOf(line, layout, slot) != 0;
    ++histogram[used];
  }
  // A key's two lines are independent draws, but for the one in `lines` keys
  // whose candidates are equal.
  const double miss = 1 - 1 / (std::ldexp(1.0, static_cast<int>(layout.f)) - 1);
  double total = 0, one = 0;
  for (unsigned used = 0; used <= layout.k; ++used) {
    total += static_cast<double>(histogram[used]) * used;
    one += static_cast<double>(histogram[used]) / static_cast<double>(lines) *
           IntPower(miss, static_cast<int>(used));
  }
  const double same = 1 / static_cast<double>(lines);
  Reading reading;
  reading.count = total;
  reading.fpr = 1 - (same * one + (1 - same) * one * one);
  return reading;
}

inline constexpr OptionSpec kOptions[] = {kFprOption, kKeysOption};

inline constexpr Method kMethod = {
    "recent",
    3,
    true,
    kLineBytes,
    "the last keys seen: at most 0.1 % of the last n distinct keys are answered new",
    "by age: two full filters keep half the window of each",
    0.001,
    kOptions,
    sizeof kOptions / sizeof kOptions[0],
    Plan,
    Valid,
    [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    Describe,
    TestAndAdd,
    Contains,
    Insert,
    Merge,
    Read,
    ExpectedFpr,
};

}  // namespace dedup::recent

#endif  // STREAMDEDUP_CORE_METHODS_RECENT_HPP_
