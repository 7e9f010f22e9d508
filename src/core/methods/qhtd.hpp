// qhtd: a quotient hash table that stores duplicates again.
//
// Paper: Geraud et al. (SAC 2019), section 5.1. It works as qht does, but a key that is found is
// stored as any other key is, in the first empty cell or a random one. The more often a key comes,
// the more cells have it.
//
// Promise: none. (1 - 1/S)^k/e of the last k * rows distinct keys are reported as new again. With k
// = 1, which a rate gives, it is bit for bit the same as qht. With larger k, popular keys fill rows
// with copies, so it misses more than qht does (Zipf at 0.01 and k = 4: 6.7 % of the duplicates;
// qht 5.6 %). It is here for comparison.
// FPR: 1 - (1 - 1/S)^k, once the rows are full. FNR of keys of long ago: 1 - FPR.
// Cost: that of qht; every key writes its row.
// State: the rows. Counters::count is the step of the random numbers: one for each key that finds
// its row full (none if k = 1) and one for each merge. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_QHTD_HPP_
#define STREAMDEDUP_CORE_METHODS_QHTD_HPP_

#include "qht_method.hpp"

namespace dedup::qhtd {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = true}, 1};

extern const Method kMethod;

}  // namespace dedup::qhtd

#endif  // STREAMDEDUP_CORE_METHODS_QHTD_HPP_
