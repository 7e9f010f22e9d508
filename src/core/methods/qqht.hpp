// qqht: a quotient hash table whose rows are queues.
//
// Paper: Geraud et al. (SAC 2019), section 5.2, without the duplicates. A row is a queue of k
// fingerprints. If it has the key's fingerprint, the key is a duplicate and nothing changes. If
// not, the fingerprint is appended, and the oldest one is dropped.
//
// Promise: none, because the rows fill unevenly. A key of the last n = k * rows is missed if k new
// keys came to its row since. That is 19.4 % of the last n distinct keys for k = 4 at 0.01, 13.9 %
// for k = 8, and 36.5 % for k = 1, where it is bit for bit the same as qht. Of the last n/2 keys it
// is 3.8 % for k = 4. A key that is found changes nothing, so a key that comes again and again is
// reported as new after it was pushed out. The methods fifo and recent have a promise. A rate gives
// k = 4, or as many cells as make a row of one word of 64 bits (2 or 3 below 6e-5).
// FPR: exactly k/S, once the rows are full; S = 2^bits - 1.
// Cost: one row, in one cache line, sometimes in two, shifted as one word up to 64 bits; 9 bits a
// cell at 0.01.
// State: the rows, the youngest cell first. Counters::count is the number of merges of filters that
// both held keys. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QQHT_HPP_
#define STREAMDEDUP_CORE_METHODS_QQHT_HPP_

#include "qht_method.hpp"

namespace dedup::qqht {

inline constexpr qht_row::Rule kRule = {{.queue = true, .duplicates = false}, 4};

extern const Method kMethod;

}  // namespace dedup::qqht

#endif  // STREAMDEDUP_CORE_METHODS_QQHT_HPP_
