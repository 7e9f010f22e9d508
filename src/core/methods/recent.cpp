// The table of functions of the method recent. The functions are in recent.hpp.

#include "recent.hpp"

namespace dedup::recent {

constinit const Method kMethod = {
    .name = "recent",
    .code = 3,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = false,
    .granule = kLineBytes,
    .promise = "the last keys seen: at most 0.1 % of the last n distinct keys are answered new",
    .merging = "by age: two full filters keep half the window of each",
    .why = "the last keys seen; two cache lines a key",
    .cost = "2 cache lines a key",
    .missed = [](const Shape&) noexcept { return 0.001; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
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

}  // namespace dedup::recent
