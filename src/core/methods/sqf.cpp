// The table of functions of the method sqf. The functions are in sqf.hpp.

#include "sqf.hpp"

namespace dedup::sqf {

constinit const Method kMethod = {
    .name = "sqf",
    .code = 9,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = false,
    .granule = kGranule,
    .promise = "no key for sure: full rows lose random ones, the rate never passes fpr",
    .merging = "union of each row: of more than k signatures random ones stay",
    .cost = "1 cache line a key, at times 2",
    .missed = Missed,
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "Option r_prime may be at most r.",
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kFirstSight; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::sqf
