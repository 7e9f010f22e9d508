// fp_lru: lru that reports some new keys as duplicates, so that it can be compared at equal rates
// with filters that have false positives.
//
// Paper: the "FPbuffering" of Deng and Rafiei, "Approximately Detecting Duplicates for Streaming
// Data using Stable Bloom Filters" (SIGMOD 2006). A key that is in the buffer is a duplicate. Any
// other key is reported as a duplicate with probability q, else as new. Only the answer is random:
// the buffer takes the key in either case. So the buffer always holds the same keys as that of lru,
// and misses (1 - q) of the duplicates that lru misses.
//
// Promise: the last `keys` distinct keys are found. Of all other keys the share q is reported as
// duplicates when they are added. A lookup is not random and answers as lru does. If q is not
// given, it follows from fpr; if it is given, it is the filter's rate.
// Cost: that of lru.
// State: the nodes of lru_table.hpp. Counters::state is the number of keys held; Counters::count is
// the number of keys added, which is the step of the random numbers.

#ifndef STREAMDEDUP_CORE_METHODS_FP_LRU_HPP_
#define STREAMDEDUP_CORE_METHODS_FP_LRU_HPP_

#include <cstdio>
#include <cstring>

#include "../method.hpp"
#include "../random.hpp"
#include "lru_table.hpp"

namespace dedup::fp_lru {

using lru_table::Entries;
using lru_table::Table;

inline constexpr int kQOption = 2;
inline constexpr OptionSpec kOptions[] = {
    kFprOption, kKeysOption, {"q", OptionKind::kReal, kMinFpr, kMaxFpr}};

// Shape::detail: q in units of 2^-48. A random number of 48 bits below this value means
// "duplicate". Returns 0 if q is not representable. The value is exact for every q, on every
// machine.
inline constexpr unsigned kDrawBits = 48;

inline uint64_t DetailOf(double q) noexcept {
  if (!(q >= kMinFpr && q <= kMaxFpr)) return 0;
  return static_cast<uint64_t>(q * static_cast<double>(uint64_t{1} << kDrawBits));
}
inline double Q(const Shape& shape) noexcept {
  return static_cast<double>(shape.detail) / static_cast<double>(uint64_t{1} << kDrawBits);
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  shape->fpr = request.options.given[kQOption] ? request.options.value[kQOption] : request.fpr;
  shape->detail = DetailOf(shape->fpr);
  return lru_table::PlanEntries(request, shape);
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail != 0 && shape.detail == DetailOf(shape.fpr) &&
         lru_table::ValidEntries(shape, counters);
}

inline double ExpectedFpr(const Shape& shape, double) noexcept { return Q(shape); }

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "q=%g ", Q(shape));
  const size_t written = std::strlen(text);
  lru_table::DescribeEntries(shape, text + written, size - written);
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  Table table(shape, counters->state, body);
  const uint64_t step = counters->count;
  lru_table::ForEachKey(table, hashes, n, [&](size_t i) {
    bool found = table.See(hashes[i]);
    if (seen == nullptr) return;
    if (!found) {
      found = StepRandom(shape.seed, step + i).Next() >> (64 - kDrawBits) < shape.detail;
    }
    seen[i] = found;
  });
  counters->state = table.held();
  counters->count += n;
  return n;
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t*) noexcept {
  return {lru_table::CountHeld(counters), Q(shape)};
}

extern const Method kMethod;

}  // namespace dedup::fp_lru

#endif  // STREAMDEDUP_CORE_METHODS_FP_LRU_HPP_
