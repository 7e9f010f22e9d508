// Filters that never forget: a key that was added is never answered new, at any size,
// however full, one at a time and in batches. Some take no more keys when they are full:
// then those that they took.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

// Those that never forget, whatever the size.
std::vector<Variant> WithoutWindow() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (!variant.method->forgets(PlanKeys(*variant.method, 1000, 0.01, variant.options))) {
      variants.push_back(variant);
    }
  }
  return variants;
}

TEST(NeverForgets, IsSaidByTheBloomFilters) {
  std::set<std::string> names;
  for (const Variant& variant : WithoutWindow()) names.insert(variant.name);
  EXPECT_EQ(names.count("blocked_bloom") + names.count("bloom"), 2u);
}

class NeverForgets : public ::testing::TestWithParam<Variant> {
 protected:
  static Shape Plan(uint64_t keys, double fpr) {
    return PlanKeys(*GetParam().method, keys, fpr, GetParam().options);
  }
  // A filter that cannot forget cannot be full: its rate rises.
  static bool MayBeFull(const Shape& shape) { return GetParam().method->can_forget(shape); }
};

// A million keys, in filters from the smallest (far past its capacity) to one
// sized for them: every key is found when it is added again and when it is asked.
TEST_P(NeverForgets, AMillionKeysAtEverySize) {
  const uint64_t keys = 1000000 / kThin;
  std::vector<uint64_t> hashes(keys);
  for (uint64_t i = 0; i < keys; ++i) hashes[i] = HashOf(i, 1);
  std::vector<uint8_t> seen(keys);
  for (uint64_t capacity : {uint64_t{1}, uint64_t{10}, uint64_t{1000}, uint64_t{50000}, keys}) {
    for (double fpr : {0.3, 0.01, 0.0001}) {
      if (!HasRate(GetParam(), fpr)) continue;
      Body body(Plan(capacity, fpr));
      const size_t taken = body.Try(hashes.data(), keys, seen.data());
      if (!MayBeFull(body.shape())) {
        ASSERT_EQ(taken, keys) << NameOf(body.shape());
      }
      // It holds at least what it is sized for, but for chance.
      EXPECT_GE(taken, std::min(keys, capacity * 9 / 10)) << NameOf(body.shape());
      body.Contains(hashes.data(), taken, seen.data());
      EXPECT_EQ(std::count(seen.begin(), seen.begin() + static_cast<int64_t>(taken), 1),
                static_cast<int64_t>(taken))
          << NameOf(body.shape());
      body.TestAndAdd(hashes.data(), taken, seen.data());
      EXPECT_EQ(std::count(seen.begin(), seen.begin() + static_cast<int64_t>(taken), 1),
                static_cast<int64_t>(taken))
          << NameOf(body.shape());
    }
  }
}

// A key is found from the moment it is added, at every moment until a filter is
// three times as full as it was sized for.
TEST_P(NeverForgets, AtEveryMoment) {
  for (uint64_t capacity : {1, 7, 60, 400}) {
    Body body(Plan(capacity, 0.01));
    for (uint64_t key = 0; key < 3 * capacity; ++key) {
      const uint64_t hash = HashOf(key, 2);
      if (body.Try(&hash, 1, nullptr) == 0) {
        ASSERT_TRUE(MayBeFull(body.shape()));
        break;
      }
      for (uint64_t old = 0; old <= key; ++old) ASSERT_TRUE(body.Contains(HashOf(old, 2)));
    }
  }
}

// The same keys in any order leave the same bytes where order is said not to matter, with
// repeats or without, but where every sight counts. Where keys can be forgotten, a false positive
// leaves a key out that another order takes: such a filter is told its keys without asking.
TEST_P(NeverForgets, InAnyOrderWithTheSameBytes) {
  Random random(4);
  Body one(Plan(1000, 0.01)), other(one.shape());
  if (GetParam().method->exact_order(one.shape()) != ExactOrder::kSorted) return;
  // A key has as many bits as new ones have when it comes.
  if (GetParam().method->growth != nullptr) return;
  const bool ask = !GetParam().method->can_forget(one.shape());
  std::vector<uint64_t> hashes(1000);
  for (uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = HashOf(i, 3);
  for (uint64_t hash : hashes) ask ? void(one.TestAndAdd(hash)) : one.Insert(hash);
  for (size_t i = hashes.size() - 1; i > 0; --i) std::swap(hashes[i], hashes[random.Below(i + 1)]);
  for (uint64_t hash : hashes) {
    ask ? void(other.TestAndAdd(hash)) : other.Insert(hash);
    if (ask && !GetParam().method->counts()) other.TestAndAdd(hashes[0]);
  }
  EXPECT_EQ(one.bytes(), other.bytes());
}

INSTANTIATE_TEST_SUITE_P(Methods, NeverForgets, ::testing::ValuesIn(WithoutWindow()), VariantName);

}  // namespace
}  // namespace dedup::test
