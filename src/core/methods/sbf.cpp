// The table of functions of the method sbf. The functions are in sbf.hpp.

#include "sbf.hpp"

namespace dedup::sbf {

constinit const Method kMethod = {
    .name = "sbf",
    .code = 7,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise =
        "by chance: cells decay at random, so that the rate stays and a key is the likelier missed "
        "the longer it was not seen",
    .merging =
        "cellwise maximum: no key of either input is dropped, the rate rises until a window passes",
    .cost = "k cache lines a key, and those of the p cells that decay: one for d = 1",
    .missed = Missed,
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "Options d, k and fpr ask for more than 1048576 cells to decay with every key.",
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

}  // namespace dedup::sbf
