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

#include "qht_method.hpp"

namespace dedup::qht {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = false}, 1};

inline constexpr Method kMethod = qht_row::MethodOf<kRule>(
    "qht", 11,
    "none: random keys give way, of the last n distinct keys up to 37 % are answered new",
    "at random: two full filters keep half of the keys of each",
    "few bytes and fast, if random keys may be dropped");

}  // namespace dedup::qht

#endif  // STREAMDEDUP_CORE_METHODS_QHT_HPP_
