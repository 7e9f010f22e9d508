// The table of functions of the method cuckoo. The functions are in cuckoo.hpp.

#include "cuckoo.hpp"

namespace dedup::cuckoo {

constinit const Method kMethod = {
    .name = "cuckoo",
    .code = 15,
    .remembers =
        [](const Shape& shape) noexcept {
          return LayoutOf(shape).strict ? Remembers::kAll : Remembers::kByChance;
        },
    .merge_keeps_all = false,
    .granule = kGranule,
    .promise = "none for a single key: when full it drops random ones",
    .merging =
        "a fair sample of both inputs' fingerprints; strict=on: the union, or an error when full",
    .cost = "2 cache lines a key, one more a move",
    .missed = Missed,
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .variant = "strict=on",
    .variant_promise = "never forgets what is not taken back: refuses keys when it is full",
    .variant_why = "never forgets until it is full; takes keys back in few bytes",
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
    .forget = Forget,
    .may_forget = Strict,
    .may_be_full = Strict,
    .sound = Sound,
};

}  // namespace dedup::cuckoo
