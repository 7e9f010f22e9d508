// qqhtd: a quotient hash table whose rows are queues, and which appends duplicates again.
//
// Paper: Geraud et al. (SAC 2019), Algorithm 2. A row is a queue of k fingerprints. A key is a
// duplicate if the row has its fingerprint. In any case the fingerprint is appended, and the oldest
// one is dropped. So a row is the last k sights.
//
// Promise: none, because the rows fill unevenly. In an endless stream of distinct keys, (1 - 1/S)^k
// e^-k k^k / k! of the last n = k * rows keys are reported as new again: 19.4 % for k = 4 at 0.01,
// 13.8 % for k = 8. Of the last n/2 keys it is 3.8 % for k = 4. Keys that come often fill rows with
// copies, so on skewed streams fewer distinct keys are kept (Zipf at 0.01 and k = 4: 6.7 % of the
// duplicates missed; qqht 6.0 %). The method recent refreshes keys without copies. A rate gives k =
// 4, or as many cells as make a row of one word of 64 bits (2 or 3 below 6e-5); with k = 1 it is
// bit for bit the same as qht.
// FPR: 1 - (1 - 1/S)^k, once the rows are full; S = 2^bits - 1.
// Cost: one row, in one cache line, sometimes in two, shifted as one word up to 64 bits; 9 bits a
// cell at 0.01. Every key writes its row.
// State: the rows, the youngest cell first. Counters::count is the number of merges of filters that
// both held keys. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QQHTD_HPP_
#define STREAMDEDUP_CORE_METHODS_QQHTD_HPP_

#include "qht_method.hpp"

namespace dedup::qqhtd {

inline constexpr qht_row::Rule kRule = {{.queue = true, .duplicates = true}, 4};

extern const Method kMethod;

}  // namespace dedup::qqhtd

#endif  // STREAMDEDUP_CORE_METHODS_QQHTD_HPP_
