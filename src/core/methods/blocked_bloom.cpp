// The table of functions of the method blocked_bloom. The functions are in blocked_bloom.hpp.

#include "blocked_bloom.hpp"

namespace dedup::blocked_bloom {

constinit const Method kMethod = {
    .name = "blocked_bloom",
    .code = 1,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kLineBytes,
    .promise = "never forgets: a key that was added is never answered new",
    .merging = "union: every key of both inputs, the rate rises with the number of keys",
    .why = "never forgets; one cache line a key",
    .cost = "1 cache line a key",
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

}  // namespace dedup::blocked_bloom
