// The table of functions of the method ring. The functions are in ring.hpp.

#include "ring.hpp"

namespace dedup::ring {

constinit const Method kMethod = {
    .name = "ring",
    .code = 4,
    .remembers =
        [](const Shape& shape) noexcept {
          return LayoutOf(shape).refresh ? Remembers::kLastSeen : Remembers::kFirstSeen;
        },
    .merge_keeps_all = true,
    .granule = 1u << kSmallBlockLog2,
    .promise =
        "a window by first sight: a key answered new is a duplicate until n further keys were new",
    .merging =
        "OR by generation: no key of either input is dropped, the rate rises until generations "
        "pass",
    .why = "a window that misses no key, by first sight",
    .cost = "one block a key, k cells in it",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .variant = "refresh=on",
    .variant_promise =
        "a window by last sight: a duplicate until n further keys were new or put in a new "
        "generation",
    .variant_why = "a window that misses no key, by last sight",
    .plan = Plan,
    .valid = Valid,
    .exact_order =
        [](const Shape& shape) noexcept {
          return LayoutOf(shape).refresh ? ExactOrder::kLastSight : ExactOrder::kFirstSight;
        },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .read = Read,
    .expected_fpr = ExpectedFpr,
};

}  // namespace dedup::ring
