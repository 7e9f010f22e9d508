// infini as it grows from its smallest table to a large one: an entry is what it was, so that
// the rate does not change with the size of the table.

#include <gtest/gtest.h>

#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

// 64 MB: entries of 15 bits have none left there, and are those of old keys in large filters.
constexpr uint32_t kLastStep = 30;

TEST(Growth, KeepsTheRateOfOldKeys) {
  const Method& method = GrowingMethod();
  Request request;
  request.fpr = 0.01;
  Shape shape;
  ASSERT_EQ(PlanFilter(method, request, 0, &shape), PlanStatus::kOk);
  Counters counters = method.growth->start(method.growth->bytes_for(shape, 1));
  std::vector<uint8_t> body(method.used_bytes(shape, counters));
  Random random(1);
  std::vector<uint64_t> hashes(600);
  for (uint64_t& hash : hashes) hash = random.Next();
  ASSERT_EQ(method.insert(shape, &counters, body.data(), hashes.data(), hashes.size()),
            hashes.size());
  const double rate = method.read(shape, counters, body.data()).fpr;
  EXPECT_NEAR(rate, 600.0 / (1 << 20), 1e-5);
  while (counters.state < kLastStep) {
    const uint64_t more = method.growth->limit(shape, counters) + 1;
    const uint32_t bytes = method.growth->bytes_for(shape, more);
    std::vector<uint8_t> larger(bytes);
    Counters grown;
    method.growth->grow(shape, counters, body.data(), bytes, &grown, larger.data());
    ASSERT_EQ(grown.state, counters.state + 1);
    body.swap(larger);
    counters = grown;
    const Reading reading = method.read(shape, counters, body.data());
    // Of two entries of one prefix, which are rare, one goes.
    EXPECT_LE(reading.fpr, rate * (1 + 1e-9)) << "step " << counters.state;
    EXPECT_GE(reading.fpr, 0.99 * rate) << "step " << counters.state;
    std::vector<uint8_t> seen(hashes.size());
    method.contains(shape, counters, body.data(), hashes.data(), hashes.size(), seen.data());
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 600) << "step " << counters.state;
  }
}

// Two working exact filters, as aggregates and PL/pgSQL have them, of more keys together than
// an exact filter keeps: the merge is a table for so many, not the largest.
TEST(Growth, MergesUnfinishedFilters) {
  const Method& method = GrowingMethod();
  Request request;
  Shape shape;
  ASSERT_EQ(PlanFilter(method, request, 0, &shape), PlanStatus::kOk);
  std::vector<uint8_t> images[2];
  Header headers[2];
  uint64_t hash = 1;
  for (int side = 0; side < 2; ++side) {
    std::vector<uint8_t> empty(kHeaderBytes);
    WriteEmpty(shape, empty.data());
    Header header;
    ASSERT_EQ(Check(empty.data(), empty.size(), &header), Flaw::kNone);
    const Step step = {Form::kWorkingExact, 400};
    images[side].resize(StepBytes(header, step));
    ASSERT_TRUE(MakeWorking(empty.data(), header, step, images[side].data()));
    ASSERT_EQ(Check(images[side].data(), images[side].size(), &headers[side]), Flaw::kNone);
    for (int i = 0; i < 400; ++i) {
      ASSERT_EQ(TestAndAdd(images[side].data(), &headers[side], Random(hash++).Next()),
                Outcome::kNew);
    }
  }
  const MergeBytes needs = MergeNeeds(headers[0], headers[1], headers[0].exact_limit());
  EXPECT_LT(needs.out + needs.scratch, 100000u);
  std::vector<uint8_t> out(needs.out), scratch(needs.scratch);
  const size_t size = MergeTo(images[0].data(), headers[0], images[1].data(), headers[1],
                              headers[0].exact_limit(), out.data(), scratch.data());
  ASSERT_GT(size, 0u);
  ASSERT_LE(size, out.size());
  Seal(out.data(), size);
  Header merged;
  ASSERT_EQ(Validate(out.data(), size, &merged), Flaw::kNone);
  EXPECT_EQ(merged.counters.count, 800u);
  for (uint64_t i = 1; i < hash; ++i) EXPECT_TRUE(Contains(out.data(), merged, Random(i).Next()));
}

}  // namespace
}  // namespace dedup::test
