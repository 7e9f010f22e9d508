// The states of partial aggregates of infini: merged, and made plain filters of.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/merge.hpp"
#include "core/methods/infini.hpp"
#include "support/infini.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Eight states of partial aggregates keep the rate asked for, with the same keys or others.
TEST(InfiniStates, OfEightKeepTheRate) {
  Random random(3);
  for (double fpr : {0.1, 0.01, 0.001, 0.0001}) {
    const Shape plain = Growing(fpr), state = Infini().growth->state_shape(plain);
    for (uint64_t keys : {100, 2000, 20000}) {
      for (uint64_t apart : {keys, keys / 3, uint64_t{0}}) {
        Filter merged(state);
        for (uint64_t worker = 0; worker < 8; ++worker) {
          const Filter one = FilterOf(state, worker * apart, worker * apart + keys);
          if (!merged.exact()) merged.MakeWorkingForm();
          if (merged.exact() || merged.TryMergeInPlace(one) != Outcome::kNew) {
            merged.MakeCanonical();
            merged = merged.MergedWith(one);
          }
          merged.MakeCanonical();
        }
        Bytes out(ReducedBytes(merged.header(), plain));
        ReduceTo(merged.image().data(), merged.header(), plain, out.data());
        const Filter result(out);
        EXPECT_EQ(result.header().shape, plain);
        const uint64_t all = 7 * apart + keys;
        for (uint64_t key = 0; key < all; ++key) ASSERT_TRUE(result.Contains(HashOf(key, 9)));
        const uint64_t probes = 1024 * (300 / kThin);
        const double rate =
            static_cast<double>(FoundOf(result, probes, &random)) / static_cast<double>(probes);
        EXPECT_LE(result.Read().fpr, fpr) << fpr << " " << keys << " " << apart;
        EXPECT_LE(rate, 1.05 * fpr + 4 * StandardError(fpr, probes));
        const double n = static_cast<double>(all);
        EXPECT_NEAR(result.Read().count, n, 0.0005 * n + 5 * std::sqrt(n * fpr));
      }
    }
  }
}

// A full state, or the plain filter of two or more, and one more state: the plain filter of them.
Filter MergedToPlain(const Filter& left, const Filter& state, const Shape& plain,
                     int* too_small = nullptr) {
  EXPECT_TRUE(MergesToPlain(left.header(), state.header(), plain));
  uint64_t keys =
      PlainKeys(left.image().data(), left.header(), state.image().data(), state.header(), plain);
  EXPECT_LE(keys, left.header().counters.count + state.header().counters.count);
  for (;;) {
    const uint32_t bytes = PlainBytes(left.header(), plain, keys);
    Bytes out(kHeaderBytes + bytes);
    std::memset(out.data(), 0xa5, out.size());
    const size_t size = MergeToPlain(left.image().data(), left.header(), state.image().data(),
                                     state.header(), plain, bytes, out.data());
    if (size > 0) {
      EXPECT_EQ(size, out.size());
      Seal(out.data(), size);
      return Filter(out);
    }
    if (too_small != nullptr) ++*too_small;
    keys = left.header().counters.count + state.header().counters.count;
  }
}

void ExpectHolds(const Filter& filter, uint64_t from, uint64_t to, uint64_t seed = 9) {
  for (uint64_t key = from; key < to; ++key) {
    ASSERT_TRUE(filter.Contains(HashOf(key, seed))) << key;
  }
}

// Of states of any two sizes, with the same keys or others: no key is lost, the rate is kept, and
// the size is that of the state of both made plain.
TEST(InfiniStates, OfAnyTwoSizesBecomePlain) {
  for (double fpr : {0.1, 0.01, 0.001, 0.0001, 1e-7}) {
    const Shape plain = Growing(fpr), state = Infini().growth->state_shape(plain);
    for (uint64_t a : {513, 700, 3000, 40000}) {
      for (uint64_t b : {513, 5000, 40000}) {
        for (uint64_t common : {uint64_t{0}, std::min(a, b) / 2, std::min(a, b)}) {
          const uint64_t all = a + b - common;
          const Filter left = FilterOf(state, 0, a), right = FilterOf(state, a - common, all);
          const Filter merged = MergedToPlain(left, right, plain);
          SCOPED_TRACE(::testing::Message() << fpr << " " << a << " " << b << " " << common);
          EXPECT_EQ(merged.header().shape, plain);
          ExpectHolds(merged, 0, all);
          if (HasFatalFailure()) return;
          const double n = static_cast<double>(all);
          const Reading reading = merged.Read();
          EXPECT_LE(reading.fpr, fpr);
          EXPECT_NEAR(reading.count, n, 0.0005 * n + 5 * std::sqrt(n * fpr));
          const Filter both = left.MergedWith(right);
          Bytes reduced(ReducedBytes(both.header(), plain));
          ReduceTo(both.image().data(), both.header(), plain, reduced.data());
          EXPECT_EQ(merged.image().size(), reduced.size());
          EXPECT_NEAR(reading.fpr, Filter(reduced).Read().fpr, 0.02 * reading.fpr);
        }
      }
    }
  }
}

// One state after the other, of workers that have the same keys or others.
TEST(InfiniStates, OfManyWorkersBecomePlain) {
  Random random(5);
  for (double fpr : {0.1, 0.01, 0.001, 0.0001}) {
    const Shape plain = Growing(fpr), state = Infini().growth->state_shape(plain);
    for (uint64_t keys : {600, 20000}) {
      for (uint64_t apart : {keys, keys / 3, uint64_t{0}}) {
        Filter merged = FilterOf(state, 0, keys);
        for (uint64_t worker = 1; worker < 16; ++worker) {
          const uint64_t from = worker * apart;
          merged = MergedToPlain(merged, FilterOf(state, from, from + keys), plain);
        }
        const uint64_t all = 15 * apart + keys;
        ExpectHolds(merged, 0, all);
        if (HasFatalFailure()) return;
        const uint64_t probes = 1024 * (300 / kThin);
        const double rate =
            static_cast<double>(FoundOf(merged, probes, &random)) / static_cast<double>(probes);
        EXPECT_LE(merged.Read().fpr, fpr) << fpr << " " << keys << " " << apart;
        EXPECT_LE(rate, 1.05 * fpr + 4 * StandardError(fpr, probes));
        const double n = static_cast<double>(all);
        EXPECT_NEAR(merged.Read().count, n, 0.002 * n + 5 * std::sqrt(n * fpr));
      }
    }
  }
}

// Of large states the number of keys is estimated by a part of the lines. Where the keys are just
// not there, the body is too small, and the next size takes them: nothing is lost.
TEST(InfiniStates, OfManyKeysBecomePlain) {
  if (kSanitize) GTEST_SKIP() << "takes long";
  const Shape plain = Growing(0.01), state = Infini().growth->state_shape(plain);
  constexpr uint64_t kKeys = 600000;
  for (bool hidden : {false, true}) {
    Filter left(state), right(state);
    for (uint64_t key = 0; key < kKeys; ++key) left.AddDeferred(HashOf(key, 9));
    left.Settle();
    left.MakeCanonical();
    const uint64_t lines = infini::SizeAt(left.header().counters.state).Lines();
    ASSERT_GE(lines, infini::kSampledFrom);
    const auto looked_at = [&](uint64_t key) {
      const uint64_t group = FastRange(HashOf(key, 9), lines) / infini::kLinesOfGroup;
      return group % infini::kSampled == 0;
    };
    // Either other keys, or, where it is looked, the same ones.
    std::vector<uint64_t> others;
    for (uint64_t key = 0; key < kKeys; ++key) {
      if (hidden && looked_at(key)) right.AddDeferred(HashOf(key, 9));
      if (hidden && looked_at(key + kKeys)) continue;
      others.push_back(key + kKeys);
      right.AddDeferred(HashOf(key + kKeys, 9));
    }
    right.Settle();
    right.MakeCanonical();
    ASSERT_FALSE(right.exact());
    int too_small = 0;
    const Filter merged = MergedToPlain(left, right, plain, &too_small);
    EXPECT_EQ(too_small > 0, hidden);
    ExpectHolds(merged, 0, kKeys);
    for (uint64_t key : others) ASSERT_TRUE(merged.Contains(HashOf(key, 9)));
    EXPECT_LE(merged.Read().fpr, 0.01);
    const auto n = static_cast<double>(kKeys + others.size());
    EXPECT_NEAR(merged.Read().count, n, 0.002 * n);
  }
  // A body that is too small is told as such.
  const Filter one = FilterOf(state, 0, 5000), other = FilterOf(state, 5000, 10000);
  const uint32_t bytes = PlainBytes(one.header(), plain, 6000);
  Bytes out(kHeaderBytes + bytes);
  EXPECT_EQ(MergeToPlain(one.image().data(), one.header(), other.image().data(), other.header(),
                         plain, bytes, out.data()),
            0u);
  // Exact filters and plain ones are merged in other ways.
  const Filter exact = FilterOf(state, 0, 100), plain_one = FilterOf(plain, 0, 5000);
  EXPECT_FALSE(MergesToPlain(exact.header(), one.header(), plain));
  EXPECT_FALSE(MergesToPlain(one.header(), exact.header(), plain));
  EXPECT_FALSE(MergesToPlain(plain_one.header(), plain_one.header(), plain));
  EXPECT_FALSE(MergesToPlain(one.header(), plain_one.header(), plain));
  EXPECT_TRUE(MergesToPlain(plain_one.header(), one.header(), plain));
}

}  // namespace
}  // namespace dedup::test
