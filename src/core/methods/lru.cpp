// The table of functions of the method lru. The functions are in lru.hpp.

#include "lru.hpp"

namespace dedup::lru {

constinit const Method kMethod = {
    .name = "lru",
    .code = 19,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = false,
    .granule = lru_table::kGranule,
    .exact_to_keys = true,
    .promise = "exact: the last n distinct keys are found, and no others",
    .merging = "by age: two full filters keep half the window of each",
    .cost = "about 4 cache lines a key; index and list take twice the memory asked for on top",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    .describe = lru_table::DescribeEntries,
    .test_and_add = TestAndAdd,
    .contains = lru_table::Contains,
    .insert = Insert,
    .merge = lru_table::Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
    .forget = lru_table::Forget,
    .sound = lru_table::Sound,
};

}  // namespace dedup::lru
