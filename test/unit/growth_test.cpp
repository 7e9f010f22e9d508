// infini as it grows from its smallest table to a large one: an entry is what it was, so that
// the rate does not change with the size of the table.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "core/methods/infini.hpp"
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

Shape ShapeFor(double fpr) {
  Request request;
  request.fpr = fpr;
  Shape shape;
  EXPECT_EQ(PlanFilter(GrowingMethod(), request, 0, &shape), PlanStatus::kOk);
  return shape;
}

// One rate for each width of slots.
constexpr double kRates[] = {0.01, 0.001, 1e-6, 1e-9};

// More keys of one cell than its line and those nearby have room for, so that entries are joined:
// how many keys come in one batch does not matter.
TEST(Growth, BatchesOfCrowdedKeysAreTheSameAsOneAtATime) {
  const Method& method = GrowingMethod();
  for (double fpr : kRates) {
    for (uint64_t cell : {0, 13, 31}) {
      const Shape shape = ShapeFor(fpr);
      Counters batches = method.growth->start(method.growth->bytes_for(shape, 1));
      Counters singles = batches;
      std::vector<uint8_t> batch_body(method.used_bytes(shape, batches));
      std::vector<uint8_t> single_body(batch_body.size());
      Random random(cell + 1);
      uint64_t differ = 0;
      for (size_t n : {300, 64, 1, 32, 31, 100, 64}) {
        std::vector<uint64_t> hashes(n);
        for (uint64_t& hash : hashes) hash = random.Next() >> 5 | cell << 59;
        std::vector<uint8_t> seen(n, 2);
        method.test_and_add(shape, &batches, batch_body.data(), hashes.data(), n, seen.data());
        for (size_t i = 0; i < n; ++i) {
          uint8_t one = 2;
          method.test_and_add(shape, &singles, single_body.data(), &hashes[i], 1, &one);
          differ += seen[i] != one;
        }
      }
      EXPECT_EQ(differ, 0u) << "rate " << fpr << ", cell " << cell;
      EXPECT_EQ(batches.count, singles.count) << "rate " << fpr << ", cell " << cell;
      EXPECT_TRUE(batch_body == single_body) << "rate " << fpr << ", cell " << cell;
    }
  }
}

// The largest table, with the keys around the last one that may go into another line.
TEST(Growth, TheLargestTableStopsDisplacingAtTheSameKey) {
  if (kSanitize) GTEST_SKIP() << "two bodies of 512 MB";
  const Method& method = GrowingMethod();
  const Shape shape = ShapeFor(0.01);
  const uint64_t most = method.growth->most_keys(shape);
  const auto new_body = [&] {
    return std::unique_ptr<uint8_t, decltype(&std::free)>(
        static_cast<uint8_t*>(std::calloc(shape.bytes, 1)), std::free);
  };
  const auto batch_body = new_body(), single_body = new_body();
  ASSERT_TRUE(batch_body != nullptr && single_body != nullptr);
  Counters batches = {most - 60, infini::kTopStep}, singles = batches;
  std::vector<uint64_t> hashes(100);
  Random random(1);
  for (uint64_t& hash : hashes) hash = random.Next() >> infini::kTopBits;
  method.test_and_add(shape, &batches, batch_body.get(), hashes.data(), hashes.size(), nullptr);
  for (uint64_t hash : hashes) {
    method.test_and_add(shape, &singles, single_body.get(), &hash, 1, nullptr);
  }
  EXPECT_EQ(batches.count, singles.count);
  EXPECT_EQ(std::memcmp(batch_body.get(), single_body.get(), 16 * kLineBytes), 0);
}

// A working exact image of these hashes.
std::vector<uint8_t> WorkingOf(const Shape& shape, const std::vector<uint64_t>& hashes,
                               Header* header) {
  std::vector<uint8_t> empty(kHeaderBytes);
  WriteEmpty(shape, empty.data());
  EXPECT_EQ(Check(empty.data(), empty.size(), header), Flaw::kNone);
  const Step step = {Form::kWorkingExact, std::max<uint64_t>(hashes.size(), 1)};
  std::vector<uint8_t> image(StepBytes(*header, step));
  EXPECT_TRUE(MakeWorking(empty.data(), *header, step, image.data()));
  EXPECT_EQ(Check(image.data(), image.size(), header), Flaw::kNone);
  for (uint64_t hash : hashes) EXPECT_EQ(TestAndAdd(image.data(), header, hash), Outcome::kNew);
  return image;
}

std::vector<uint8_t> CanonicalOf(const std::vector<uint8_t>& image, Header* header) {
  std::vector<uint8_t> out(CanonicalBytes(*header));
  WriteCanonical(image.data(), *header, out.data());
  EXPECT_EQ(Check(out.data(), out.size(), header), Flaw::kNone);
  return out;
}

std::vector<uint64_t> SomeHashes(uint64_t seed, size_t n) {
  Random random(seed);
  std::vector<uint64_t> hashes(n);
  for (uint64_t& hash : hashes) hash = random.Next();
  return hashes;
}

// The first table has the same bytes whether its hashes come from a stored filter, in order of
// value, or from one that is being filled, in order of arrival.
TEST(Growth, FirstTableDoesNotDependOnTheForm) {
  for (double fpr : kRates) {
    const Shape shape = ShapeFor(fpr);
    Header working, stored;
    const auto filled = WorkingOf(shape, SomeHashes(1, 512), &working);
    stored = working;
    const auto canonical = CanonicalOf(filled, &stored);
    std::vector<uint8_t> bodies[2];
    for (int i = 0; i < 2; ++i) {
      const Header& header = i == 0 ? working : stored;
      Counters counters;
      bodies[i].resize(BodyBytesFor(header, 513));
      ASSERT_TRUE(BodyTo(i == 0 ? filled.data() : canonical.data(), header,
                         static_cast<uint32_t>(bodies[i].size()), &counters, bodies[i].data()));
      EXPECT_EQ(counters.count, 512u);
    }
    EXPECT_TRUE(bodies[0] == bodies[1]) << fpr;
  }
}

// Nor do merges, of two exact filters or of an exact one and a table.
TEST(Growth, MergesDoNotDependOnTheForm) {
  for (double fpr : kRates) {
    const Shape shape = ShapeFor(fpr);
    const auto merge = [](const std::vector<uint8_t>& a, const Header& ha,
                          const std::vector<uint8_t>& b, const Header& hb) {
      const MergeBytes needs = MergeNeeds(ha, hb);
      std::vector<uint8_t> out(needs.out), scratch(needs.scratch);
      out.resize(MergeTo(a.data(), ha, b.data(), hb, out.data(), scratch.data()));
      EXPECT_GT(out.size(), kHeaderBytes);
      return out;
    };
    Header ha, hb, stored_a, stored_b;
    const auto a = WorkingOf(shape, SomeHashes(1, 400), &ha);
    const auto b = WorkingOf(shape, SomeHashes(2, 500), &hb);
    stored_a = ha;
    stored_b = hb;
    const auto canonical_a = CanonicalOf(a, &stored_a), canonical_b = CanonicalOf(b, &stored_b);
    const auto expected = merge(canonical_a, stored_a, canonical_b, stored_b);
    EXPECT_TRUE(merge(a, ha, b, hb) == expected) << fpr;
    EXPECT_TRUE(merge(a, ha, canonical_b, stored_b) == expected) << fpr;
    EXPECT_TRUE(merge(canonical_a, stored_a, b, hb) == expected) << fpr;

    Header table, hc, stored_c;
    ASSERT_EQ(Check(expected.data(), expected.size(), &table), Flaw::kNone);
    const auto c = WorkingOf(shape, SomeHashes(3, 500), &hc);
    stored_c = hc;
    const auto canonical_c = CanonicalOf(c, &stored_c);
    EXPECT_TRUE(merge(expected, table, c, hc) == merge(expected, table, canonical_c, stored_c))
        << fpr;
  }
}

// A filter at its limit, exact or a table, that is to be filled: it keeps its form and its size
// until a key comes that is new.
TEST(Growth, NothingGrowsForKeysThatAreThere) {
  const Shape shape = ShapeFor(0.01);
  Header header;
  const auto exact = WorkingOf(shape, SomeHashes(1, 512), &header);
  Step step = FirstStep(header, header.exact_limit());
  EXPECT_EQ(step.form, Form::kWorkingExact);
  EXPECT_EQ(step.room, 512u);

  header.form = Form::kFull;
  header.counters = {infini::Limit(infini::SlotBytes(shape), 4), 4};
  step = FirstStep(header, header.exact_limit());
  EXPECT_EQ(step.form, Form::kWorkingFull);
  EXPECT_EQ(BodyBytesFor(header, step.room), infini::SizeAt(4).Bytes());
  EXPECT_EQ(BodyBytesFor(header, NextStep(header).room), infini::SizeAt(5).Bytes());
}

// A key for which the table grows is new and counts, even if the larger table holds it: an entry
// that has no bits left holds more there.
TEST(Growth, TheKeyThatMakesItGrowCounts) {
  const Method& method = GrowingMethod();
  const Shape shape = ShapeFor(0.01);
  // A table of three lines for two cells, in which an entry without bits holds the first line.
  Counters counters = {infini::Limit(infini::SlotBytes(shape), 1), 1};
  const uint32_t bytes = method.used_bytes(shape, counters);
  std::vector<uint8_t> image(kHeaderBytes + bytes);
  infini::Line<2>::Store(image.data() + kHeaderBytes, 0, uint64_t{1} << 63);
  infini::Line<2>::Write(image.data() + kHeaderBytes, {1, 0, 0});
  ASSERT_EQ(WriteFull(shape, counters, image.data()), image.size());
  Seal(image.data(), image.size());
  Header header;
  ASSERT_EQ(Validate(image.data(), image.size(), &header), Flaw::kNone);
  // In the last eighth of the first cell, of which the first line has two thirds.
  const uint64_t hash = uint64_t{7} << 56;
  ASSERT_FALSE(Contains(image.data(), header, hash));
  std::vector<uint8_t> out(AddToBytes(header));
  const size_t size = AddTo(image.data(), header, hash, out.data());
  ASSERT_EQ(size, kHeaderBytes + infini::SizeAt(2).Bytes());
  Header grown;
  ASSERT_EQ(Check(out.data(), size, &grown), Flaw::kNone);
  EXPECT_EQ(grown.counters.count, counters.count + 1);
  // The premise: without that key, the larger table holds it.
  std::vector<uint8_t> larger(infini::SizeAt(2).Bytes());
  Counters before;
  method.growth->grow(shape, counters, image.data() + kHeaderBytes, infini::SizeAt(2).Bytes(),
                      &before, larger.data());
  uint8_t seen = 0;
  method.contains(shape, before, larger.data(), &hash, 1, &seen);
  EXPECT_EQ(seen, 1);
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
