// The table of functions of the method quotient. The functions are in quotient.hpp.

#include "quotient.hpp"

namespace dedup::quotient {

constinit const Method kMethod = {
    .name = "quotient",
    .code = 16,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise = "never forgets, refuses when full; keys that were answered new can be taken back",
    .merging = "union: every key of both inputs, or an error when full",
    .why = "never forgets until it is full; takes keys back",
    .cost = "1 or 2 cache lines a key; grows by doubling",
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
    .forget = Forget,
    .may_be_full = [](const Shape&) noexcept { return true; },
    .used_bytes = UsedBytes,
    .grows_next = GrowsNext,
    .sound = Sound,
};

}  // namespace dedup::quotient
