// counting_bloom: counter by counter against a plain twin; sizes and rates against those
// of bloom with a quarter of the memory; what can be taken back, and what merges add up.

#include "core/methods/counting_bloom.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& Counting() { return Named("counting_bloom"); }

unsigned CounterAt(const Body& body, uint64_t i) {
  return body.bytes()[i / 2] >> (i % 2 == 0 ? 0 : 4) & 15;
}

// The rule in plain words: k counters a key, each position counted as often as it occurs.
class Twin {
 public:
  Twin(uint64_t counters, int k) : counters_(counters), k_(k) {}

  std::vector<uint64_t> Positions(uint64_t hash) const {
    std::vector<uint64_t> at;
    for (int i = 0; i < k_; ++i) {
      at.push_back(FastRange(Derived(hash, static_cast<unsigned>(i)), counters_.size()));
    }
    return at;
  }
  bool Contains(uint64_t hash) const {
    for (uint64_t at : Positions(hash)) {
      if (counters_[at] == 0) return false;
    }
    return true;
  }
  bool TestAndAdd(uint64_t hash) {
    if (Contains(hash)) return true;
    Insert(hash);
    return false;
  }
  void Insert(uint64_t hash) {
    for (uint64_t at : Positions(hash)) counters_[at] = std::min(15, counters_[at] + 1);
  }
  bool Forget(uint64_t hash) {
    if (!Contains(hash)) return false;
    for (uint64_t at : Positions(hash)) {
      if (counters_[at] < 15) counters_[at] = std::max(0, counters_[at] - 1);
    }
    return true;
  }
  void Merge(const Twin& other) {
    for (size_t i = 0; i < counters_.size(); ++i) {
      counters_[i] = std::min(15, counters_[i] + other.counters_[i]);
    }
  }
  void ExpectSame(const Body& body) const {
    for (size_t i = 0; i < counters_.size(); ++i) {
      ASSERT_EQ(CounterAt(body, i), static_cast<unsigned>(counters_[i])) << i;
    }
  }

 private:
  std::vector<int> counters_;
  int k_;
};

// Also far beyond capacity, where counters reach 15, and with keys taken back that
// were not there.
TEST(CountingBloom, DoesWhatItsTwinDoes) {
  for (int k : {1, 2, 3, 7, 32}) {
    for (uint64_t bytes : {64, 72, 1000}) {
      const Shape shape = PlanMemory(Counting(), bytes, 0.5, "k=" + std::to_string(k));
      ASSERT_EQ(shape.bytes, bytes);
      Body body(shape), other(shape);
      Twin twin(2 * bytes, k), other_twin(2 * bytes, k);
      Random random(bytes + static_cast<uint64_t>(k));
      uint64_t forgotten = 0, merged = 0, seen = 0;
      for (int step = 0; step < 4000; ++step) {
        const uint64_t hash = HashOf(random.Below(bytes), 5);
        const uint64_t dice = random.Below(100);
        if (dice < 40) {
          const bool was = twin.TestAndAdd(hash);
          ASSERT_EQ(body.TestAndAdd(hash), was);
          seen += was;
        } else if (dice < 50) {
          body.Insert(hash);
          twin.Insert(hash);
        } else if (dice < 80) {
          const bool was = twin.Forget(hash);
          ASSERT_EQ(body.Forget(hash), was);
          forgotten += was;
        } else if (dice < 90) {
          other.Insert(hash);
          other_twin.Insert(hash);
        } else if (dice == 90 && step % 5 == 0) {
          body.Merge(other);
          twin.Merge(other_twin);
          ++merged;
        } else {
          ASSERT_EQ(body.Contains(hash), twin.Contains(hash));
        }
        if (step % 100 == 0) twin.ExpectSame(body);
      }
      twin.ExpectSame(body);
      EXPECT_GE(forgotten, 100u);
      EXPECT_GE(seen, 100u);
      EXPECT_GE(merged, 1u);
    }
  }
}

TEST(CountingBloom, BatchesAnswerAsOneByOne) {
  const Shape shape = PlanMemory(Counting(), 4096, 0.01);
  Body one(shape), batch(shape);
  Random random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint64_t> hashes(1 + random.Below(200));
    for (uint64_t& hash : hashes) hash = HashOf(random.Below(1500));
    Bytes seen(hashes.size());
    batch.TestAndAdd(hashes.data(), hashes.size(), seen.data());
    for (size_t i = 0; i < hashes.size(); ++i) {
      ASSERT_EQ(one.TestAndAdd(hashes[i]), seen[i] != 0);
    }
    ASSERT_TRUE(one.bytes() == batch.bytes());
  }
}

// ---- sizes and rates --------------------------------------------------------

// A counter is where bloom has a bit: as many keys, the same k.
TEST(CountingBloom, HoldsWhatBloomHoldsInAQuarter) {
  for (uint64_t quarter : {64, 72, 1000, 131072, 16777216}) {
    for (double fpr : {0.3, 0.01, 1e-4, 1e-9}) {
      for (const char* options : {"", "k=3"}) {
        if (fpr < 1e-4 && options[0] != '\0') continue;
        const Shape plain = PlanMemory(Named("bloom"), quarter, fpr, options);
        const Shape counting = PlanMemory(Counting(), 4 * quarter, fpr, options);
        EXPECT_EQ(counting.bytes, 4 * quarter);
        EXPECT_EQ(counting.keys, plain.keys);
        EXPECT_EQ(counting.detail, plain.detail);
        for (double share : {0.1, 1.0, 3.0}) {
          const double keys = share * static_cast<double>(plain.keys);
          EXPECT_DOUBLE_EQ(Counting().expected_fpr(counting, keys),
                           Named("bloom").expected_fpr(plain, keys));
        }
      }
    }
  }
}

TEST(CountingBloom, IsSizedForKeysAsBloomWithAQuarter) {
  for (uint64_t keys : {100, 1000, 1234567}) {
    for (double fpr : {0.1, 0.01, 1e-6}) {
      const Shape plain = PlanKeys(Named("bloom"), keys, fpr);
      const Shape counting = PlanKeys(Counting(), keys, fpr);
      EXPECT_EQ(counting.keys, keys);
      EXPECT_LE(counting.bytes, 4 * plain.bytes);
      if (plain.bytes > 64) {
        EXPECT_GT(counting.bytes, 4 * (plain.bytes - 8));
      }
      // Not 8 bytes less.
      if (counting.bytes > 64) {
        EXPECT_LT(PlanMemory(Counting(), counting.bytes - 8, fpr).keys, keys);
      }
    }
  }
}

TEST(CountingBloom, SmallestAndLargest) {
  Request request;
  Shape shape;
  request.memory = 63;
  EXPECT_EQ(PlanFilter(Counting(), request, 0, &shape), PlanStatus::kMemoryTooSmall);
  request.memory = 71;
  EXPECT_EQ(PlanFilter(Counting(), request, 0, &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.bytes, 64u);
  request.memory = kMaxBodyBytes;
  EXPECT_EQ(PlanFilter(Counting(), request, 0, &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.bytes, kMaxBodyBytes);
  request.memory = kMaxBodyBytes + 8;
  EXPECT_EQ(PlanFilter(Counting(), request, 0, &shape), PlanStatus::kTooLarge);
  request.memory = 0;
  request.keys = kMaxKeys;
  EXPECT_EQ(PlanFilter(Counting(), request, 0, &shape), PlanStatus::kTooLarge);
}

// Share of `probes` keys never added that are found.
double MeasuredFpr(const Body& body, uint64_t probes) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < probes; ++i) found += body.Contains(HashOf((uint64_t{1} << 40) + i));
  return static_cast<double>(found) / static_cast<double>(probes);
}

// Bloom's closed form, with m the counters.
double BloomRate(double m, double keys, int k) {
  return std::pow(1 - std::pow(1 - 1 / m, keys * k), k);
}

// Five standard errors of the count of false positives, and 1 % for the fill's own spread.
void ExpectRate(double measured, double expected, uint64_t probes) {
  EXPECT_NEAR(measured, expected,
              5 * std::sqrt(expected / static_cast<double>(probes)) + 0.01 * expected);
}

TEST(CountingBloom, RateIsBloomsClosedForm) {
  const uint64_t probes = 400000 / kThin;
  for (double fpr : {0.1, 0.01}) {
    const Shape shape = PlanMemory(Counting(), 131072, fpr, "", 3);
    Body body(shape);
    for (uint64_t i = 0; i < shape.keys; ++i) body.Insert(HashOf(i));
    const double expected = BloomRate(2 * 131072.0, static_cast<double>(shape.keys),
                                      static_cast<int>(shape.detail & 0xff));
    EXPECT_NEAR(expected, fpr, 0.002 * fpr);
    ExpectRate(MeasuredFpr(body, probes), expected, probes);
    const Reading reading = body.Read();
    EXPECT_NEAR(reading.fpr, expected, 0.02 * expected);
    // Linear counting of n keys at half fill: a standard error below 0.7 sqrt(n).
    const double n = static_cast<double>(shape.keys);
    EXPECT_NEAR(reading.count, n, 5 * 0.7 * std::sqrt(n));
  }
}

// ---- taking back ------------------------------------------------------------

TEST(CountingBloom, DuplicatesStoreNothing) {
  const Shape shape = PlanMemory(Counting(), 4096, 0.01);
  Body body(shape);
  for (uint64_t i = 0; i < shape.keys; ++i) body.TestAndAdd(HashOf(i));
  const Bytes before = body.bytes();
  for (uint64_t i = 0; i < shape.keys; ++i) EXPECT_TRUE(body.TestAndAdd(HashOf(i)));
  EXPECT_TRUE(body.bytes() == before);
}

// Without counters at 15, what is left is the filter to which only the others were added.
TEST(CountingBloom, TakenBackKeysLeaveNothing) {
  const Shape shape = PlanMemory(Counting(), 16384, 0.01);
  Body body(shape), others(shape), empty(shape);
  std::vector<uint64_t> stored;
  for (uint64_t i = 0; i < shape.keys; ++i) {
    if (!body.TestAndAdd(HashOf(i))) stored.push_back(HashOf(i));
  }
  ASSERT_LT(stored.size(), shape.keys);  // some were false positives
  for (size_t i = 1; i < stored.size(); i += 2) others.Insert(stored[i]);
  for (size_t i = 0; i < stored.size(); i += 2) EXPECT_TRUE(body.Forget(stored[i]));
  EXPECT_TRUE(body.bytes() == others.bytes());
  for (size_t i = 1; i < stored.size(); i += 2) EXPECT_TRUE(body.Contains(stored[i]));
  uint64_t found = 0;
  for (size_t i = 0; i < stored.size(); i += 2) found += body.Contains(stored[i]);
  EXPECT_LE(found, stored.size() / 100);
  for (size_t i = 1; i < stored.size(); i += 2) EXPECT_TRUE(body.Forget(stored[i]));
  EXPECT_TRUE(body.bytes() == empty.bytes());
}

// Keys come and go for ten times the capacity: none that is there is ever missed.
TEST(CountingBloom, NoKeyIsLostToThoseTakenBack) {
  const Shape shape = PlanMemory(Counting(), 8192, 0.01);
  Body body(shape);
  std::vector<uint64_t> there;
  Random random(8);
  for (uint64_t key = 0; key < 10 * shape.keys; ++key) {
    if (there.size() >= shape.keys) {
      const size_t at = random.Below(there.size());
      ASSERT_TRUE(body.Forget(HashOf(there[at])));
      there[at] = there.back();
      there.pop_back();
    }
    if (!body.TestAndAdd(HashOf(key))) there.push_back(key);
    if (key % 500 == 0) {
      for (uint64_t held : there) ASSERT_TRUE(body.Contains(HashOf(held)));
    }
  }
  // And it does not fill up: the rate is that of as many keys.
  EXPECT_LT(body.Read().fpr, 1.2 * 0.01);
}

TEST(CountingBloom, KeysThatAreNotThereChangeNothing) {
  const Shape shape = PlanMemory(Counting(), 4096, 0.01);
  Body body(shape);
  for (uint64_t i = 0; i < shape.keys / 2; ++i) body.TestAndAdd(HashOf(i));
  const Bytes before = body.bytes();
  uint64_t refused = 0;
  for (uint64_t i = shape.keys; i < 2 * shape.keys; ++i) {
    if (body.Contains(HashOf(i))) continue;
    EXPECT_FALSE(body.Forget(HashOf(i)));
    ++refused;
  }
  EXPECT_GE(refused, shape.keys / 2);
  EXPECT_TRUE(body.bytes() == before);
}

TEST(CountingBloom, CountersAt15StayThere) {
  const Shape shape = PlanMemory(Counting(), 64, 0.5, "k=1");
  for (int times : {14, 15, 16, 40}) {
    Body body(shape);
    for (int i = 0; i < times; ++i) body.Insert(HashOf(1));
    for (int i = 0; i < 100; ++i) body.Forget(HashOf(1));
    EXPECT_EQ(body.Contains(HashOf(1)), times >= 15) << times;
  }
}

// Of a key with one counter twice, both additions are taken back.
TEST(CountingBloom, TwoPositionsMayCoincide) {
  const Shape shape = PlanMemory(Counting(), 64, 0.1, "k=3");
  Twin twin(128, 3);
  uint64_t tried = 0;
  for (uint64_t key = 0; key < 2000; ++key) {
    std::vector<uint64_t> at = twin.Positions(HashOf(key));
    std::sort(at.begin(), at.end());
    if (std::adjacent_find(at.begin(), at.end()) == at.end()) continue;
    ++tried;
    Body body(shape);
    EXPECT_FALSE(body.TestAndAdd(HashOf(key)));
    unsigned sum = 0;
    for (uint64_t i = 0; i < 128; ++i) sum += CounterAt(body, i);
    EXPECT_EQ(sum, 3u);
    EXPECT_TRUE(body.Forget(HashOf(key)));
    EXPECT_TRUE(body.bytes() == Bytes(64));
  }
  EXPECT_GE(tried, 20u);  // 3/128 of them on the mean
}

// ---- merging ----------------------------------------------------------------

// The merge is the filter to which the keys of both were added, for half-full and full
// inputs: all keys are found, and the rate is that of as many keys. Half of each input's
// keys are in the other, and are counted twice.
TEST(CountingBloom, MergeIsTheSum) {
  const uint64_t probes = 300000 / kThin;
  for (double fill : {0.5, 1.0}) {
    const Shape shape = PlanMemory(Counting(), 131072, 0.01);
    const auto n = static_cast<uint64_t>(fill * static_cast<double>(shape.keys));
    Body left(shape), right(shape), both(shape);
    for (uint64_t i = 0; i < n; ++i) {
      left.Insert(HashOf(i));
      right.Insert(HashOf(i + n / 2));
      both.Insert(HashOf(i));
      both.Insert(HashOf(i + n / 2));
    }
    left.Merge(right);
    EXPECT_TRUE(left.bytes() == both.bytes());
    uint64_t missed = 0;
    for (uint64_t i = 0; i < n + n / 2; ++i) missed += !left.Contains(HashOf(i));
    EXPECT_EQ(missed, 0u);
    const double expected = BloomRate(2.0 * shape.bytes, 1.5 * static_cast<double>(n),
                                      static_cast<int>(shape.detail & 0xff));
    ExpectRate(MeasuredFpr(left, probes), expected, probes);
    EXPECT_NEAR(left.Read().count, 1.5 * static_cast<double>(n), 0.01 * static_cast<double>(n));
    // A key of both can be taken back twice, one of either once.
    for (uint64_t i = 0; i < n; ++i) {
      ASSERT_TRUE(left.Forget(HashOf(i)));
      ASSERT_TRUE(left.Forget(HashOf(i + n / 2)));
    }
    uint64_t remaining = 0;  // counters that had come to 15: none at this fill
    for (uint64_t i = 0; i < shape.bytes; ++i) remaining += left.bytes()[i] != 0;
    EXPECT_EQ(remaining, 0u);
  }
}

TEST(CountingBloom, MergedCountersAreHeldAt15) {
  const Shape shape = PlanMemory(Counting(), 64, 0.5, "k=1");
  for (unsigned a = 0; a < 16; ++a) {
    for (unsigned b = 0; b < 16; ++b) {
      Body left(shape), right(shape);
      for (size_t i = 0; i < 64; ++i) {
        left.bytes()[i] = static_cast<uint8_t>(a | b << 4);
        right.bytes()[i] = static_cast<uint8_t>(b | a << 4);
      }
      left.Merge(right);
      const unsigned sum = std::min(a + b, 15u);
      for (size_t i = 0; i < 64; ++i) ASSERT_EQ(left.bytes()[i], sum | sum << 4);
    }
  }
}

}  // namespace
}  // namespace dedup::test
