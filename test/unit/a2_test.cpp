// a2: its sizes, a twin that is two plain Bloom filters, the promise to the key, the
// rate, and what a merge keeps.

#include "core/methods/a2.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

struct Sizes {
  double k, keys, rate;  // rate: of one cache
};

// The formulas of the rule, from the memory and the rate.
Sizes SizesOf(double bytes, double fpr) {
  const double rate = 1 - std::sqrt(1 - fpr);
  const double k = std::round(std::log2(1 / rate));
  return {k, std::floor(-(bytes * 4 / k) * std::log(1 - std::pow(rate, 1 / k))), rate};
}

TEST(A2Sizes, FollowTheRule) {
  for (double fpr : {0.5, 0.1, 0.01, 0.001, 1e-5, 1e-7}) {
    for (uint64_t memory : {64, 71, 1000, 131072, 1 << 24}) {
      const Shape shape = PlanMemory(Named("a2"), memory, fpr);
      const Sizes sizes = SizesOf(static_cast<double>(memory / 8 * 8), fpr);
      EXPECT_EQ(shape.bytes, memory / 8 * 8);
      EXPECT_EQ(a2::K(shape), sizes.k);
      EXPECT_EQ(static_cast<double>(a2::CacheKeys(shape)), sizes.keys);
      EXPECT_EQ(shape.keys, a2::CacheKeys(shape));
      EXPECT_TRUE(Named("a2").valid(shape, Counters{}));
      EXPECT_TRUE(Named("a2").valid(shape, Counters{shape.keys, 1}));
      EXPECT_FALSE(Named("a2").valid(shape, Counters{shape.keys + 1, 1}));
      EXPECT_FALSE(Named("a2").valid(shape, Counters{0, 2}));
    }
  }
  // The row of the published comparison: 2 x 524288 bits at 0.01.
  const Shape row = PlanMemory(Named("a2"), 131072, 0.01);
  EXPECT_EQ(a2::K(row), 8u);
  EXPECT_EQ(row.keys, 47534u);
}

TEST(A2Sizes, ByKeysAreTheLeast) {
  for (double fpr : {0.3, 0.01, 1e-6, 1e-9}) {
    for (uint64_t keys : {1, 10, 1234, 1000000}) {
      const Shape shape = PlanKeys(Named("a2"), keys, fpr);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(SizesOf(shape.bytes, fpr).keys, keys);
      EXPECT_LT(SizesOf(shape.bytes - 8.0, fpr).keys, keys);
    }
  }
  Request request;
  Shape shape;
  request.memory = 8;  // 32 bits a cache are not one key at 1e-9
  request.fpr = 1e-9;
  EXPECT_LT(SizesOf(8, 1e-9).keys, 1);
  EXPECT_EQ(PlanFilter(Named("a2"), request, 0, &shape), PlanStatus::kMemoryTooSmall);
}

// The rule, with a vector of bits for each cache.
class Twin {
 public:
  explicit Twin(const Shape& shape)
      : k_(a2::K(shape)), full_(a2::CacheKeys(shape)), bits_(uint64_t{shape.bytes} * 4) {
    cache_[0].resize(bits_);
    cache_[1].resize(bits_);
  }
  bool TestAndAdd(uint64_t hash) {
    if (Has(cache_[first_], hash)) return true;
    const bool seen = Has(cache_[1 - first_], hash);
    if (count_ == full_) {
      cache_[1 - first_].assign(bits_, false);
      first_ = 1 - first_;
      count_ = 0;
    }
    for (unsigned i = 0; i < k_; ++i) cache_[first_][FastRange(Derived(hash, i), bits_)] = true;
    ++count_;
    return seen;
  }
  bool Contains(uint64_t hash) const { return Has(cache_[0], hash) || Has(cache_[1], hash); }
  void ExpectSame(const Body& body) const {
    EXPECT_EQ(body.counters().count, count_);
    EXPECT_EQ(body.counters().state, first_);
    Bytes expected(body.bytes().size());
    for (uint64_t p = 0; p < bits_; ++p) {
      for (unsigned c = 0; c < 2; ++c) {
        if (cache_[c][p]) expected[(2 * p + c) / 8] |= 1 << (2 * p + c) % 8;
      }
    }
    ASSERT_EQ(body.bytes(), expected);
  }

 private:
  bool Has(const std::vector<bool>& cache, uint64_t hash) const {
    for (unsigned i = 0; i < k_; ++i) {
      if (!cache[FastRange(Derived(hash, i), bits_)]) return false;
    }
    return true;
  }
  unsigned k_;
  uint64_t full_, bits_, count_ = 0;
  unsigned first_ = 0;
  std::vector<bool> cache_[2];
};

TEST(A2Twin, AnswersAndBytesAreTheSame) {
  Random random(1);
  for (double fpr : {0.5, 0.1, 0.01, 1e-4}) {
    for (uint64_t memory : {64, 200, 2048}) {
      const Shape shape = PlanMemory(Named("a2"), memory, fpr);
      Body body(shape);
      Twin twin(shape);
      const uint64_t alphabet = 5 * shape.keys + 3;
      uint64_t seen = 0;
      for (uint64_t i = 0; i < 40 * shape.keys + 2000; ++i) {
        const uint64_t hash = HashOf(random.Below(alphabet), 1);
        const uint64_t other = HashOf(random.Below(alphabet), 1);
        ASSERT_EQ(body.Contains(other), twin.Contains(other));
        const bool expected = twin.TestAndAdd(hash);
        ASSERT_EQ(body.TestAndAdd(hash), expected);
        seen += expected;
        if (i % 97 == 0) twin.ExpectSame(body);
      }
      EXPECT_GT(seen, 100u);
      twin.ExpectSame(body);
    }
  }
}

// Batches, with and without answers, and inserts give what single keys give.
TEST(A2Batches, AreTheSameAsSingleKeys) {
  const Shape shape = PlanMemory(Named("a2"), 4096, 0.01);
  ExpectBatchesAreSingles(shape, 4 * shape.keys, 2);
}

// No key is answered new while no more than na others came since its last sight: asked
// of every key that comes, on streams that repeat keys of all ages.
TEST(A2Promise, IsNeverViolated) {
  for (double fpr : {0.3, 0.01, 1e-5}) {
    for (uint64_t memory : {64, 512, 16384}) {
      const Shape shape = PlanMemory(Named("a2"), memory, fpr);
      Body body(shape);
      const uint64_t length = 30 * shape.keys + 3000;
      LastKeys last(shape.keys + 1, length);
      Random random(3);
      uint64_t next = 0, held = 0;
      for (uint64_t i = 0; i < length; ++i) {
        uint64_t key = next;
        if (next > 0 && !random.OneIn(3)) {
          key = next - 1 - random.Below(std::min(next, 2 * shape.keys + 2));
        } else {
          ++next;
        }
        const bool within = last.See(key);
        const bool seen = body.TestAndAdd(HashOf(key, 5));
        ASSERT_TRUE(seen || !within) << NameOf(shape) << " at " << i;
        held += within;
      }
      EXPECT_GT(held, length / 5);
      EXPECT_GT(next, 4 * shape.keys);
    }
  }
}

// To the key: the one that fills its cache is lost with the na + 1st other, the one that
// starts it with the 2 na-th.
TEST(A2Promise, IsTight) {
  const Shape shape = PlanMemory(Named("a2"), 2048, 1e-6);
  const uint64_t full = shape.keys;
  Body body(shape);
  for (uint64_t i = 0; i < full; ++i) body.Insert(HashOf(i));
  for (uint64_t i = 0; i < full; ++i) body.Insert(HashOf(1000000 + i));
  EXPECT_EQ(body.counters().count, full);  // no false positive on the way
  EXPECT_TRUE(body.Contains(HashOf(0)));
  EXPECT_TRUE(body.Contains(HashOf(full - 1)));
  body.Insert(HashOf(2000000));
  EXPECT_FALSE(body.Contains(HashOf(0)));
  EXPECT_FALSE(body.Contains(HashOf(full - 1)));
  EXPECT_TRUE(body.Contains(HashOf(1000000)));
}

// With n keys the rate is that of the formulas; never above fpr. 5 standard errors of
// the probes, and 3 % for how evenly the bits of one filter are spread. A key that cache 1
// takes for its own is not counted, so that at high rates the caches come to be a little
// fuller than the formulas have them: na counted keys are na / (1 - fa / 2) at most.
TEST(A2Rate, IsTheOneExpected) {
  const uint64_t probes = 300000 / kThin;
  for (double fpr : {0.3, 0.1, 0.01}) {
    const Shape shape = PlanMemory(Named("a2"), 65536, fpr);
    const Sizes sizes = SizesOf(shape.bytes, fpr);
    const double full = sizes.keys;
    Body body(shape);
    uint64_t key = 0;
    for (double share : {0.5, 1.0, 1.5, 2.0}) {
      while (static_cast<double>(key) < share * full) body.Insert(HashOf(key++, 9));
      const double newer = share <= 1 ? share : share - 1, older = share > 1 ? 1 : 0;
      const auto rate_of = [&](double part) {
        return std::pow(1 - std::exp(-sizes.k * part * full / (shape.bytes * 4.0)), sizes.k);
      };
      const double expected = 1 - (1 - rate_of(newer)) * (1 - rate_of(older));
      EXPECT_NEAR(Named("a2").expected_fpr(shape, share * full), expected, 1e-3 * expected);
      EXPECT_LE(Named("a2").expected_fpr(shape, share * full), fpr * (1 + 1e-9));
      const double measured = FreshRate(body, probes, 9);
      EXPECT_NEAR(
          measured, expected,
          5 * StandardError(expected, probes) + (0.03 + sizes.k * sizes.rate / 4) * expected)
          << NameOf(shape) << " " << share;
      EXPECT_NEAR(body.Read().fpr, measured,
                  5 * StandardError(expected, probes) + 0.001 * expected);
      // A false positive of the newer cache is not counted.
      EXPECT_NEAR(body.Read().count, static_cast<double>(key), 0.02 * static_cast<double>(key));
    }
    double before = 0;
    for (double keys = 0; keys < 4 * full; keys += full / 7) {
      const double rate = Named("a2").expected_fpr(shape, keys);
      EXPECT_GE(rate, before);
      before = rate;
    }
    EXPECT_NEAR(before, fpr, 0.02 * fpr);
  }
}

// A key seen again, so that it is in both caches, is counted once.
TEST(A2Reading, CountsAKeyInBothCachesOnce) {
  const Shape shape = PlanMemory(Named("a2"), 65536, 0.01);
  Body body(shape);
  for (uint64_t i = 0; i < shape.keys + shape.keys / 2; ++i) body.Insert(HashOf(i));
  for (uint64_t i = 0; i < shape.keys / 4; ++i) body.Insert(HashOf(i));
  const double keys = 1.5 * static_cast<double>(shape.keys);
  EXPECT_NEAR(body.Read().count, keys, 0.02 * keys);
}

Body Filled(const Shape& shape, uint64_t from, uint64_t keys) {
  Body body(shape);
  for (uint64_t i = 0; i < keys; ++i) body.Insert(HashOf(from + i));
  return body;
}

double ShareFound(const Body& body, uint64_t from, uint64_t to) {
  uint64_t found = 0;
  for (uint64_t i = from; i < to; ++i) found += body.Contains(HashOf(i));
  return static_cast<double>(found) / static_cast<double>(to - from);
}

// Nothing that either input knows is lost, whatever the buffers' order; the rate is that
// of the united bits; after two changes of caches it is the usual one.
TEST(A2Merge, KeepsEveryKeyOfBoth) {
  const Shape shape = PlanMemory(Named("a2"), 32768, 0.01);
  const uint64_t full = shape.keys, other = 1 << 24;
  const uint64_t probes = 200000 / kThin;
  const auto rate_of = [&](double keys) {  // of a cache with so many
    return std::pow(1 - std::exp(-8.0 * keys / (shape.bytes * 4.0)), 8);
  };
  for (double share_a : {0.5, 2.0, 2.5}) {
    for (double share_b : {0.5, 1.5, 2.0, 3.25}) {
      const double n = static_cast<double>(full);
      const auto keys_a = static_cast<uint64_t>(share_a * n);
      const auto keys_b = static_cast<uint64_t>(share_b * n);
      const Body a = Filled(shape, 0, keys_a), b = Filled(shape, other, keys_b);
      Body merged = a;
      merged.Merge(b);
      for (uint64_t i = 0; i < keys_a; ++i) {
        ASSERT_TRUE(merged.Contains(HashOf(i)) || !a.Contains(HashOf(i)));
      }
      for (uint64_t i = other; i < other + keys_b; ++i) {
        ASSERT_TRUE(merged.Contains(HashOf(i)) || !b.Contains(HashOf(i)));
      }
      EXPECT_EQ(merged.counters().count, std::max(a.counters().count, b.counters().count));
      // At once: each cache has the keys of two.
      const auto count = [](const Body& body) {
        return static_cast<double>(body.counters().count);
      };
      const double newer = count(a) + count(b);
      const double older = (share_a > 1 ? n : 0) + (share_b > 1 ? n : 0);
      const double expected = 1 - (1 - rate_of(newer)) * (1 - rate_of(older));
      EXPECT_NEAR(FreshRate(merged, probes, 7), expected,
                  5 * StandardError(expected, probes) + 0.06 * expected)
          << share_a << " " << share_b;
      // Those of both newer caches stay for na keys more.
      for (uint64_t i = 0; i < full; ++i) merged.TestAndAdd(HashOf(2 * other + i));
      EXPECT_EQ(ShareFound(merged, keys_a - a.counters().count, keys_a), 1);
      EXPECT_EQ(ShareFound(merged, other + keys_b - b.counters().count, other + keys_b), 1);
      EXPECT_EQ(ShareFound(merged, 2 * other, 2 * other + full), 1);
      // Two windows later nothing of them is left but false positives. A merged cache
      // answers for some of the new keys, so it takes a few more of them to fill it.
      for (uint64_t i = 0; i < 3 * full; ++i) merged.TestAndAdd(HashOf(3 * other + i));
      EXPECT_LT(ShareFound(merged, 0, keys_a), 0.02);
      EXPECT_LT(FreshRate(merged, probes, 7), 0.0105 + 5 * StandardError(0.01, probes));
    }
  }
}

TEST(A2Merge, WithTheEmptyFilterIsNothingAndOrderIsIndifferent) {
  const Shape shape = PlanMemory(Named("a2"), 4096, 0.01);
  const Body a = Filled(shape, 0, shape.keys * 5 / 2);  // buffer 0 is cache 1
  const Body b = Filled(shape, 1 << 20, shape.keys * 3 / 2);
  EXPECT_NE(a.counters().state, b.counters().state);
  Body same = a;
  same.Merge(Body(shape));
  EXPECT_EQ(same.bytes(), a.bytes());
  EXPECT_EQ(same.counters().count, a.counters().count);
  Body left = a, right = b;
  left.Merge(b);
  right.Merge(a);
  for (uint64_t i = 0; i < 3 * shape.keys; ++i) {
    const uint64_t one = HashOf(i), two = HashOf((1 << 20) + i);
    ASSERT_EQ(left.TestAndAdd(one), right.TestAndAdd(one));
    ASSERT_EQ(left.TestAndAdd(two), right.TestAndAdd(two));
  }
}

}  // namespace
}  // namespace dedup::test
