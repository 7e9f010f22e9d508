// The exact sums for the sizes of filters: how many keys fall on a block, how many of its positions
// they set, and how likely a new key then finds all of its own positions set.
//
// Bloom's formula assumes the mean fill, and the same load everywhere. In blocks the load varies,
// and the rate is convex in the load. Sized by Bloom's formula, a blocked filter with the requested
// rate 0.0001 has 2.9 times that rate.

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

// Returns the probability that k random positions of m are all set after t random settings. This is
// E[(X/m)^k], where X is the number of positions set. Mean and variance of X are exact; the
// expectation is computed to second order. Compared with the exact Markov chain, the error is 0.2 %
// for m = 512 and k = 16, and 3 % for k = 32. For m = 64 it would be 8 %.
inline double AllSetProbability(double m, double t, int k) noexcept {
  // probability that a given position is clear
  const double one = std::exp(t * std::log1p(-1 / m));
  // probability that two given positions are clear
  const double two = m > 2 ? std::exp(t * std::log1p(-2 / m)) : 0;
  const double mean = m * (1 - one);
  if (mean <= 0) return 0;
  double variance = m * (m - 1) * two + m * one - m * m * one * one;
  if (variance < 0) variance = 0;
  const double spread = 0.5 * k * (k - 1) * variance / (mean * mean);
  const double p = IntPower(mean / m, k) * (1 + spread);
  return p < 1 ? p : 1;
}

// Loads are taken as Poisson from this many blocks on, and as binomial for fewer.
inline constexpr double kPoissonFrom = 400;

// Calls visit(load, probability) for the loads of one block when `keys` keys fall at random on
// `blocks` blocks. Leaves out tails of less than about 1e-14.
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

// Returns the rate at which a new key finds its k positions set. The filter has `blocks` blocks of
// m positions and holds `keys` keys, each in one block.
inline double BlockedRate(double keys, double blocks, double m, int k) noexcept {
  if (keys <= 0) return 0;
  double rate = 0;
  ForEachLoad(keys, blocks,
              [&](double load, double p) { rate += p * AllSetProbability(m, load * k, k); });
  return rate < 1 ? rate : 1;
}

// Inverts the mean fill: returns how many keys leave the share `clear` of all positions clear, on
// average, if each key sets k of m positions in one of `blocks` blocks.
inline double KeysFromClear(double clear, double blocks, double m, int k) noexcept {
  const double floor_clear = 0.5 / (blocks * m);  // all are set: the result is a lower limit
  if (clear < floor_clear) clear = floor_clear;
  const double stays_clear = std::exp(k * std::log1p(-1 / m));
  const double keys = std::log(clear) / std::log1p(-(1 - stays_clear) / blocks);
  return keys > 0 ? keys : 0;
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_OCCUPANCY_HPP_
