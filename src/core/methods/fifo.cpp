// The table of functions of the method fifo. The functions are in fifo.hpp.

#include "fifo.hpp"

namespace dedup::fifo {

constinit const Method kMethod = {
    .name = "fifo",
    .code = kCode,
    .remembers = [](const Shape&) noexcept { return Remembers::kFirstSeen; },
    .merge_keeps_all = false,
    .granule = kGroupBytes,
    .promise =
        "a window by first sight: until n further keys were new, at most 0.1 % of keys are missed",
    .merging = "by age: two full filters keep about half the window of each",
    .why = "a window by first sight, as in live filters",
    .cost = "1 cache line a key",
    .missed = [](const Shape&) noexcept { return kMissed; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
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

}  // namespace dedup::fifo
