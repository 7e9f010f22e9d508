// A batch gives the answers and the bytes that its keys give one at a time, with every
// method, at every size.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

bool SameState(const Body& a, const Body& b) {
  return a.bytes() == b.bytes() && a.counters().count == b.counters().count &&
         a.counters().state == b.counters().state;
}

class Batches : public ::testing::TestWithParam<Variant> {
 protected:
  // Adds the same keys as a batch and one at a time, up to the first that finds no room.
  static void Add(Body* batches, Body* singles, const std::vector<uint64_t>& hashes, bool answers) {
    const size_t n = hashes.size();
    std::vector<uint8_t> seen(n, 2);
    const size_t taken = batches->Try(hashes.data(), n, answers ? seen.data() : nullptr);
    ASSERT_LE(taken, n);
    for (size_t i = 0; i < taken; ++i) {
      uint8_t one = 2;
      ASSERT_EQ(singles->Try(&hashes[i], 1, answers ? &one : nullptr), 1u) << i;
      if (answers) {
        ASSERT_LE(one, 1);
      }
      ASSERT_EQ(seen[i], one) << "key " << i << " of " << n;
    }
    if (taken < n) {
      ASSERT_FALSE(GetParam().method->forgets(batches->shape()));
      ASSERT_EQ(singles->Try(&hashes[taken], 1, nullptr), 0u);
    }
    ASSERT_TRUE(SameState(*batches, *singles)) << NameOf(batches->shape()) << " of " << n;
  }
};

// For every length around the distances of prefetches, and random ones; from empty to
// three times what the filter is sized for.
TEST_P(Batches, AreTheSameAsOneAtATime) {
  const Method& method = *GetParam().method;
  Random random(5);
  for (uint64_t keys : {1, 60, 800}) {
    for (double fpr : {0.3, 0.05, 0.0001}) {
      if (!HasRate(GetParam(), fpr)) continue;
      Body batches(PlanKeys(method, keys, fpr, GetParam().options)), singles(batches.shape()),
          inserted(batches.shape()), replayed(batches.shape());
      uint64_t next = 0, added = 0;
      const uint64_t alphabet = 2 * keys + 400;
      std::vector<size_t> lengths = {0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 100, 1000};
      while (added < 4 * keys + 3000) {
        lengths.push_back(random.Below(random.OneIn(4) ? 300 : 40));
        added += lengths.back();
      }
      for (size_t n : lengths) {
        // Repeats within the batch too.
        std::vector<uint64_t> hashes(n);
        for (uint64_t& hash : hashes) {
          hash = HashOf(random.OneIn(8) ? random.Below(20) : random.Below(alphabet), 6);
        }
        std::vector<uint8_t> asked(n, 2);
        batches.Contains(hashes.data(), n, asked.data());
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(asked[i], singles.Contains(hashes[i]));
        Add(&batches, &singles, hashes, true);
        if (HasFatalFailure()) return;
        // The answers may be left out.
        Add(&batches, &singles, hashes, false);
        if (HasFatalFailure()) return;
        // Distinct keys, without asking.
        for (uint64_t& hash : hashes) hash = HashOf(next++, 7);
        const size_t taken = inserted.TryInsert(hashes.data(), n);
        for (size_t i = 0; i < taken; ++i) replayed.Insert(hashes[i]);
        ASSERT_TRUE(taken == n || !method.forgets(inserted.shape()));
        ASSERT_TRUE(SameState(inserted, replayed)) << NameOf(inserted.shape()) << " of " << n;
      }
    }
  }
}

// Keys that crowd in few places of the body, so that it has no room for them there.
TEST_P(Batches, AreTheSameOfKeysThatCrowd) {
  Random random(9);
  for (unsigned same_bits : {3, 5, 8, 12, 20}) {
    for (double fpr : {0.05, 0.0001, 1e-8}) {
      if (!HasRate(GetParam(), fpr)) continue;
      Body batches(PlanKeys(*GetParam().method, 800, fpr, GetParam().options)),
          singles(batches.shape());
      for (int round = 0; round < 40; ++round) {
        std::vector<uint64_t> hashes(random.Below(90));
        for (uint64_t& hash : hashes) hash = HashOf(random.Below(1200), 10) >> same_bits;
        Add(&batches, &singles, hashes, true);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Adding a batch without asking for the answers leaves what it leaves with them, but for
// answers that are drawn by chance.
TEST_P(Batches, LeaveTheSameWithoutAnswers) {
  Random random(6);
  Body with(PlanKeys(*GetParam().method, 500, 0.05, GetParam().options)), without(with.shape());
  for (int round = 0; round < 100; ++round) {
    std::vector<uint64_t> hashes(random.Below(60));
    for (uint64_t& hash : hashes) hash = HashOf(random.Below(1500), 8);
    std::vector<uint8_t> seen(hashes.size());
    const size_t taken = with.Try(hashes.data(), hashes.size(), seen.data());
    ASSERT_EQ(without.Try(hashes.data(), hashes.size(), nullptr), taken);
    ASSERT_TRUE(SameState(with, without)) << NameOf(with.shape());
  }
}

// A whole filter asked for many keys at once answers as for each alone, in all of its
// forms: exact as a list, with an index and stored, and full.
TEST_P(Batches, OfQuestionsToAFilterAreTheSameAsOneAtATime) {
  const Shape shape = PlanKeys(*GetParam().method, 3000, 0.05, GetParam().options);
  for (uint64_t held : {0, 1, 5, 40, 300, 2000}) {
    Filter filter(shape);
    for (uint64_t key = 0; key < held; ++key) filter.Add(HashOf(key));
    const Filter stored(filter.Canonical());
    for (const Filter* each : {&stored, const_cast<const Filter*>(&filter)}) {
      for (size_t n : {0, 1, 2, 63, 64, 65, 130, 1000}) {
        std::vector<uint64_t> hashes(n);
        std::vector<uint8_t> seen(n, 2);
        for (size_t i = 0; i < n; ++i) hashes[i] = HashOf(i * 7 % (held + n / 2 + 1));
        ContainsAll(each->image().data(), each->header(), hashes.data(), n, seen.data());
        for (size_t i = 0; i < n; ++i) {
          ASSERT_EQ(seen[i], each->Contains(hashes[i]))
              << NameOf(shape) << " of " << held << ", key " << i << " of " << n;
        }
      }
    }
  }
}

// A whole filter that takes many keys at once ends as one that takes them one at a time, with the
// same answers: in all of its forms, where it grows, and where it refuses keys.
TEST_P(Batches, OfKeysOfAFilterAreTheSameAsOneAtATime) {
  Random random(12);
  for (uint64_t keys : {1, 40, 3000}) {
    const Shape shape = PlanKeys(*GetParam().method, keys, 0.05, GetParam().options);
    Filter batches(shape), singles(shape);
    for (uint64_t added = 0; added < 3 * keys + 2000;) {
      std::vector<uint64_t> hashes(random.Below(random.OneIn(5) ? 200 : 40));
      for (uint64_t& hash : hashes) hash = HashOf(random.Below(4 * keys + 1500));
      std::vector<uint8_t> seen;
      batches.AddAll(hashes, &seen);
      for (size_t i = 0; i < hashes.size(); ++i) {
        ASSERT_EQ(seen[i], singles.Add(hashes[i])) << NameOf(shape) << " key " << added + i;
      }
      ASSERT_EQ(batches.Canonical(), singles.Canonical()) << NameOf(shape) << " key " << added;
      added += hashes.size();
    }
    ASSERT_EQ(batches.refused(), singles.refused());
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Batches, ::testing::ValuesIn(AllVariants()), VariantName);

}  // namespace
}  // namespace dedup::test
