// Searches for the smallest filter that keeps a rate, and for the most keys that a given filter
// holds at that rate. The search is over the sizes and over k.

#ifndef STREAMDEDUP_CORE_SIZING_HPP_
#define STREAMDEDUP_CORE_SIZING_HPP_

#include <cmath>
#include <cstdint>

#include "method.hpp"

namespace dedup {

// Returns the least whole number in [low, high] for which `good` holds, or high + 1. `good` is
// monotone: if it is true for a number, it is true for all larger ones.
template <typename Good>
inline uint64_t LeastWhere(uint64_t low, uint64_t high, Good good) noexcept {
  if (!good(high)) return high + 1;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (good(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Does the same from a guess near the answer, so that few of the expensive calls of `good` are
// needed.
template <typename Good>
inline uint64_t LeastWhereNear(uint64_t guess, uint64_t low, uint64_t high, Good good) noexcept {
  if (guess < low) guess = low;
  if (guess > high) guess = high;
  uint64_t step = guess / 64 + 1;
  if (good(guess)) {
    uint64_t top = guess;
    while (top > low) {
      const uint64_t below = top - low > step ? top - step : low;
      if (!good(below)) return LeastWhere(below + 1, top, good);
      top = below;
      step *= 2;
    }
    return low;
  }
  uint64_t bottom = guess;
  while (bottom < high) {
    const uint64_t above = high - bottom > step ? bottom + step : high;
    if (good(above)) return LeastWhere(bottom + 1, above, good);
    bottom = above;
    step *= 2;
  }
  return high + 1;
}

// A range of k, the number of positions that a key sets.
struct KRange {
  int low;
  int high;
};

// Returns the values of k that are worth trying for a rate. The optimum without blocks is
// log2(1/rate); in blocks it is lower, down to half of that. If the user gave k, only that k is
// tried.
inline KRange WorthTrying(double rate, int most, const Options& options, int k_option) noexcept {
  if (options.given[k_option]) {
    const int k = static_cast<int>(options.value[k_option]);
    return {k, k};
  }
  const double ideal = -std::log2(rate);
  KRange range = {static_cast<int>(ideal * 0.5), static_cast<int>(ideal + 1)};
  if (range.low < 1) range.low = 1;
  if (range.low > most) range.low = most;
  if (range.high > most) range.high = most;
  return range;
}

// Returns the bits a key by Bloom's formula, from which the search starts.
inline double BloomBits(double rate, int k) noexcept {
  return -k / std::log1p(-std::pow(rate, 1.0 / k));
}

// Returns Shape::fpr for a rate that follows from options, not from a requested rate.
inline double FprFrom(double rate) noexcept {
  return rate < kMinFpr ? kMinFpr : rate > kMaxFpr ? kMaxFpr : rate;
}

// Sizes a method that computes the shape, and with it the number of keys, from a number of bytes (a
// multiple of `granule`). For a request of keys, finds the fewest bytes that hold that many keys.
// `from_memory(bytes, shape)` fills the shape; its keys must not fall as the bytes grow.
template <typename FromMemory>
inline PlanStatus PlanFromMemory(const Request& request, uint32_t granule, Shape* shape,
                                 FromMemory from_memory) noexcept {
  const uint64_t most = kMaxBodyBytes / granule;
  uint64_t units = request.memory / granule;
  shape->fpr = request.fpr;
  if (request.keys > 0) {
    PlanStatus conflict = PlanStatus::kOk;
    units = LeastWhere(1, most, [&](uint64_t tried) {
      Shape trial = *shape;
      const PlanStatus status = from_memory(tried * granule, &trial);
      if (status == PlanStatus::kConflict) conflict = status;
      return status == PlanStatus::kOk && trial.keys >= request.keys;
    });
    if (conflict != PlanStatus::kOk) return conflict;
  } else if (units == 0) {
    return PlanStatus::kMemoryTooSmall;
  }
  if (units > most) return PlanStatus::kTooLarge;
  shape->bytes = static_cast<uint32_t>(units * granule);
  const PlanStatus status = from_memory(units * granule, shape);
  if (status == PlanStatus::kOk && request.keys > 0) shape->keys = request.keys;
  return status;
}

struct Sized {
  uint64_t amount = 0;  // units, or keys; 0 if there is no solution
  int k = 0;
};

// Returns the fewest units in [least, most] for which rate(units, k) is at most `rate`, and the k
// for which this is so. `guess(k)` is near the answer. If `amount` is 0, no number of units has
// such a rate.
template <typename Guess, typename Rate>
inline Sized FewestUnits(double asked, KRange ks, uint64_t least, uint64_t most, Guess guess,
                         Rate rate) noexcept {
  Sized best;
  uint64_t limit = most;  // larger results are worse than the best one so far
  for (int k = ks.low; k <= ks.high; ++k) {
    auto good = [&](uint64_t units) { return rate(units, k) <= asked; };
    if (!good(limit)) continue;
    best.amount = LeastWhereNear(guess(k), least, limit, good);
    best.k = k;
    if (best.amount == least) break;
    limit = best.amount - 1;
  }
  return best;
}

// Returns the most keys up to `most` for which rate(keys, k) is at most `rate`.
template <typename Guess, typename Rate>
inline Sized MostKeys(double asked, KRange ks, uint64_t most, Guess guess, Rate rate) noexcept {
  Sized best;
  for (int k = ks.low; k <= ks.high; ++k) {
    auto too_many = [&](uint64_t keys) { return rate(keys, k) > asked; };
    const uint64_t first = LeastWhereNear(guess(k), 1, most, too_many);
    if (first - 1 > best.amount) best = {first - 1, k};
  }
  return best;
}

// The parts that an array of one or more Bloom filters is made of.
struct BloomUnit {
  uint64_t bytes;
  uint64_t positions;
  uint64_t least;      // units of the smallest array
  double column_rate;  // The number of bits a key follows from this rate by Bloom's formula ...
  double room;         // ... and an array has this many times as many. Both are only guesses.
};

// Sizes an array for `keys` keys, or, if `keys` is 0, for the memory of the request. Fills bytes
// and fpr of the shape, and its keys with the number of keys. `rate(keys, units, k)` is the rate of
// an array. `k` is the number of positions that a key sets.
template <typename Rate>
inline PlanStatus PlanBloom(const Request& request, uint64_t keys, const BloomUnit& unit, KRange ks,
                            Shape* shape, uint64_t* k, Rate rate) noexcept {
  const double positions = static_cast<double>(unit.positions);
  const uint64_t most = kMaxBodyBytes / unit.bytes;
  uint64_t units = request.memory / unit.bytes;
  Sized sized;
  if (keys > 0) {
    const double n = static_cast<double>(keys);
    sized = FewestUnits(
        request.fpr, ks, unit.least, most,
        [&](int tried) {
          return static_cast<uint64_t>(n * BloomBits(unit.column_rate, tried) * unit.room /
                                       positions);
        },
        [&](uint64_t amount, int tried) { return rate(n, static_cast<double>(amount), tried); });
    if (sized.amount == 0) return PlanStatus::kTooLarge;
    units = sized.amount;
  } else {
    if (units < unit.least) return PlanStatus::kMemoryTooSmall;
    if (units > most) return PlanStatus::kTooLarge;
    const double given = static_cast<double>(units);
    sized = MostKeys(
        request.fpr, ks, units * unit.positions,
        [&](int tried) {
          return static_cast<uint64_t>(given * positions / BloomBits(unit.column_rate, tried) /
                                       unit.room);
        },
        [&](uint64_t n, int tried) { return rate(static_cast<double>(n), given, tried); });
    if (sized.amount == 0) return PlanStatus::kMemoryTooSmall;
    keys = sized.amount;
  }
  shape->bytes = static_cast<uint32_t>(units * unit.bytes);
  shape->keys = keys;
  shape->fpr = request.fpr;
  *k = static_cast<uint64_t>(sized.k);
  return PlanStatus::kOk;
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_SIZING_HPP_
