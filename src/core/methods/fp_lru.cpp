// The table of functions of the method fp_lru. The functions are in fp_lru.hpp.

#include "fp_lru.hpp"

namespace dedup::fp_lru {

constinit const Method kMethod = {
    .name = "fp_lru",
    .code = 20,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = false,
    .granule = lru_table::kGranule,
    .exact_to_keys = true,
    .promise = "the last n distinct keys are found; of the others the share q is called duplicates",
    .merging = "by age: two full filters keep half the window of each",
    .cost = "about 4 cache lines a key; index and list take twice the memory asked for on top",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = lru_table::Contains,
    .insert = Insert,
    .merge = lru_table::Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
    .forget = lru_table::Forget,
    .sound = lru_table::Sound,
};

}  // namespace dedup::fp_lru
