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

#include "qht_method.hpp"

namespace dedup::qhtd {

inline constexpr qht_row::Rule kRule = {{.queue = false, .duplicates = true}, 1};

extern const Method kMethod;

}  // namespace dedup::qhtd

#endif  // STREAMDEDUP_CORE_METHODS_QHTD_HPP_
