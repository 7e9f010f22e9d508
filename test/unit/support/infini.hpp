// What the tests of infini share: filters of consecutive keys, and how many of other keys they
// find.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_INFINI_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_INFINI_HPP_

#include <algorithm>
#include <vector>

#include "filter.hpp"
#include "methods.hpp"
#include "random.hpp"

namespace dedup::test {

inline const Method& Infini() { return Named("infini"); }

inline Shape Growing(double fpr) { return PlanKeys(Infini(), 0, fpr); }

inline Filter FilterOf(const Shape& shape, uint64_t from, uint64_t to) {
  Filter filter(shape);
  for (uint64_t key = from; key < to; ++key) filter.Add(HashOf(key, 9));
  filter.MakeCanonical();
  return filter;
}

inline uint64_t FoundOf(const Filter& filter, uint64_t probes, Random* random) {
  uint64_t found = 0;
  std::vector<uint64_t> hashes(1024);
  std::vector<uint8_t> seen(1024);
  for (uint64_t done = 0; done < probes; done += 1024) {
    for (uint64_t& hash : hashes) hash = random->Next();
    ContainsAll(filter.image().data(), filter.header(), hashes.data(), 1024, seen.data());
    found += static_cast<uint64_t>(std::count(seen.begin(), seen.end(), 1));
  }
  return found;
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_INFINI_HPP_
