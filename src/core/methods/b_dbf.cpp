// The table of functions of the method b_dbf. The functions are in b_dbf.hpp.

#include "b_dbf.hpp"

namespace dedup::b_dbf {

constinit const Method kMethod = {
    .name = "b_dbf",
    .code = 18,
    .remembers = [](const Shape&) noexcept { return Remembers::kLastSeen; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise =
        "a window of elements, duplicates counted: no key of the last n elements is answered new",
    .merging =
        "the larger of each two counters: no key of either input is dropped, the rate rises until "
        "the window has passed",
    .cost = "k cache lines a key; one key in n/(b-1) sweeps the whole body",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "The option window is of filters sized by memory.",
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

}  // namespace dedup::b_dbf
