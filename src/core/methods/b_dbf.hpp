// b_dbf: Block Decaying Bloom filter, a window of stream elements.
//
// Paper: Shen and Zhang, "Improved Approximate Detection of Duplicates for Data Streams over
// Sliding Windows" (JCST 2008). It is a Bloom filter of counters. Every element, duplicates too,
// sets its k counters to b. After every `age` elements, all counters that are not zero are
// decremented. A key is known while none of its counters is zero. So the stream is cut into blocks
// of `age` elements, and the last b blocks are remembered.
//
// m = floor(bits / w) counters of w = ceil(log2(b + 1)) bits, k = round(log2 1/fpr), W =
// floor(-(m/k) ln(1 - fpr^(1/k)) (b - 1)/b), age = max(1, floor(W / (b - 1))).
//
// Promise: a key is always reported as a duplicate as long as no more than (b - 1) age stream
// elements came since its last sight. That number is the window; because of the division it is
// smaller than W by fewer than b - 1. The window counts elements: a stream that repeats one key
// pushes the other keys out. The rate is fpr when the last b age elements are distinct, and lower
// if there are duplicates among them.
//
// An element is first tested, then the counters are aged if it is time, then the element is set. So
// a lookup and an add give the same answer.
//
// Cost: k lines a key, 1.44 w b/(b - 1) log2(1/fpr) bits a key of the window: 33.6 at 0.01 with b =
// 7. Ageing sweeps the whole body. One element in `age` waits for it, about 0.15 ms a MiB; per
// element these are about 3 words.
// State: the counters, packed. Counters::count is the number of elements since the last ageing.

#ifndef STREAMDEDUP_CORE_METHODS_B_DBF_HPP_
#define STREAMDEDUP_CORE_METHODS_B_DBF_HPP_

#include <bit>
#include <cmath>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"

namespace dedup::b_dbf {

inline constexpr unsigned kMaxK = 32;
inline constexpr unsigned kMaxB = 255;
inline constexpr unsigned kDefaultB = 7;
inline constexpr size_t kGranule = 8;

struct Layout {
  unsigned k;
  unsigned b;    // the value to which an element sets its counters
  uint64_t age;  // number of elements between two ageings
  unsigned width;
  uint64_t counters;
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  Layout layout = {};
  layout.k = static_cast<unsigned>(shape.detail & 0xff);
  layout.b = static_cast<unsigned>(shape.detail >> 8 & 0xff);
  layout.age = shape.detail >> 16;
  layout.width = static_cast<unsigned>(std::bit_width(layout.b));
  if (layout.width > 0) layout.counters = uint64_t{shape.bytes} * 8 / layout.width;
  return layout;
}

inline constexpr int kBOption = 2;
inline constexpr int kWindowOption = 3;  // in elements; if it is given, k is the best for it
inline constexpr OptionSpec kOptions[] = {
    kFprOption,
    kKeysOption,
    {"b", OptionKind::kWhole, 2, kMaxB},
    {"window", OptionKind::kWhole, 1, static_cast<double>(kMaxKeys)}};

// ---- sizes ------------------------------------------------------------------

inline double RateWith(const Layout& layout, double elements) noexcept {
  const double load = layout.k * elements / static_cast<double>(layout.counters);
  return IntPower(-std::expm1(-load), static_cast<int>(layout.k));
}

// Returns the number of keys just before a block ages.
inline double MostKeys(const Layout& layout) noexcept {
  return static_cast<double>(layout.b) * static_cast<double>(layout.age);
}
inline double MostRate(const Layout& layout) noexcept { return RateWith(layout, MostKeys(layout)); }

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  const double most = MostKeys(layout);
  return RateWith(layout, keys < most ? keys : most);
}

// Sizes a window of `window` elements in given bytes, at the rate that follows; k is the best for
// that many keys.
inline PlanStatus PlanWindow(uint64_t bytes, unsigned b, uint64_t window, Shape* shape) noexcept {
  const uint64_t counters = bytes * 8 / static_cast<unsigned>(std::bit_width(b));
  const uint64_t age = window / (b - 1) > 0 ? window / (b - 1) : 1;
  if (age > counters) return PlanStatus::kMemoryTooSmall;
  double k =
      std::round(static_cast<double>(counters) / static_cast<double>(window) * std::log(2.0));
  k = k < 1 ? 1 : k > kMaxK ? kMaxK : k;
  shape->bytes = static_cast<uint32_t>(bytes);
  shape->keys = (b - 1) * age;
  shape->detail = static_cast<uint64_t>(k) | b << 8 | age << 16;
  return PlanStatus::kOk;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const unsigned b =
      options.given[kBOption] ? static_cast<unsigned>(options.value[kBOption]) : kDefaultB;
  if (options.given[kWindowOption]) {
    if (request.keys > 0) return PlanStatus::kConflict;
    const PlanStatus status =
        PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
          return PlanWindow(bytes, b, static_cast<uint64_t>(options.value[kWindowOption]), sized);
        });
    if (status == PlanStatus::kOk) shape->fpr = FprFrom(MostRate(LayoutOf(*shape)));
    return status;
  }
  double k = std::round(-std::log2(request.fpr));
  if (k < 1) k = 1;
  const double counters_a_key = -k / std::log1p(-std::pow(request.fpr, 1 / k));
  return PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
    const uint64_t counters = bytes * 8 / static_cast<unsigned>(std::bit_width(b));
    const auto window =
        static_cast<uint64_t>(static_cast<double>(counters) / counters_a_key * (b - 1) / b);
    const uint64_t age = window / (b - 1) > 0 ? window / (b - 1) : 1;
    sized->bytes = static_cast<uint32_t>(bytes);
    sized->keys = (b - 1) * age;
    sized->detail = static_cast<uint64_t>(k) | b << 8 | age << 16;
    // If each element is a block, the b blocks may be too many for the rate.
    const Layout layout = LayoutOf(*sized);
    const bool keeps_rate = window >= b - 1 || RateWith(layout, b) <= request.fpr;
    return keeps_rate ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
  });
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return layout.k >= 1 && layout.k <= kMaxK && layout.b >= 2 && shape.bytes >= kGranule &&
         shape.bytes % kGranule == 0 && layout.age >= 1 && layout.age <= layout.counters &&
         shape.keys >= 1 && shape.keys <= (layout.b - 1) * layout.age &&
         counters.count <= layout.age && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%u b=%u counters=%llu age_every=%llu", layout.k, layout.b,
                static_cast<unsigned long long>(layout.counters),
                static_cast<unsigned long long>(layout.age));
}

// ---- all counters at once -----------------------------------------------------

// Calls visit(byte offset, word, marks) for each 64-bit word of the body. A mark is the lowest bit
// of a counter that is not zero. Counters may cross the ends of words, if their width does not
// divide 64. The rest of a word's last counter is read from the next word before the visit, so
// visit may change the word that it gets.
template <unsigned kWidth, typename Visit>
inline void ForEachWord(const uint8_t* body, size_t bytes, Visit visit) noexcept {
  uint64_t lowest = 0;  // the lowest bits of counters, in a word that starts with a counter
  for (unsigned bit = 0; bit < 64; bit += kWidth) lowest |= uint64_t{1} << bit;
  unsigned first = 0;  // bit at which the first counter starts in this word
  uint64_t word = LoadU64(body);
  ForBytes(bytes, [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += 8) {
      const uint64_t next = at + 8 < bytes ? LoadU64(body + at + 8) : 0;
      uint64_t any = word;
      DEDUP_UNROLL
      for (unsigned bit = 1; bit < kWidth; ++bit) any |= word >> bit | next << (64 - bit);
      visit(at, word, any & lowest << first);
      first += kWidth - 64 % kWidth;
      if (first >= kWidth) first -= kWidth;
      word = next;
    }
  });
}

template <typename Visit>
inline void ForEachWord(unsigned width, const uint8_t* body, size_t bytes, Visit visit) noexcept {
  switch (width) {
    case 2:
      return ForEachWord<2>(body, bytes, visit);
    case 3:
      return ForEachWord<3>(body, bytes, visit);
    case 4:
      return ForEachWord<4>(body, bytes, visit);
    case 5:
      return ForEachWord<5>(body, bytes, visit);
    case 6:
      return ForEachWord<6>(body, bytes, visit);
    case 7:
      return ForEachWord<7>(body, bytes, visit);
    default:
      return ForEachWord<8>(body, bytes, visit);
  }
}

// Decrements every counter that is not zero, by one subtraction over the whole body as if it were
// one long number. A counter's borrow ends within the counter, but may pass from word to word.
inline void Age(const Shape& shape, const Layout& layout, uint8_t* body) noexcept {
  uint64_t borrow = 0;
  ForEachWord(layout.width, body, shape.bytes, [&](size_t at, uint64_t word, uint64_t marks) {
    const uint64_t less = marks | borrow;  // there is no mark at the place of a borrow
    StoreU64(body + at, word - less);
    borrow = word < less;
  });
}

// ---- keys -------------------------------------------------------------------

inline uint64_t BitOf(const Layout& layout, uint64_t hash, unsigned i) noexcept {
  return Position(hash, static_cast<int>(i), layout.counters) * layout.width;
}

DEDUP_ALWAYS_INLINE inline void FetchKey(const Layout& layout, const uint8_t* body,
                                         uint64_t hash) noexcept {
  for (unsigned i = 0; i < layout.k; ++i) PrefetchToWrite(body + BitOf(layout, hash, i) / 8);
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(layout, body, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        uint64_t bits[kMaxK];
        bool found = true;
        for (unsigned i = 0; i < layout.k; ++i) {
          bits[i] = BitOf(layout, hashes[j], i);
          found &= LoadField(body, shape.bytes, bits[i], layout.width) != 0;
        }
        if (counters->count >= layout.age) {
          Age(shape, layout, body);
          counters->count = 0;
        }
        ++counters->count;
        for (unsigned i = 0; i < layout.k; ++i) {
          StoreField(body, shape.bytes, bits[i], layout.width, layout.b);
        }
        if (seen != nullptr) seen[j] = found;
      });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(layout, body, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        bool found = true;
        for (unsigned i = 0; i < layout.k && found; ++i) {
          found = LoadField(body, shape.bytes, BitOf(layout, hashes[j], i), layout.width) != 0;
        }
        seen[j] = found;
      });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

// Returns the larger of each two fields of `width` bits in a and b. `fields` masks the fields; no
// two of them are adjacent.
inline uint64_t LargerFields(uint64_t a, uint64_t b, uint64_t fields, uint64_t above,
                             unsigned width) noexcept {
  const uint64_t not_less = (((a & fields) | above) - (b & fields)) & above;
  const uint64_t from_a = not_less - (not_less >> width);
  return (a & from_a) | (b & fields & ~from_a);
}

// Takes the larger of each two counters, and the larger count, so no key of either filter is
// dropped. The keys of the input whose block began later are aged together with the other's, so
// they may be forgotten up to `age` elements early. The window of stream elements then applies to
// each of the two streams. The rate is that of twice as many keys until the window has passed.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned width = layout.width, fields = kMaxFieldBits / width;
  // every second field from the first on, and the bit after each of them
  uint64_t even = 0, above = 0;
  for (unsigned i = 0; i < fields; i += 2) {
    even |= LowMask(width) << i * width;
    above |= uint64_t{1} << (i + 1) * width;
  }
  const auto merge_fields = [&](uint64_t done) {
    const uint64_t left = layout.counters - done;
    const unsigned bits = static_cast<unsigned>(left < fields ? left : fields) * width;
    const uint64_t a = LoadField(body, shape.bytes, done * width, bits);
    const uint64_t b = LoadField(other, shape.bytes, done * width, bits);
    const uint64_t larger = LargerFields(a, b, even, above, width) |
                            LargerFields(a >> width, b >> width, even, above, width) << width;
    StoreField(body, shape.bytes, done * width, bits, larger);
  };
  ForPieces(layout.counters, kPieceBytes / 8 * fields, [&](uint64_t from, uint64_t to) {
    for (uint64_t done = from; done < to; done += fields) merge_fields(done);
  });
  if (other_counters.count > counters->count) counters->count = other_counters.count;
  return true;
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  uint64_t used = 0;
  ForEachWord(layout.width, body, shape.bytes, [&](size_t, uint64_t, uint64_t marks) {
    used += static_cast<uint64_t>(std::popcount(marks));
  });
  if (used > layout.counters) used = layout.counters;  // bits behind the last counter were set
  const double counters = static_cast<double>(layout.counters);
  const int k = static_cast<int>(layout.k);
  Reading reading;
  reading.count = KeysFromClear(1 - static_cast<double>(used) / counters, 1, counters, k);
  reading.fpr = IntPower(static_cast<double>(used) / counters, k);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::b_dbf

#endif  // STREAMDEDUP_CORE_METHODS_B_DBF_HPP_
