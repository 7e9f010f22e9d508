// Random choices: a generator whose state is in the filter. So runs repeat, and the same keys in
// the same order give the same bytes.
//
// The state is the seed, and a step number that the method keeps anyway (Counters::count: the
// number of keys that were added). Each step has a SplitMix64 stream of its own (Steele, Lea and
// Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).

#ifndef STREAMDEDUP_CORE_RANDOM_HPP_
#define STREAMDEDUP_CORE_RANDOM_HPP_

#include <cstdint>

#include "bytes.hpp"

namespace dedup {

class StepRandom {
 public:
  StepRandom(uint64_t seed, uint64_t step) noexcept
      : state_(Derived(seed ^ step * 0xd1342543de82ef95u, 0)) {}

  // Returns 64 random bits.
  uint64_t Next() noexcept { return Derived(state_, index_++); }
  // Returns 0 to n - 1; n is at least 1.
  uint64_t Below(uint64_t n) noexcept { return FastRange(Next(), n); }
  // Returns a number from 0 (included) to 1 (not included), with 53 random bits.
  double Unit() noexcept { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
  unsigned index_ = 0;
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_RANDOM_HPP_
