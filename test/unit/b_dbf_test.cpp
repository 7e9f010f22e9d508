// b_dbf: its sizes, a twin with one number a counter, the promise to the element, the
// rate, ageing at every width, and what a merge keeps.

#include "core/methods/b_dbf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

std::string B(unsigned b) { return "b=" + std::to_string(b); }

struct Sizes {
  double k, counters, window, age;
};

// The formulas of the rule.
Sizes SizesOf(uint64_t bytes, double fpr, unsigned b) {
  Sizes sizes;
  sizes.k = std::max(1.0, std::round(std::log2(1 / fpr)));
  sizes.counters = std::floor(static_cast<double>(bytes) * 8 / std::ceil(std::log2(b + 1.0)));
  sizes.window = std::floor(-(sizes.counters / sizes.k) * std::log(1 - std::pow(fpr, 1 / sizes.k)) *
                            (b - 1) / b);
  sizes.age = std::max(1.0, std::floor(sizes.window / (b - 1)));
  return sizes;
}

TEST(BDbfSizes, FollowTheRule) {
  for (unsigned b : {2, 3, 4, 7, 8, 15, 31, 63, 127, 255}) {
    for (double fpr : {0.5, 0.1, 0.01, 1e-4}) {
      for (uint64_t memory : {16384, 131073, 1 << 24}) {
        const Shape shape = PlanMemory(Named("b_dbf"), memory, fpr, B(b));
        const b_dbf::Layout layout = b_dbf::LayoutOf(shape);
        const Sizes sizes = SizesOf(memory / 8 * 8, fpr, b);
        EXPECT_EQ(shape.bytes, memory / 8 * 8);
        EXPECT_EQ(layout.k, sizes.k);
        EXPECT_EQ(layout.b, b);
        EXPECT_EQ(static_cast<double>(layout.counters), sizes.counters);
        EXPECT_EQ(static_cast<double>(layout.age), sizes.age);
        // The window is W but for the rest of the division.
        EXPECT_EQ(static_cast<double>(shape.keys), (b - 1) * sizes.age);
        EXPECT_LT(sizes.window - static_cast<double>(shape.keys), b - 1);
        EXPECT_TRUE(Named("b_dbf").valid(shape, Counters{}));
        EXPECT_TRUE(Named("b_dbf").valid(shape, Counters{layout.age, 0}));
        EXPECT_FALSE(Named("b_dbf").valid(shape, Counters{layout.age + 1, 0}));
        EXPECT_FALSE(Named("b_dbf").valid(shape, Counters{0, 1}));
      }
    }
  }
  const Shape shape = PlanMemory(Named("b_dbf"), 131072, 0.01);  // b = 7
  EXPECT_EQ(b_dbf::LayoutOf(shape).counters, 349525u);
  EXPECT_EQ(shape.keys, 31230u);
}

TEST(BDbfSizes, ByKeysAreTheLeast) {
  for (unsigned b : {2, 7, 63}) {
    for (double fpr : {0.3, 0.01, 1e-6}) {
      for (uint64_t keys : {100, 1234, 1000000}) {
        const Shape shape = PlanKeys(Named("b_dbf"), keys, fpr, B(b));
        EXPECT_EQ(shape.keys, keys);
        EXPECT_GE((b - 1) * SizesOf(shape.bytes, fpr, b).age, keys);
        EXPECT_LT((b - 1) * SizesOf(shape.bytes - 8, fpr, b).age, keys);
      }
    }
  }
}

// Where one element is a block, b of them are remembered: too many for the rate in a
// small body, which is refused; the least that is taken keeps it.
TEST(BDbfSizes, TooSmallForTheRateAreRefused) {
  for (unsigned b : {7, 63}) {
    const double k = 7;
    uint64_t refused = 0, units = 1;
    for (; units < 1000; ++units) {
      Request request;
      request.memory = units * 8;
      request.options = OptionsFrom(Named("b_dbf"), B(b));
      Shape shape;
      const PlanStatus status = PlanFilter(Named("b_dbf"), request, 0, &shape);
      const Sizes sizes = SizesOf(units * 8, 0.01, b);
      const double rate = std::pow(1 - std::exp(-k * b * sizes.age / sizes.counters), k);
      EXPECT_EQ(status == PlanStatus::kOk, rate <= 0.01) << units;
      refused += status == PlanStatus::kMemoryTooSmall;
      if (status == PlanStatus::kOk) break;
    }
    EXPECT_EQ(refused, units - 1);
    EXPECT_GT(refused, 0u);
  }
}

// The rule, with a vector of numbers.
class Twin {
 public:
  explicit Twin(const Shape& shape) : layout_(b_dbf::LayoutOf(shape)), counter_(layout_.counters) {}
  void TakeCounters(const Body& body) {
    for (uint64_t i = 0; i < counter_.size(); ++i) {
      counter_[i] = 0;
      for (unsigned bit = 0; bit < layout_.width; ++bit) {
        const uint64_t at = i * layout_.width + bit;
        counter_[i] |= (body.bytes()[at / 8] >> at % 8 & 1u) << bit;
      }
    }
  }
  bool Contains(uint64_t hash) const {
    for (unsigned i = 0; i < layout_.k; ++i) {
      if (counter_[At(hash, i)] == 0) return false;
    }
    return true;
  }
  bool TestAndAdd(uint64_t hash) {
    const bool seen = Contains(hash);
    if (elements_ > 0 && elements_ % layout_.age == 0) Age();
    for (unsigned i = 0; i < layout_.k; ++i) counter_[At(hash, i)] = layout_.b;
    ++elements_;
    return seen;
  }
  void Age() {
    for (unsigned& counter : counter_) counter -= counter > 0;
  }
  void Merge(const Twin& other) {
    for (size_t i = 0; i < counter_.size(); ++i) {
      counter_[i] = std::max(counter_[i], other.counter_[i]);
    }
  }
  Bytes Packed(size_t bytes) const {
    Bytes packed(bytes);
    for (uint64_t i = 0; i < counter_.size(); ++i) {
      for (unsigned bit = 0; bit < layout_.width; ++bit) {
        const uint64_t at = i * layout_.width + bit;
        packed[at / 8] |= (counter_[i] >> bit & 1u) << at % 8;
      }
    }
    return packed;
  }

 private:
  uint64_t At(uint64_t hash, unsigned i) const {
    return FastRange(Derived(hash, i), layout_.counters);
  }
  b_dbf::Layout layout_;
  std::vector<unsigned> counter_;
  uint64_t elements_ = 0;
};

TEST(BDbfTwin, AnswersAndBytesAreTheSame) {
  Random random(1);
  for (unsigned b : {2, 3, 6, 7, 15, 20, 63, 100, 255}) {
    for (uint64_t memory : {776, 4096}) {
      const Shape shape = PlanMemory(Named("b_dbf"), memory, b < 100 ? 0.1 : 0.4, B(b));
      Body body(shape);
      Twin twin(shape);
      const uint64_t alphabet = 2 * shape.keys + 5;
      uint64_t seen = 0;
      for (uint64_t i = 0; i < 10 * shape.keys + 1000; ++i) {
        const uint64_t hash = HashOf(random.Below(alphabet), 1);
        const uint64_t other = HashOf(random.Below(alphabet), 1);
        ASSERT_EQ(body.Contains(other), twin.Contains(other));
        const bool expected = twin.TestAndAdd(hash);
        ASSERT_EQ(body.TestAndAdd(hash), expected);
        seen += expected;
        if (i % 101 == 0) {
          ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes)) << NameOf(shape);
        }
      }
      EXPECT_GT(seen, 100u);
      ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes));
    }
  }
}

// Ageing and merging take whatever the counters hold, at every width, over the ends of
// words and at the end of the body.
TEST(BDbfTwin, AgesAndMergesAnyCounters) {
  Random random(2);
  for (unsigned b : {2, 3, 7, 15, 31, 63, 127, 255}) {
    for (uint64_t words = 1; words < 20; ++words) {
      Shape shape = PlanMemory(Named("b_dbf"), 16384, 0.4, B(b));
      shape.bytes = static_cast<uint32_t>(words * 8);
      const b_dbf::Layout layout = b_dbf::LayoutOf(shape);
      const auto noise = [&](Body* body) {
        const uint64_t sparse = random.Below(4);
        for (uint64_t bit = 0; bit < layout.counters * layout.width; ++bit) {
          if (random.Below(4) <= sparse) body->bytes()[bit / 8] ^= 1 << bit % 8;
        }
      };
      Body body(shape), other(shape);
      noise(&body);
      noise(&other);
      Twin twin(shape), twin_other(shape);
      twin.TakeCounters(body);
      twin_other.TakeCounters(other);
      ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes));
      body.Merge(other);
      twin.Merge(twin_other);
      ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes)) << b << " " << words;
      for (unsigned i = 0; i <= b; i += 1 + b / 9) {
        b_dbf::Age(shape, layout, body.bytes().data());
        twin.Age();
        ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes)) << b << " " << words;
      }
    }
  }
}

TEST(BDbfBatches, AreTheSameAsSingleKeys) {
  const Shape shape = PlanMemory(Named("b_dbf"), 4096, 0.01);
  ExpectBatchesAreSingles(shape, 2 * shape.keys, 3);
}

// No key is answered new while no more than `keys` elements came since its last sight:
// asked of every element, at all ages.
TEST(BDbfPromise, IsNeverViolated) {
  for (unsigned b : {2, 7, 63}) {
    for (double fpr : {0.3, 0.01}) {
      const Shape shape = PlanMemory(Named("b_dbf"), 4096, fpr, B(b));
      Body body(shape);
      const uint64_t length = 30 * shape.keys;
      std::vector<int64_t> last(length, -1);
      Random random(4);
      uint64_t next = 0, held = 0;
      for (uint64_t i = 0; i < length; ++i) {
        uint64_t key = next;
        if (next > 0 && !random.OneIn(3)) {
          key = next - 1 - random.Below(std::min(next, 2 * shape.keys));
        } else {
          ++next;
        }
        const bool within =
            last[key] >= 0 && i - static_cast<uint64_t>(last[key]) <= shape.keys + 1;
        ASSERT_TRUE(body.TestAndAdd(HashOf(key, 5)) || !within) << NameOf(shape) << " at " << i;
        last[key] = static_cast<int64_t>(i);
        held += within;
      }
      EXPECT_GT(held, length / 10);
    }
  }
}

// To the element: the last of a block is lost with the keys + 1st element after it, the
// first of a block lives a block longer. The elements may be one key over and over.
TEST(BDbfPromise, IsTight) {
  const Shape shape = PlanMemory(Named("b_dbf"), 65536, 1e-6);
  const uint64_t age = b_dbf::LayoutOf(shape).age;
  for (bool first : {false, true}) {
    const uint64_t lives = first ? shape.keys + age - 1 : shape.keys;
    for (bool repeat : {false, true}) {
      Body body(shape);
      uint64_t key = 1;
      for (uint64_t i = 1; i < age && !first; ++i) body.Insert(HashOf(key++));
      body.Insert(HashOf(0));
      for (uint64_t i = 0; i < lives; ++i) body.Insert(HashOf(repeat ? 1 : key++));
      EXPECT_TRUE(body.Contains(HashOf(0)));
      body.Insert(HashOf(repeat ? 1 : key++));
      EXPECT_FALSE(body.Contains(HashOf(0)));
    }
  }
}

// At W distinct elements the rate is below fpr, at b age (all that are ever remembered)
// it is at most fpr; between, that of a Bloom filter. 5 standard errors of the probes and
// 3 % for how evenly the counters of one filter are set.
TEST(BDbfRate, IsTheOneExpected) {
  const uint64_t probes = 300000 / kThin;
  for (unsigned b : {2, 7, 63}) {
    for (double fpr : {0.3, 0.1, 0.01}) {
      const Shape shape = PlanMemory(Named("b_dbf"), 65536, fpr, B(b));
      const Sizes sizes = SizesOf(shape.bytes, fpr, b);
      Body body(shape);
      uint64_t key = 0;
      const auto check = [&](double alive) {
        const double expected = std::pow(1 - std::exp(-sizes.k * alive / sizes.counters), sizes.k);
        EXPECT_LE(expected, fpr * (1 + 1e-9));
        const double error = 5 * StandardError(expected, probes) + 0.03 * expected;
        EXPECT_NEAR(FreshRate(body, probes, 8), expected, error) << NameOf(shape) << " " << alive;
        EXPECT_NEAR(body.Read().fpr, expected, 0.05 * expected);
        EXPECT_NEAR(body.Read().count, alive, 0.03 * alive);
        EXPECT_NEAR(Named("b_dbf").expected_fpr(shape, alive), expected, 1e-6 * expected);
      };
      while (key < shape.keys / 2) body.Insert(HashOf(key++, 8));
      check(static_cast<double>(key));
      while (key < shape.keys) body.Insert(HashOf(key++, 8));
      check(static_cast<double>(key));
      while (static_cast<double>(key) < b * sizes.age) body.Insert(HashOf(key++, 8));
      check(b * sizes.age);
      // From here on blocks go as others come: b of them at most.
      while (static_cast<double>(key) < 3.5 * b * sizes.age) body.Insert(HashOf(key++, 8));
      const double since = std::fmod(static_cast<double>(key) - 1, sizes.age) + 1;
      check((b - 1) * sizes.age + since);
      EXPECT_EQ(Named("b_dbf").expected_fpr(shape, 1e12),
                Named("b_dbf").expected_fpr(shape, b * sizes.age));
    }
  }
}

// The published comparison's rows for a window of 6000/15 elements (k = 4 where the
// memory is 1e5/15 bits, k = 1 where it is 1e4/15, which is 4 % less here: 80 bytes).
TEST(BDbfRate, IsThatOfTheComparison) {
  struct Row {
    uint64_t memory, k;
    double fpr, fnr, error;
  };
  for (const Row& row : {Row{832, 4, 0.0850, 0.9147, 0.002}, Row{80, 1, 0.8548, 0.1451, 0.02}}) {
    const Shape shape = PlanMemory(Named("b_dbf"), row.memory, 0.01, "window=400");
    EXPECT_EQ(shape.bytes, row.memory);
    EXPECT_EQ(b_dbf::LayoutOf(shape).k, row.k);
    EXPECT_EQ(b_dbf::LayoutOf(shape).age, 400u / 6);
    EXPECT_EQ(shape.keys, 6u * (400 / 6));
    ASSERT_TRUE(Named("b_dbf").valid(shape, Counters{}));
    Body body(shape);
    Random random(6);
    const uint64_t alphabet = (1 << 24) / 15;
    std::vector<bool> came(alphabet);
    uint64_t news = 0, false_hits = 0, again = 0, missed = 0;
    for (uint64_t i = 0; i < 1500000 / kThin; ++i) {
      const uint64_t key = random.Below(alphabet);
      const bool seen = body.TestAndAdd(HashOf(key, 1));
      (came[key] ? again : news) += 1;
      (came[key] ? missed : false_hits) += came[key] != seen;
      came[key] = true;
    }
    // 750,000 of each: a standard error of 0.0003.
    EXPECT_NEAR(static_cast<double>(false_hits) / static_cast<double>(news), row.fpr, row.error);
    EXPECT_NEAR(static_cast<double>(missed) / static_cast<double>(again), row.fnr, row.error);
  }
}

TEST(BDbfSizes, WindowIsForMemoryOnly) {
  Request request;
  Shape shape;
  request.options = OptionsFrom(Named("b_dbf"), "window=400");
  request.keys = 400;
  EXPECT_EQ(PlanFilter(Named("b_dbf"), request, 0, &shape), PlanStatus::kConflict);
  request.keys = 0;
  request.memory = 8;  // 21 counters, of which 66 elements are to be told apart
  EXPECT_EQ(PlanFilter(Named("b_dbf"), request, 0, &shape), PlanStatus::kMemoryTooSmall);
}

Body Filled(const Shape& shape, uint64_t from, uint64_t keys) {
  Body body(shape);
  for (uint64_t i = 0; i < keys; ++i) body.Insert(HashOf(from + i));
  return body;
}

// Nothing that either input knows is lost; the rate is that of both inputs' keys; the
// input that is behind in its block loses at most a block of its time, the other none;
// when the window has passed the rate is the usual one.
TEST(BDbfMerge, KeepsEveryKeyOfBoth) {
  const Shape shape = PlanMemory(Named("b_dbf"), 32768, 0.01);
  const uint64_t age = b_dbf::LayoutOf(shape).age, other = 1 << 24;
  const uint64_t probes = 200000 / kThin;
  const double k = b_dbf::LayoutOf(shape).k;
  const double counters = static_cast<double>(b_dbf::LayoutOf(shape).counters);
  for (uint64_t keys_a : {shape.keys / 2, 7 * age, 20 * age + age / 2}) {
    for (uint64_t keys_b : {shape.keys / 2 + age / 3, 9 * age + 1}) {
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
      Body turned = b;
      turned.Merge(a);
      EXPECT_EQ(turned.bytes(), merged.bytes());
      const auto alive = [&](uint64_t keys) {
        return static_cast<double>(std::min(keys, 6 * age + (keys - 1) % age + 1));
      };
      const double expected =
          std::pow(1 - std::exp(-k * (alive(keys_a) + alive(keys_b)) / counters), k);
      EXPECT_NEAR(FreshRate(merged, probes, 7), expected,
                  5 * StandardError(expected, probes) + 0.05 * expected);
      // Half a window on: of the last half window of each all but a block are there for
      // certain, and all of the one that was ahead.
      const uint64_t half = shape.keys / 2;
      for (uint64_t i = 0; i < half; ++i) merged.Insert(HashOf(2 * other + i));
      const bool a_ahead = a.counters().count >= b.counters().count;
      for (uint64_t i = 0; i < half; ++i) {
        if (a_ahead || i + age < half) {
          ASSERT_TRUE(merged.Contains(HashOf(keys_a - 1 - i)));
        }
        if (!a_ahead || i + age < half) {
          ASSERT_TRUE(merged.Contains(HashOf(other + keys_b - 1 - i)));
        }
      }
      // b blocks on nothing of them is left.
      for (uint64_t i = half; i < 7 * age; ++i) merged.Insert(HashOf(2 * other + i));
      uint64_t left = 0;
      for (uint64_t i = 0; i < keys_a; ++i) left += merged.Contains(HashOf(i));
      EXPECT_LT(static_cast<double>(left), 0.02 * static_cast<double>(keys_a));
      EXPECT_LT(FreshRate(merged, probes, 7), 0.0105 + 5 * StandardError(0.01, probes));
    }
  }
}

TEST(BDbfMerge, WithTheEmptyFilterIsNothing) {
  const Shape shape = PlanMemory(Named("b_dbf"), 4096, 0.01);
  const Body a = Filled(shape, 0, shape.keys * 5 / 2);
  Body same = a;
  same.Merge(Body(shape));
  EXPECT_EQ(same.bytes(), a.bytes());
  EXPECT_EQ(same.counters().count, a.counters().count);
}

}  // namespace
}  // namespace dedup::test
