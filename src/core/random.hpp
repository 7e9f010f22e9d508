// Random choices: a generator whose state is in the filter, so that runs repeat and
// the same keys in the same order give the same bytes.
//
// The state is a number of the step that the method keeps anyway (Counters::count:
// how many keys were added), and the seed. Each step has a SplitMix64 stream of its
// own (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014).

#ifndef STREAMDEDUP_CORE_RANDOM_HPP_
#define STREAMDEDUP_CORE_RANDOM_HPP_

#include <cstdint>

#include "bytes.hpp"

namespace dedup {

class StepRandom {
 public:
  StepRandom(uint64_t seed, uint64_t step) noexcept
      : state_(Derived(seed ^ step * 0xd1342543de82ef95u, 0)) {}

  // 64 random bits.
  uint64_t Next() noexcept { return Derived(state_, index_++); }
  // 0 to n - 1, n at least 1.
  uint64_t Below(uint64_t n) noexcept { return FastRange(Next(), n); }
  // 0 (included) to 1 (not included), 53 bits.
  double Unit() noexcept { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
  unsigned index_ = 0;
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_RANDOM_HPP_
