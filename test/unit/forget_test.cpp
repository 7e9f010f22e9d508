// Taking keys back: of the methods that can forget, in the exact form and in the full one.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

Shape PlanOf(const Variant& variant, uint64_t keys, double fpr) {
  return PlanKeys(*variant.method, keys, fpr, variant.options);
}

std::vector<Variant> Forgetting() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (variant.method->can_forget(PlanOf(variant, 1000, 0.01))) variants.push_back(variant);
  }
  return variants;
}

// Whether a method can is said by its shapes, and never by those that keep no key apart.
TEST(CanForget, IsSaidOfTheShape) {
  for (const Variant& variant : AllVariants()) {
    const Method& method = *variant.method;
    const Shape shape = PlanOf(variant, 1000, 0.01);
    if (method.forget == nullptr) {
      EXPECT_FALSE(method.can_forget(shape)) << variant.name;
    }
    // What was evicted by chance cannot be told from what is there.
    if (method.remembers(shape) == Remembers::kByChance) {
      EXPECT_FALSE(method.can_forget(shape)) << variant.name;
    }
  }
}

// A rate so low that no key looks like another in these tests, if the method has it.
double LowRate(const Variant& variant) {
  for (double fpr : {1e-9, 1e-7, 1e-5, 1e-4}) {
    if (HasRate(variant, fpr)) return fpr;
  }
  return 0.001;
}

class Forget : public ::testing::TestWithParam<Variant> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Forget);
INSTANTIATE_TEST_SUITE_P(Methods, Forget, ::testing::ValuesIn(Forgetting()), VariantName);

// A forgotten key is gone and can be added again; all others stay; one that is not there
// is not forgotten, and changes nothing. In filters that are exact, and in full ones.
TEST_P(Forget, TakesOneKeyOnly) {
  const Shape shape = PlanOf(GetParam(), 600, LowRate(GetParam()));
  // More keys than the limit take a filter over to its method; there may be more exact ones
  // than it is sized for, so the limit is low there.
  struct Case {
    uint64_t keys, limit;
  };
  const uint64_t most = std::min<uint64_t>(shape.bytes / 8, 590);
  for (const auto& [keys, limit] : {Case{1, most}, Case{2, most}, Case{20, most}, Case{most, most},
                                    Case{2, 1}, Case{20, 1}, Case{300, 20}, Case{540, 7}}) {
    Filter filter(shape);
    filter.SetLimit(limit);
    std::vector<uint64_t> held;
    for (uint64_t key = 0; key < keys; ++key) {
      if (!filter.Add(HashOf(key)) && filter.refused() == 0) held.push_back(HashOf(key));
      if (filter.refused() > 0) break;
    }
    ASSERT_EQ(filter.exact(), keys <= limit) << NameOf(shape);
    ASSERT_EQ(filter.refused(), 0u);
    filter.MakeCanonical();
    // Windows hold the last ones.
    held.erase(std::remove_if(held.begin(), held.end(),
                              [&](uint64_t hash) { return !filter.Contains(hash); }),
               held.end());
    ASSERT_GT(held.size(), 0u);
    const Bytes before = filter.Canonical();
    ASSERT_FALSE(filter.ForgetValue(HashOf(1000000)));
    ASSERT_EQ(filter.Canonical(), before);
    // Every one of them on its own, up to some hundred.
    for (size_t i = 0; i < held.size(); i += 1 + held.size() / 100) {
      Filter one(before);
      ASSERT_TRUE(one.ForgetValue(held[i])) << NameOf(shape) << " key " << i << " of " << keys;
      ASSERT_EQ(one.exact(), filter.exact());
      ASSERT_FALSE(one.Contains(held[i]));
      ASSERT_FALSE(one.ForgetValue(held[i])) << "twice";
      for (size_t j = 0; j < held.size(); ++j) {
        ASSERT_EQ(one.Contains(held[j]), i != j) << NameOf(shape) << " " << i << " " << j;
      }
      EXPECT_NEAR(one.Read().count, filter.Read().count - 1, 0.01 * filter.Read().count + 0.1);
      // Added again it is as before; the youngest, where there is an order.
      ASSERT_FALSE(one.Add(held[i]));
      ASSERT_EQ(one.refused(), 0u);
      for (uint64_t hash : held) ASSERT_TRUE(one.Contains(hash));
      one.MakeCanonical();
      if (one.header().order() == ExactOrder::kSorted) {
        EXPECT_EQ(one.Canonical(), before) << NameOf(shape);
      }
    }
    // All of them, one after another, in another order: the empty filter's answers.
    Random random(keys);
    for (size_t i = held.size() - 1; i > 0; --i) std::swap(held[i], held[random.Below(i + 1)]);
    for (size_t i = 0; i < held.size(); ++i) {
      ASSERT_TRUE(filter.ForgetValue(held[i])) << NameOf(shape) << " " << i;
      if (i % 16 != 0 && i + 3 < held.size()) continue;
      for (size_t j = 0; j < held.size(); ++j) ASSERT_EQ(filter.Contains(held[j]), j > i);
    }
    EXPECT_NEAR(filter.Read().count, 0, 0.01);
    if (filter.exact()) {
      EXPECT_EQ(filter.Canonical(), Filter(shape).Canonical());
    }
  }
}

// At any rate: of the keys that were answered new and are not forgotten none is lost, however
// keys are added and forgotten in turns; and those forgotten are gone, but for some that look
// like others.
TEST_P(Forget, LosesNoOtherKey) {
  for (double fpr : {0.3, 0.01, 0.0001}) {
    const Shape shape = PlanOf(GetParam(), 300, fpr);
    const Method& method = *GetParam().method;
    Body body(shape);
    Random random(7);
    std::vector<uint64_t> held;
    uint64_t next = 0, forgotten = 0, still = 0;
    for (int i = 0; i < 20000; ++i) {
      // Below its capacity: what windows push out is another matter.
      if (held.size() < 250 && (held.empty() || random.OneIn(2))) {
        const uint64_t hash = HashOf(next++, 9);
        uint8_t seen = 0;
        // What the filter says it holds already, by the answer or by asking, is not added.
        const bool asked = body.Contains(hash);
        if (asked) continue;
        if (body.Try(&hash, 1, &seen) == 1 && (!seen || method.forgets(shape))) {
          held.push_back(hash);
        }
      } else {
        const size_t at = random.Below(held.size());
        ASSERT_TRUE(body.Forget(held[at])) << NameOf(shape) << " after " << i;
        ++forgotten;
        still += body.Contains(held[at]);
        held[at] = held.back();
        held.pop_back();
      }
      if (i % 64 == 0) {
        for (uint64_t hash : held) ASSERT_TRUE(body.Contains(hash)) << NameOf(shape) << " " << i;
        ASSERT_TRUE(method.valid(shape, body.counters()));
        if (method.sound != nullptr) {
          ASSERT_TRUE(method.sound(shape, body.counters(), body.bytes().data())) << NameOf(shape);
        }
      }
    }
    EXPECT_GT(forgotten, 5000u);
    EXPECT_LE(static_cast<double>(still), 2.5 * fpr * static_cast<double>(forgotten) + 5)
        << NameOf(shape);
  }
}

// Distinct keys that go over from the exact form without asking can be forgotten one by one,
// also where several look alike.
TEST_P(Forget, OfReplayedKeysTakesOneOfEach) {
  for (double fpr : {0.5, 0.1}) {
    if (!HasRate(GetParam(), fpr)) continue;
    const Shape shape = PlanOf(GetParam(), 200, fpr);
    Body body(shape);
    std::vector<uint64_t> hashes;
    for (uint64_t key = 0; key < 120; ++key) hashes.push_back(HashOf(key, 10));
    body.Insert(hashes.data(), hashes.size());
    for (size_t i = 0; i < hashes.size(); ++i) {
      for (size_t j = i; j < hashes.size(); ++j) {
        ASSERT_TRUE(body.Contains(hashes[j])) << NameOf(shape) << " " << i << " " << j;
      }
      ASSERT_TRUE(body.Forget(hashes[i])) << NameOf(shape) << " " << i;
    }
    EXPECT_NEAR(body.Read().count, 0, 0.01) << NameOf(shape);
  }
}

// Forgetting what is not there returns that, and changes nothing, in filters of any fill.
TEST_P(Forget, OfOtherKeysChangesNothing) {
  for (double fpr : {0.1, 0.001}) {
    Body body(PlanOf(GetParam(), 300, fpr));
    for (uint64_t keys = 0; keys < 300; ++keys) {
      const uint64_t hash = HashOf(keys, 11);
      body.Try(&hash, 1, nullptr);
      const Bytes before = body.bytes();
      for (uint64_t other = 0; other < 20; ++other) {
        const uint64_t stranger = HashOf(1000 + 20 * keys + other, 11);
        // One that is answered for looks like a key that is there.
        if (body.Contains(stranger)) continue;
        ASSERT_FALSE(body.Forget(stranger));
        ASSERT_EQ(body.bytes(), before);
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
