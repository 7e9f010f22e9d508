// What a filter says of itself: estimated keys, the rate that holds, whether it is
// overfull, and the rate to expect.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

double MeasuredRate(const Body& body, uint64_t probes, uint64_t seed) {
  Random random(seed);
  uint64_t found = 0;
  std::vector<uint64_t> hashes(1024);
  std::vector<uint8_t> seen(1024);
  for (uint64_t done = 0; done < probes; done += 1024) {
    for (uint64_t& hash : hashes) hash = random.Next();
    body.Contains(hashes.data(), 1024, seen.data());
    for (uint8_t one : seen) found += one;
  }
  return static_cast<double>(found) / static_cast<double>((probes + 1023) / 1024 * 1024);
}

class MethodReading : public ::testing::TestWithParam<Variant> {
 protected:
  static Shape Plan(uint64_t keys, double fpr) {
    return PlanKeys(*GetParam().method, keys, fpr, GetParam().options);
  }
};
INSTANTIATE_TEST_SUITE_P(Methods, MethodReading, ::testing::ValuesIn(MembershipVariants()),
                         VariantName);

// The count is near the number of distinct keys at every filling, from empty to
// twice the capacity; a window's is near the keys that it holds. Where chance decides what
// is held, see CountsWhatIsFound.
TEST_P(MethodReading, CountsKeys) {
  const Method& method = *GetParam().method;
  for (uint64_t capacity : {300, 5000, 100000}) {
    for (double fpr : {0.1, 0.001}) {
      Body body(Plan(capacity, fpr));
      EXPECT_EQ(body.Read().count, 0);
      EXPECT_NEAR(body.Read().fpr, AnswersAtRandom(GetParam()) ? fpr : 0, 1e-9 * fpr);
      if (!HoldsTheLast(method, body.shape())) continue;
      uint64_t key = 0;
      for (double filling : {0.01, 0.1, 0.5, 0.8}) {
        for (; key < filling * static_cast<double>(capacity); ++key) {
          // A key that looks like another is not added to one that can forget it.
          if (method.can_forget(body.shape())) {
            body.TestAndAdd(HashOf(key, capacity));
          } else {
            body.Insert(HashOf(key, capacity));
          }
        }
        const double count = static_cast<double>(key);
        EXPECT_NEAR(body.Read().count, count, 0.03 * count + 4 * std::sqrt(count / 4) + 1)
            << NameOf(body.shape()) << " at " << filling;
      }
      if (!method.forgets(body.shape()) && !method.can_forget(body.shape())) {
        for (; key < 2 * capacity; ++key) body.Insert(HashOf(key, capacity));
        EXPECT_NEAR(body.Read().count, 2.0 * static_cast<double>(capacity),
                    0.1 * static_cast<double>(capacity))
            << NameOf(body.shape());
      }
    }
  }
}

// The count is that of the keys of which the filter says that it holds them, less those
// that it says it of though it does not: at every filling. Of keys that chance evicts bits
// may be left, so there it is no fewer than these, and no more than were added.
TEST_P(MethodReading, CountsWhatIsFound) {
  for (double fpr : {0.1, 0.001}) {
    const uint64_t capacity = 20000;
    Body body(Plan(capacity, fpr));
    std::vector<uint64_t> hashes;
    for (double filling : {0.1, 0.5, 0.9, 2.0}) {
      while (static_cast<double>(hashes.size()) < filling * static_cast<double>(capacity)) {
        const uint64_t hash = HashOf(hashes.size(), 12);
        if (body.Try(&hash, 1, nullptr) == 0) break;
        hashes.push_back(hash);
      }
      std::vector<uint8_t> seen(hashes.size());
      body.Contains(hashes.data(), hashes.size(), seen.data());
      const double added = static_cast<double>(hashes.size());
      const double found = static_cast<double>(std::count(seen.begin(), seen.end(), 1));
      const double rate = MeasuredRate(body, 100000, 13);
      const double held = std::max(0.0, (found - rate * added) / (1 - rate));
      const double margin = 0.05 * held + 0.01 * added + 6 * std::sqrt(added);
      const double count = body.Read().count;
      EXPECT_GE(count, held - margin) << NameOf(body.shape()) << " at " << filling;
      EXPECT_LE(count, (HoldsTheLast(*GetParam().method, body.shape()) ? held : added) + margin)
          << NameOf(body.shape()) << " at " << filling;
    }
  }
}

// A window that has turned over counts what it still holds: recent at most its
// slots, fifo all but two of each line, ring between `keys` and G/(G-1) times `keys`.
TEST_P(MethodReading, CountsWhatAWindowHolds) {
  Body body(Plan(20000, 0.01));
  const Method& method = *GetParam().method;
  if (!IsWindow(method, body.shape())) return;
  for (uint64_t key = 0; key < 200000; ++key) body.Insert(HashOf(key));
  const double count = body.Read().count;
  const std::string& name = GetParam().name;
  // What is promised is held.
  EXPECT_GE(count, (0.97 - method.missed(body.shape())) * 20000) << name;
  if (name == "recent") {
    EXPECT_NEAR(count, 20000 / 0.8, 300);
  } else if (name == "fifo") {
    EXPECT_EQ(count, body.shape().bytes / 64 * 40);
  } else if (name == "ring") {
    EXPECT_GE(count, 0.97 * 20000);
    EXPECT_LE(count, 1.03 * 20000 * 8 / 7);
  }
}

// A key that is in several generations is counted once.
TEST(RingReading, CountsRefreshedKeysOnce) {
  Body body(PlanKeys(Named("ring"), 7000, 0.01, "refresh=on"));
  for (uint64_t i = 0; i < 40000; ++i) body.TestAndAdd(HashOf(i % 2000));
  EXPECT_NEAR(body.Read().count, 2000, 200);
}

// The rate read from the bits is the one that is measured, at every filling.
TEST_P(MethodReading, TellsTheRateThatHolds) {
  // Where the dice decide, asking does not show the rate (see the method's own tests).
  if (AnswersAtRandom(GetParam())) return;
  for (uint64_t capacity : {20, 1000, 50000}) {
    Body body(Plan(capacity, 0.05));
    EXPECT_EQ(body.Read().fpr, 0);
    uint64_t key = 0;
    for (double filling : {0.5, 1.0, 1.5, 4.0}) {
      for (; key < filling * static_cast<double>(capacity); ++key) {
        const uint64_t hash = HashOf(key, capacity);
        if (body.Try(&hash, 1, nullptr) == 1) continue;
        EXPECT_TRUE(GetParam().method->can_forget(body.shape()));
        break;
      }
      const double probes = 400000.0 / kThin;
      const double rate = MeasuredRate(body, static_cast<uint64_t>(probes), capacity);
      const double read = body.Read().fpr;
      EXPECT_NEAR(read, rate, 5 * std::sqrt((rate + 1e-5) / probes) + 0.01 * rate)
          << NameOf(body.shape()) << " at " << filling;
      // Once it is large the rate is also the one to be expected.
      if (capacity == 50000) {
        const double expected =
            GetParam().method->expected_fpr(body.shape(), static_cast<double>(key));
        EXPECT_LE(read, 1.15 * expected) << NameOf(body.shape()) << " at " << filling;
        // Of what chance leaves only a bound may be known.
        if (!HoldsTheLast(*GetParam().method, body.shape())) continue;
        EXPECT_GE(read, 0.85 * expected) << NameOf(body.shape()) << " at " << filling;
      }
    }
  }
}

// A filter at its capacity is not called overfull; half as much again is.
TEST(Overfull, IsToldFromFull) {
  for (const Variant& variant : MembershipVariants()) {
    for (uint64_t capacity : {100, 1000, 100000}) {
      for (double fpr : {0.3, 0.01, 0.0001}) {
        const Shape shape = PlanKeys(*variant.method, capacity, fpr, variant.options);
        if (variant.method->forgets(shape)) continue;
        Body body(shape);
        Header header = {};
        header.method = variant.method;
        header.shape = shape;
        header.form = Form::kFull;
        uint64_t key = 0;
        // One that can be full is never more than that.
        bool full = false;
        const auto fill = [&](uint64_t end) {
          for (; key < end && !full; ++key) {
            const uint64_t hash = HashOf(key, 2);
            full = body.Try(&hash, 1, nullptr) == 0;
          }
        };
        fill(capacity);
        header.counters = body.counters();
        EXPECT_FALSE(dedup::Overfull(header, body.Read())) << NameOf(shape);
        fill(capacity + capacity / 2);
        header.counters = body.counters();
        if (variant.method->growth != nullptr) {
          // Only the largest has no room; of that by its count alone.
          EXPECT_FALSE(dedup::Overfull(header, body.Read())) << NameOf(shape);
          header.counters.count = variant.method->growth->most_keys(shape) + 1;
        }
        EXPECT_TRUE(!full || variant.method->can_forget(shape)) << NameOf(shape);
        if (full) continue;
        EXPECT_TRUE(dedup::Overfull(header, body.Read())) << NameOf(shape);
      }
    }
  }
}

// A window is never overfull by its own turning, only by a merge.
TEST(Overfull, IsNoWindowOfItself) {
  for (const Variant& variant : MembershipVariants()) {
    for (uint64_t keys : {1, 50, 3000}) {
      const Shape shape = PlanKeys(*variant.method, keys, 0.01, variant.options);
      // By chance small filters are far denser at times.
      if (!variant.method->forgets(shape)) continue;
      if (!IsWindow(*variant.method, shape) && keys < 3000) continue;
      if (!KeepsItsRate(*variant.method, shape)) continue;
      Filter filter(shape);
      for (uint64_t key = 0; key < 20 * keys + 3000; ++key) {
        filter.Add(HashOf(key));
        if (key % 501 == 0) {
          ASSERT_FALSE(dedup::Overfull(filter.header(), filter.Read())) << NameOf(shape);
        }
      }
    }
  }
}

// Without a rate and a number of keys there is nothing to be over.
TEST(Overfull, IsNothingWithoutARate) {
  for (const Variant& variant : AllVariants()) {
    if (variant.method->has_rate()) continue;
    Filter filter(PlanMemory(*variant.method, 1024, 0.01, variant.options));
    for (uint64_t key = 0; key < 20000; ++key) filter.Add(HashOf(key));
    EXPECT_FALSE(filter.exact());
    EXPECT_FALSE(dedup::Overfull(filter.header(), filter.Read())) << variant.name;
  }
}

// An exact filter knows its count, and its rate is that of two equal 64-bit hashes.
TEST(ExactReading, IsExact) {
  Filter filter(PlanKeys(Named("bloom"), 1000, 0.01));
  EXPECT_EQ(filter.Read().count, 0);
  EXPECT_EQ(filter.Read().fpr, 0);
  for (uint64_t key = 0; key < 100; ++key) filter.Add(HashOf(key % 64));
  EXPECT_EQ(filter.Read().count, 64);
  EXPECT_EQ(filter.Read().fpr, 64 / 18446744073709551616.0);
  EXPECT_FALSE(dedup::Overfull(filter.header(), filter.Read()));
}

}  // namespace
}  // namespace dedup::test
