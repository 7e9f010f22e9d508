// The four quotient hash tables as methods. They differ only in their rule.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_METHOD_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_METHOD_HPP_

#include "../method.hpp"
#include "qht_row.hpp"
#include "qht_sizes.hpp"

namespace dedup::qht_row {

template <const Rule& kRule>
constexpr Method MethodOf(const char* name, uint8_t code, const char* promise, const char* merging,
                          const char* why = nullptr) noexcept {
  return {
      .name = name,
      .code = code,
      .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
      .merge_keeps_all = false,
      .granule = kGranule,
      .promise = promise,
      .merging = merging,
      .why = why,
      .cost = "1 cache line a key, at times 2",
      .missed = [](const Shape& shape) noexcept { return Missed(shape, kRule); },
      .options = kOptions,
      .option_count = kOptionCount,
      .conflict = kConflict,
      .plan = [](const Request& request,
                 Shape* shape) noexcept { return Plan(request, shape, kRule); },
      .valid = Valid,
      // If duplicates are stored again, the last sight counts.
      .exact_order =
          [](const Shape&) noexcept {
            return kRule.duplicates ? ExactOrder::kLastSight : ExactOrder::kFirstSight;
          },
      .describe = Describe,
      .test_and_add = TestAndAdd<kRule>,
      .contains = Contains,
      .insert = Insert<kRule>,
      .merge =
          [](const Shape& shape, Counters* counters, uint8_t* body, const Counters& other_counters,
             const uint8_t* other, const Weights& weights) noexcept {
            return Merge(shape, counters, body, other_counters, other, weights, kRule);
          },
      .read = Read,
      .expected_fpr = [](const Shape& shape,
                         double keys) noexcept { return ExpectedFpr(shape, keys, kRule); },
  };
}

}  // namespace dedup::qht_row

#endif  // STREAMDEDUP_CORE_METHODS_QHT_METHOD_HPP_
