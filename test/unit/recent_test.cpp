// recent: the promise of its window on four kinds of stream, the reference twin
// key by key, and the published error rates.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

unsigned SlotsOf(const Shape& shape) { return shape.detail & 0xff; }
uint64_t LinesOf(const Shape& shape) { return shape.bytes / 64; }

// ---- streams ------------------------------------------------------------------

enum class Kind { kUniform, kZipf, kClicks, kRotating };
constexpr Kind kKinds[] = {Kind::kUniform, Kind::kZipf, Kind::kClicks, Kind::kRotating};
const char* const kKindNames[] = {"uniform", "zipf", "clicks", "rotating"};

// Keys of a stream, small numbers. `slots`: of the whole filter.
class Stream {
 public:
  Stream(Kind kind, uint64_t slots, uint64_t length, uint64_t seed)
      : kind_(kind),
        slots_(slots),
        random_(seed),
        popular_(kind == Kind::kZipf || kind == Kind::kClicks ? 16 * slots : 1),
        alphabet_(16 * slots + length),
        next_new_(16 * slots) {}

  uint64_t alphabet() const { return alphabet_; }

  uint64_t Next() {
    switch (kind_) {
      case Kind::kUniform:
        return random_.Below(2 * slots_);
      case Kind::kZipf:
        return popular_.Next(&random_);
      case Kind::kClicks: {
        // Half of the clicks are of visitors never seen before, some are of the
        // popular ones, and one in ten is a retry of a recent click.
        const uint64_t dice = random_.Below(10);
        uint64_t key;
        if (dice < 5) {
          key = next_new_++;
        } else if (dice < 9 || past_.empty()) {
          key = popular_.Next(&random_);
        } else {
          key = past_[past_.size() - 1 - random_.Below(std::min<uint64_t>(past_.size(), slots_))];
        }
        past_.push_back(key);
        return key;
      }
      case Kind::kRotating:
        // A third of the slots in steady rotation, and one new key in nine: what
        // makes an LRU that moves its hits only halfway lose keys.
        if (++step_ % 9 == 0) return next_new_++;
        return turn_++ % std::max<uint64_t>(1, static_cast<uint64_t>(0.35 * slots_));
    }
    return 0;
  }

 private:
  Kind kind_;
  uint64_t slots_;
  Random random_;
  Zipf popular_;
  uint64_t alphabet_, next_new_, step_ = 0, turn_ = 0;
  std::vector<uint64_t> past_;
};

// ---- the promise ----------------------------------------------------------------

struct Missed {
  uint64_t duplicates = 0;  // keys that came again within the window
  uint64_t missed = 0;      // of them answered new
  uint64_t moments = 0;     // at which all keys of the window were asked
  uint64_t asked = 0, lost = 0, worst = 0;
};

// Runs a stream beside the exact twin of the window.
Missed RunBeside(const Shape& shape, Kind kind, uint64_t length, uint64_t seed) {
  Stream stream(kind, LinesOf(shape) * SlotsOf(shape), length, seed);
  LastKeys window(shape.keys, stream.alphabet());
  Body body(shape);
  Missed result;
  const uint64_t between = length / 50;
  for (uint64_t i = 1; i <= length; ++i) {
    const uint64_t key = stream.Next();
    const bool within = window.See(key);
    const bool seen = body.TestAndAdd(HashOf(key, seed));
    result.duplicates += within;
    result.missed += within && !seen;
    if (i % between != 0) continue;
    uint64_t lost = 0;
    window.ForEach([&](uint64_t old) { lost += !body.Contains(HashOf(old, seed)); });
    ++result.moments;
    result.asked += window.count();
    result.lost += lost;
    result.worst = std::max(result.worst, lost);
  }
  return result;
}

class RecentPromise : public ::testing::TestWithParam<double> {};

// At most 0.1 % of the last `keys` distinct keys are answered new: of those that
// come again, and of all of them when they are asked at any of fifty moments; on
// four kinds of stream, with as many keys as the lines are good for, from one
// line to a thousand.
TEST_P(RecentPromise, IsKept) {
  const double fpr = GetParam();
  for (uint64_t lines : {1, 2, 10, 100, 1000}) {
    const Shape shape = PlanMemory(Named("recent"), 64 * lines, fpr);
    const uint64_t slots = lines * SlotsOf(shape);
    ASSERT_EQ(shape.keys, slots * 4 / 5);  // 0.8 of them
    for (Kind kind : kKinds) {
      const uint64_t length = std::max<uint64_t>(300000, 20 * slots) / kThin;
      const Missed result = RunBeside(shape, kind, length, lines + static_cast<uint64_t>(1 / fpr));
      const std::string where = NameOf(shape) + " " + kKindNames[static_cast<int>(kind)];
      EXPECT_GT(result.duplicates, length / 6) << where;
      EXPECT_LE(result.missed, 0.001 * static_cast<double>(result.duplicates)) << where;
      EXPECT_LE(result.lost, 0.001 * static_cast<double>(result.asked)) << where;
      // At a single moment the lost keys are a small count with a mean of at most
      // 0.1 % of the window: it may be over that mean by chance, so that a window
      // of a few hundred keys may miss one or two.
      const double mean = 0.001 * static_cast<double>(shape.keys);
      EXPECT_LE(static_cast<double>(result.worst), mean + 4 * std::sqrt(mean) + 1) << where;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rates, RecentPromise, ::testing::Values(0.3, 0.1, 0.01, 0.001, 0.0001),
                         [](const auto& info) {
                           return "per_" + std::to_string(std::lround(1 / info.param));
                         });

// The promise does not depend on the rate: it holds at the lowest ones too, where
// a line has only 14 to 22 slots (one rate for each here) and is more often fuller
// than its share.
TEST(RecentWindow, IsKeptAtLowRates) {
  for (double fpr : {2e-5, 1e-5, 2e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8, 1e-9}) {
    for (uint64_t keys : {100, 1000, 20000}) {
      const Shape shape = PlanKeys(Named("recent"), keys, fpr);
      const Missed result = RunBeside(shape, Kind::kUniform, 600000 / kThin, 5);
      EXPECT_LE(result.missed, 0.001 * static_cast<double>(result.duplicates)) << NameOf(shape);
      EXPECT_LE(result.lost, 0.001 * static_cast<double>(result.asked)) << NameOf(shape);
    }
  }
}

// A million keys: a window of 300,000 keys, sized by keys, over three turnovers.
TEST(RecentWindow, IsKeptInALargeFilter) {
  const Shape shape = PlanKeys(Named("recent"), 300000 / kThin, 0.001);
  for (Kind kind : {Kind::kUniform, Kind::kClicks}) {
    const Missed result = RunBeside(shape, kind, 3000000 / kThin, 9);
    EXPECT_LE(result.missed, 0.001 * static_cast<double>(result.duplicates));
    EXPECT_LE(result.lost, 0.001 * static_cast<double>(result.asked));
  }
}

// The promise holds across the exact form and the switch: while exact no key is
// lost, and after the switch the window is kept as by a filter that never was
// exact.
TEST(RecentWindow, IsKeptAcrossTheExactSwitch) {
  for (uint64_t keys : {10, 100, 3000}) {
    const Shape shape = PlanKeys(Named("recent"), keys, 0.001);
    Filter filter(shape);
    LastKeys window(keys, 4 * keys);
    Random random(keys);
    uint64_t duplicates = 0, missed = 0;
    for (uint64_t i = 0; i < std::max<uint64_t>(20 * keys, 200000) / kThin; ++i) {
      const uint64_t key = random.Below(2 * keys);
      const bool within = window.See(key);
      const bool exact = filter.exact();
      const bool seen = filter.Add(HashOf(key, 3));
      if (exact) {
        EXPECT_TRUE(seen || !within);
      }
      duplicates += within;
      missed += within && !seen;
    }
    EXPECT_FALSE(filter.exact());
    EXPECT_LE(missed, 0.001 * static_cast<double>(duplicates)) << keys;
  }
}

// Old keys give way: after four windows of new keys a key is as good as never seen.
TEST(RecentWindow, ForgetsOldKeys) {
  const Shape shape = PlanKeys(Named("recent"), 10000, 0.001);
  Body body(shape);
  for (uint64_t key = 0; key < 50000; ++key) body.TestAndAdd(HashOf(key));
  uint64_t found = 0;
  for (uint64_t key = 0; key < 10000; ++key) found += body.Contains(HashOf(key));
  EXPECT_LE(found, 30u);
}

// ---- the reference twin -----------------------------------------------------------

// A million operations: the same answers as plain lists of fingerprints, and the
// same bytes in the end, for slots of every width class.
TEST(RecentTwin, GivesTheSameAnswers) {
  uint64_t operations = 0;
  for (double fpr : {0.5, 0.3, 0.1, 0.01, 0.001, 0.0001, 1e-6, 1e-9}) {
    for (uint64_t lines : {1, 2, 3, 20, 100}) {
      const Shape shape = PlanMemory(Named("recent"), 64 * lines, fpr);
      const uint64_t slots = lines * SlotsOf(shape);
      Body body(shape);
      ReferenceRecent reference(shape);
      Random random(lines);
      Stream zipf(Kind::kZipf, slots, 30000, lines);
      for (int i = 0; i < 30000 / static_cast<int>(kThin); ++i, ++operations) {
        const uint64_t key = random.OneIn(2) ? random.Below(2 * slots) : zipf.Next();
        const uint64_t hash = HashOf(key, lines);
        if (random.OneIn(10)) {
          body.Insert(hash);
          reference.Insert(hash);
        } else if (random.OneIn(5)) {
          ASSERT_EQ(body.Contains(hash), reference.Contains(hash)) << NameOf(shape);
        } else {
          ASSERT_EQ(body.TestAndAdd(hash), reference.TestAndAdd(hash)) << NameOf(shape);
        }
      }
      const std::vector<uint8_t> expected = reference.Bytes();
      ASSERT_EQ(std::memcmp(body.bytes().data(), expected.data(), expected.size()), 0)
          << NameOf(shape);
    }
  }
  EXPECT_GE(operations, 1000000 / kThin);
}

// Every layout that Valid() accepts is packed right, not only the planned ones.
TEST(RecentTwin, AgreesInEveryLayout) {
  for (unsigned f = 8; f <= 40; ++f) {
    for (unsigned k : {1u, 2u, 7u, 504 / f}) {
      Shape shape = PlanMemory(Named("recent"), 64 * 4, 0.01);
      shape.detail = k | f << 8;
      ASSERT_TRUE(Named("recent").valid(shape, Counters{}));
      Body body(shape);
      ReferenceRecent reference(shape);
      Random random(f);
      for (int i = 0; i < 2000; ++i) {
        const uint64_t hash = HashOf(random.Below(8 * k), k);
        ASSERT_EQ(body.TestAndAdd(hash), reference.TestAndAdd(hash)) << k << " slots of " << f;
      }
      const std::vector<uint8_t> expected = reference.Bytes();
      ASSERT_EQ(std::memcmp(body.bytes().data(), expected.data(), expected.size()), 0)
          << k << " slots of " << f;
    }
  }
}

// The byte that counts insertions wraps, and is compared as a signed difference:
// the line that is behind takes the insertion also when it stands at 255 and the
// other at 0.
TEST(RecentTwin, ComparesCountersAcrossTheWrap) {
  const Shape shape = PlanMemory(Named("recent"), 128, 0.01);
  // A hash whose first candidate is line 0 and whose second is line 1.
  uint64_t hash = 1;
  while (FastRange(hash, 2) != 0 || FastRange(Derived(hash, 0), 2) != 1) hash = HashOf(hash);
  const auto chosen = [&](uint8_t first, uint8_t second) {
    Body body(shape);
    body.bytes()[63] = first;
    body.bytes()[127] = second;
    body.Insert(hash);
    return body.bytes()[63] != first ? 0 : 1;
  };
  EXPECT_EQ(chosen(0, 0), 0);  // ties take the first
  EXPECT_EQ(chosen(1, 0), 1);
  EXPECT_EQ(chosen(0, 1), 0);
  EXPECT_EQ(chosen(0, 255), 1);
  EXPECT_EQ(chosen(255, 0), 0);
  EXPECT_EQ(chosen(127, 0), 1);
  EXPECT_EQ(chosen(128, 0), 0);  // half way round counts as behind
}

// ---- published error rates ----------------------------------------------------------

constexpr uint64_t kStreamLength = 1000000, kStreamAlphabet = 1 << 20;

std::vector<uint64_t> PublishedStream(bool zipf, uint64_t seed) {
  static const Zipf popular(kStreamAlphabet);
  Random random(seed);
  std::vector<uint64_t> stream(kStreamLength);
  for (uint64_t& key : stream) key = zipf ? popular.Next(&random) : random.Below(kStreamAlphabet);
  return stream;
}

struct Errors {
  uint64_t distinct = 0;
  double false_positives = 0, false_negatives = 0;  // in %
};

Errors ErrorsOf(const Shape& shape, const std::vector<uint64_t>& stream, uint64_t seed) {
  Body body(shape);
  std::vector<char> known(kStreamAlphabet);
  uint64_t wrong_new = 0, wrong_seen = 0, distinct = 0;
  for (uint64_t key : stream) {
    const bool seen = body.TestAndAdd(HashOf(key, seed));
    if (known[key]) {
      wrong_new += !seen;
    } else {
      wrong_seen += seen;
      ++distinct;
    }
    known[key] = 1;
  }
  const double news = static_cast<double>(distinct);
  return {distinct, 100 * static_cast<double>(wrong_seen) / news,
          100 * static_cast<double>(wrong_new) / (static_cast<double>(stream.size()) - news)};
}

struct Published {
  double value, tolerance;
};

// The tolerances are those of the mean of five streams. The mean of fewer streams has a larger
// standard deviation, by the square root of the ratio.
void ExpectErrors(const Shape& shape, bool zipf, Published fpr, Published fnr) {
  constexpr uint64_t kSeeds = 5 / kQuick;
  const double wider = std::sqrt(5.0 / static_cast<double>(kSeeds));
  double false_positives = 0, false_negatives = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const std::vector<uint64_t> stream = PublishedStream(zipf, seed);
    const Errors errors = ErrorsOf(shape, stream, seed);
    // The generator check: exact.
    if (seed == 1) {
      EXPECT_EQ(errors.distinct, zipf ? 220319u : 644588u);
    }
    false_positives += errors.false_positives / kSeeds;
    false_negatives += errors.false_negatives / kSeeds;
  }
  EXPECT_NEAR(false_positives, fpr.value, wider * fpr.tolerance) << NameOf(shape);
  EXPECT_NEAR(false_negatives, fnr.value, wider * fnr.tolerance) << NameOf(shape);
}

// In 1,048,576 bits with 13-bit fingerprints, a reference simulation of the same
// rules (two candidate lines, exact LRU) gave these rates in %, as the mean of
// five seeds.
TEST(PublishedErrors, OfRecentAreReached) {
  const Shape shape = PlanMemory(Named("recent"), 131072, 0.01);
  ASSERT_EQ(shape.detail, 38u | 13u << 8);
  ExpectErrors(shape, false, {0.8736, 0.085}, {79.07, 2.4});
  ExpectErrors(shape, true, {0.768, 0.094}, {5.503, 0.17});
}

// And so for a Bloom filter of two probes in as many bits.
TEST(PublishedErrors, OfBloomAreReached) {
  const Shape shape = PlanMemory(Named("bloom"), 131072, 0.01, "k=2");
  ASSERT_EQ(shape.detail, 2u);
  ExpectErrors(shape, false, {22.08, 0.66}, {0, 0});
  ExpectErrors(shape, true, {4.303, 0.22}, {0, 0});
}

}  // namespace
}  // namespace dedup::test
