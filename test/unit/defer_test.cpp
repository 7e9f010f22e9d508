// Deferred keys: a large filter that is being filled takes them in batches. That
// changes when they are looked up, and nothing else.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

class Defer : public ::testing::TestWithParam<Variant> {
 protected:
  // A shape that is large enough to defer.
  static Shape Deferring() {
    return PlanMemory(*GetParam().method, DeferringMemory(*GetParam().method), 0.01,
                      GetParam().options);
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, Defer, ::testing::ValuesIn(AllVariants()), VariantName);

// Deferred keys leave the bytes that the same keys leave one at a time, at every
// stage: in the list, in the index, around each growth, across the exact switch,
// and in the body; with repeats near and far; in filters that defer and in those
// that are too small to.
TEST_P(Defer, LeavesTheBytesOfOneAtATime) {
  const uint64_t defers = DeferringMemory(*GetParam().method);
  for (uint64_t memory : {uint64_t{8192}, defers, defers + 4096}) {
    const Shape shape = PlanMemory(*GetParam().method, memory, 0.01, GetParam().options);
    const uint64_t limit = MostExact(shape);
    Filter deferred(shape), listed(shape), single(shape);
    Random random(memory);
    const uint64_t length = 3 * limit;
    uint64_t next = 0;
    for (uint64_t i = 0; i < length; ++i) {
      // Half new keys; the others recent ones, often within the same batch.
      const uint64_t key =
          next == 0 || random.OneIn(2)
              ? next++
              : next - 1 - random.Below(std::min<uint64_t>(next, random.OneIn(2) ? 20 : 5000));
      deferred.AddDeferred(HashOf(key));
      listed.AddToList(HashOf(key));
      single.Add(HashOf(key));
      if (random.OneIn(i < 200 ? 5 : length / 60)) {
        deferred.Settle();
        listed.Settle();
        ASSERT_EQ(deferred.exact(), single.exact()) << NameOf(shape) << " after " << i;
        ASSERT_EQ(deferred.Canonical(), single.Canonical()) << NameOf(shape) << " after " << i;
        ASSERT_EQ(listed.Canonical(), single.Canonical()) << NameOf(shape) << " after " << i;
      }
    }
    deferred.Settle();
    listed.Settle();
    ASSERT_EQ(deferred.Canonical(), single.Canonical()) << NameOf(shape);
    ASSERT_EQ(listed.Canonical(), single.Canonical()) << NameOf(shape);
    ASSERT_FALSE(single.exact());
  }
}

// Exactly as many distinct keys as the exact form holds stay exact, however often
// they are deferred again: no batch takes a filter over to its method too early.
TEST_P(Defer, DoesNotEndTheExactFormEarly) {
  const Shape shape = Deferring();
  const uint64_t limit = MostExact(shape);
  Filter filter(shape);
  for (uint64_t key = 0; key < limit; ++key) filter.AddDeferred(HashOf(key));
  for (uint64_t key = 0; key < 300; ++key) filter.AddDeferred(HashOf(key));
  filter.Settle();
  ASSERT_TRUE(filter.exact()) << NameOf(shape);
  EXPECT_EQ(filter.header().hashes(), limit);
  for (uint64_t key = 0; key < limit; ++key) ASSERT_TRUE(filter.Contains(HashOf(key)));
  filter.AddDeferred(HashOf(limit));
  filter.Settle();
  EXPECT_FALSE(filter.exact());
}

// A batch is settled by itself when it is full: no more than kMaxDeferred keys
// ever wait. An image with waiting keys is one that Check() accepts.
TEST_P(Defer, KeepsNoMoreThanABatch) {
  const Shape shape = Deferring();
  Filter filter(shape);
  size_t most = 0;
  for (uint64_t key = 0; key < HashesToDefer(shape) + 5000; ++key) {
    filter.AddDeferred(HashOf(key));
    most = std::max(most, filter.header().deferred());
    if (key % 97 != 0) continue;
    Header header;
    ASSERT_EQ(Check(filter.image().data(), filter.image().size(), &header), Flaw::kNone);
    ASSERT_EQ(header.deferred(), filter.header().deferred());
  }
  EXPECT_LT(most, kMaxDeferred);
  EXPECT_GT(most, 0u) << "it never deferred";
}

// Waiting keys survive a move of the image to any other address.
TEST_P(Defer, SurvivesAMove) {
  const Shape shape = Deferring();
  Filter filter(shape);
  for (uint64_t key = 0; key < HashesToDefer(shape) + 2000; ++key) filter.AddDeferred(HashOf(key));
  filter.Settle();
  ASSERT_FALSE(filter.exact());
  for (uint64_t key = 1000000; key < 1000010; ++key) filter.AddDeferred(HashOf(key));
  ASSERT_EQ(filter.header().deferred(), 10u);
  Bytes arena(filter.image().size() + 64);
  Filter settled(filter);
  settled.Settle();
  for (size_t at = 0; at < 64; at += 7) {
    uint8_t* moved = arena.data() + at;
    std::memcpy(moved, filter.image().data(), filter.image().size());
    Header header;
    ASSERT_EQ(Check(moved, filter.image().size(), &header), Flaw::kNone);
    Align(moved, &header);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(moved + header.body_at()) % 64, 0u);
    EXPECT_TRUE(Settle(moved, &header));
    Bytes out(CanonicalBytes(header));
    WriteCanonical(moved, header, out.data());
    ASSERT_EQ(out, settled.Canonical()) << NameOf(shape);
  }
}

}  // namespace
}  // namespace dedup::test
