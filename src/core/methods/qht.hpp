// qht: a quotient hash table, with rows of short fingerprints that are evicted at random.
//
// Paper: Geraud, Lombard-Platet and Naccache, "Quotient Hash Tables - Efficiently Detecting
// Duplicates in Streaming Data" (SAC 2019), Algorithm 1. The hash chooses a row of k cells and a
// fingerprint of `bits` bits. If the row has the fingerprint, the key is a duplicate and nothing
// changes. If not, the fingerprint goes to the first empty cell, or replaces a random one.
//
// Promise: none. In an endless stream of distinct keys, (1 - k/S)/e of the last n = k * rows keys
// are reported as new again, where S = 2^bits - 1: 36.5 % at 0.01, whatever k is. The method aims
// at the least FPR + FNR on an endless stream, and at speed. For that k = 1 and a short fingerprint
// are best (the paper's Table 1), and a rate gives these. If some keys come very often, k = 2 to 4
// has fewer misses (Zipf at 0.01: 5.9 % of the duplicates for k = 2, and 7.3 % for k = 1).
// FPR: exactly k/S, once the rows are full. FNR of keys of long ago: 1 - k/S.
// Cost: one row, in one cache line, sometimes in two; 7 bits a cell at 0.01.
// State: the rows. Counters::count is the step of the random numbers: one for each key that finds
// its row full (none if k = 1) and one for each merge. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_HPP_

#include "qht_method.hpp"

namespace dedup::qht {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = false}, 1};

extern const Method kMethod;

}  // namespace dedup::qht

#endif  // STREAMDEDUP_CORE_METHODS_QHT_HPP_
