// The table of functions of the method bloom. The functions are in bloom.hpp.

#include "bloom.hpp"

namespace dedup::bloom {

constinit const Method kMethod = {
    .name = "bloom",
    .code = 2,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise = "never forgets: a key that was added is never answered new",
    .merging = "union: every key of both inputs, the rate rises with the number of keys",
    .why = "never forgets; smaller than blocked_bloom, and slower",
    .cost = "k cache lines a key",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kSorted; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::bloom
