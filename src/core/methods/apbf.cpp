// The table of functions of the method apbf. The functions are in apbf.hpp.

#include "apbf.hpp"

namespace dedup::apbf {

constinit const Method kMethod = {
    .name = "apbf",
    .code = 21,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = false,
    .granule = kGranule,
    .promise =
        "a window by last sight: a key is a duplicate until n further sights changed a bit, "
        "repeats in a new generation among them",
    .merging =
        "OR by generation: all keys, or, where the generations differ modulo k, all but the oldest "
        "of one input; the rate rises until generations pass",
    .cost = "k cache lines a key and a few to ask",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "No filter of this k or l keeps the rate: give both, or a higher fpr.",
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::apbf
