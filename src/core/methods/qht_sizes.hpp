// Sizes and rates of qht, qhtd, qqht and qqhtd: how many rows, how wide they are, how often a new
// key finds its fingerprint in its row, and how often a recent key does not.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_SIZES_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_SIZES_HPP_

#include <cmath>
#include <cstdio>

#include "../method.hpp"
#include "../occupancy.hpp"
#include "../sizing.hpp"
#include "qht_row.hpp"

namespace dedup::qht_row {

// ---- sizes ------------------------------------------------------------------

inline constexpr int kCellsOption = 2;
inline constexpr int kBitsOption = 3;
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"k", OptionKind::kWhole, 1, kMaxCells},
                                          {"bits", OptionKind::kWhole, 1, kMaxBits}};
inline constexpr int kOptionCount = sizeof kOptions / sizeof kOptions[0];
inline constexpr const char* kConflict =
    "Option k may be at most 2^bits - 1, the number of fingerprints.";

// Returns the shortest fingerprints with which a full row of this many cells keeps the rate. Its
// rate is cells / fingerprints, or a little less with duplicates.
inline unsigned BitsFor(unsigned cells, double fpr) noexcept {
  unsigned bits = 1;
  while (bits < kMaxBits && static_cast<double>(LowMask(bits)) < cells / fpr) ++bits;
  return bits;
}

// Options that are not given follow from the rate. The cells are the most, up to the method's usual
// number, with which the rate is kept and a row is one word.
inline Layout LayoutFor(const Request& request, const Rule& rule) noexcept {
  const Options& options = request.options;
  const auto given = [&](int option) { return static_cast<unsigned>(options.value[option]); };
  const auto with = [&](unsigned cells) -> Layout {
    return {cells, options.given[kBitsOption] ? given(kBitsOption) : BitsFor(cells, request.fpr)};
  };
  if (options.given[kCellsOption]) return with(given(kCellsOption));
  Layout layout = with(rule.cells);
  while (layout.cells > 1 &&
         (layout.width() > 64 ||
          layout.cells / static_cast<double>(layout.fingerprints()) > request.fpr)) {
    layout = with(layout.cells - 1);
  }
  return layout;
}

// Returns the probability that none of `cells` uniform fingerprints is a given one.
inline double NoneOf(const Layout& layout, double cells) noexcept {
  return std::exp(cells * std::log1p(-1 / static_cast<double>(layout.fingerprints())));
}

// Returns the rate of full rows. Without duplicates the cells of a row differ.
inline double FullRate(const Layout& layout, const Rule& rule) noexcept {
  if (layout.fingerprints() == 1) return 1;
  if (rule.duplicates) return 1 - NoneOf(layout, layout.cells);
  return layout.cells / static_cast<double>(layout.fingerprints());
}

// If the options leave no choice, the rate is that of full rows.
inline PlanStatus Plan(const Request& request, Shape* shape, const Rule& rule) noexcept {
  const Layout layout = LayoutFor(request, rule);
  if (layout.cells > layout.fingerprints()) return PlanStatus::kConflict;
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
        const uint64_t rows = bytes * 8 / layout.width();
        sized->keys = rows * layout.cells;
        sized->detail = layout.cells | layout.bits << 8;
        return rows > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
      });
  const double full = FullRate(layout, rule);
  const bool both = request.options.given[kCellsOption] && request.options.given[kBitsOption];
  if (both || full > request.fpr) shape->fpr = FprFrom(full);
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return shape.detail >> 16 == 0 && layout.cells >= 1 && layout.cells <= kMaxCells &&
         layout.bits >= 1 && layout.bits <= kMaxBits && layout.cells <= layout.fingerprints() &&
         shape.bytes >= kGranule && shape.bytes % kGranule == 0 && shape.keys >= 1 &&
         shape.keys <= Rows(shape, layout) * layout.cells && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%u bits=%u rows=%llu", layout.cells, layout.bits,
                static_cast<unsigned long long>(Rows(shape, layout)));
}

// ---- rates ------------------------------------------------------------------

// Returns the mean over the rows' loads. With duplicates, a row of n keys has min(n, cells) cells
// in use, which are independent. Without duplicates, the number in use grows by one for each key
// whose fingerprint is not there, until the row is full.
inline double ExpectedFpr(const Shape& shape, double keys, const Rule& rule) noexcept {
  const Layout layout = LayoutOf(shape);
  const double rows = static_cast<double>(Rows(shape, layout));
  const double values = static_cast<double>(layout.fingerprints());
  const unsigned cells = layout.cells;
  if (keys <= 0) return 0;
  // The last cell of a row waits for values / (values - cells + 1) keys on average, and no cell
  // waits longer. After this many keys all cells are in use, except with a probability of less than
  // 1e-14.
  if (keys / rows > 40 * cells * values / (values - cells + 1)) return FullRate(layout, rule);
  double in_use[kMaxCells + 1] = {1};  // share of rows by their cells in use, after `reached` keys
  double reached = 0, rate = 0;
  ForEachLoad(keys, rows, [&](double load, double p) {
    if (rule.duplicates) {
      rate += p * (values > 1 ? 1 - NoneOf(layout, load < cells ? load : cells) : load > 0);
      return;
    }
    for (; reached < load; ++reached) {
      for (unsigned used = cells; used-- > 0;) {
        const double grows = in_use[used] * (1 - used / values);
        in_use[used + 1] += grows;
        in_use[used] -= grows;
      }
    }
    double mean = 0;
    for (unsigned used = 1; used <= cells; ++used) mean += used * in_use[used];
    rate += p * mean / values;
  });
  const double full = FullRate(layout, rule);
  return rate < full ? rate : full;
}

// Returns the share of the last `keys` keys of an endless stream of distinct keys that are reported
// as new again. The keys of a row that come after a key of age g are a Poisson number of mean g /
// rows. The mean over the ages, from 0 to t = keys / rows a row, of the probability that m of them
// have come is P[Poisson(t) > m] / t. Then the fingerprint is not there:
// - qht: with probability (1 - c/S)(1 - (1 - 1/c)^m). A new fingerprint takes its cell with
//   probability (S - c)/(S c); while it is gone, an equal one comes with 1/S; the sum is 1/c.
// - qhtd: (1 - 1/S)^c (1 - (1 - 1/c)^m): its cell was overwritten, and no cell has an
//   equal one.
// - qqhtd: (1 - 1/S)^c from m = c on: the last c are others.
// - qqht: by its place in the queue, which advances with probability 1 - c/S.
inline double Missed(const Shape& shape, const Rule& rule) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned cells = layout.cells;
  const double t = static_cast<double>(shape.keys) / static_cast<double>(Rows(shape, layout));
  const double new_rate = 1 - FullRate(layout, rule);
  if (!rule.queue) {
    const double written = t / cells;  // how often a cell is written, on average, in t keys
    return new_rate * (1 + std::expm1(-written) / written);
  }
  // place[i]: probability that the key's fingerprint is i-th in the queue, where the youngest is
  // 0th. The last element: probability that it is gone.
  double place[kMaxCells + 1] = {1};
  if (!rule.duplicates) {
    const double refused = 1 / static_cast<double>(layout.fingerprints());
    for (unsigned i = 0; i < cells; ++i) place[i] = (i == 0 ? new_rate : 0) + refused;
  }
  double p = std::exp(-t), more = -std::expm1(-t);  // P[Poisson(t) = m], P[Poisson(t) > m]
  double missed = 0;
  const double last = t + 12 * std::sqrt(t) + 40;
  for (unsigned m = 0; m < last; ++m) {
    missed += more / t * (rule.duplicates ? (m < cells ? 0 : new_rate) : place[cells]);
    if (!rule.duplicates) {
      const double returns = place[cells] / static_cast<double>(layout.fingerprints());
      place[cells] -= returns;
      for (unsigned i = cells; i-- > 0;) {
        place[i + 1] += place[i] * new_rate;
        place[i] *= 1 - new_rate;
      }
      place[0] += returns;
    }
    p *= t / (m + 1);
    more = more > p ? more - p : 0;
  }
  return missed;
}

}  // namespace dedup::qht_row

#endif  // STREAMDEDUP_CORE_METHODS_QHT_SIZES_HPP_
