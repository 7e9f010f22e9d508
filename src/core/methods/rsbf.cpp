// The table of functions of the method rsbf. The functions are in rsbf.hpp.

#include "rsbf.hpp"

namespace dedup::rsbf {

constinit const Method kMethod = {
    .name = "rsbf",
    .code = 8,
    .remembers = [](const Shape&) noexcept { return Remembers::kByChance; },
    .merge_keeps_all = false,
    .granule = kGranule,
    .promise =
        "by chance: of the keys after the first n, most are not remembered until 1/p_star times as "
        "many have come",
    .merging =
        "impossible: what a reservoir takes depends on the length and the order of its stream, and "
        "two samples are not one of both",
    .cost = "k cache lines a key, and k more if it is inserted",
    .missed = Missed,
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kLastSight; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = nullptr,
    .read = Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::rsbf
