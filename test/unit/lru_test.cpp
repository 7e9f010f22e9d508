// lru and fp_lru: a std::list twin key by key, the order in which keys give way, what
// merges and takebacks leave, the false positives that fp_lru draws, and bad bytes.

#include "core/methods/lru.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/methods/fp_lru.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// The last `size` distinct keys, youngest first.
class Twin {
 public:
  explicit Twin(uint64_t size) : size_(size) {}

  bool Contains(uint64_t hash) const { return Place(hash) != keys_.end(); }
  bool See(uint64_t hash) {
    const bool there = Forget(hash);
    keys_.push_front(hash);
    if (keys_.size() > size_) keys_.pop_back();
    return there;
  }
  bool Forget(uint64_t hash) {
    const auto place = Place(hash);
    if (place == keys_.end()) return false;
    keys_.erase(place);
    return true;
  }
  // Of both lists the key of least rank / weight comes next, ours on ties.
  void Merge(const Twin& other, const Weights& weights) {
    struct Aged {
      double age;
      bool theirs;
      uint64_t hash;
    };
    std::vector<Aged> all;
    double rank = 0;
    for (uint64_t hash : keys_) all.push_back({rank++ / weights.left, false, hash});
    rank = 0;
    for (uint64_t hash : other.keys_) all.push_back({rank++ / weights.right, true, hash});
    std::stable_sort(all.begin(), all.end(), [](const Aged& a, const Aged& b) {
      return a.age != b.age ? a.age < b.age : a.theirs < b.theirs;
    });
    keys_.clear();
    std::unordered_set<uint64_t> taken;
    for (const Aged& key : all) {
      if (keys_.size() < size_ && taken.insert(key.hash).second) keys_.push_back(key.hash);
    }
  }
  const std::list<uint64_t>& keys() const { return keys_; }

 private:
  std::list<uint64_t>::const_iterator Place(uint64_t hash) const {
    return std::find(keys_.begin(), keys_.end(), hash);
  }
  uint64_t size_;
  std::list<uint64_t> keys_;
};

bool Sound(const Body& body) {
  const Method& method = *MethodByCode(body.shape().method);
  return method.sound(body.shape(), body.counters(), body.bytes().data());
}

// Keys of different kinds: spread over the buckets, all in the first, all in the last.
uint64_t HashOfKind(int kind, uint64_t key) {
  return kind == 0 ? HashOf(key) : kind == 1 ? key : ~key;
}

// That the body holds the twin's keys, and lets them go in the twin's order. Adds to
// a copy.
void ExpectHolds(Body body, const Twin& twin) {
  ASSERT_TRUE(Sound(body));
  ASSERT_EQ(body.Read().count, static_cast<double>(twin.keys().size()));
  for (uint64_t hash : twin.keys()) ASSERT_TRUE(body.Contains(hash));
  uint64_t fresh = 0;
  const auto add = [&] { body.Insert(HashOf(fresh++, 99)); };
  for (uint64_t i = twin.keys().size(); i < body.shape().keys; ++i) add();
  for (auto oldest = twin.keys().rbegin(); oldest != twin.keys().rend(); ++oldest) {
    ASSERT_TRUE(body.Contains(*oldest));
    add();
    ASSERT_FALSE(body.Contains(*oldest));
  }
  ASSERT_TRUE(Sound(body));
}

class Buffer : public ::testing::TestWithParam<std::string> {
 protected:
  Shape Plan(uint64_t keys) const { return PlanKeys(Named(GetParam()), keys, 0.1); }
};
INSTANTIATE_TEST_SUITE_P(Methods, Buffer, ::testing::Values("lru", "fp_lru"),
                         [](const auto& info) { return info.param; });

// Every kind of call in any order. What fp_lru answers to new keys is tested below.
TEST_P(Buffer, IsItsTwin) {
  Random random(1);
  const bool exact = GetParam() == "lru";
  for (uint64_t entries : {1, 2, 3, 7, 64, 300}) {
    for (int kind : {0, 1, 2}) {
      Body body(Plan(entries));
      Twin twin(entries);
      for (int i = 0; i < 8000 / static_cast<int>(kThin); ++i) {
        const uint64_t hash = HashOfKind(kind, random.Below(2 * entries + 2));
        const uint64_t dice = random.Below(100);
        if (dice < 60) {
          const bool seen = body.TestAndAdd(hash), was = twin.See(hash);
          ASSERT_TRUE(exact ? seen == was : seen || !was) << entries << " " << i;
        } else if (dice < 70) {
          body.Insert(hash);
          twin.See(hash);
        } else if (dice < 90) {
          ASSERT_EQ(body.Contains(hash), twin.Contains(hash));
        } else if (dice < 99) {
          ASSERT_EQ(body.Forget(hash), twin.Forget(hash));
        } else {
          ExpectHolds(body, twin);
          if (HasFatalFailure()) return;
        }
      }
      // Emptied one by one, it is as it was at first.
      while (!twin.keys().empty()) {
        const uint64_t hash = twin.keys().back();
        ASSERT_TRUE(body.Forget(hash) && twin.Forget(hash));
        ASSERT_TRUE(Sound(body));
      }
      EXPECT_EQ(body.bytes(), Bytes(body.shape().bytes));
      EXPECT_EQ(body.counters().state, 0u);
    }
  }
}

TEST_P(Buffer, GivesTheSameInBatches) {
  Random random(2);
  for (uint64_t entries : {1, 50, 5000}) {
    Body one(Plan(entries)), batch(Plan(entries));
    for (int round = 0; round < 40; ++round) {
      std::vector<uint64_t> hashes(random.Below(600));
      for (uint64_t& hash : hashes) hash = HashOf(random.Below(2 * entries));
      std::vector<uint8_t> seen(hashes.size()), asked(hashes.size());
      batch.Contains(hashes.data(), hashes.size(), asked.data());
      for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(asked[i], one.Contains(hashes[i]));
      batch.TestAndAdd(hashes.data(), hashes.size(), seen.data());
      for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(seen[i], one.TestAndAdd(hashes[i]));
      ASSERT_EQ(one.bytes(), batch.bytes());
      ASSERT_EQ(one.counters().count, batch.counters().count);
      ASSERT_EQ(one.counters().state, batch.counters().state);
    }
  }
}

// In turn over one key more than there are entries nothing is ever found; over as many,
// everything is.
TEST_P(Buffer, KeepsExactlyItsWindow) {
  const uint64_t entries = 1000;
  for (uint64_t alphabet : {entries, entries + 1}) {
    Body body(Plan(entries));
    for (uint64_t i = 0; i < 4 * alphabet; ++i) {
      const uint64_t hash = HashOf(i % alphabet);
      ASSERT_EQ(body.Contains(hash), i >= alphabet && alphabet == entries);
      body.TestAndAdd(hash);
    }
  }
}

// A full buffer holds so many of a uniform stream's keys, whichever: every next key is
// found with probability entries / alphabet, independently of all others. Bound: 4
// standard errors.
TEST(Lru, FindsTheShareOfUniformKeysThatItHolds) {
  const uint64_t entries = 1024, alphabet = 5000, n = 1000000 / kThin;
  Body body(PlanKeys(Named("lru"), entries, 0.01));
  Random random(3);
  for (uint64_t i = 0; i < 10 * alphabet; ++i) body.TestAndAdd(HashOf(random.Below(alphabet)));
  double hits = 0;
  for (uint64_t i = 0; i < n; ++i) hits += body.TestAndAdd(HashOf(random.Below(alphabet)));
  const double p = 1024.0 / 5000;
  EXPECT_NEAR(hits / static_cast<double>(n), p,
              4 * std::sqrt(p * (1 - p) / static_cast<double>(n)));
}

// ---- merges ---------------------------------------------------------------------

TEST_P(Buffer, MergesAsItsTwin) {
  Random random(4);
  for (uint64_t entries : {1, 2, 5, 16, 100}) {
    for (int trial = 0; trial < 400 / static_cast<int>(kThin); ++trial) {
      const int kind = static_cast<int>(random.Below(3));
      const uint64_t alphabet = 1 + random.Below(4 * entries);
      Body left(Plan(entries)), right(Plan(entries));
      Twin left_twin(entries), right_twin(entries);
      const auto fill = [&](Body* body, Twin* twin) {
        for (uint64_t i = random.Below(3 * entries); i > 0; --i) {
          const uint64_t hash = HashOfKind(kind, random.Below(alphabet));
          body->Insert(hash);
          twin->See(hash);
        }
      };
      fill(&left, &left_twin);
      fill(&right, &right_twin);
      const Bytes before = right.bytes();
      const Weights weights = {static_cast<uint32_t>(1 + random.Below(4)),
                               static_cast<uint32_t>(1 + random.Below(4))};
      left.Merge(right, weights);
      left_twin.Merge(right_twin, weights);
      ExpectHolds(left, left_twin);
      if (HasFatalFailure()) return;
      ASSERT_EQ(right.bytes(), before);
      // And it goes on as any other.
      for (uint64_t i = 0; i < 2 * entries; ++i) {
        const uint64_t hash = HashOfKind(kind, random.Below(alphabet));
        ASSERT_EQ(left.Contains(hash), left_twin.Contains(hash));
        left.TestAndAdd(hash);
        left_twin.See(hash);
      }
    }
  }
}

// Keys 0.. on the left, 1000000.. on the right, the last one the youngest.
std::vector<double> SharesKept(const Shape& shape, uint64_t each, const Weights& weights) {
  Body left(shape), right(shape);
  for (uint64_t i = 0; i < each; ++i) {
    left.Insert(HashOf(i));
    right.Insert(HashOf(1000000 + i));
  }
  left.Merge(right, weights);
  std::vector<double> kept;
  for (uint64_t first : {0, 1000000}) {
    // Those that are kept are the youngest, without a gap.
    uint64_t n = 0;
    while (n < each && left.Contains(HashOf(first + each - 1 - n))) ++n;
    for (uint64_t age = n; age < each; ++age) {
      EXPECT_FALSE(left.Contains(HashOf(first + each - 1 - age)));
    }
    kept.push_back(static_cast<double>(n) / static_cast<double>(each));
  }
  return kept;
}

TEST_P(Buffer, KeepsTheYoungerKeysInMerges) {
  using Shares = std::vector<double>;
  const Shape shape = Plan(1000);
  EXPECT_EQ(SharesKept(shape, 500, {1, 1}), (Shares{1, 1}));
  EXPECT_EQ(SharesKept(shape, 1000, {1, 1}), (Shares{0.5, 0.5}));
  EXPECT_EQ(SharesKept(shape, 1000, {3, 1}), (Shares{0.75, 0.25}));
  EXPECT_EQ(SharesKept(shape, 1000, {1, 4}), (Shares{0.2, 0.8}));
}

// ---- fp_lru -----------------------------------------------------------------------

// It holds what lru holds; what it answers is lru's answer, or, for the i-th key added,
// "duplicate" if the i-th random number says so.
TEST(FpLru, IsLruButForTheAnswersThatItDraws) {
  for (double q : {0.5, 0.1, 0.001}) {
    const std::string option = "q=" + std::to_string(q);
    const Shape shape = PlanMemory(Named("fp_lru"), 8000, 0.01, option, 5);
    const Shape exact_shape = PlanMemory(Named("lru"), 8000, 0.01, "", 5);
    ASSERT_EQ(shape.keys, exact_shape.keys);
    EXPECT_EQ(shape.fpr, q);
    EXPECT_EQ(Named("fp_lru").expected_fpr(shape, 10), Named("fp_lru").expected_fpr(shape, 1e6));
    EXPECT_NEAR(Named("fp_lru").expected_fpr(shape, 10), q, 1e-14);
    Body body(shape), exact(exact_shape);
    EXPECT_NEAR(body.Read().fpr, q, 1e-14);
    Random random(6);
    uint64_t fresh = 0, drawn = 0;
    for (uint64_t i = 0; i < 200000 / kThin; ++i) {
      const uint64_t hash = HashOf(random.Below(3000));
      const bool held = exact.Contains(hash);
      ASSERT_EQ(body.Contains(hash), held);
      const bool seen = body.TestAndAdd(hash);
      ASSERT_EQ(exact.TestAndAdd(hash), held);
      const bool draw = StepRandom(shape.seed, i).Unit() < q;
      ASSERT_EQ(seen, held || draw);
      fresh += !held;
      drawn += !held && seen;
    }
    ASSERT_EQ(body.bytes(), exact.bytes());
    const double n = static_cast<double>(fresh);
    EXPECT_NEAR(static_cast<double>(drawn) / n, q, 4 * std::sqrt(q * (1 - q) / n)) << q;
  }
}

// FNR = (1 - q) times lru's, and FPR = q. Bounds: 4 standard errors of the draws.
TEST(FpLru, MissesTheShareOfWhatLruMisses) {
  const double q = 0.1;
  Body body(PlanMemory(Named("fp_lru"), 8000, 0.01, "q=0.1", 7));
  Body exact(PlanMemory(Named("lru"), 8000, 0.01));
  const Zipf zipf(20000);
  Random random(8);
  std::vector<bool> sighted(20000);
  double news = 0, refused = 0, missed = 0, exact_missed = 0;
  for (uint64_t i = 0; i < 300000 / kThin; ++i) {
    const uint64_t key = zipf.Next(&random);
    const bool seen = body.TestAndAdd(HashOf(key)), held = exact.TestAndAdd(HashOf(key));
    if (sighted[key]) {
      missed += !seen;
      exact_missed += !held;
    } else {
      EXPECT_FALSE(held);
      ++news;
      refused += seen;
    }
    sighted[key] = true;
  }
  ASSERT_GT(exact_missed, 1000);
  EXPECT_NEAR(refused / news, q, 4 * std::sqrt(q * (1 - q) / news));
  EXPECT_NEAR(missed / exact_missed, 1 - q, 4 * std::sqrt(q * (1 - q) / exact_missed));
}

// ---- parameters -------------------------------------------------------------------

TEST_P(Buffer, CountsSixtyFourBitsAnEntryAsMemory) {
  const Method& method = Named(GetParam());
  for (uint64_t memory : {8, 15, 16, 1000, 131072}) {
    const Shape shape = PlanMemory(method, memory, 0.01);
    EXPECT_EQ(shape.keys, memory / 8);
    EXPECT_EQ(shape.bytes, 24 * (memory / 8) + 8);
    EXPECT_TRUE(method.valid(shape, Counters{}));
    const Shape same = PlanKeys(method, memory / 8, 0.01);
    EXPECT_EQ(same, shape);
    EXPECT_EQ(method.missed(shape), 0);
  }
  char text[200];
  method.describe(PlanMemory(method, 131072, 0.01), text, sizeof text);
  EXPECT_NE(std::string(text).find("entries=16384 entry_bytes=131072 index_and_list_bytes=262152"),
            std::string::npos)
      << text;
}

TEST_P(Buffer, RefusesSizesItCannotHave) {
  const Method& method = Named(GetParam());
  const auto plan = [&](uint64_t keys, uint64_t memory) {
    Request request;
    request.keys = keys;
    request.memory = memory;
    Shape shape;
    const PlanStatus status = PlanFilter(method, request, 0, &shape);
    if (status == PlanStatus::kOk) {
      EXPECT_LE(shape.bytes, kMaxBodyBytes);
      EXPECT_TRUE(method.valid(shape, Counters{}));
    }
    return status;
  };
  const uint64_t most = (kMaxBodyBytes - 8) / 24;
  EXPECT_EQ(plan(0, 7), PlanStatus::kMemoryTooSmall);
  EXPECT_EQ(plan(most, 0), PlanStatus::kOk);
  EXPECT_EQ(plan(0, 8 * most + 7), PlanStatus::kOk);
  EXPECT_EQ(plan(most + 1, 0), PlanStatus::kTooLarge);
  EXPECT_EQ(plan(0, 8 * most + 8), PlanStatus::kTooLarge);
  EXPECT_EQ(plan(kMaxKeys, 0), PlanStatus::kTooLarge);
  EXPECT_EQ(plan(0, kMaxBodyBytes), PlanStatus::kTooLarge);
}

TEST_P(Buffer, AcceptsOnlyWhatPlanMakes) {
  const Method& method = Named(GetParam());
  const Shape shape = Plan(100);
  const bool counts = GetParam() == "fp_lru";
  EXPECT_TRUE(method.valid(shape, (Counters{0, 100})));
  EXPECT_FALSE(method.valid(shape, (Counters{0, 101})));
  EXPECT_EQ(method.valid(shape, (Counters{5, 0})), counts);
  const auto changed = [&](auto change) {
    Shape other = shape;
    change(&other);
    return method.valid(other, Counters{});
  };
  EXPECT_FALSE(changed([](Shape* s) { s->bytes += 8; }));
  EXPECT_FALSE(changed([](Shape* s) { s->bytes += 24; }));
  EXPECT_FALSE(changed([](Shape* s) { s->bytes = 0; }));
  EXPECT_FALSE(changed([](Shape* s) { s->bytes = 8, s->keys = 0; }));
  EXPECT_FALSE(changed([](Shape* s) { ++s->keys; }));
  EXPECT_FALSE(changed([](Shape* s) { ++s->detail; }));
  EXPECT_EQ(changed([](Shape* s) { s->fpr = 0.2; }), !counts);
  EXPECT_EQ(changed([](Shape* s) { s->fpr = std::nan(""); }), !counts);
}

TEST(FpLru, TakesQFromFprIfItIsNotGiven) {
  const Method& method = Named("fp_lru");
  for (double fpr : {0.5, 0.01, 1e-9}) {
    EXPECT_EQ(PlanMemory(method, 800, fpr).fpr, fpr);
    EXPECT_NEAR(method.expected_fpr(PlanMemory(method, 800, fpr), 1), fpr, 1e-14);
  }
  char text[200];
  method.describe(PlanMemory(method, 800, 0.01, "q=0.25"), text, sizeof text);
  EXPECT_EQ(std::string(text), "q=0.25 entries=100 entry_bytes=800 index_and_list_bytes=1608");
  for (const char* wrong : {"q=0", "q=0.6", "q=1"}) {
    Options options;
    EXPECT_EQ(ParseOptions(method, wrong, std::strlen(wrong), &options).status,
              OptionStatus::kBadValue);
  }
}

// ---- bytes from elsewhere ------------------------------------------------------------

// Any one bit of the links, and the number of keys. Bits of the hashes may make another
// filter of it.
TEST_P(Buffer, SeesBrokenLinks) {
  for (uint64_t held : {0, 1, 5, 9}) {
    Body body(Plan(9));
    for (uint64_t key = 0; key < held; ++key) body.Insert(HashOf(key));
    ASSERT_TRUE(Sound(body));
    for (size_t i = 0; i < body.bytes().size(); ++i) {
      if (i >= 8 && (i - 8) % 24 < 8 && (i - 8) / 24 < held) continue;  // a hash in use
      for (int bit = 0; bit < 8; ++bit) {
        body.bytes()[i] ^= static_cast<uint8_t>(1 << bit);
        EXPECT_FALSE(Sound(body)) << held << " byte " << i;
        body.bytes()[i] ^= static_cast<uint8_t>(1 << bit);
      }
    }
    const Method& method = Named(GetParam());
    for (uint32_t other = 0; other <= 9; ++other) {
      EXPECT_EQ(method.sound(body.shape(), Counters{0, other}, body.bytes().data()), other == held);
    }
  }
}

// No bits lead outside the body or go on for ever, and the counters stay valid.
TEST_P(Buffer, IsSafeWhateverItsBits) {
  Random random(9);
  const Method& method = Named(GetParam());
  for (int trial = 0; trial < 3000 / static_cast<int>(kThin); ++trial) {
    const Shape shape = Plan(1 + random.Below(40));
    const auto scribbled = [&](Counters* counters) {
      Bytes bytes(shape.bytes);
      const uint64_t kind = random.Below(5);
      for (size_t at = 0; at < bytes.size(); at += 4) {
        const auto noise = static_cast<uint32_t>(random.Next());
        const uint32_t word = kind == 0   ? 0
                              : kind == 1 ? ~uint32_t{0}
                              : kind == 2 ? noise
                              : kind == 3 ? noise % 41  // numbers of nodes, mostly
                                          : noise % 41 | (noise & uint32_t{1} << 31);
        StoreU32(bytes.data() + at, word);
      }
      counters->state = static_cast<uint32_t>(random.Below(shape.keys + 1));
      return bytes;
    };
    Counters counters, other_counters;
    Bytes bytes = scribbled(&counters), other = scribbled(&other_counters);
    method.sound(shape, counters, bytes.data());
    for (int i = 0; i < 60; ++i) {
      uint64_t hash = random.OneIn(2) ? random.Below(41) << 32 | random.Below(41) : random.Next();
      uint8_t seen = 2;
      method.contains(shape, counters, bytes.data(), &hash, 1, &seen);
      ASSERT_LE(seen, 1);
      switch (random.Below(4)) {
        case 0:
          method.forget(shape, &counters, bytes.data(), hash);
          break;
        case 1:
          method.insert(shape, &counters, bytes.data(), &hash, 1);
          break;
        case 2:
          method.test_and_add(shape, &counters, bytes.data(), &hash, 1, &seen);
          ASSERT_LE(seen, 1);
          break;
        default:
          if (i % 8 == 0) {
            method.merge(shape, &counters, bytes.data(), other_counters, other.data(),
                         {1 + static_cast<uint32_t>(random.Below(3)), 1});
          }
      }
      ASSERT_TRUE(method.valid(shape, counters));
      const Reading reading = method.read(shape, counters, bytes.data());
      ASSERT_TRUE(reading.count >= 0 && reading.fpr >= 0 && reading.fpr <= 1);
    }
  }
}

}  // namespace
}  // namespace dedup::test
