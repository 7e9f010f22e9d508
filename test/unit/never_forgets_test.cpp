// blocked_bloom and bloom never forget: a key that was added is never answered
// new, at any size, however full, one at a time and in batches.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

class NeverForgets : public ::testing::TestWithParam<std::string> {};

// A million keys, in filters from the smallest (far past its capacity) to one
// sized for them: every key is found when it is added again and when it is asked.
TEST_P(NeverForgets, AMillionKeysAtEverySize) {
  const uint64_t keys = 1000000 / kThin;
  std::vector<uint64_t> hashes(keys);
  for (uint64_t i = 0; i < keys; ++i) hashes[i] = HashOf(i, 1);
  std::vector<uint8_t> seen(keys);
  for (uint64_t capacity : {uint64_t{1}, uint64_t{10}, uint64_t{1000}, uint64_t{50000}, keys}) {
    for (double fpr : {0.3, 0.01, 0.0001}) {
      Body body(PlanKeys(Named(GetParam()), capacity, fpr));
      body.TestAndAdd(hashes.data(), keys, seen.data());
      body.Contains(hashes.data(), keys, seen.data());
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(keys))
          << NameOf(body.shape());
      body.TestAndAdd(hashes.data(), keys, seen.data());
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(keys))
          << NameOf(body.shape());
    }
  }
}

// A key is found from the moment it is added, at every moment until a filter is
// three times as full as it was sized for.
TEST_P(NeverForgets, AtEveryMoment) {
  for (uint64_t capacity : {1, 7, 60, 400}) {
    Body body(PlanKeys(Named(GetParam()), capacity, 0.01));
    for (uint64_t key = 0; key < 3 * capacity; ++key) {
      body.TestAndAdd(HashOf(key, 2));
      for (uint64_t old = 0; old <= key; ++old) ASSERT_TRUE(body.Contains(HashOf(old, 2)));
    }
  }
}

// The same keys in any order leave the same bytes, with repeats or without.
TEST_P(NeverForgets, InAnyOrderWithTheSameBytes) {
  Random random(4);
  Body one(PlanKeys(Named(GetParam()), 1000, 0.01)), other(one.shape());
  std::vector<uint64_t> hashes(1000);
  for (uint64_t i = 0; i < hashes.size(); ++i) hashes[i] = HashOf(i, 3);
  for (uint64_t hash : hashes) one.TestAndAdd(hash);
  for (size_t i = hashes.size() - 1; i > 0; --i) std::swap(hashes[i], hashes[random.Below(i + 1)]);
  for (uint64_t hash : hashes) {
    other.TestAndAdd(hash);
    other.TestAndAdd(hashes[0]);
  }
  EXPECT_EQ(one.bytes(), other.bytes());
}

INSTANTIATE_TEST_SUITE_P(Methods, NeverForgets, ::testing::Values("blocked_bloom", "bloom"),
                         [](const auto& info) { return info.param; });

class Batches : public ::testing::TestWithParam<std::string> {};

// A batch gives the answers and the bytes that its keys give one at a time, for
// every length around the distance of the prefetch.
TEST_P(Batches, AreTheSameAsOneAtATime) {
  Random random(5);
  const std::string options = GetParam() == "ring16" ? "generations=16 refresh=on" : "";
  const Method& method = Named(GetParam().substr(0, GetParam().find("16")));
  Body batches(PlanKeys(method, 800, 0.05, options)), singles(batches.shape()),
      inserted(batches.shape()), replayed(batches.shape());
  for (size_t n : {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 100, 1000}) {
    std::vector<uint64_t> hashes(n);
    for (uint64_t& hash : hashes) hash = HashOf(random.Below(2000), 6);
    std::vector<uint8_t> seen(n, 2), asked(n, 2);
    batches.Contains(hashes.data(), n, asked.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(asked[i], singles.Contains(hashes[i]));
    batches.TestAndAdd(hashes.data(), n, seen.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], singles.TestAndAdd(hashes[i]));
    EXPECT_EQ(batches.bytes(), singles.bytes());
    // The answers may be left out.
    inserted.Insert(hashes.data(), n);
    for (size_t i = 0; i < n; ++i) replayed.Insert(hashes[i]);
    EXPECT_EQ(inserted.bytes(), replayed.bytes());
    batches.TestAndAdd(hashes.data(), n, nullptr);
    for (size_t i = 0; i < n; ++i) singles.TestAndAdd(hashes[i]);
    EXPECT_EQ(batches.bytes(), singles.bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Batches,
                         ::testing::Values("blocked_bloom", "bloom", "recent", "ring", "ring16",
                                           "fifo"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace dedup::test
