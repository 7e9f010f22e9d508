// The table of functions of the method counting_bloom. The functions are in counting_bloom.hpp.

#include "counting_bloom.hpp"

namespace dedup::counting_bloom {

constinit const Method kMethod = {
    .name = "counting_bloom",
    .code = 6,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .merge_adds = true,
    .granule = kGranule,
    .promise =
        "never forgets but what it is told to: a key that was answered new is not again until it "
        "is taken back",
    .merging =
        "sum of the counters: every key of both inputs, the rate rises with the number of keys",
    .why = "never forgets; takes keys back and is never full",
    .cost = "k cache lines a key",
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
};

}  // namespace dedup::counting_bloom
