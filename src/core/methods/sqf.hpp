// sqf: the Streaming Quotient Filter, rows of k signatures with random eviction.
//
// Paper: Dutta, Narang and Bera, "Streaming Quotient Filter: A Near Optimal Approximate Duplicate
// Detection Approach for Data Streams" (PVLDB 2013). A key's quotient is its row, and a signature
// of its remainder is stored (quotient_signature.hpp). A key whose signature is in the row is a
// duplicate and changes nothing. In a full row a new signature replaces a random one. The number of
// rows need not be a power of two (with pow2=on it is, as in the paper's figures).
//
// Promise: none for a single key. Each new key that falls on a full row evicts a given key with
// probability 1 / k. So of the last k * rows distinct keys 37 % (1/e) are missed. The rate never
// exceeds that of full rows, 1 - (k + 1) e(k + 1) / e(k) of the signatures' probabilities, which is
// k / S if there are S signatures of equal probability. The paper's rates near zero are for keys
// that are not hashed.
// Cost: one row, in one cache line, sometimes in two; r' + ceil(log2(r + 1)) bits a bucket.
// State: the rows (cell_rows.hpp). Counters::count is the step of the random numbers: one for each
// key that finds its row full (none if k = 1) and one for each merge. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_SQF_HPP_
#define STREAMDEDUP_CORE_METHODS_SQF_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"
#include "cell_rows.hpp"
#include "cell_rows_merge.hpp"
#include "quotient_signature.hpp"

namespace dedup::sqf {

using quotient_signature::Chances;
using quotient_signature::Form;

inline constexpr cell_rows::Rule kRule = {.queue = false, .duplicates = false};
inline constexpr unsigned kMaxK = cell_rows::kMaxCells;
static_assert(kMaxK <= Chances::kMostHeld);
inline constexpr unsigned kDefaultK = 4;  // the best value in the paper
inline constexpr size_t kGranule = 8;

inline constexpr int kKOption = 2;
inline constexpr int kROption = 3;
inline constexpr int kRPrimeOption = 4;
inline constexpr int kPow2Option = 5;
inline constexpr OptionSpec kOptions[] = {
    kFprOption,
    kKeysOption,
    {"k", OptionKind::kWhole, 1, kMaxK},
    {"r", OptionKind::kWhole, 1, quotient_signature::kMaxR},
    {"r_prime", OptionKind::kWhole, 1, quotient_signature::kMaxRPrime},
    {"pow2", OptionKind::kOnOff, 0, 1}};

struct Layout {
  Form form;
  unsigned k;
  bool pow2;
  uint64_t rows;
};

inline uint64_t RowsIn(uint64_t bytes, const Form& form, unsigned k, bool pow2) noexcept {
  const uint64_t rows = bytes * 8 / (k * form.bits());
  return pow2 ? std::bit_floor(rows) : rows;
}

inline uint64_t Detail(const Form& form, unsigned k, bool pow2, uint64_t rows) noexcept {
  return k | uint64_t{form.r} << 8 | uint64_t{form.r_prime} << 16 | uint64_t{pow2} << 24 |
         rows << 32;
}

inline Layout LayoutOf(const Shape& shape) noexcept {
  Layout layout;
  layout.k = static_cast<unsigned>(shape.detail & 0xff);
  layout.form.r = static_cast<unsigned>(shape.detail >> 8 & 0xff);
  layout.form.r_prime = static_cast<unsigned>(shape.detail >> 16 & 0xff);
  layout.pow2 = (shape.detail >> 24 & 1) != 0;
  layout.rows = shape.detail >> 32;
  return layout;
}

inline cell_rows::Rows RowsOf(const Layout& layout) noexcept {
  return cell_rows::RowsOf(layout.k, layout.form.bits(), layout.rows);
}

// ---- sizes ------------------------------------------------------------------

// Returns the rate of full rows.
inline double SteadyRate(const Form& form, unsigned k) noexcept {
  double miss[kMaxK + 1];
  Chances(form).MissOfHeld(k, miss);
  return 1 - miss[k];
}

// A row with more keys than this is taken as full.
inline constexpr double kLongRow = 4096;

// Returns the mean over the rows' loads. The number of signatures in a row is a Markov chain over
// the keys that fall on the row.
inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  if (!(keys > 0)) return 0;
  const Layout layout = LayoutOf(shape);
  const double rows = static_cast<double>(layout.rows), mean = keys / rows;
  double miss[kMaxK + 1];
  Chances(layout.form).MissOfHeld(layout.k, miss);
  const double steady = 1 - miss[layout.k];
  if (mean - 10 * std::sqrt(mean) - 8 > kLongRow) return steady;
  double held[kMaxK + 1] = {1};  // probability of each number after `load` keys
  double load = 0, rate = 0, all = 0;
  ForEachLoad(keys, rows, [&](double t, double p) {
    for (; load < t && load < kLongRow; ++load) {
      for (unsigned d = layout.k; d > 0; --d) {
        held[d] = held[d] * (d < layout.k ? 1 - miss[d] : 1) + held[d - 1] * miss[d - 1];
      }
      held[0] = 0;
    }
    double hit = 0;
    for (unsigned d = 1; d <= layout.k; ++d) hit += held[d] * (1 - miss[d]);
    rate += p * (load < t ? steady : hit);
    all += p;
  });
  rate = all > 0 ? rate / all : steady;
  return rate < steady ? rate : steady;
}

// In a stream of distinct keys, another key can bring an evicted signature back. In a row with k of
// S equally likely signatures, a signature is there t keys after it was stored with probability f +
// (1 - f) (1 - 1/k)^t, f = k/S. Of a keys, each falls on the row with probability 1/rows: f + (1 -
// f) (1 - 1/(k rows))^a. This is averaged over a.
inline double Missed(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  const double buckets = static_cast<double>(layout.rows) * layout.k;
  const double keys = static_cast<double>(shape.keys);
  const double last = buckets > 1 ? std::exp(keys * std::log1p(-1 / buckets)) : 0;
  const double kept = buckets / keys * (1 - last);
  const double missed = (1 - SteadyRate(layout.form, layout.k)) * (1 - kept);
  return missed > 0 ? missed : 0;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  if (!quotient_signature::Consistent(options, kROption, kRPrimeOption)) {
    return PlanStatus::kConflict;
  }
  const unsigned k =
      options.given[kKOption] ? static_cast<unsigned>(options.value[kKOption]) : kDefaultK;
  const bool pow2 = options.given[kPow2Option] && options.value[kPow2Option] != 0;
  const Form form =
      quotient_signature::SmallestForm(options, kROption, kRPrimeOption, request.fpr,
                                       [&](const Form& tried) { return SteadyRate(tried, k); });
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
        sized->bytes = static_cast<uint32_t>(bytes);
        const uint64_t rows = RowsIn(bytes, form, k, pow2);
        sized->detail = Detail(form, k, pow2, rows);
        sized->keys = k * rows;
        return sized->keys > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
      });
  shape->fpr =
      quotient_signature::FprOf(options, kROption, kRPrimeOption, request.fpr, SteadyRate(form, k));
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const auto k = static_cast<unsigned>(shape.detail & 0xff);
  const Form form = {static_cast<unsigned>(shape.detail >> 8 & 0xff),
                     static_cast<unsigned>(shape.detail >> 16 & 0xff)};
  if ((shape.detail >> 25 & 0x7f) != 0 || k < 1 || k > kMaxK || !form.valid() ||
      counters.state != 0 || shape.bytes < kGranule || shape.bytes % kGranule != 0 ||
      shape.bytes > kMaxBodyBytes) {
    return false;
  }
  const uint64_t rows = RowsIn(shape.bytes, form, k, (shape.detail >> 24 & 1) != 0);
  return shape.detail >> 32 == rows && shape.keys >= 1 && shape.keys <= k * rows;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%u r=%u r_prime=%u pow2=%s signature_bits=%u rows=%llu", layout.k,
                layout.form.r, layout.form.r_prime, layout.pow2 ? "on" : "off", layout.form.bits(),
                static_cast<unsigned long long>(layout.rows));
}

// ---- keys -------------------------------------------------------------------

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  const auto code = [&](uint64_t hash) { return layout.form.Code(hash); };
  return cell_rows::TestAndAdd<kRule>(shape, RowsOf(layout), code, counters, body, hashes, n, seen);
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  const auto code = [&](uint64_t hash) { return layout.form.Code(hash); };
  cell_rows::Contains(shape, RowsOf(layout), code, body, hashes, n, seen);
}

// A key whose signature is there can be found already, and needs no second copy.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

// Merges row by row into the union of the signatures. If there are more than k, random ones are
// kept: from each input in proportion to its number and its weight. So all keys of rows that have
// room are kept, and half of each input's keys of full rows. The rate is that of the fuller rows
// and never more than that of full rows, at once and later. One window later the filter does not
// differ from one that was never merged.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  return cell_rows::Merge(shape, RowsOf(LayoutOf(shape)), kRule, counters, body, other_counters,
                          other, weights);
}

// The keys held: for a row with d signatures, the average number of keys after which a row has d.
// The rate follows from the signatures themselves.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const Chances chances(layout.form);
  double miss[kMaxK + 1], keys[kMaxK + 1] = {};
  chances.MissOfHeld(layout.k, miss);
  for (unsigned d = 0; d < layout.k; ++d) {
    keys[d + 1] = keys[d] + 1 / (miss[d] > 1e-3 ? miss[d] : 1e-3);
  }
  Reading reading;
  double rate = 0;
  const cell_rows::Rows rows = RowsOf(layout);
  const auto read_row = [&](uint64_t row) {
    const cell_rows::Cells cells = cell_rows::CellsOf(rows, body, shape.bytes, row);
    double hit = 0;
    for (unsigned i = 0; i < cells.count; ++i) hit += chances.Of(cells.value[i]);
    reading.count += keys[cells.count];
    rate += hit < 1 ? hit : 1;
  };
  ForUnits(rows.count, rows.width(), [&](uint64_t from, uint64_t to) {
    for (uint64_t row = from; row < to; ++row) read_row(row);
  });
  reading.fpr = rate / static_cast<double>(layout.rows);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::sqf

#endif  // STREAMDEDUP_CORE_METHODS_SQF_HPP_
