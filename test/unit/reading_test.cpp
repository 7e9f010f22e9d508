// What a filter says of itself: estimated keys, the rate that holds, whether it is
// overfull, and the rate to expect.

#include <gtest/gtest.h>

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

class MethodReading : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Methods, MethodReading,
                         ::testing::Values("blocked_bloom", "bloom", "recent", "ring", "fifo"),
                         [](const auto& info) { return info.param; });

// The count is near the number of distinct keys at every filling, from empty to
// twice the capacity; a window's is near the keys that it holds.
TEST_P(MethodReading, CountsKeys) {
  for (uint64_t capacity : {300, 5000, 100000}) {
    for (double fpr : {0.1, 0.001}) {
      Body body(PlanKeys(Named(GetParam()), capacity, fpr));
      EXPECT_EQ(body.Read().count, 0);
      uint64_t key = 0;
      for (double filling : {0.01, 0.1, 0.5, 0.8}) {
        for (; key < filling * static_cast<double>(capacity); ++key)
          body.Insert(HashOf(key, capacity));
        const double count = static_cast<double>(key);
        EXPECT_NEAR(body.Read().count, count, 0.03 * count + 4 * std::sqrt(count / 4) + 1)
            << NameOf(body.shape()) << " at " << filling;
      }
      if (GetParam() == "blocked_bloom" || GetParam() == "bloom") {
        for (; key < 2 * capacity; ++key) body.Insert(HashOf(key, capacity));
        EXPECT_NEAR(body.Read().count, 2.0 * static_cast<double>(capacity),
                    0.1 * static_cast<double>(capacity))
            << NameOf(body.shape());
      }
    }
  }
}

// A window that has turned over counts what it still holds: recent at most its
// slots, fifo all but two of each line, ring between `keys` and G/(G-1) times `keys`.
TEST_P(MethodReading, CountsWhatAWindowHolds) {
  if (!Named(GetParam()).forgets()) return;
  Body body(PlanKeys(Named(GetParam()), 20000, 0.01));
  for (uint64_t key = 0; key < 200000; ++key) body.Insert(HashOf(key));
  const double count = body.Read().count;
  if (GetParam() == "recent") {
    EXPECT_NEAR(count, 20000 / 0.8, 300);
  } else if (GetParam() == "fifo") {
    EXPECT_EQ(count, body.shape().bytes / 64 * 40);
  } else {
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
  for (uint64_t capacity : {20, 1000, 50000}) {
    Body body(PlanKeys(Named(GetParam()), capacity, 0.05));
    EXPECT_EQ(body.Read().fpr, 0);
    uint64_t key = 0;
    for (double filling : {0.5, 1.0, 1.5, 4.0}) {
      for (; key < filling * static_cast<double>(capacity); ++key)
        body.Insert(HashOf(key, capacity));
      const double probes = 400000.0 / kThin;
      const double rate = MeasuredRate(body, static_cast<uint64_t>(probes), capacity);
      const double read = body.Read().fpr;
      EXPECT_NEAR(read, rate, 5 * std::sqrt((rate + 1e-5) / probes) + 0.01 * rate)
          << NameOf(body.shape()) << " at " << filling;
      // Once it is large the rate is also the one to be expected.
      if (capacity == 50000) {
        const double expected =
            Named(GetParam()).expected_fpr(body.shape(), static_cast<double>(key));
        EXPECT_NEAR(read, expected, 0.15 * expected) << NameOf(body.shape()) << " at " << filling;
      }
    }
  }
}

// A filter at its capacity is not called overfull; half as much again is.
TEST(Overfull, IsToldFromFull) {
  for (const char* name : {"blocked_bloom", "bloom"}) {
    for (uint64_t capacity : {100, 1000, 100000}) {
      for (double fpr : {0.3, 0.01, 0.0001}) {
        const Shape shape = PlanKeys(Named(name), capacity, fpr);
        Body body(shape);
        Header header = {};
        header.method = &Named(name);
        header.shape = shape;
        header.form = Form::kFull;
        uint64_t key = 0;
        for (; key < capacity; ++key) body.Insert(HashOf(key, 2));
        EXPECT_FALSE(dedup::Overfull(header, body.Read())) << NameOf(shape);
        for (; key < capacity + capacity / 2; ++key) body.Insert(HashOf(key, 2));
        EXPECT_TRUE(dedup::Overfull(header, body.Read())) << NameOf(shape);
      }
    }
  }
}

// A window is never overfull by its own turning, only by a merge.
TEST(Overfull, IsNoWindowOfItself) {
  for (const char* name : {"recent", "ring", "fifo"}) {
    for (uint64_t keys : {1, 50, 3000}) {
      Filter filter(PlanKeys(Named(name), keys, 0.01));
      for (uint64_t key = 0; key < 20 * keys + 3000; ++key) {
        filter.Add(HashOf(key));
        if (key % 501 == 0) {
          EXPECT_FALSE(dedup::Overfull(filter.header(), filter.Read()));
        }
      }
    }
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
