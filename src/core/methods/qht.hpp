// qht: a quotient hash table, rows of short fingerprints that give way at random.
//
// Paper: Geraud, Lombard-Platet and Naccache, "Quotient Hash Tables - Efficiently
// Detecting Duplicates in Streaming Data" (SAC 2019), Algorithm 1. The hash chooses a row
// of k cells and a fingerprint of `bits` bits. If the row has it, the key is a duplicate
// and nothing changes; if not, it goes to the first empty cell, or to one at random.
//
// Promise: none. Of an endless stream of distinct keys, (1 - k/S)/e of the last n = k *
// rows are answered new again, S = 2^bits - 1: 36.5 % at 0.01, whatever k is. What it is
// for is the least FPR + FNR on a stream without end, and speed. For that k = 1 and a
// short fingerprint are best (the paper's Table 1), which is what a rate gives; where
// some keys come very often, k = 2 to 4 has fewer misses (Zipf at 0.01: 5.9 % of the
// duplicates for k = 2 against 7.3 %).
// FPR: k/S exactly, once the rows are full. FNR of keys of long ago: 1 - k/S.
// Cost: one row, in one cache line, at times in two; 7 bits a cell at 0.01.
// State: the rows; Counters::count numbers the random choices, one a key that finds its
// row full (none if k = 1) and one a merge. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_HPP_

#include "../method.hpp"
#include "qht_row.hpp"
#include "qht_sizes.hpp"

namespace dedup::qht {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = false}, 1};

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
    .name = "qht",
    .code = 11,
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
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kFirstSight; },
    .describe = qht_row::Describe,
    .test_and_add = qht_row::TestAndAdd<kRule>,
    .contains = qht_row::Contains,
    .insert = qht_row::Insert<kRule>,
    .merge = Merge,
    .read = qht_row::Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::qht

#endif  // STREAMDEDUP_CORE_METHODS_QHT_HPP_
