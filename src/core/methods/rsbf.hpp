// rsbf: a reservoir sample of the stream in Bloom filters.
//
// Paper: Dutta, Bhattacherjee and Narang, "Towards 'Intelligent Compression' in Streams: A Biased
// Reservoir Sampling based Bloom Filter Approach" (EDBT 2012). There are k filters of s =
// floor(bits/k) bits. A key has one bit in each filter and is a duplicate if all are set. The i-th
// key of the stream, duplicate or not, is inserted
//   - if i <= s, and after that with probability s/i (the reservoir);
//   - else, from s/i <= p_star on, if it looks new: in each filter where its bit is 0, a
//     random bit that is set is reset, and its own bit is set (the threshold).
// The paper has three readings of this, which give different answers (option `reading`):
//   published  an insertion by the reservoir first resets a random bit of each filter,
//              whether it is set or not. The paper's numbers are from this reading.
//   text       (its section 4) the same, except that the first s insertions reset nothing.
//   algorithm  (its Algorithm 1) the reservoir never resets; the threshold is compared
//              with the random number of the reservoir, not with s/i.
//
// Promise: by chance. Between s and s/p_star keys most new keys are not remembered at all: only s/i
// of them are. After that every new key is remembered, and evicts others at random. In the steady
// state half of the bits are set and the rate is 2^-k, whatever the memory. This exceeds the
// requested rate, because the paper computes k for s keys: 1.6 % for 0.01, 0.4 % for 0.001. `keys`
// is s. With reading=algorithm the filters fill up, and the rate goes to 1.
// Cost: k cache lines a key, and k more if it is inserted.
// State: the filters one after the other. Counters::count is the length of the stream so far (for
// the time while the filter was exact, the number of distinct keys). Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_RSBF_HPP_
#define STREAMDEDUP_CORE_METHODS_RSBF_HPP_

#include <bit>
#include <cmath>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "../sizing.hpp"

namespace dedup::rsbf {

inline constexpr int kMaxK = 32;
inline constexpr uint32_t kGranule = 8;
inline constexpr uint64_t kMaxThreshold = 0xffffffffu;

enum class ReadingOf : uint8_t { kPublished, kText, kAlgorithm };

struct Layout {
  int k;
  ReadingOf reading;
  uint64_t threshold;  // p_star in units of 2^-32
  uint64_t s;          // bits of a filter
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  const auto k = static_cast<int>(shape.detail & 0xff);
  return {k, static_cast<ReadingOf>(shape.detail >> 8 & 0xff), shape.detail >> 16,
          k == 0 ? 0 : uint64_t{shape.bytes} * 8 / static_cast<unsigned>(k)};
}

inline constexpr int kReadingOption = 2;
inline constexpr int kPStarOption = 3;
inline constexpr int kKOption = 4;
inline constexpr const char kReadings[] = "published|text|algorithm";
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"reading", OptionKind::kWord, 0, 0, kReadings},
                                          {"p_star", OptionKind::kReal, 0, 1},
                                          {"k", OptionKind::kWhole, 1, kMaxK}};

// ---- rates ------------------------------------------------------------------

// Returns the share of bits set after n distinct keys. With the reservoir, the share tends to one
// half (or, without resets, to all); the threshold does not change the number of ones.
inline double Ones(const Layout& layout, double n) noexcept {
  const double s = static_cast<double>(layout.s);
  const double first = n < s ? n : s;
  const double later = n < s ? 1 : s / n;
  switch (layout.reading) {
    case ReadingOf::kPublished:
      return 0.5 - 0.5 * std::exp(first * std::log1p(-2 / s)) * later * later;
    case ReadingOf::kText:  // it falls to one half later, so this is the maximum
      return 1 - std::exp(first * std::log1p(-1 / s));
    default:
      return 1 - std::exp(first * std::log1p(-1 / s)) * later;
  }
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  return keys > 0 ? IntPower(Ones(layout, keys), layout.k) : 0;
}

// Returns the share missed of the last `keys` keys, if each further key resets a set bit with
// probability `reset`/s and sets a clear bit with probability `set`/s. It is the mean of 1 - q^k,
// where q is the probability that a bit is still set.
inline double MissedAt(const Layout& layout, uint64_t keys, double reset, double set) noexcept {
  constexpr int kPoints = 256;
  const double window = static_cast<double>(keys) / static_cast<double>(layout.s);
  double missed = 0;
  for (int i = 0; i < kPoints; ++i) {
    const double age = window * (i + 0.5) / kPoints;
    const double q = (set + reset * std::exp(-(set + reset) * age)) / (set + reset);
    missed += 1 - IntPower(q, layout.k);
  }
  return missed / kPoints;
}

// This is for a long stream of distinct keys, where the reservoir takes almost none and half of the
// bits are set. Then every key is inserted, and each further key resets a given bit with
// probability (1/2) / (s/2). With reading=algorithm, resets become rare as the filters fill. The
// worst case is near i = 1.8 s, where (1 - s/i)(1 - ones)/ones is 0.1142, plus the share p_star of
// keys that neither rule inserts later.
inline double Missed(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  const double p_star = std::ldexp(static_cast<double>(layout.threshold), -32);
  if (layout.reading == ReadingOf::kAlgorithm) {
    return p_star + (1 - p_star) * MissedAt(layout, shape.keys, 0.1142, 1);
  }
  // no key is inserted in the steady state
  if (layout.threshold == 0) return 1 - std::ldexp(1.0, -layout.k);
  return MissedAt(layout, shape.keys, 1, 1);
}

// ---- sizes ------------------------------------------------------------------

// Returns the mean of 1 and of the k with which s keys in Bloom filters have the rate (Eq. 5.27).
inline int DefaultK(double fpr) noexcept {
  const double k = std::round((1 + std::log(fpr) / std::log1p(-std::exp(-1.0))) / 2);
  return k < 1 ? 1 : static_cast<int>(k);
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const int k =
      options.given[kKOption] ? static_cast<int>(options.value[kKOption]) : DefaultK(request.fpr);
  const auto reading = options.given[kReadingOption]
                           ? static_cast<uint64_t>(options.value[kReadingOption])
                           : uint64_t{0};
  const double p_star = options.given[kPStarOption] ? options.value[kPStarOption] : 0.03;
  auto threshold = static_cast<uint64_t>(std::round(std::ldexp(p_star, 32)));
  if (threshold > kMaxThreshold) threshold = kMaxThreshold;
  shape->detail = static_cast<uint64_t>(k) | reading << 8 | threshold << 16;
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) noexcept {
        sized->keys = bytes * 8 / static_cast<unsigned>(k);
        return PlanStatus::kOk;
      });
  if (options.given[kKOption] && status == PlanStatus::kOk) {
    const double keys = ExpectedFpr(*shape, static_cast<double>(shape->keys));
    const double long_run = IntPower(0.5, k);
    shape->fpr = FprFrom(keys > long_run ? keys : long_run);
  }
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return layout.k >= 1 && layout.k <= kMaxK && layout.reading <= ReadingOf::kAlgorithm &&
         layout.threshold <= kMaxThreshold && shape.bytes >= kGranule &&
         shape.bytes % kGranule == 0 && counters.state == 0;
}

inline const char* NameOf(ReadingOf reading) noexcept {
  switch (reading) {
    case ReadingOf::kPublished:
      return "published";
    case ReadingOf::kText:
      return "text";
    default:
      return "algorithm";
  }
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%d reading=%s p_star=%.6g filter_bits=%llu", layout.k,
                NameOf(layout.reading), std::ldexp(static_cast<double>(layout.threshold), -32),
                static_cast<unsigned long long>(layout.s));
}

// ---- keys -------------------------------------------------------------------

inline bool Get(const uint8_t* body, uint64_t bit) noexcept {
  return (body[bit / 8] >> bit % 8 & 1) != 0;
}
inline void Set(uint8_t* body, uint64_t bit) noexcept {
  body[bit / 8] = static_cast<uint8_t>(body[bit / 8] | 1u << bit % 8);
}
inline void Reset(uint8_t* body, uint64_t bit) noexcept {
  body[bit / 8] = static_cast<uint8_t>(body[bit / 8] & ~(1u << bit % 8));
}

// Returns the key's bit in filter i, counted from the body's start.
inline uint64_t Position(const Layout& layout, uint64_t hash, int i) noexcept {
  return layout.s * static_cast<unsigned>(i) +
         FastRange(Derived(hash, static_cast<unsigned>(i)), layout.s);
}

// The decisions for the i-th key of the stream that do not depend on the key: whether the reservoir
// takes it, and whether the threshold may.
struct Step {
  StepRandom random;
  bool reservoir;
  bool threshold;
};

inline Step StepAt(const Shape& shape, const Layout& layout, uint64_t before) noexcept {
  Step step = {StepRandom(shape.seed, before), true, false};
  const uint64_t i = before + 1;
  if (i - 1 < layout.s) return step;
  const uint64_t draw = step.random.Next();
  step.reservoir = FastRange(draw, i) < layout.s;  // with probability s/i
  step.threshold = layout.reading == ReadingOf::kAlgorithm
                       ? draw > layout.threshold << 32
                       // s/i <= p_star, without a division
                       : FastRange(layout.threshold << 32, i) >= layout.s;
  return step;
}

// Returns whether an insertion by the reservoir resets a bit of each filter.
inline bool ResetsAt(const Layout& layout, uint64_t before) noexcept {
  return layout.reading == ReadingOf::kPublished ||
         (layout.reading == ReadingOf::kText && before >= layout.s);
}

// The most tries to find a bit that is set. If they all fail, the filter has so few set bits that
// it does not need the reset.
inline constexpr int kMaxDraws = 64;

inline void ResetOneThatIsSet(const Layout& layout, uint8_t* body, int i,
                              StepRandom* random) noexcept {
  for (int draw = 0; draw < kMaxDraws; ++draw) {
    const uint64_t bit = layout.s * static_cast<unsigned>(i) + random->Below(layout.s);
    if (Get(body, bit)) return Reset(body, bit);
  }
}

inline bool Ask(const Layout& layout, const uint8_t* body, uint64_t hash) noexcept {
  for (int i = 0; i < layout.k; ++i) {
    if (!Get(body, Position(layout, hash, i))) return false;
  }
  return true;
}

DEDUP_ALWAYS_INLINE inline void FetchKey(const Layout& layout, const uint8_t* body,
                                         uint64_t hash) noexcept {
  for (int i = 0; i < layout.k; ++i) PrefetchToWrite(body + Position(layout, hash, i) / 8);
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t before = counters->count;
  InGroups<kKeysAhead>(
      n,
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        FetchKey(layout, body, hashes[j]);
        Step step = StepAt(shape, layout, before + j);
        if (!step.reservoir || !ResetsAt(layout, before + j)) return;
        for (int i = 0; i < layout.k; ++i) {
          PrefetchToWrite(body +
                          (layout.s * static_cast<unsigned>(i) + step.random.Below(layout.s)) / 8);
        }
      },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        Step step = StepAt(shape, layout, before + j);
        uint64_t at[kMaxK];
        bool all = true;
        for (int i = 0; i < layout.k; ++i) {
          at[i] = Position(layout, hashes[j], i);
          all &= Get(body, at[i]);
        }
        if (step.reservoir) {
          const bool resets = ResetsAt(layout, before + j);
          for (int i = 0; i < layout.k; ++i) {
            if (resets) {
              Reset(body, layout.s * static_cast<unsigned>(i) + step.random.Below(layout.s));
            }
            Set(body, at[i]);
          }
        } else if (step.threshold && !all) {
          for (int i = 0; i < layout.k; ++i) {
            if (Get(body, at[i])) continue;
            ResetOneThatIsSet(layout, body, i, &step.random);
            Set(body, at[i]);
          }
        }
        if (seen != nullptr) seen[j] = all;
      });
  counters->count = before + n;
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(layout, body, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE { seen[j] = Ask(layout, body, hashes[j]); });
}

// A false positive loses no key: its bits are all set already.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

inline uint64_t OnesIn(const uint8_t* body, uint64_t from, uint64_t to) noexcept {
  uint64_t ones = 0;
  const uint64_t first = from / 64, words = (to + 63) / 64 - first;
  ForUnits(words, 64, [&](uint64_t begin, uint64_t end) {
    for (uint64_t word = first + begin; word < first + end; ++word) {
      uint64_t bits = LoadU64(body + word * 8);
      if (word * 64 < from) bits &= ~LowMask(static_cast<unsigned>(from % 64));
      if (to - word * 64 < 64) bits &= LowMask(static_cast<unsigned>(to % 64));
      ones += static_cast<uint64_t>(std::popcount(bits));
    }
  });
  return ones;
}

// The number of keys after which this many bits are still clear, if no bit is ever reset.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const double s = static_cast<double>(layout.s);
  double ones = 0;
  Reading reading;
  reading.fpr = 1;
  for (int i = 0; i < layout.k; ++i) {
    const uint64_t from = layout.s * static_cast<unsigned>(i);
    const double share = static_cast<double>(OnesIn(body, from, from + layout.s)) / s;
    ones += share;
    reading.fpr *= share;
  }
  reading.count = KeysFromClear(1 - ones / layout.k, 1, s, 1);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::rsbf

#endif  // STREAMDEDUP_CORE_METHODS_RSBF_HPP_
