// The table of functions of the method count_min. The functions are in count_min.hpp.

#include "count_min.hpp"

namespace dedup::count_min {

constinit const Method kMethod = {
    .name = "count_min",
    .code = 23,
    .answers = Answers::kFrequency,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise = "counts are never too low, and seldom too high by more than epsilon of all sights",
    .merging = "sum of the counters: the promise holds for the sights of both inputs together",
    .cost = "depth cache lines a key",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .sizing = "epsilon=0.001 delta=0.01",
    .plan = Plan,
    .valid = Valid,
    // If the counters depend on the order of the sights, the order is kept as far as possible.
    .exact_order =
        [](const Shape& shape) noexcept {
          return Conservative(shape) ? ExactOrder::kFirstSight : ExactOrder::kSorted;
        },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .read = Read,
    .expected_fpr = nullptr,
    .add_counts = AddCounts,
    .frequency = FrequencyIn,
    .epsilon = Epsilon,
    .sound = Sound,
};

}  // namespace dedup::count_min
