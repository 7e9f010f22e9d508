// The table of functions of the method exaloglog. The functions are in exaloglog.hpp.

#include "exaloglog.hpp"

namespace dedup::exaloglog {

constinit const Method kMethod = {
    .name = "exaloglog",
    .code = 22,
    .answers = Answers::kNothing,
    .remembers = [](const Shape&) noexcept { return Remembers::kAll; },
    .merge_keeps_all = true,
    .granule = kGranule,
    .promise = "counts: a relative standard error of 0.3622 / sqrt(2^p)",
    .merging = "union: as if one sketch had seen the keys of both",
    .cost = "1 cache line a key",
    .missed = [](const Shape&) noexcept { return 0.0; },
    .options = kOptions,
    .option_count = sizeof kOptions / sizeof kOptions[0],
    .sizing = "error=0.01",
    .plan = Plan,
    .valid = Valid,
    .exact_order = [](const Shape&) noexcept { return ExactOrder::kSorted; },
    .describe = Describe,
    .test_and_add = TestAndAdd,
    .contains = Contains,
    .insert = Insert,
    .merge = Merge,
    .reducible = Reducible,
    .reduce = [](const Shape& from, const Counters&, const uint8_t* body, const Shape& to, uint32_t,
                 Counters*, uint8_t* out) noexcept { Reduce(from, body, to, out); },
    .read = Read,
    .expected_fpr = nullptr,
};

}  // namespace dedup::exaloglog
