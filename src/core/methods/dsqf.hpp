// dsqf: the Dynamic Streaming Quotient Filter, with rows of any length from one pool.
//
// Paper: Dutta, Narang and Bera, "Streaming Quotient Filter" (PVLDB 2013), section 5.1. As in sqf,
// a key's row holds signatures; here a row is a list of buckets from a pool of B. Rows are kept in
// the order of their last access, which may be by a new key or by a known one. When the pool is
// empty, the row that was accessed longest ago gives up a random bucket.
//
// Promise: none for a single key. A row loses its buckets if no key falls on it while ln(1 + k)
// times as many keys come as there are rows. Of the last B distinct keys, a fifth (k = 2) to a
// third (k large) is missed. Repeats of one key keep other keys in its row, at the cost of all
// other rows. If a tenth of the rows have a key that comes again and again, those rows hold most
// buckets in the end, and 60 % of the last B/2 new keys are missed (k = 4), instead of none. Only
// the 1024 youngest buckets of a row are searched.
// Cost: about k + 6 memory lines a key; r' + ceil(log2(r + 1)) + w(B) bits a bucket and w(B) + 2
// w(R) a row, w(x) = ceil(log2(x + 1)).
// State: R rows (first bucket, the next older and the next younger row), then B buckets (signature,
// next bucket), all packed. A link is an index + 1, and 0 is none. The rows that have buckets form
// a ring, in which the row after the youngest one is the oldest. Counters::count is the number of
// keys that were reported as new. It is the step of the random numbers, and as long as it is below
// B, that many buckets of the pool are in use. Counters::state is the link to the youngest row.

#ifndef STREAMDEDUP_CORE_METHODS_DSQF_HPP_
#define STREAMDEDUP_CORE_METHODS_DSQF_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "../sizing.hpp"
#include "dsqf_lists.hpp"
#include "quotient_signature.hpp"

namespace dedup::dsqf {

using quotient_signature::Chances;

inline constexpr unsigned kMaxK = 64;
inline constexpr unsigned kDefaultK = 4;
inline constexpr size_t kGranule = 8;

inline constexpr int kKOption = 2;
inline constexpr int kROption = 3;
inline constexpr int kRPrimeOption = 4;
inline constexpr int kPow2Option = 5;
inline constexpr OptionSpec kOptions[] = {
    kFprOption,
    kKeysOption,
    {"k", OptionKind::kReal, 0.125, kMaxK},
    {"r", OptionKind::kWhole, 1, quotient_signature::kMaxR},
    {"r_prime", OptionKind::kWhole, 1, quotient_signature::kMaxRPrime},
    {"pow2", OptionKind::kOnOff, 0, 1}};

// ---- sizes ------------------------------------------------------------------

// Returns the number of buckets in use a row, when keys fall at random, `load` of them a row.
inline double Held(const Chances& chances, double load) noexcept {
  return chances.Sum([&](double p) { return -std::expm1(-p * load); });
}

// Returns the number of keys a row that fill `held` buckets a row; at most kLongLoad.
inline constexpr double kLongLoad = 1e6;

inline double LoadOf(const Chances& chances, double held) noexcept {
  double low = held, high = held;
  while (high < kLongLoad && Held(chances, high) < held) high *= 2;
  if (high >= kLongLoad) return kLongLoad;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (Held(chances, middle) < held ? low : high) = middle;
  }
  return high;
}

inline double RateOf(const Chances& chances, double load) noexcept {
  return chances.Sum([&](double p) { return p * -std::expm1(-p * load); });
}

// The rate is highest when the pool runs out. After that the rows' lengths vary more than those of
// random rows, but this matters less because no signature is kept twice.
inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  if (!(keys > 0)) return 0;
  const Layout layout = LayoutOf(shape);
  const Chances chances(layout.form);
  const double rows = static_cast<double>(layout.rows), full = layout.buckets / rows;
  double load = keys / rows;
  if (load > full) {
    const double most = LoadOf(chances, full);
    if (load > most) load = most;
  }
  const double rate = RateOf(chances, load);
  return rate < 1 ? rate : 1;
}

// In units of R keys: a row is emptied when no key falls on it for T, so at each of its keys with
// probability q = exp(-T). The number of keys that it has had by then is geometric. A signature of
// probability p is in a row with probability x p / (1 + x p), x = 1/q - 1, and the sum of that is
// B/R.
inline double EmptyingChance(const Chances& chances, double held) noexcept {
  double low = 0, high = 1;  // bounds of q
  for (int i = 0; i < 50; ++i) {
    const double q = (low + high) / 2, x = 1 / q - 1;
    const double sum = chances.Sum([&](double p) { return x * p / (1 + x * p); });
    (sum > held ? low : high) = q;
  }
  return high;
}

// A key of age a is kept if its row had no gap of T between keys since: s(a) = 1 up to T, 1 - q
// just after, and s'(a) = -q s(a - T). Solved by Laplace transformation and averaged over the ages
// of the last keys, this is a finite sum.
inline double Missed(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  const Chances chances(layout.form);
  const double rows = layout.rows, q = EmptyingChance(chances, layout.buckets / rows);
  const double gap = -std::log(q), age = static_cast<double>(shape.keys) / rows;
  double kept = age;
  double sign = 1, over = 1;  // (-q)^j and j!
  for (int j = 1; j * gap < age && j < 100; ++j) {
    sign *= -q;
    over *= j;
    const double rest = age - j * gap, power = std::pow(rest, j);
    kept += sign / over * (power * rest / (j + 1) + power);
  }
  const double x = 1 / q - 1;
  const double found = chances.Sum([&](double p) { return p * x * p / (1 + x * p); });
  const double missed = (1 - found) * (1 - kept / age);
  return missed > 0 ? (missed < 1 ? missed : 1) : 0;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  if (!quotient_signature::Consistent(options, kROption, kRPrimeOption)) {
    return PlanStatus::kConflict;
  }
  const double asked = options.given[kKOption] ? options.value[kKOption] : kDefaultK;
  const auto k256 = static_cast<uint32_t>(asked * kKUnit + 0.5);
  const bool pow2 = options.given[kPow2Option] && options.value[kPow2Option] != 0;
  const double k = static_cast<double>(k256) / kKUnit;
  const auto most_rate = [&](const Form& tried) {
    const Chances chances(tried);
    return RateOf(chances, LoadOf(chances, k));
  };
  const Form form =
      quotient_signature::SmallestForm(options, kROption, kRPrimeOption, request.fpr, most_rate);
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
        sized->bytes = static_cast<uint32_t>(bytes);
        const uint64_t rows = RowsIn(bytes, form, k256, pow2);
        sized->detail = Detail(form, k256, pow2, rows);
        sized->keys = BucketsOf(rows, k256);
        return sized->keys > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
      });
  shape->fpr =
      quotient_signature::FprOf(options, kROption, kRPrimeOption, request.fpr, most_rate(form));
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Detailed detail = Detailed::Of(shape.detail);
  if (shape.detail >> 61 != 0 || detail.k256 < kKUnit / 8 || detail.k256 > kMaxK * kKUnit ||
      !detail.form.valid() || shape.bytes < kGranule || shape.bytes % kGranule != 0 ||
      shape.bytes > kMaxBodyBytes ||
      detail.rows != RowsIn(shape.bytes, detail.form, detail.k256, detail.pow2)) {
    return false;
  }
  return shape.keys >= 1 && shape.keys <= BucketsOf(detail.rows, detail.k256) &&
         counters.state <= detail.rows && (counters.state == 0) == (counters.count == 0);
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  const Detailed detail = Detailed::Of(shape.detail);
  std::snprintf(text, size, "k=%g r=%u r_prime=%u pow2=%s signature_bits=%u rows=%llu buckets=%llu",
                static_cast<double>(detail.k256) / kKUnit, layout.form.r, layout.form.r_prime,
                detail.pow2 ? "on" : "off", layout.form.bits(),
                static_cast<unsigned long long>(layout.rows),
                static_cast<unsigned long long>(layout.buckets));
}

// ---- keys -------------------------------------------------------------------

// The distances, in keys, between the prefetch of a row, of its first bucket, and of its second
// one.
inline constexpr size_t kBehind = 12;

// Runs step(row, code, i) for every key. Prefetches its row a group ahead, and its buckets some
// keys later, when the row with their places has arrived.
template <bool kWrites, typename Lists, typename Step>
DEDUP_ALWAYS_INLINE inline void ForEachKey(const Lists& lists, const uint64_t* hashes, size_t n,
                                           Step step) noexcept {
  const Layout& layout = lists.layout();
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        lists.FetchRow(FastRange(hashes[i], layout.rows));
        if (i >= kBehind) {
          const uint64_t row = FastRange(hashes[i - kBehind], layout.rows);
          lists.FetchFirst(row);
          if (kWrites) lists.FetchNeighbours(row);
        }
        if (i >= 2 * kBehind) lists.FetchSecond(FastRange(hashes[i - 2 * kBehind], layout.rows));
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        step(FastRange(hashes[i], layout.rows), layout.form.Code(hashes[i]), i);
      });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  Lists<uint8_t> lists(LayoutOf(shape), body, shape.bytes);
  ForEachKey<true>(lists, hashes, n, [&](uint64_t row, uint64_t code, size_t i) {
    const uint64_t first = lists.First(row);
    const bool found = first != 0 && lists.Find(first, code);
    if (first != 0) Touch(lists, &counters->state, row);
    if (!found) Add(lists, shape.seed, counters, row, code);
    if (seen != nullptr) seen[i] = found;
  });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Lists<const uint8_t> lists(LayoutOf(shape), body, shape.bytes);
  ForEachKey<false>(lists, hashes, n, [&](uint64_t row, uint64_t code, size_t i) {
    seen[i] = lists.Find(lists.First(row), code);
  });
}

// A key whose signature is there can be found already, and needs no second copy.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

// Merges into the union. Its rows are in order of their age ranks: the n-th youngest row of a
// filter is as old as n divided by the filter's weight, and a row of both filters has the younger
// rank. If there are more than B buckets, the oldest rows give theirs up. While both filters fit
// together, every key is kept. Of two full filters, the younger rows are kept whole, about half of
// what each filter held. The rate is that of as many keys in one filter, and never more than when
// the pool runs out. After B more keys, the filter does not differ from one that was never merged.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  const Layout layout = LayoutOf(shape);
  Lists<uint8_t> lists(layout, body, shape.bytes);
  const Lists<const uint8_t> from(layout, other, shape.bytes);
  Interleave(lists, shape.seed, counters, from, other_counters.state, weights);
  return true;
}

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const Chances chances(layout.form);
  const Lists<const uint8_t> lists(layout, body, shape.bytes);
  const uint64_t used = counters.count < layout.buckets ? counters.count : layout.buckets;
  const double rows = layout.rows;
  Reading reading;
  if (used == 0) return reading;
  double hit = 0;
  ForUnits(used, layout.bucket_bits, [&](uint64_t from, uint64_t to) {
    for (uint64_t bucket = from; bucket < to; ++bucket) hit += chances.Of(lists.Code(bucket));
  });
  reading.count = LoadOf(chances, static_cast<double>(used) / rows) * rows;
  reading.fpr = hit < rows ? hit / rows : 1;
  return reading;
}

inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  return HoldTogether(Lists<const uint8_t>(LayoutOf(shape), body, shape.bytes), counters);
}

extern const Method kMethod;

}  // namespace dedup::dsqf

#endif  // STREAMDEDUP_CORE_METHODS_DSQF_HPP_
