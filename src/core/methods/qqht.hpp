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

#include "qht_method.hpp"

namespace dedup::qqht {

inline constexpr qht_row::Rule kRule = {{.queue = true, .duplicates = false}, 4};

extern const Method kMethod;

}  // namespace dedup::qqht

#endif  // STREAMDEDUP_CORE_METHODS_QQHT_HPP_
