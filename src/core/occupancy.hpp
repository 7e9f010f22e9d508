// The exact sums behind the sizes: how many keys fall on a block, how many of
// its positions they set, and how likely a new key then finds all of its own set.
//
// Bloom's formula takes the mean fill and the same load everywhere. In blocks
// the load varies, and the rate is convex in it: sized by the formula, a blocked
// filter asked for 0.0001 has 2.9 times that.

#ifndef STREAMDEDUP_CORE_OCCUPANCY_HPP_
#define STREAMDEDUP_CORE_OCCUPANCY_HPP_

#include <cmath>
#include <cstdint>

namespace dedup {

inline double IntPower(double base, int exponent) noexcept {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

// Probability that k random positions of m are all set after t random settings,
// E[(X/m)^k] with X the number of positions set. Mean and variance of X are exact;
// the expectation is taken to second order. Against the exact chain that is right to
// 0.2 % for m = 512 and k = 16, and to 3 % for k = 32; m = 64 would be off by 8 %.
inline double AllSetProbability(double m, double t, int k) noexcept {
  const double one = std::exp(t * std::log1p(-1 / m));              // a given position is clear
  const double two = m > 2 ? std::exp(t * std::log1p(-2 / m)) : 0;  // two given positions are
  const double mean = m * (1 - one);
  if (mean <= 0) return 0;
  double variance = m * (m - 1) * two + m * one - m * m * one * one;
  if (variance < 0) variance = 0;
  const double spread = 0.5 * k * (k - 1) * variance / (mean * mean);
  const double p = IntPower(mean / m, k) * (1 + spread);
  return p < 1 ? p : 1;
}

// From this many blocks on, loads are taken as Poisson; below, as binomial.
inline constexpr double kPoissonFrom = 400;

// Calls visit(load, probability) for the loads of one block when `keys` keys fall
// at random on `blocks` blocks, leaving out tails of less than 1e-14 or so.
template <typename Visit>
inline void ForEachLoad(double keys, double blocks, Visit visit) noexcept {
  const double mean = keys / blocks;
  const double deviation = std::sqrt(mean);
  double from = std::floor(mean - 9 * deviation - 4);
  double to = std::ceil(mean + 10 * deviation + 24);
  if (from < 0) from = 0;
  if (blocks >= kPoissonFrom) {
    double p = std::exp(from * std::log(mean) - mean - std::lgamma(from + 1));
    for (double load = from; load <= to; ++load) {
      visit(load, p);
      p *= mean / (load + 1);
    }
    return;
  }
  if (blocks <= 1) {
    visit(keys, 1.0);
    return;
  }
  if (to > keys) to = keys;
  const double q = 1 / blocks;
  double p = std::exp(std::lgamma(keys + 1) - std::lgamma(from + 1) - std::lgamma(keys - from + 1) +
                      from * std::log(q) + (keys - from) * std::log1p(-q));
  for (double load = from; load <= to; ++load) {
    visit(load, p);
    p *= (keys - load) / (load + 1) * (q / (1 - q));
  }
}

// Rate at which a new key finds its k positions set in a filter of `blocks`
// blocks of m positions that holds `keys` keys, each in one block.
inline double BlockedRate(double keys, double blocks, double m, int k) noexcept {
  if (keys <= 0) return 0;
  double rate = 0;
  ForEachLoad(keys, blocks,
              [&](double load, double p) { rate += p * AllSetProbability(m, load * k, k); });
  return rate < 1 ? rate : 1;
}

// Inverts the mean fill: how many keys, each setting k of m positions in one of
// `blocks` blocks, leave on average the share `clear` of all positions clear.
inline double KeysFromClear(double clear, double blocks, double m, int k) noexcept {
  const double floor_clear = 0.5 / (blocks * m);  // all set: at least this many
  if (clear < floor_clear) clear = floor_clear;
  const double stays_clear = std::exp(k * std::log1p(-1 / m));
  const double keys = std::log(clear) / std::log1p(-(1 - stays_clear) / blocks);
  return keys > 0 ? keys : 0;
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_OCCUPANCY_HPP_
