// The table of functions of the method infini. The functions are in infini.hpp.

#include "infini.hpp"

namespace dedup::infini {

static constexpr Growth kGrowth = {
    .exact_hashes = kExactHashes,
    .most_keys = [](const Shape& shape) noexcept { return Limit(SlotBytes(shape), kTopStep); },
    .bytes_for = BytesFor,
    .start =
        [](uint32_t bytes) noexcept {
          return Counters{0, StateOf(bytes)};
        },
    .limit = LimitOf,
    .grow = Grow,
    .union_keys = UnionKeys,
    .keys_with_state = KeysWithState,
    .take_state = TakeState,
    .state_shape = StateShape,
};

constinit const Method kMethod = {
    .name = "infini",
    .code = 24,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kLineBytes,
    .promise = "never forgets, and keeps its rate whatever the number of keys",
    .merging = "union: every key of both inputs, at most at the sum of both rates",
    .why = "grows, so it needs no number of keys",
    .cost = "1 cache line a key",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .conflict = "Its filters grow with their keys: they are given no memory and no number of keys.",
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kSorted; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .reducible = Reducible,
    .reduce = Reduce,
    .read = Read,
    .expected_fpr = ExpectedFpr,
    .used_bytes = UsedBytes,
    .growth = &kGrowth,
    .sound = Sound,
};

}  // namespace dedup::infini
