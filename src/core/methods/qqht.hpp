// qqht: a quotient hash table whose rows are queues.
//
// Paper: Geraud et al. (SAC 2019), section 5.2, without the duplicates. A row is a queue
// of k fingerprints. If it has the key's, the key is a duplicate and nothing changes; if
// not, it is appended, and the oldest gives way.
//
// Promise: none, for the rows fill unevenly: a key of the last n = k * rows is missed if
// k new ones came to its row since. That is 19.4 % of the last n distinct keys for k = 4
// at 0.01, 13.9 % for k = 8, 36.5 % for k = 1, where it is qht bit for bit; of the last
// n/2, 3.8 % for k = 4. A hit changes nothing, so a steady repeat is let through again
// once it has been pushed out. fifo and recent are the ones with a promise.
// A rate gives k = 4, or as many as make a row of one word of 64 bits (2 or 3 below 6e-5).
// FPR: k/S exactly, once the rows are full; S = 2^bits - 1.
// Cost: one row, in one cache line, at times in two, shifted as one word up to 64 bits;
// 9 bits a cell at 0.01.
// State: the rows, youngest cell first; Counters::count numbers the merges of filters
// that both held keys. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QQHT_HPP_
#define STREAMDEDUP_CORE_METHODS_QQHT_HPP_

#include "../method.hpp"
#include "qht_row.hpp"
#include "qht_sizes.hpp"

namespace dedup::qqht {

inline constexpr qht_row::Rule kRule = {{.queue = true, .duplicates = false}, 4};

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
    .name = "qqht",
    .code = 13,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = false,
    .granule = qht_row::kGranule,
    .promise =
        "none: the last k new keys of each row, of the last n distinct keys 19 % are missed with "
        "k = 4, 27 % with k = 2, 37 % with k = 1",
    .merging = "by age: two full filters keep the younger half of each row",
    .cost = "1 cache line a key, at times 2",
    .missed = Missed,
    .options = qht_row::kOptions,
    .option_count = qht_row::kOptionCount,
    .conflict = qht_row::kConflict,
    .plan = Plan,
    .valid = qht_row::Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kFirstSight; },
    .describe = qht_row::Describe,
    .test_and_add = qht_row::TestAndAdd<kRule>,
    .contains = qht_row::Contains,
    .insert = qht_row::Insert<kRule>,
    .merge = Merge,
    .read = qht_row::Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::qqht

#endif  // STREAMDEDUP_CORE_METHODS_QQHT_HPP_
