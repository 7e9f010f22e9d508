// lru: the last keys seen, as whole 64-bit hashes. Approximate windows are compared with it.
//
// Papers: the "buffering" of Deng and Rafiei, "Approximately Detecting Duplicates for Streaming
// Data using Stable Bloom Filters" (SIGMOD 2006), after Broder, Najork and Wiener, "Efficient URL
// Caching for World Wide Web Crawling" (WWW 2003).
//
// Promise: exact. The last `keys` distinct keys are found, and no other key, except if hashes are
// equal (keys / 2^64).
// Cost: 64 bits a key are counted as memory, as in the paper; index and list take 128 more
// (lru_table.hpp). About four cache lines a key.
// State: the nodes of lru_table.hpp. Counters::state is the number of keys held; Counters::count
// stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_LRU_HPP_
#define STREAMDEDUP_CORE_METHODS_LRU_HPP_

#include <cmath>

#include "../method.hpp"
#include "lru_table.hpp"

namespace dedup::lru {

using lru_table::Entries;
using lru_table::Table;

inline constexpr OptionSpec kOptions[] = {kFprOption, kKeysOption};

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  shape->fpr = request.fpr;  // any rate is kept by far
  return lru_table::PlanEntries(request, shape);
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail == 0 && counters.count == 0 && lru_table::ValidEntries(shape, counters);
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const double entries = static_cast<double>(Entries(shape));
  return std::ldexp(keys < entries ? keys : entries, -64);
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  Table table(shape, counters->state, body);
  lru_table::ForEachKey(table, hashes, n, [&](size_t i) {
    const bool found = table.See(hashes[i]);
    if (seen != nullptr) seen[i] = found;
  });
  counters->state = table.held();
  return n;
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t*) noexcept {
  const double held = lru_table::CountHeld(counters);
  return {held, ExpectedFpr(shape, held)};
}

extern const Method kMethod;

}  // namespace dedup::lru

#endif  // STREAMDEDUP_CORE_METHODS_LRU_HPP_
