// Merges: the union where nothing is forgotten, exact where both are exact, and
// what a window keeps of each input.

#include "core/merge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Of a filter that can be full: as many of the keys as it takes.
Filter FilterOf(const Shape& shape, uint64_t first, uint64_t end, uint64_t step = 1) {
  Filter filter(shape);
  for (uint64_t key = first; key < end; key += step) filter.Add(HashOf(key));
  return filter;
}

// Those that can merge at all.
std::vector<Variant> Merging() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (variant.method->merge != nullptr) variants.push_back(variant);
  }
  return variants;
}

// Of these, those whose state is a function of the set of its keys: nothing is
// forgotten, order does not matter, and neither does how often a key came. (Of filters that
// grow, infini_test.cpp says what their merges have.)
std::vector<Variant> Sets() {
  std::vector<Variant> variants;
  for (const Variant& variant : Merging()) {
    const Shape shape = PlanKeys(*variant.method, 500, 0.01, variant.options);
    if (variant.method->growth == nullptr && !variant.method->counts() &&
        !variant.method->forgets(shape) && !variant.method->can_forget(shape) &&
        variant.method->exact_order(shape) == ExactOrder::kSorted) {
      variants.push_back(variant);
    }
  }
  return variants;
}

std::vector<uint64_t> HashesOf(const Filter& exact) {
  const Bytes stored = exact.Canonical();
  const size_t entry = exact.header().method->counts() ? 16 : 8;
  std::vector<uint64_t> hashes;
  for (size_t at = 60; at < stored.size(); at += entry) {
    hashes.push_back(LoadU64(stored.data() + at));
  }
  return hashes;
}

TEST(Union, IsOfTheMethodsThatNeverForget) {
  std::vector<std::string> names;
  for (const Variant& variant : Sets()) names.push_back(variant.name);
  EXPECT_EQ(std::count(names.begin(), names.end(), "blocked_bloom"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "bloom"), 1);
}

class Union : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, Union, ::testing::ValuesIn(Sets()), VariantName);

// A filter that never forgets is a function of its set of keys: however the keys
// were split over filters, in whatever forms these are and in whatever order they
// are merged, the bytes are those of one filter that saw all keys.
TEST_P(Union, HasTheBytesOfAllKeysInOneFilter) {
  Random random(1);
  for (uint64_t keys : {3, 60, 500, 3000}) {
    for (int trial = 0; trial < 8; ++trial) {
      const Shape shape = PlanKeys(*GetParam().method, 500, 0.01, GetParam().options);
      const uint64_t parts = 2 + random.Below(5);
      Filter all(shape);
      std::vector<Filter> filters(parts, Filter(shape));
      for (uint64_t i = 0; i < keys; ++i) {
        const uint64_t hash = HashOf(random.Below(keys), trial);
        all.Add(hash);
        // One part takes most keys, so that full and exact filters meet.
        Filter& part = filters[random.OneIn(2) ? 0 : random.Below(parts)];
        if (random.OneIn(4)) {
          part.AddValue(hash);
        } else {
          part.Add(hash);
        }
        if (random.OneIn(50)) part.MakeCanonical();
      }
      while (filters.size() > 1) {
        const size_t left = random.Below(filters.size());
        const size_t right = (left + 1 + random.Below(filters.size() - 1)) % filters.size();
        filters[left] = filters[left].MergedWith(filters[right]);
        filters.erase(filters.begin() + static_cast<int64_t>(right));
      }
      ASSERT_EQ(filters[0].Canonical(), all.Canonical()) << keys << " keys in " << parts;
    }
  }
}

// Merging twice, or with itself, or with an empty filter, changes nothing; left
// and right may be exchanged.
TEST_P(Union, IsIdempotentAndCommutative) {
  const Shape shape = PlanKeys(*GetParam().method, 300, 0.01, GetParam().options);
  for (uint64_t keys_a : {0, 10, 1000}) {
    for (uint64_t keys_b : {0, 10, 1000}) {
      const Filter a = FilterOf(shape, 0, keys_a), b = FilterOf(shape, 5000, 5000 + keys_b);
      const Filter both = a.MergedWith(b);
      EXPECT_EQ(both.Canonical(), b.MergedWith(a).Canonical());
      EXPECT_EQ(both.MergedWith(b).Canonical(), both.Canonical());
      EXPECT_EQ(both.MergedWith(a).Canonical(), both.Canonical());
      EXPECT_EQ(both.MergedWith(both).Canonical(), both.Canonical());
      EXPECT_EQ(a.MergedWith(Filter(shape)).Canonical(), a.Canonical());
      EXPECT_EQ(Filter(shape).MergedWith(a).Canonical(), a.Canonical());
    }
  }
}

// Two exact filters merge exactly: the union of their hashes, by age rank from the
// youngest, the left's the younger on ties, each once with the younger of its ages.
// The expected order is written out by hand.
TEST(ExactMerge, IsByAgeRank) {
  const auto merged = [](const Variant& variant, std::vector<uint64_t> left,
                         std::vector<uint64_t> right) {
    const Shape shape = PlanMemory(*variant.method, 8192, 0.01, variant.options);
    Filter a(shape), b(shape);
    for (uint64_t hash : left) a.Add(hash);
    for (uint64_t hash : right) b.Add(hash);
    return HashesOf(a.MergedWith(b));
  };
  using List = std::vector<uint64_t>;
  uint64_t sorted = 0, ordered = 0;
  for (const Variant& name : Merging()) {
    const Shape shape = PlanMemory(*name.method, 8192, 0.01, name.options);
    if (name.method->exact_order(shape) == ExactOrder::kSorted) {
      EXPECT_EQ(merged(name, {1, 2, 3}, {4, 2, 5}), (List{1, 2, 3, 4, 5})) << name.name;
      EXPECT_EQ(merged(name, {9, 1}, {5}), (List{1, 5, 9})) << name.name;
      ++sorted;
      continue;
    }
    ++ordered;
    // Oldest first: rank 0 is 3 and 5, rank 1 is 2 of both, rank 2 is 1 and 4.
    EXPECT_EQ(merged(name, {1, 2, 3}, {4, 2, 5}), (List{4, 1, 2, 5, 3})) << name.name;
    // The younger age counts: 1 is the oldest on the left, the youngest on the right.
    EXPECT_EQ(merged(name, {1, 2, 3}, {4, 1}), (List{4, 2, 1, 3})) << name.name;
    // Lists of different length: what is over is older than all.
    EXPECT_EQ(merged(name, {1, 2, 3, 4}, {9}), (List{1, 2, 3, 9, 4})) << name.name;
    EXPECT_EQ(merged(name, {9}, {1, 2, 3, 4}), (List{1, 2, 3, 4, 9})) << name.name;
    EXPECT_EQ(merged(name, {}, {1, 2}), (List{1, 2})) << name.name;
    EXPECT_EQ(merged(name, {1, 2}, {1, 2}), (List{1, 2})) << name.name;
  }
  EXPECT_GE(sorted, 2u);   // blocked_bloom and bloom
  EXPECT_GE(ordered, 3u);  // recent, ring and fifo
}

// While both are exact and the union fits, nothing is lost and nothing invented,
// for every method.
TEST(ExactMerge, IsExact) {
  for (const Variant& variant : Merging()) {
    const uint64_t memory = variant.method->counts() ? 16384 : 8192;
    const Shape shape = PlanMemory(*variant.method, memory, 0.3, variant.options);
    const uint64_t limit = MostExact(shape);
    const uint64_t more = limit * 600 / 1024;
    const Filter a = FilterOf(shape, 0, more), b = FilterOf(shape, more / 2, limit);
    const Filter merged = a.MergedWith(b);
    ASSERT_TRUE(merged.exact());
    EXPECT_EQ(merged.header().hashes(), limit);
    for (uint64_t key = 0; key < limit; ++key) ASSERT_TRUE(merged.Contains(HashOf(key)));
    for (uint64_t key = limit; key < 5000; ++key) ASSERT_FALSE(merged.Contains(HashOf(key)));
    // One hash more than fits takes it over; common hashes count once.
    EXPECT_FALSE(a.MergedWith(FilterOf(shape, more, limit + 1)).exact());
  }
}

// In place or into new bytes, and from working or canonical forms, a merge gives
// the same bytes, for every pair of forms.
TEST(AnyForm, MergesToTheSameBytes) {
  for (const Variant& variant : Merging()) {
    const Method* method = variant.method;
    const Shape shape = PlanKeys(*method, 150, 0.01, variant.options);
    const uint64_t limit =
        method->growth != nullptr ? MostExact(shape) : shape.bytes / (method->counts() ? 16 : 8);
    // In any order, also where the bytes depend on it, as long as what they say does not.
    const bool any = method->exact_order(shape) == ExactOrder::kSorted || method->counts();
    for (uint64_t keys_a : {uint64_t{3}, limit / 2 + 5, 2 * limit + 300}) {
      for (uint64_t keys_b : {uint64_t{4}, limit / 2 + 6, 2 * limit + 299}) {
        const Filter a = FilterOf(shape, 0, keys_a), b = FilterOf(shape, 1000000, 1000000 + keys_b);
        const Filter stored_a(a.Canonical()), stored_b(b.Canonical());
        // Where the result would be full, it is so from all forms.
        const std::optional<Filter> of_stored = stored_a.TryMerge(stored_b);
        const auto bytes = [](const std::optional<Filter>& filter) {
          return filter.has_value() ? filter->Canonical() : Bytes();
        };
        const Bytes expected = bytes(of_stored);
        const auto same = [&](const std::optional<Filter>& filter) {
          return filter.has_value() == of_stored.has_value() &&
                 (!filter.has_value() || Same(*filter, *of_stored));
        };
        EXPECT_TRUE(same(a.TryMerge(b))) << variant.name;
        EXPECT_TRUE(same(a.TryMerge(stored_b))) << variant.name;
        EXPECT_TRUE(same(stored_a.TryMerge(b))) << variant.name;
        for (const Filter* right : {&b, &stored_b}) {
          Filter in_place(a);
          const Bytes before = in_place.image();
          const Outcome outcome = in_place.TryMergeInPlace(*right);
          const bool merged = outcome == Outcome::kNew;
          // It can where it must: both full, or full and order of no matter; and what grows
          // only if the result is no larger.
          const bool room =
              method->growth == nullptr ||
              (!a.exact() && kHeaderBytes + a.header().used_bytes() == expected.size());
          EXPECT_EQ(outcome != Outcome::kNoRoom, !a.exact() && (!right->exact() || any) && room)
              << variant.name;
          EXPECT_EQ(outcome == Outcome::kFull,
                    outcome != Outcome::kNoRoom && !of_stored.has_value());
          if (outcome == Outcome::kFull) continue;
          if (merged) {
            EXPECT_TRUE(same(in_place)) << method->name;
          } else {
            EXPECT_EQ(in_place.image(), before);
          }
        }
      }
    }
  }
}

// Full rings and full filters that never forget merge associatively, byte for
// byte; recent does not, for a rank in a merge of merges is another one.
TEST(FullMerge, IsAssociative) {
  for (const char* name : {"blocked_bloom", "bloom", "ring"}) {
    for (const char* options : {"", "generations=16"}) {
      if (std::string(name) != "ring" && options[0] != 0) continue;
      const Shape shape = PlanKeys(Named(name), 700, 0.01, options);
      const Filter a = FilterOf(shape, 0, 1500), b = FilterOf(shape, 3000, 4130),
                   c = FilterOf(shape, 6000, 9333);
      ASSERT_FALSE(a.exact() || b.exact() || c.exact());
      EXPECT_EQ(a.MergedWith(b).MergedWith(c).Canonical(),
                a.MergedWith(b.MergedWith(c)).Canonical());
    }
  }
}

// A ring merged with itself or with an empty one of the same turn is unchanged,
// and the order of the inputs changes nothing but which column is the current one:
// the same keys are found, and the same generations pass.
TEST(RingMerge, IsIdempotentAndEvenHanded) {
  const Shape shape = PlanKeys(Named("ring"), 700, 0.01);
  const Filter a = FilterOf(shape, 0, 1500), b = FilterOf(shape, 3000, 4130);
  EXPECT_EQ(a.MergedWith(a).Canonical(), a.Canonical());
  const Filter ab = a.MergedWith(b), ba = b.MergedWith(a);
  EXPECT_EQ(ab.header().counters.count, ba.header().counters.count);
  for (uint64_t key = 0; key < 10000; ++key) {
    ASSERT_EQ(ab.Contains(HashOf(key)), ba.Contains(HashOf(key)));
  }
}

// A ring drops no key of either input at a merge, be the inputs exact or full: all
// that either promises, its last `keys` keys, are found in the result.
TEST(RingMerge, DropsNoKeyInAnyForm) {
  for (const char* options : {"", "generations=16", "refresh=on"}) {
    for (uint64_t keys : {7, 50, 110, 500, 2000}) {
      const Shape shape = PlanKeys(Named("ring"), keys, 0.01, options);
      const uint64_t limit = HashesInBody(shape);
      for (uint64_t keys_a : {limit / 2, limit, limit + 1, 3 * keys + limit}) {
        for (uint64_t keys_b : {limit / 2 + 3, limit, limit + 1, 3 * keys + limit}) {
          Filter a(shape), b(shape);
          std::vector<uint64_t> kept;
          auto fill = [&](Filter* filter, uint64_t first, uint64_t length) {
            std::vector<uint64_t> news;
            for (uint64_t key = first; key < first + length; ++key) {
              if (!filter->Add(HashOf(key))) news.push_back(HashOf(key));
            }
            const size_t window = std::min<size_t>(news.size(), keys);
            kept.insert(kept.end(), news.end() - static_cast<int64_t>(window), news.end());
          };
          fill(&a, 0, keys_a);
          fill(&b, 1000000, keys_b);
          const Filter merged = a.MergedWith(b);
          uint64_t lost = 0;
          for (uint64_t hash : kept) lost += !merged.Contains(hash);
          EXPECT_EQ(lost, 0u) << NameOf(shape) << " of " << kept.size() << ", inputs of " << keys_a
                              << (a.exact() ? " exact and " : " full and ") << keys_b
                              << (b.exact() ? " exact" : " full");
        }
      }
    }
  }
}

// A merge that says that it drops no key drops none, be the inputs exact or full: all
// that either promises, its last `keys` keys, are found in the result. Where methods miss
// some keys, the same share of them; where a filter is full, all that it took.
TEST(AnyMerge, DropsNoKeyWhereItSaysSo) {
  uint64_t tested = 0;
  for (const Variant& variant : Merging()) {
    const Method& method = *variant.method;
    for (uint64_t keys : {7, 50, 110, 500, 2000}) {
      const Shape shape = PlanKeys(method, keys, 0.01, variant.options);
      const bool all = !method.forgets(shape);
      if (!all && !(method.merge_keeps_all && IsWindow(method, shape))) continue;
      const uint64_t limit = HashesInBody(shape);
      for (uint64_t keys_a : {limit / 2, limit, limit + 1, 3 * keys + limit}) {
        for (uint64_t keys_b : {limit / 2 + 3, limit, limit + 1, 3 * keys + limit}) {
          Filter a(shape), b(shape);
          std::vector<uint64_t> kept;
          auto fill = [&](Filter* filter, uint64_t first, uint64_t length) {
            std::vector<uint64_t> news;
            for (uint64_t key = first; key < first + length; ++key) {
              const uint64_t refused = filter->refused();
              if (!filter->Add(HashOf(key)) && filter->refused() == refused) {
                news.push_back(HashOf(key));
              }
            }
            const size_t held = all ? news.size() : std::min<size_t>(news.size(), keys);
            kept.insert(kept.end(), news.end() - static_cast<int64_t>(held), news.end());
          };
          fill(&a, 0, keys_a);
          fill(&b, 1000000, keys_b);
          const std::optional<Filter> merged = a.TryMerge(b);
          if (!merged.has_value()) continue;
          uint64_t lost = 0;
          for (uint64_t hash : kept) lost += !merged->Contains(hash);
          EXPECT_LE(static_cast<double>(lost),
                    2 * method.missed(shape) * static_cast<double>(kept.size()))
              << NameOf(shape) << " of " << kept.size() << ", inputs of " << keys_a
              << (a.exact() ? " exact and " : " full and ") << keys_b
              << (b.exact() ? " exact" : " full");
          ++tested;
        }
      }
    }
  }
  EXPECT_GE(tested, 400u);  // blocked_bloom, bloom, ring
}

// What is merged is found in a merge of several too, from the left or from the right,
// with the answers of every order where no key is ever lost.
TEST(AnyMerge, OfManyKeepsWhatItSays) {
  for (const Variant& variant : Merging()) {
    const Method& method = *variant.method;
    const Shape shape = PlanKeys(method, 2000, 0.001, variant.options);
    if (method.forgets(shape)) continue;
    constexpr int kParts = 5;
    for (uint64_t keys : {20, 350}) {
      std::vector<Filter> parts;
      for (uint64_t i = 0; i < kParts; ++i) {
        parts.push_back(FilterOf(shape, i * 1000, i * 1000 + keys));
        EXPECT_EQ(parts.back().refused(), 0u);
      }
      Filter left = parts[0], right = parts[kParts - 1];
      for (int i = 1; i < kParts; ++i) {
        left = left.MergedWith(parts[static_cast<size_t>(i)]);
        right = parts[static_cast<size_t>(kParts - 1 - i)].MergedWith(right);
      }
      for (uint64_t i = 0; i < kParts; ++i) {
        for (uint64_t key = 0; key < keys; ++key) {
          // One that was a false positive where it was added may be none elsewhere.
          if (!parts[i].Contains(HashOf(i * 1000 + key))) continue;
          ASSERT_TRUE(left.Contains(HashOf(i * 1000 + key))) << variant.name;
          ASSERT_TRUE(right.Contains(HashOf(i * 1000 + key))) << variant.name;
        }
      }
    }
  }
}

// Keys that are taken over from another filter one by one are all held then: by a
// filter that never forgets, by an exact one of any method, and by a window whose merges
// drop no key and that misses none, also where it would have called them duplicates (at
// 0.5 every other one).
TEST(TakeOver, LosesNoKey) {
  for (const Variant& variant : Merging()) {
    const Method& method = *variant.method;
    const bool ring = variant.name == "ring";
    for (uint64_t before : {0, 20, 3000}) {
      if (!HasRate(variant, 0.5)) continue;
      const Shape shape = PlanKeys(method, 1000, 0.5, variant.options);
      Filter filter = FilterOf(shape, 0, before);
      std::vector<bool> taken(1000);
      for (uint64_t i = 0; i < 1000; ++i) {
        const uint64_t refused = filter.refused();
        filter.AddTakenOver(HashOf(1000000 + i));
        taken[i] = filter.refused() == refused;
        if (taken[i] && (HoldsTheLast(method, shape) || filter.exact())) {
          ASSERT_TRUE(filter.Contains(HashOf(1000000 + i))) << variant.name;
        }
      }
      const bool all_held =
          !method.forgets(shape) ||
          (method.merge_keeps_all && IsWindow(method, shape) && method.missed(shape) == 0);
      if (!all_held && !filter.exact()) continue;
      for (uint64_t i = 0; i < 1000; ++i) {
        ASSERT_TRUE(filter.Contains(HashOf(1000000 + i)) || !taken[i])
            << NameOf(shape) << " after " << before;
      }
      if (!ring || filter.exact()) continue;
      // A ring's keys taken over are promised as if they had been answered new.
      const uint64_t generation = (1000 + 6) / 7;
      uint64_t news = 0;
      for (uint64_t key = 2000000; news < generation; ++key) news += !filter.Add(HashOf(key));
      for (uint64_t i = generation; i < 1000; ++i) {
        ASSERT_TRUE(filter.Contains(HashOf(1000000 + i))) << i;
      }
    }
  }
}

// Two full windows of recent keep half the window of each: of the last keys/2
// distinct keys of either at most 0.1 % are missed.
TEST(RecentMerge, KeepsHalfTheWindowOfEach) {
  for (double fpr : {0.1, 0.01, 0.001}) {
    for (uint64_t lines : {1, 2, 10, 100, 1000}) {
      const Shape shape = PlanMemory(Named("recent"), 64 * lines, fpr);
      uint64_t asked = 0, missed = 0;
      const uint64_t trials = std::max<uint64_t>(3, 3000 / lines);
      for (uint64_t trial = 0; trial < trials; ++trial) {
        Body a(shape), b(shape);
        for (uint64_t key = 0; key < 4 * shape.keys; ++key) {
          a.TestAndAdd(HashOf(key, trial));
          b.TestAndAdd(HashOf(key + 10000000, trial));
        }
        a.Merge(b);
        for (uint64_t age = 1; age <= shape.keys / 2; ++age) {
          missed += !a.Contains(HashOf(4 * shape.keys - age, trial));
          missed += !a.Contains(HashOf(10000000 + 4 * shape.keys - age, trial));
          asked += 2;
        }
      }
      EXPECT_LE(missed, 0.001 * static_cast<double>(asked)) << NameOf(shape);
    }
  }
}

// A full window and one that is still exact: the exact one's keys are kept, as are
// the full one's for half its window, whichever of the two is the left.
TEST(RecentMerge, KeepsTheKeysOfAnExactInput) {
  for (uint64_t lines : {10, 100, 1000}) {
    const Shape shape = PlanMemory(Named("recent"), 64 * lines, 0.001);
    const uint64_t few = HashesInBody(shape);
    const Filter full = FilterOf(shape, 0, 4 * shape.keys);
    const Filter exact = FilterOf(shape, 10000000, 10000000 + few);
    ASSERT_TRUE(exact.exact() && !full.exact());
    for (const Filter& merged : {full.MergedWith(exact), exact.MergedWith(full)}) {
      uint64_t missed = 0;
      for (uint64_t i = 0; i < few; ++i) missed += !merged.Contains(HashOf(10000000 + i));
      for (uint64_t age = 1; age <= shape.keys / 2; ++age) {
        missed += !merged.Contains(HashOf(4 * shape.keys - age));
      }
      EXPECT_LE(missed, 0.001 * static_cast<double>(few + shape.keys / 2)) << NameOf(shape);
    }
  }
}

// Several full windows merged one after another, each merge weighted by how many
// filters are in either side already, keep an equal share of each window: of four, a
// quarter. Without the weights the first would be left with an eighth.
TEST(RecentMerge, IsFairByWeight) {
  const Shape shape = PlanMemory(Named("recent"), 64 * 500, 0.001);
  constexpr uint32_t kParts = 4;
  for (bool from_the_left : {true, false}) {
    Body all(shape);
    for (uint32_t part = 0; part < kParts; ++part) {
      Body one(shape);
      for (uint64_t key = 0; key < 4 * shape.keys; ++key) {
        one.TestAndAdd(HashOf(part * 10000000 + key));
      }
      if (part == 0) {
        all = one;
      } else if (from_the_left) {
        all.Merge(one, Weights{part, 1});
      } else {
        one.Merge(all, Weights{1, part});
        all = one;
      }
    }
    for (uint32_t part = 0; part < kParts; ++part) {
      uint64_t missed = 0;
      for (uint64_t age = 1; age <= shape.keys / kParts; ++age) {
        missed += !all.Contains(HashOf(part * 10000000 + 4 * shape.keys - age));
      }
      // A line of 31 slots has 7 or 8 for each part, where it has 6.2 of its keys on
      // average: a few lines have more. Unweighted, half of part 0's would be missed.
      EXPECT_LE(missed, 0.05 * static_cast<double>(shape.keys / kParts)) << "part " << part;
    }
  }
}

// How many filters were merged into a working image is kept with it, through
// waiting keys, settling and a move, and is no part of what is stored.
TEST(RecentMerge, KeepsItsWeight) {
  const Shape shape = PlanMemory(Named("recent"), kDeferFromBytes, 0.001);
  for (uint64_t keys : {uint64_t{20}, HashesInBody(shape) + 1}) {
    Filter filter = FilterOf(shape, 0, keys);
    EXPECT_EQ(filter.header().parts(), 1u);
    for (uint32_t parts : {1u, 2u, 65536u, 100000u}) {
      filter.SetParts(parts);
      for (uint64_t key = 0; key < 70; ++key) filter.AddDeferred(HashOf(key));
      filter.Settle();
      Header header;
      ASSERT_EQ(Check(filter.image().data(), filter.image().size(), &header), Flaw::kNone);
      EXPECT_EQ(header.parts(), std::min(parts, 65536u));
      EXPECT_EQ(filter.header().parts(), header.parts());
      const Filter stored(filter.Canonical());
      EXPECT_EQ(stored.header().parts(), 1u);
    }
  }
}

// The merge of two lists of slots, written out by hand for one line of 38 slots:
// by age rank, the left first, equal fingerprints once, the counters added mod 256.
TEST(RecentMerge, IsByAgeRankInEachLine) {
  const Shape shape = PlanMemory(Named("recent"), 64, 0.01);
  Body a(shape), b(shape);
  ReferenceRecent reference_a(shape), reference_b(shape);
  for (uint64_t key = 0; key < 200; ++key) {
    a.Insert(HashOf(key));
    reference_a.Insert(HashOf(key));
    b.Insert(HashOf(key % 190 + 150));
    reference_b.Insert(HashOf(key % 190 + 150));
  }
  a.Merge(b);
  reference_a.Merge(reference_b);
  const std::vector<uint8_t> expected = reference_a.Bytes();
  EXPECT_EQ(std::memcmp(a.bytes().data(), expected.data(), 64), 0);
  EXPECT_EQ(a.bytes()[63], (200 + 200) % 256);
  // The left's youngest is the first slot, the right's the second.
  const auto fingerprint = [](uint64_t hash) { return 1 + FastRange(Derived(hash, 1), 8191); };
  EXPECT_EQ(a.bytes()[0], fingerprint(HashOf(199)) & 0xff);
  EXPECT_EQ(a.bytes()[1], fingerprint(HashOf(199 % 190 + 150)) & 0xff);
}

// MergeNeeds() is enough for every pair of forms: the blocks are exactly that
// large. It asks for nothing besides where both are full.
TEST(MergeNeeds, AreSmallWhereTheyCanBe) {
  for (const Variant& variant : Merging()) {
    const Shape shape = PlanKeys(*variant.method, 100, 0.01, variant.options);
    const Filter full = FilterOf(shape, 0, 4000), empty(shape);
    ASSERT_FALSE(full.exact());
    const uint64_t limit = full.header().exact_limit();
    EXPECT_EQ(MergeNeeds(full.header(), full.header(), limit).scratch, 0u);
    EXPECT_EQ(MergeNeeds(full.header(), full.header(), limit).out,
              60 + size_t{BodyBytesFor(full.header(), 2 * full.header().counters.count)});
    EXPECT_EQ(MergeNeeds(empty.header(), empty.header(), limit).out, 60u);
    EXPECT_EQ(full.MergedWith(empty).Canonical(), full.Canonical()) << variant.name;
  }
}

// Past its capacity a merged filter says so: it reports the rate that now holds,
// and that rate is what is measured.
TEST(OverfullMerge, ReportsTheRateThatHolds) {
  for (const Variant& variant : Merging()) {
    const Method* method = variant.method;
    if (!method->has_rate()) continue;
    const Shape shape = PlanKeys(*method, 5000, 0.01, variant.options);
    const Filter a = FilterOf(shape, 0, 8000), b = FilterOf(shape, 100000, 107000);
    const std::optional<Filter> result = a.TryMerge(b);
    if (!result.has_value()) {
      EXPECT_TRUE(method->can_forget(shape)) << "full: " << variant.name;
      continue;
    }
    const Filter& merged = *result;
    const Reading reading = merged.Read();
    uint64_t found = 0;
    const uint64_t probes = 400000;
    for (uint64_t i = 0; i < probes; ++i) found += merged.Contains(HashOf(i + 10000000));
    const double rate = static_cast<double>(found) / static_cast<double>(probes);
    if (!AnswersAtRandom(variant)) {
      EXPECT_NEAR(reading.fpr, rate, 0.05 * rate + 0.0005) << variant.name;
    }
    if (!method->has_rate()) {
      EXPECT_FALSE(Overfull(merged.header(), reading)) << variant.name;
    } else if (method->growth != nullptr) {
      EXPECT_FALSE(Overfull(merged.header(), reading)) << variant.name;
      EXPECT_LE(rate, 0.02) << variant.name;
    } else if (!method->forgets(shape) || method->merge_keeps_all) {
      EXPECT_TRUE(Overfull(merged.header(), reading)) << variant.name;
      EXPECT_GT(rate, 0.02) << variant.name;
    }
  }
}

}  // namespace
}  // namespace dedup::test
