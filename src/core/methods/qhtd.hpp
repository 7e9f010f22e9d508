// qhtd: a quotient hash table whose duplicates are stored again.
//
// Paper: Geraud et al. (SAC 2019), section 5.1. As qht, but a key that is found goes to
// the first empty cell or to one at random like any other: the more often it comes, the
// more cells have it.
//
// Promise: none. (1 - 1/S)^k/e of the last k * rows distinct keys are answered new again.
// With k = 1, which is what a rate gives, it is qht bit for bit; with more, popular keys
// fill rows with copies, so that it misses more than qht does (Zipf at 0.01 and k = 4:
// 6.7 % of the duplicates against 5.6 %). It is here for comparison.
// FPR: 1 - (1 - 1/S)^k, once the rows are full. FNR of keys of long ago: 1 less that.
// Cost: as of qht; a row is written for every key.
// State: the rows; Counters::count numbers the random choices, one a key that finds its
// row full (none if k = 1) and one a merge. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QHTD_HPP_
#define STREAMDEDUP_CORE_METHODS_QHTD_HPP_

#include "../method.hpp"
#include "qht_row.hpp"
#include "qht_sizes.hpp"

namespace dedup::qhtd {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = true}, 1};

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  return qht_row::Plan(request, shape, kRule);
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  return qht_row::ExpectedFpr(shape, keys, kRule);
}

inline double Missed(const Shape& shape) noexcept { return qht_row::Missed(shape, kRule); }

inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  return qht_row::Merge(shape, counters, body, other_counters, other, weights, kRule);
}

inline constexpr Method kMethod = {
    .name = "qhtd",
    .code = 12,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = false,
    .granule = qht_row::kGranule,
    .promise =
        "none: random keys give way, of the last n distinct keys up to 37 % are answered new",
    .merging = "at random: two full filters keep half of the keys of each",
    .cost = "1 cache line a key, at times 2",
    .missed = Missed,
    .options = qht_row::kOptions,
    .option_count = qht_row::kOptionCount,
    .conflict = qht_row::kConflict,
    .plan = Plan,
    .valid = qht_row::Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    .describe = qht_row::Describe,
    .test_and_add = qht_row::TestAndAdd<kRule>,
    .contains = qht_row::Contains,
    .insert = qht_row::Insert<kRule>,
    .merge = Merge,
    .read = qht_row::Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::qhtd

#endif  // STREAMDEDUP_CORE_METHODS_QHTD_HPP_
