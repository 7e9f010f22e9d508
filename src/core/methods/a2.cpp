// The table of functions of the method a2. The functions are in a2.hpp.

#include "a2.hpp"

namespace dedup::a2 {

constinit const Method kMethod = {
    .name = "a2",
    .code = 17,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise = "a window by last sight: none of the last n distinct keys is answered new",
    .merging =
        "OR of the newer and of the older caches: no key of either input is dropped, the rate "
        "rises until both caches were emptied",
    .cost = "k cache lines a key; one key in n sweeps the whole body",
    .missed = [](const Shape&) noexcept { return 0.0; },
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

}  // namespace dedup::a2
