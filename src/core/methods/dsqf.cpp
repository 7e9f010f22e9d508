// The table of functions of the method dsqf. The functions are in dsqf.hpp.

#include "dsqf.hpp"

namespace dedup::dsqf {

constinit const Method kMethod = {
    .name = "dsqf",
    .code = 10,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = false,
    .granule = kGranule,
    .promise = "no key for sure: rows that no key falls on for long are emptied first",
    .merging = "by the age of rows: two full filters keep about half of each",
    .cost = "about k + 6 cache lines a key",
    .missed = Missed,
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "Option r_prime may be at most r.",
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
    .sound = Sound,
};

}  // namespace dedup::dsqf
