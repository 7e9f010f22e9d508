// Filters that can be full, bodies that grow, and bodies with links: what happens to the key
// that finds no room, what is stored, and what is refused from outside.

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

Shape PlanOf(const Variant& variant, uint64_t keys, double fpr) {
  return PlanKeys(*variant.method, keys, fpr, variant.options);
}

// Adds distinct keys until one finds no room; returns how many did, or none if all of many
// more than the filter is sized for did.
std::optional<uint64_t> FillUp(Body* body, uint64_t seed) {
  const uint64_t most = 40 * body->shape().keys + 2000;
  for (uint64_t key = 0; key < most; ++key) {
    const uint64_t hash = HashOf(key, seed);
    if (body->Try(&hash, 1, nullptr) == 0) return key;
  }
  return std::nullopt;
}

// Those that can be full.
std::vector<Variant> Filling() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    Body body(PlanOf(variant, 100, 0.01));
    if (FillUp(&body, 1).has_value()) variants.push_back(variant);
  }
  return variants;
}

// What says that it can be full is, and nothing else.
TEST(CanBeFull, IsTold) {
  std::set<std::string> full;
  for (const Variant& variant : Filling()) full.insert(variant.name);
  for (const Variant& variant : AllVariants()) {
    EXPECT_EQ(variant.method->can_be_full(PlanOf(variant, 100, 0.01)), full.count(variant.name) > 0)
        << variant.name;
  }
}

// Only filters that say "all" are full, and only such as can be emptied again; Bloom
// filters and windows never are.
TEST(CanBeFull, OnlyWhatForgetsOnDemand) {
  for (const Variant& variant : Filling()) {
    const Shape shape = PlanOf(variant, 100, 0.01);
    EXPECT_FALSE(variant.method->forgets(shape)) << variant.name;
    EXPECT_TRUE(variant.method->can_forget(shape)) << variant.name;
  }
}

class Full : public ::testing::TestWithParam<Variant> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Full);
INSTANTIATE_TEST_SUITE_P(Methods, Full, ::testing::ValuesIn(Filling()), VariantName);

// The key that finds no room is new, is not remembered, and has changed no byte; those that
// were taken are all there. A key that is there is still answered for. Forgetting makes room.
TEST_P(Full, RefusesAKeyAndChangesNothing) {
  const Method& method = *GetParam().method;
  for (uint64_t keys : {1, 20, 300, 3000}) {
    for (double fpr : {0.3, 0.01, 0.0001}) {
      Body body(PlanOf(GetParam(), keys, fpr));
      const std::optional<uint64_t> taken = FillUp(&body, keys);
      if (!taken.has_value()) continue;
      EXPECT_GE(*taken, keys * 9 / 10) << NameOf(body.shape());
      const Bytes before = body.bytes();
      const Counters counters = body.counters();
      const auto unchanged = [&] {
        return body.bytes() == before && body.counters().count == counters.count &&
               body.counters().state == counters.state;
      };
      ASSERT_TRUE(method.valid(body.shape(), counters));
      uint64_t refused = 0;
      for (uint64_t key = *taken; key < *taken + 200; ++key) {
        const uint64_t hash = HashOf(key, keys);
        const bool held = body.Contains(hash);
        // Another key may still find room where this one does not: on a copy.
        Body copy(body);
        uint8_t seen = 2;
        if (copy.Try(&hash, 1, &seen) == 1) {
          EXPECT_TRUE(!held || seen == 1);
          continue;
        }
        ++refused;
        EXPECT_FALSE(held);
        EXPECT_EQ(body.Try(&hash, 1, nullptr), 0u);
        ASSERT_TRUE(unchanged()) << NameOf(body.shape());
        EXPECT_EQ(method.insert(body.shape(), &body.counters(), body.bytes().data(), &hash, 1), 0u);
        ASSERT_TRUE(unchanged()) << NameOf(body.shape());
        EXPECT_FALSE(body.Contains(hash));
      }
      EXPECT_GT(refused, 0u);
      for (uint64_t key = 0; key < *taken; ++key) {
        ASSERT_TRUE(body.Contains(HashOf(key, keys))) << NameOf(body.shape());
        if (key % 16 == 0) {
          ASSERT_TRUE(body.TestAndAdd(HashOf(key, keys)));
        }
      }
      // In a batch all in front of it are taken, and none behind it.
      std::vector<uint64_t> hashes;
      for (uint64_t key = 0; key < *taken + 50; ++key) hashes.push_back(HashOf(key, keys));
      Body batch(body.shape());
      std::vector<uint8_t> seen(hashes.size(), 7);
      EXPECT_EQ(batch.Try(hashes.data(), hashes.size(), seen.data()), *taken);
      EXPECT_EQ(batch.bytes(), before);
      // Half of them forgotten, as many others are taken again.
      uint64_t forgotten = 0;
      for (uint64_t key = 0; key < *taken; key += 2) {
        forgotten += body.Forget(HashOf(key, keys));
      }
      EXPECT_GE(forgotten, *taken / 3);
      uint64_t again = 0;
      for (uint64_t key = 0; key < forgotten / 2; ++key) {
        const uint64_t hash = HashOf(key + 1000000, keys);
        again += body.Try(&hash, 1, nullptr);
      }
      EXPECT_GE(again, forgotten / 2 * 9 / 10) << NameOf(body.shape());
    }
  }
}

// The same through every way into a filter: its image, as it is stored and as it is worked
// on, is byte for byte what it was.
TEST_P(Full, ImagesStayAsTheyAre) {
  for (uint64_t keys : {20, 400, 40000}) {
    const Shape shape = PlanOf(GetParam(), keys, 0.001);
    Filter filter(shape);
    uint64_t key = 0;
    for (; filter.refused() == 0; ++key) filter.Add(HashOf(key));
    const uint64_t refused = HashOf(key - 1);
    filter.MakeCanonical();
    const Bytes stored = filter.Canonical();
    ASSERT_FALSE(filter.Contains(refused));

    // Into a value.
    Bytes out(AddToBytes(filter.header()));
    EXPECT_EQ(AddTo(filter.image().data(), filter.header(), refused, out.data()), 0u);
    EXPECT_EQ(filter.Canonical(), stored);

    // Where it is.
    filter.MakeWorkingForm();
    Bytes image = filter.image();
    Header header;
    ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
    ASSERT_EQ(header.form, Form::kWorkingFull);
    EXPECT_EQ(TestAndAdd(image.data(), &header, refused), Outcome::kFull);
    EXPECT_EQ(image, filter.image());
    EXPECT_FALSE(AddNew(image.data(), &header, refused));
    EXPECT_EQ(image, filter.image());
    EXPECT_EQ(TakeOver(image.data(), &header, refused), Outcome::kFull);
    EXPECT_EQ(image, filter.image());

    // In a batch: those in front of it are taken, and what is settled then is a filter.
    Outcome outcome = Outcome::kNew;
    for (int i = 0; i < 2 * static_cast<int>(kMaxDeferred) && outcome != Outcome::kFull; ++i) {
      outcome = Defer(image.data(), &header, i % 8 == 7 ? refused : HashOf(i));
      ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
    }
    EXPECT_EQ(outcome, Outcome::kFull) << NameOf(shape);
    EXPECT_EQ(header.deferred(), 0u);
    EXPECT_TRUE(Settle(image.data(), &header));
    Bytes after(CanonicalBytes(header));
    WriteCanonical(image.data(), header, after.data());
    EXPECT_EQ(after, stored);

    // Keys that are there are still answered for, by all of these.
    EXPECT_EQ(TestAndAdd(image.data(), &header, HashOf(0)), Outcome::kSeen);
    EXPECT_EQ(AddTo(stored.data(), Filter(stored).header(), HashOf(0), out.data()), stored.size());
  }
}

// A merge whose result would be full says so, and leaves its inputs as they are.
TEST_P(Full, MergesReturnNothing) {
  if (GetParam().method->merge == nullptr) return;
  for (uint64_t keys : {60, 500}) {
    const Shape shape = PlanOf(GetParam(), keys, 0.001);
    const uint64_t limit = HashesInBody(shape);
    Filter full(shape), other(shape), exact(shape), half(shape);
    for (uint64_t key = 0; full.refused() == 0; ++key) full.Add(HashOf(key));
    for (uint64_t key = 0; other.refused() == 0; ++key) other.Add(HashOf(1000000 + key));
    for (uint64_t key = 0; key < limit; ++key) exact.Add(HashOf(2000000 + key));
    for (uint64_t key = 0; key <= limit; ++key) half.Add(HashOf(3000000 + key));
    for (Filter* filter : {&full, &other}) {
      for (const Filter* right : {&full, &other, &exact, &half}) {
        if (right == filter) continue;
        const Bytes before = filter->Canonical(), right_before = right->Canonical();
        EXPECT_FALSE(filter->TryMerge(*right).has_value()) << NameOf(shape);
        EXPECT_FALSE(right->TryMerge(*filter).has_value()) << NameOf(shape);
        EXPECT_EQ(filter->Canonical(), before);
        EXPECT_EQ(right->Canonical(), right_before);
        Filter in_place(*filter);
        if (in_place.exact()) continue;
        in_place.MakeWorkingForm();
        EXPECT_NE(in_place.TryMergeInPlace(*right), Outcome::kNew);
      }
    }
  }
}

// ---- bodies that grow -------------------------------------------------------------------

std::vector<Variant> Growing() {
  std::vector<Variant> variants;
  for (const Variant& variant : AllVariants()) {
    if (variant.method->used_bytes != nullptr) variants.push_back(variant);
  }
  return variants;
}

class Grows : public ::testing::TestWithParam<Variant> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Grows);
INSTANTIATE_TEST_SUITE_P(Methods, Grows, ::testing::ValuesIn(Growing()), VariantName);

// What is stored is what is in use, and no more: it is read back, asked, merged and added to
// from a block of exactly that size. The rest of the body is zero.
TEST_P(Grows, IsStoredAsFarAsItIsUsed) {
  const Method& method = *GetParam().method;
  const Shape shape = PlanOf(GetParam(), 5000, 0.01);
  Body body(shape);
  uint64_t shorter = 0;
  size_t before = 0;
  for (uint64_t key = 0;; ++key) {
    const size_t used = method.used_bytes(shape, body.counters());
    ASSERT_LE(used, shape.bytes);
    ASSERT_GE(used, before) << "it shrank";
    const bool grew = used > before;
    before = used;
    if (grew || key % 256 == 0) {
      for (size_t at = used; at < body.bytes().size(); ++at) ASSERT_EQ(body.bytes()[at], 0);
      Bytes image(kHeaderBytes + used);
      std::memcpy(image.data() + kHeaderBytes, body.bytes().data(), used);
      WriteHeader(image.data(), shape, Form::kFull, body.counters());
      Seal(image.data(), image.size());
      Filter stored(image);
      EXPECT_EQ(stored.Canonical(), image);
      for (uint64_t old = 0; old < key; old += 1 + key / 50) {
        ASSERT_TRUE(stored.Contains(HashOf(old)));
      }
      EXPECT_EQ(stored.Read().count, body.Read().count);
      // As the right side of a merge, and as the one that is added to.
      Filter one(shape);
      one.Add(HashOf(1u << 20));
      const std::optional<Filter> merged = one.TryMerge(stored), with = stored.TryMerge(stored);
      if (merged.has_value()) {
        EXPECT_TRUE(merged->Contains(HashOf(1u << 20)));
        if (key > 0) {
          EXPECT_TRUE(merged->Contains(HashOf(0)));
        }
      }
      stored.AddValue(HashOf(key));
      shorter += used < shape.bytes;
    }
    const uint64_t hash = HashOf(key);
    if (body.Try(&hash, 1, nullptr) == 0 || key > 20 * 5000) break;
  }
  EXPECT_GT(shorter, 5u) << "it was never shorter than it may become";
}

// ---- bodies with links ------------------------------------------------------------------

// Those that do not take every body: some have links with some options only.
std::vector<Variant> Linked() {
  std::vector<Variant> variants;
  Random random(4);
  for (const Variant& variant : AllVariants()) {
    if (variant.method->sound == nullptr) continue;
    Body body(PlanOf(variant, 200, 0.01));
    for (uint64_t key = 0; key < 50; ++key) body.Insert(HashOf(key));
    bool sound = true;
    for (int i = 0; i < 20 && sound; ++i) {
      for (size_t at = 0; at < body.bytes().size(); ++at) {
        body.bytes()[at] = static_cast<uint8_t>(random.Next());
      }
      sound = variant.method->sound(body.shape(), body.counters(), body.bytes().data());
    }
    if (!sound) variants.push_back(variant);
  }
  return variants;
}

// A method that says which bodies are sound finds some that are not.
TEST(Sound, IsNotEveryBody) {
  std::set<const Method*> linked;
  for (const Variant& variant : Linked()) linked.insert(variant.method);
  for (const Method* method : kMethods) {
    EXPECT_EQ(linked.count(method), method->sound != nullptr) << method->name;
  }
}

class Links : public ::testing::TestWithParam<Variant> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Links);
INSTANTIATE_TEST_SUITE_P(Methods, Links, ::testing::ValuesIn(Linked()), VariantName);

// Every body that the method makes is sound, at every fill and after merges.
TEST_P(Links, HoldTogetherWhereTheMethodMadeThem) {
  const Method& method = *GetParam().method;
  for (uint64_t keys : {1, 5, 40, 300}) {
    for (double fpr : {0.3, 0.01, 0.0001}) {
      const Shape shape = PlanOf(GetParam(), keys, fpr);
      Body body(shape), other(shape);
      Random random(keys);
      const auto sound = [&](const Body& one) {
        return method.sound(shape, one.counters(), one.bytes().data());
      };
      EXPECT_TRUE(sound(body)) << NameOf(shape);
      for (uint64_t i = 0; i < 6 * keys + 20; ++i) {
        const uint64_t hash = HashOf(random.Below(4 * keys), 3), another = random.Next();
        body.Try(&hash, 1, nullptr);
        other.Try(&another, 1, nullptr);
        ASSERT_TRUE(sound(body)) << NameOf(shape) << " after " << i;
      }
      if (method.merge == nullptr) continue;
      Body merged(body);
      if (method.merge(shape, &merged.counters(), merged.bytes().data(), other.counters(),
                       other.bytes().data(), Weights{2, 3})) {
        EXPECT_TRUE(sound(merged)) << NameOf(shape);
      }
    }
  }
}

// A body whose links are broken is refused from outside, with a right checksum too; noise
// almost always is. What is not refused is a filter: it keeps its promises (memory_test.cpp
// uses those).
TEST_P(Links, ThatAreBrokenAreFound) {
  const Method& method = *GetParam().method;
  const Shape shape = PlanOf(GetParam(), 200, 0.01);
  Filter filter(shape);
  for (uint64_t key = 0; key <= HashesInBody(shape) && filter.refused() == 0; ++key) {
    filter.Add(HashOf(key));
  }
  ASSERT_FALSE(filter.exact());
  const Bytes stored = filter.Canonical();
  Random random(8);
  uint64_t broken = 0, noise = 0;
  const uint64_t trials = 2000 / kThin;
  for (uint64_t i = 0; i < trials; ++i) {
    for (bool all : {false, true}) {
      Bytes image = stored;
      for (uint64_t changes = all ? image.size() : 1 + random.Below(3); changes > 0; --changes) {
        const size_t at = kHeaderBytes + random.Below(image.size() - kHeaderBytes);
        image[at] = static_cast<uint8_t>(random.Next());
      }
      Seal(image.data(), image.size());
      Header header;
      const Flaw flaw = Validate(image.data(), image.size(), &header);
      ASSERT_TRUE(flaw == Flaw::kNone || flaw == Flaw::kBody);
      ASSERT_EQ(flaw == Flaw::kNone,
                method.sound(shape, header.counters, image.data() + kHeaderBytes));
      (all ? noise : broken) += flaw == Flaw::kBody;
      // It is only from outside that links are looked at.
      EXPECT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
    }
  }
  EXPECT_GT(broken, trials / 20) << GetParam().name;
  EXPECT_GE(noise, trials * 99 / 100) << GetParam().name;
}

}  // namespace
}  // namespace dedup::test
