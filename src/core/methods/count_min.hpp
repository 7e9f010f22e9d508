// count_min: counts how often a key was seen, in rows of counters.
//
// Paper: Cormode and Muthukrishnan, "An Improved Data Stream Summary: The Count-Min Sketch and its
// Applications" (Journal of Algorithms 55, 2005). There are `depth` rows of `width` counters, and a
// key has one counter in each row. A sight increments all of them. The answer is the least of them,
// because other keys have added least to it. With conservative=on, a sight raises only the counters
// that are too low for the new answer (Estan and Varghese, "New Directions in Traffic Measurement
// and Accounting", SIGCOMM 2002). No counter is then ever higher than without this option. So all
// promises hold, and the error is mostly smaller.
//
// Promise: a frequency is never too low. It is too high by more than epsilon times all sights
// (including those of other keys) with probability at most delta, where epsilon = e / width and
// delta = e^-depth. A counter of 32 bits that has reached its maximum stays there; Counters::state
// records that a counter would have exceeded it, and a frequency at the maximum is reported as "at
// least". A merge adds the counters. Without conservative=on the result is exactly the sketch of
// both streams. With conservative=on the result keeps the promise, but its error is larger than
// that of a sketch of the two streams in a row. Sights cannot be removed. With conservative=on,
// what was not added cannot be subtracted. Without it, removing a key that was never added would
// make the counts of other keys too low.
// Cost: 4 * depth * e / epsilon bytes; `depth` cache lines a key.
//
// The place in each row comes from a number of its own, Derived(hash, row). If all places followed
// from two numbers h1 and h2, as in some Bloom filters (place i is h1 + i h2), keys that meet in
// two rows would meet in all rows, with probability 1 / width^2 a pair. At small widths no number
// of rows would then bring delta down to e^-depth.
//
// State: the counters, row by row, little-endian. Counters::count is the number of sights. detail:
// bits 0-7 depth, bit 8 conservative.

#ifndef STREAMDEDUP_CORE_METHODS_COUNT_MIN_HPP_
#define STREAMDEDUP_CORE_METHODS_COUNT_MIN_HPP_

#include <cmath>
#include <cstdio>
#include <numbers>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"

namespace dedup::count_min {

inline constexpr int kMaxDepth = 21;       // for delta down to 7.6e-10
inline constexpr uint64_t kMinWidth = 3;   // with a smaller width, epsilon would be more than 1
inline constexpr uint32_t kGranule = 4;    // bytes of a counter
inline constexpr uint32_t kMost = ~0u;     // the maximum of a counter
inline constexpr uint32_t kSaturated = 1;  // in Counters::state

inline constexpr double kDefaultDelta = 0.01;

inline constexpr int kEpsilonOption = 0;
inline constexpr int kDeltaOption = 1;
inline constexpr int kConservativeOption = 2;
inline constexpr OptionSpec kOptions[] = {{"epsilon", OptionKind::kReal, 1e-9, 0.9},
                                          {"delta", OptionKind::kReal, 1e-9, 0.9},
                                          {"conservative", OptionKind::kOnOff, 0, 1}};

inline int Depth(const Shape& shape) noexcept { return static_cast<int>(shape.detail & 0xff); }
inline bool Conservative(const Shape& shape) noexcept { return shape.detail >> 8 != 0; }
inline uint64_t Width(const Shape& shape) noexcept {
  return shape.bytes / (kGranule * static_cast<uint32_t>(Depth(shape)));
}
inline double Epsilon(const Shape& shape) noexcept {
  return std::numbers::e / static_cast<double>(Width(shape));
}
inline double Delta(const Shape& shape) noexcept { return std::exp(-Depth(shape)); }

// ---- sizes ------------------------------------------------------------------

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const double delta = options.given[kDeltaOption] ? options.value[kDeltaOption] : kDefaultDelta;
  // A delta that equals e^-depth except for rounding needs no extra row.
  const double rows = std::ceil(-std::log(delta) * (1 - 1e-12));
  const uint64_t depth = rows < 1 ? 1 : rows > kMaxDepth ? kMaxDepth : static_cast<uint64_t>(rows);
  uint64_t width = request.memory / (kGranule * depth);
  if (options.given[kEpsilonOption]) {
    if (request.memory > 0) return PlanStatus::kTwoSizes;
    width = static_cast<uint64_t>(std::ceil(std::numbers::e / options.value[kEpsilonOption]));
  } else if (request.memory == 0) {
    return PlanStatus::kNoSize;
  }
  if (width < kMinWidth) return PlanStatus::kMemoryTooSmall;
  if (width > kMaxBodyBytes / (kGranule * depth)) return PlanStatus::kTooLarge;
  const bool conservative =
      options.given[kConservativeOption] && options.value[kConservativeOption] != 0;
  shape->bytes = static_cast<uint32_t>(kGranule * depth * width);
  shape->detail = depth | uint64_t{conservative} << 8;
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const int depth = Depth(shape);
  return shape.detail >> 9 == 0 && depth >= 1 && depth <= kMaxDepth &&
         shape.bytes % (kGranule * static_cast<uint32_t>(depth)) == 0 &&
         Width(shape) >= kMinWidth && counters.count <= kMaxCount && counters.state <= kSaturated;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "width=%llu depth=%d epsilon=%.3g delta=%.3g conservative=%s",
                static_cast<unsigned long long>(Width(shape)), Depth(shape), Epsilon(shape),
                Delta(shape), Conservative(shape) ? "on" : "off");
}

// ---- keys -------------------------------------------------------------------

// Returns the byte offset of a key's counter in a row.
inline size_t At(uint64_t hash, int row, uint64_t width) noexcept {
  return kGranule * (static_cast<uint64_t>(row) * width + Position(hash, row, width));
}

DEDUP_ALWAYS_INLINE inline void FetchKey(const uint8_t* body, uint64_t width, int depth,
                                         uint64_t hash) noexcept {
  for (int row = 0; row < depth; ++row) Prefetch(body + At(hash, row, width));
}

inline uint32_t Least(const uint8_t* body, uint64_t width, int depth, uint64_t hash) noexcept {
  uint32_t least = kMost;
  for (int row = 0; row < depth; ++row) {
    const uint32_t counter = LoadU32(body + At(hash, row, width));
    if (counter < least) least = counter;
  }
  return least;
}

// Adds `count` sights of a key. Returns its frequency before.
inline uint32_t See(const Shape& shape, uint64_t width, int depth, Counters* counters,
                    uint8_t* body, uint64_t hash, uint64_t count) noexcept {
  size_t at[kMaxDepth];
  uint32_t value[kMaxDepth];
  uint32_t least = kMost;
  for (int row = 0; row < depth; ++row) {
    at[row] = At(hash, row, width);
    value[row] = LoadU32(body + at[row]);
    if (value[row] < least) least = value[row];
  }
  const bool conservative = Conservative(shape);
  for (int row = 0; row < depth; ++row) {
    const uint32_t from = conservative ? least : value[row];
    uint32_t to = kMost;
    if (count <= kMost - from) {
      to = from + static_cast<uint32_t>(count);
    } else {
      counters->state |= kSaturated;
    }
    if (to > value[row]) StoreU32(body + at[row], to);
  }
  counters->count = SumOfCounts(counters->count, count);
  return least;
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t width = Width(shape);
  const int depth = Depth(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, width, depth, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        const uint32_t before = See(shape, width, depth, counters, body, hashes[j], 1);
        if (seen != nullptr) seen[j] = before != 0;
      });
  return n;
}

inline void AddCounts(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                      const uint64_t* counts, size_t n) noexcept {
  const uint64_t width = Width(shape);
  const int depth = Depth(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, width, depth, hashes[j]); },
      [&](size_t j)
          DEDUP_ALWAYS_INLINE { See(shape, width, depth, counters, body, hashes[j], counts[j]); });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t width = Width(shape);
  const int depth = Depth(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, width, depth, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE { seen[j] = Least(body, width, depth, hashes[j]) != 0; });
}

inline Frequency FrequencyIn(const Shape& shape, const Counters& counters, const uint8_t* body,
                             uint64_t hash) noexcept {
  const uint32_t least = Least(body, Width(shape), Depth(shape), hash);
  return {least, least == kMost && (counters.state & kSaturated) != 0};
}

// ---- whole filters ----------------------------------------------------------

inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body, const Counters& others,
                  const uint8_t* other, const Weights&) noexcept {
  bool passed = false;
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; i += kGranule) {
      const uint64_t sum = uint64_t{LoadU32(body + i)} + LoadU32(other + i);
      passed |= sum > kMost;
      StoreU32(body + i, sum > kMost ? kMost : static_cast<uint32_t>(sum));
    }
  });
  counters->count = SumOfCounts(counters->count, others.count);
  counters->state |= others.state | (passed ? kSaturated : 0);
  return true;
}

// Estimates the distinct keys by linear counting (Whang, Vander-Zanden and Taylor, TODS 1990): a
// counter is 0 if no key fell on it. The error is a few percent up to two keys a counter of a row.
// The estimate is at most about width * ln(2 * width * depth), when all counters are in use.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  uint64_t used = 0;
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; i += kGranule) used += LoadU32(body + i) != 0;
  });
  const double cells = static_cast<double>(shape.bytes / kGranule);
  const double share = static_cast<double>(used) / cells;
  double clear = 1 - share;
  if (clear < 0.5 / cells) clear = 0.5 / cells;
  Reading reading;
  reading.count = std::log(clear) / std::log1p(-1 / static_cast<double>(Width(shape)));
  reading.fpr = IntPower(share, Depth(shape));
  return reading;
}

// Each row counts every sight once. So the sum of a row is the number of sights, minus what
// conservative=on left out and what counters at their maximum could not take.
inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const uint64_t width = Width(shape);
  const bool all = !Conservative(shape) && counters.state == 0;
  for (int row = 0; row < Depth(shape); ++row) {
    uint64_t sum = 0;
    ForUnits(width, 8 * kGranule, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) {
        sum += LoadU32(body + kGranule * (static_cast<uint64_t>(row) * width + i));
      }
    });
    if (all ? sum != counters.count : sum > counters.count) return false;
  }
  return true;
}

extern const Method kMethod;

}  // namespace dedup::count_min

#endif  // STREAMDEDUP_CORE_METHODS_COUNT_MIN_HPP_
