// cuckoo: against buckets of plain numbers that follow the oracle's rule; the closed forms
// of its rates; strict filters that are full, forget, and merge; bits of any kind.

#include "core/methods/cuckoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/random.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& Cuckoo() { return Named("cuckoo"); }

struct Parameters {
  uint64_t slots, bits, kicks, buckets;
  bool strict;
  uint64_t fingerprints() const { return (1ull << bits) - 1; }
  uint64_t all_slots() const { return slots * buckets; }
};

Parameters Of(const Shape& shape) {
  Parameters p = {shape.detail & 0xff, shape.detail >> 8 & 0xff, shape.detail >> 16 & 0xffff, 0,
                  (shape.detail >> 32) != 0};
  p.buckets = uint64_t{shape.bytes} * 8 / (p.slots * p.bits);
  return p;
}

// The rule, on vectors.
class Twin {
 public:
  explicit Twin(const Shape& shape)
      : shape_(shape), p_(Of(shape)), bucket_(p_.buckets, std::vector<uint64_t>(p_.slots)) {}

  uint64_t Fingerprint(uint64_t hash) const {
    return 1 + FastRange(Derived(hash, 0), p_.fingerprints());
  }
  uint64_t First(uint64_t hash) const { return FastRange(hash, p_.buckets); }
  uint64_t Partner(uint64_t bucket, uint64_t fingerprint) const {
    const uint64_t sum = FastRange(Derived(fingerprint, 0), p_.buckets);
    return (sum + p_.buckets - bucket) % p_.buckets;
  }
  uint64_t Copies(uint64_t hash) const {
    const uint64_t f = Fingerprint(hash), i = First(hash), j = Partner(i, f);
    const auto in = [&](uint64_t b) {
      return static_cast<uint64_t>(std::count(bucket_[b].begin(), bucket_[b].end(), f));
    };
    return in(i) + (i != j ? in(j) : 0);
  }
  bool Contains(uint64_t hash) const { return Copies(hash) > 0; }

  // Nothing: refused.
  std::optional<bool> TestAndAdd(uint64_t hash) {
    if (Contains(hash)) return true;
    if (!Add(hash)) return std::nullopt;
    return false;
  }
  bool Add(uint64_t hash) {
    if (!p_.strict) {
      Put(Fingerprint(hash), First(hash));
      ++count_;
      return true;
    }
    const auto before = bucket_;
    if (!Put(Fingerprint(hash), First(hash))) {
      bucket_ = before;
      return false;
    }
    ++count_;
    return true;
  }
  bool Forget(uint64_t hash) {
    const uint64_t f = Fingerprint(hash), i = First(hash);
    for (uint64_t b : {i, Partner(i, f)}) {
      const auto at = std::find(bucket_[b].begin(), bucket_[b].end(), f);
      if (at == bucket_[b].end()) continue;
      *at = 0;
      --count_;
      return true;
    }
    return false;
  }

  Bytes Packed() const {
    Bytes bytes(shape_.bytes);
    uint64_t bit = 0;
    for (const auto& bucket : bucket_) {
      for (uint64_t fingerprint : bucket) {
        for (uint64_t i = 0; i < p_.bits; ++i, ++bit) {
          const uint64_t set = fingerprint >> i & 1;
          bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | set << bit % 8);
        }
      }
    }
    return bytes;
  }
  uint64_t count() const { return count_; }

 private:
  static bool FindRoom(std::vector<uint64_t>* bucket, uint64_t fingerprint) {
    const auto at = std::find(bucket->begin(), bucket->end(), 0u);
    if (at == bucket->end()) return false;
    *at = fingerprint;
    return true;
  }
  bool Put(uint64_t hand, uint64_t i) {
    const uint64_t j = Partner(i, hand);
    if (FindRoom(&bucket_[i], hand) || FindRoom(&bucket_[j], hand)) return true;
    // Random choices are 16 bits each, from the low end of a draw; of one slot, none.
    StepRandom random(shape_.seed, count_);
    std::vector<uint64_t> choices;
    const auto choose = [&](uint64_t n) -> uint64_t {
      if (n == 1) return 0;
      if (choices.empty()) {
        const uint64_t word = random.Next();
        for (int shift = 48; shift >= 0; shift -= 16) choices.push_back(word >> shift & 0xffff);
      }
      const uint64_t choice = choices.back() * n / 65536;
      choices.pop_back();
      return choice;
    };
    uint64_t b = choose(2) == 0 ? i : j;
    for (uint64_t kick = 0; kick < p_.kicks; ++kick) {
      std::swap(hand, bucket_[b][choose(p_.slots)]);
      b = Partner(b, hand);
      if (FindRoom(&bucket_[b], hand)) return true;
    }
    return false;
  }

  Shape shape_;
  Parameters p_;
  std::vector<std::vector<uint64_t>> bucket_;
  uint64_t count_ = 0;
};

struct Case {
  uint64_t memory;
  double fpr;
  const char* options;
};
const Case kCases[] = {
    {8, 0.5, "slots=1"},
    {16, 0.1, "slots=2 kicks=1"},
    {48, 0.01, ""},
    {1000, 0.01, ""},
    {1000, 0.01, "slots=1 bits=3 kicks=500"},
    {1000, 1e-9, "slots=8"},
    {2000, 1e-4, "slots=3 kicks=7"},
    {400, 0.01, "slots=8 bits=2"},
    {16, 0.1, "slots=2 strict=on"},
    {48, 0.01, "strict=on"},
    {1000, 0.01, "strict=on"},
    {1000, 1e-9, "strict=on slots=8 kicks=1000"},
    {2000, 1e-4, "strict=on slots=3 kicks=20"},
    {1000, 0.3, "strict=on slots=1"},
};

std::vector<uint64_t> Hashes(uint64_t from, uint64_t n, uint64_t seed) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t i = 0; i < n; ++i) hashes[i] = HashOf(from + i, seed);
  return hashes;
}
double Found(const Body& body, const std::vector<uint64_t>& hashes) {
  uint64_t found = 0;
  for (uint64_t hash : hashes) found += body.Contains(hash);
  return static_cast<double>(found) / static_cast<double>(hashes.size());
}

// ---- sizes --------------------------------------------------------------------------

TEST(Cuckoo, PlanFollowsTheOracle) {
  // N = floor(M / (slots bits)), and the fewest bits for which 2 slots / (2^f - 1) <= fpr.
  const struct {
    double fpr;
    const char* options;
    uint64_t slots, bits, kicks;
  } expected[] = {
      {0.01, "", 4, 10, 20},           {0.01, "bits=3 slots=1 kicks=500", 1, 3, 500},
      {0.001, "", 4, 13, 20},          {0.1, "slots=1", 1, 5, 20},
      {0.01, "slots=2", 2, 9, 20},     {1e-9, "", 4, 33, 20},
      {0.01, "strict=on", 4, 10, 500}, {0.01, "strict=on kicks=30", 4, 10, 30},
  };
  for (const auto& e : expected) {
    for (uint64_t memory : {131072, 131079, 100, 1 << 20}) {
      const Shape shape = PlanMemory(Cuckoo(), memory, e.fpr, e.options);
      const Parameters p = Of(shape);
      EXPECT_EQ(shape.bytes, memory / 8 * 8);
      EXPECT_EQ(p.slots, e.slots);
      EXPECT_EQ(p.bits, e.bits);
      EXPECT_EQ(p.kicks, e.kicks);
      EXPECT_EQ(p.buckets, memory / 8 * 64 / (e.slots * e.bits));
      EXPECT_EQ(shape.keys == p.all_slots(), !p.strict);
      EXPECT_LE(shape.keys, p.all_slots());
    }
  }
  // The oracle's row uses all but one of 1048576 bits.
  EXPECT_EQ(Of(PlanMemory(Cuckoo(), 131072, 0.01, "slots=1 bits=3")).buckets, 1048575u / 3);
  // 0.94 of the slots with four of them (Fan et al. reach 0.95), less in small tables.
  const Shape strict = PlanMemory(Cuckoo(), 1 << 20, 0.01, "strict=on");
  const double slots = static_cast<double>(Of(strict).all_slots());
  EXPECT_NEAR(static_cast<double>(strict.keys), 0.94 * slots, 0.002 * slots);
}

TEST(Cuckoo, PlanByKeysTakesTheLeastMemory) {
  for (const char* options : {"", "strict=on", "slots=1 bits=3", "strict=on slots=2"}) {
    for (uint64_t keys : {1, 10, 1000, 123456}) {
      const Shape shape = PlanKeys(Cuckoo(), keys, 0.01, options);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(PlanMemory(Cuckoo(), shape.bytes, 0.01, options).keys, keys);
      if (shape.bytes > 16) {
        EXPECT_LT(PlanMemory(Cuckoo(), shape.bytes - 8, 0.01, options).keys, keys);
      }
    }
  }
}

TEST(Cuckoo, PlanRefusesWhatCannotBe) {
  Request request;
  Shape shape;
  request.memory = 7;
  EXPECT_EQ(PlanFilter(Cuckoo(), request, 0, &shape), PlanStatus::kMemoryTooSmall);
  request.memory = 32;  // no bucket of 8 x 33 bits
  request.options = OptionsFrom(Cuckoo(), "slots=8 bits=33");
  EXPECT_EQ(PlanFilter(Cuckoo(), request, 0, &shape), PlanStatus::kMemoryTooSmall);
  request.memory = 40;
  EXPECT_EQ(PlanFilter(Cuckoo(), request, 0, &shape), PlanStatus::kOk);
  request.memory = kMaxBodyBytes + 8;
  EXPECT_EQ(PlanFilter(Cuckoo(), request, 0, &shape), PlanStatus::kTooLarge);
  request.memory = 0;
  request.keys = kMaxKeys;
  EXPECT_EQ(PlanFilter(Cuckoo(), request, 0, &shape), PlanStatus::kTooLarge);
}

TEST(Cuckoo, ValidRefusesWhatPlanDoesNotMake) {
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Cuckoo(), c.memory, c.fpr, c.options);
    const Parameters p = Of(shape);
    EXPECT_TRUE(Cuckoo().valid(shape, {p.all_slots(), 0}));
    EXPECT_EQ(Cuckoo().valid(shape, {p.all_slots() + 1, 0}), !p.strict);
    EXPECT_FALSE(Cuckoo().valid(shape, {0, 1}));
    for (uint64_t detail : {shape.detail & ~uint64_t{0xff}, shape.detail & ~uint64_t{0xff00},
                            shape.detail & ~uint64_t{0xffff0000}, shape.detail | uint64_t{1} << 33,
                            shape.detail | 0xff, shape.detail | 0xff00, shape.detail | 0xffff0000,
                            uint64_t{0}, ~uint64_t{0}}) {
      Shape wrong = shape;
      wrong.detail = detail;
      EXPECT_FALSE(Cuckoo().valid(wrong, {})) << detail;
    }
    Shape wrong = shape;
    wrong.bytes += 4;
    EXPECT_FALSE(Cuckoo().valid(wrong, {}));
    wrong = shape;
    wrong.keys = p.all_slots() + 1;
    EXPECT_FALSE(Cuckoo().valid(wrong, {}));
  }
}

// ---- keys ---------------------------------------------------------------------------

TEST(Cuckoo, AgreesWithTheRule) {
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Cuckoo(), c.memory, c.fpr, c.options, 5);
    const Parameters p = Of(shape);
    Body body(shape);
    Twin twin(shape);
    Random random(6);
    const uint64_t keys = 1 + 2 * p.all_slots();
    for (uint64_t i = 0; i < 8000 / kThin; ++i) {
      const uint64_t hash = HashOf(random.Below(keys), 7);
      const uint64_t operation = random.Below(12);
      if (operation < 8) {
        uint8_t seen = 2;
        const bool taken = body.Try(&hash, 1, &seen) == 1;
        const std::optional<bool> expected = twin.TestAndAdd(hash);
        ASSERT_EQ(taken, expected.has_value()) << NameOf(shape) << " at " << i;
        ASSERT_EQ(taken && seen != 0, expected.value_or(false)) << NameOf(shape) << " at " << i;
      } else if (operation < 9) {
        Counters counters = body.counters();
        const bool again = p.strict || !twin.Contains(hash);
        const size_t expected = !again || twin.Add(hash) ? 1 : 0;
        // Body::Insert wants it taken.
        if (expected == 1) {
          body.Insert(hash);
        } else {
          ASSERT_EQ(Cuckoo().insert(shape, &counters, body.bytes().data(), &hash, 1), 0u);
          ASSERT_EQ(counters.count, body.counters().count);
        }
      } else if (operation < 11) {
        ASSERT_EQ(body.Contains(hash), twin.Contains(hash));
      } else if (p.strict) {
        ASSERT_EQ(body.Forget(hash), twin.Forget(hash));
      } else {
        ASSERT_FALSE(body.Forget(hash));
      }
      ASSERT_EQ(body.counters().count, twin.count());
      ASSERT_TRUE(Cuckoo().valid(shape, body.counters()));
      if (i % 50 == 0) {
        ASSERT_EQ(body.bytes(), twin.Packed()) << NameOf(shape) << " at " << i;
        ASSERT_TRUE(Cuckoo().sound(shape, body.counters(), body.bytes().data()));
      }
    }
  }
}

TEST(Cuckoo, BatchesAreKeysOneByOne) {
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Cuckoo(), c.memory, c.fpr, c.options, 1);
    Random random(8);
    std::vector<uint64_t> hashes(3000);
    for (uint64_t& hash : hashes) hash = HashOf(random.Below(shape.keys * 2), 8);
    Body one(shape), many(shape);
    for (size_t i = 0; i < hashes.size();) {
      const size_t batch = std::min<size_t>(1 + random.Below(300), hashes.size() - i);
      std::vector<uint8_t> seen(batch, 9);
      const size_t taken = many.Try(&hashes[i], batch, seen.data());
      for (size_t j = 0; j < taken; ++j) ASSERT_EQ(one.TestAndAdd(hashes[i + j]), seen[j] != 0);
      if (taken < batch) {
        ASSERT_EQ(seen[taken], 9);
        ASSERT_EQ(one.Try(&hashes[i + taken], 1, &seen[taken]), 0u);
        ++i;  // the refused one
      }
      i += taken;
      ASSERT_EQ(one.bytes(), many.bytes());
    }
  }
}

// At saturation a new key is called a duplicate at 2 slots / (2^f - 1), and a duplicate of
// long ago new at 1 less that, whatever the kicks. Within 4 standard errors of the
// trials (and, as the table stays while it is asked, of the table's own fill).
TEST(Cuckoo, SaturatedRatesAreTheClosedForm) {
  for (const char* options :
       {"slots=1 bits=3 kicks=2", "slots=1 bits=3 kicks=20", "slots=1 bits=3 kicks=500",
        "slots=4 bits=7", "slots=2 bits=10", "slots=8 bits=12"}) {
    const Shape shape = PlanMemory(Cuckoo(), 4096, 0.01, options, 2);
    const Parameters p = Of(shape);
    Body body(shape);
    const uint64_t warm = 6 * p.all_slots(), asked = 100000 / kThin;
    for (uint64_t hash : Hashes(0, warm, 9)) body.TestAndAdd(hash);
    uint64_t duplicates = 0;
    for (uint64_t hash : Hashes(warm, asked, 9)) duplicates += body.TestAndAdd(hash);
    const double rate = 2.0 * static_cast<double>(p.slots) / static_cast<double>(p.fingerprints());
    const double error = std::sqrt(rate * (1 - rate) / static_cast<double>(asked));
    // In 1 of N cases both buckets are one.
    const double expected = rate * (1 - 0.5 / static_cast<double>(p.buckets));
    EXPECT_NEAR(static_cast<double>(duplicates) / static_cast<double>(asked), expected, 4 * error)
        << NameOf(shape);
    EXPECT_NEAR(Cuckoo().expected_fpr(shape, static_cast<double>(shape.keys)), expected, 1e-9);
    EXPECT_NEAR(body.Read().fpr, expected, 0.01 * expected);
    // Keys of long ago are like new ones.
    const double found = Found(body, Hashes(0, p.all_slots(), 9));
    const double n = static_cast<double>(p.all_slots());
    // Of age 5 m and more: exp(-5) of what was there is there still.
    EXPECT_NEAR(found, expected, 4 * std::sqrt(expected / n) + std::exp(-5.0)) << NameOf(shape);
  }
}

// The oracle's table A.3, cuckoo at 1e4 bits and 88.82 % duplicates: 28.54 / 71.49 %, with
// alphabet and memory scaled by 15 as there, on a tenth of the stream.
TEST(Cuckoo, ArtificialStreamsAreTheOraclesRow) {
  for (const char* kicks : {"slots=1 bits=3 kicks=2", "slots=1 bits=3 kicks=20"}) {
    const uint64_t n = 1000000 / kThin, alphabet = (uint64_t{1} << 24) / 15;
    const Shape shape = PlanMemory(Cuckoo(), 10000 / 15 / 8, 0.01, kicks, 3);
    Body body(shape);
    Random random(3);
    std::vector<bool> seen(alphabet);
    uint64_t fresh = 0, duplicates = 0, false_positives = 0, false_negatives = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t key = random.Below(alphabet);
      const bool duplicate = body.TestAndAdd(HashOf(key, 3));
      ++(seen[key] ? duplicates : fresh);
      false_positives += !seen[key] && duplicate;
      false_negatives += seen[key] && !duplicate;
      seen[key] = true;
    }
    const double fpr = static_cast<double>(false_positives) / static_cast<double>(fresh);
    const double fnr = static_cast<double>(false_negatives) / static_cast<double>(duplicates);
    // Within 4 standard errors of the trials; a small table's fill adds next to nothing.
    const auto error = [](double rate, uint64_t trials) {
      return 4 * std::sqrt(rate * (1 - rate) / static_cast<double>(trials));
    };
    EXPECT_NEAR(fpr, 0.2854, error(fpr, fresh)) << kicks;
    EXPECT_NEAR(fnr, 0.7149, error(fnr, duplicates)) << kicks;
  }
}

// Of the last m distinct keys, on a stream of such. With one kick what is dropped is one of
// all at random: (1 - fpr) / e. More kicks drop young ones more often, with few slots.
TEST(Cuckoo, MissedIsWhatAFullStreamFilterMisses) {
  for (const char* options :
       {"bits=16 kicks=1", "slots=1 bits=3 kicks=1", "slots=2 bits=3 kicks=1", "bits=16",
        "slots=1 bits=3", "slots=1 bits=12 kicks=100", "slots=2 bits=12", "slots=8 bits=6"}) {
    const Shape shape = PlanMemory(Cuckoo(), 40000 / kThin, 0.01, options, 4);
    const Parameters p = Of(shape);
    const uint64_t m = shape.keys;
    Body body(shape);
    for (uint64_t hash : Hashes(0, 5 * m, 10)) body.TestAndAdd(hash);
    const double missed = 1 - Found(body, Hashes(4 * m, m, 10));
    const double fpr = 2.0 * static_cast<double>(p.slots) / static_cast<double>(p.fingerprints());
    const double uniform = (1 - fpr) * std::exp(-1.0);
    // The spread of m draws, and of how many were dropped of each age.
    const double error = std::sqrt(uniform * (1 - uniform) / static_cast<double>(m));
    EXPECT_NEAR(missed, Cuckoo().missed(shape), 5 * error + 0.05 * uniform) << options;
    if (p.kicks == 1) {
      EXPECT_NEAR(Cuckoo().missed(shape), uniform, 0.001) << options;
      EXPECT_NEAR(missed, uniform, 5 * error + 0.02 * uniform) << options;
    }
  }
  EXPECT_EQ(Cuckoo().missed(PlanMemory(Cuckoo(), 40000, 0.01, "strict=on")), 0);
}

TEST(Cuckoo, ReadingEstimatesDistinctKeys) {
  for (const char* options : {"bits=6", "strict=on bits=6", "slots=2 bits=12"}) {
    const Shape shape = PlanMemory(Cuckoo(), 100000, 0.01, options, 4);
    for (double fill : {0.1, 0.5, 0.8}) {
      Body body(shape);
      const double n = std::floor(fill * static_cast<double>(shape.keys));
      for (uint64_t hash : Hashes(0, static_cast<uint64_t>(n), 11)) body.TestAndAdd(hash);
      EXPECT_NEAR(body.Read().count, n, 0.01 * n) << options;
      EXPECT_LE(body.Read().fpr,
                Cuckoo().expected_fpr(shape, static_cast<double>(shape.keys)) + 1e-12);
    }
  }
}

// ---- strict -------------------------------------------------------------------------

TEST(Cuckoo, StrictHoldsItsKeysAndForgetsThemOneByOne) {
  for (const char* options : {"strict=on", "strict=on slots=2", "strict=on slots=3",
                              "strict=on slots=8", "strict=on slots=4 bits=20"}) {
    for (uint64_t seed = 0; seed < 20 / kThin; ++seed) {
      const Shape shape = PlanMemory(Cuckoo(), 2000, 0.02, options, seed);
      Body body(shape);
      std::vector<uint64_t> added;
      for (uint64_t key = 0; body.counters().count < shape.keys; ++key) {
        const uint64_t hash = HashOf(key, seed);
        if (!body.TestAndAdd(hash)) added.push_back(hash);
      }
      EXPECT_EQ(Found(body, added), 1) << NameOf(shape);
      for (size_t i = 0; i < added.size(); ++i) {
        ASSERT_TRUE(body.Forget(added[i]));
        if (i % 100 == 0) {
          for (size_t j = i + 1; j < added.size(); ++j) ASSERT_TRUE(body.Contains(added[j]));
        }
      }
      EXPECT_EQ(body.bytes(), Bytes(shape.bytes));
      EXPECT_EQ(body.counters().count, 0u);
    }
  }
}

TEST(Cuckoo, StrictRefusesWhenFullAndChangesNothing) {
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Cuckoo(), c.memory, c.fpr, c.options, 1);
    if (!Of(shape).strict) continue;
    Body body(shape);
    std::vector<uint64_t> taken;
    uint64_t refused = 0;
    for (uint64_t key = 0; refused < 20; ++key) {
      ASSERT_LT(key, 100 * Of(shape).all_slots() + 1000);
      const uint64_t hash = HashOf(key, 12);
      const Bytes before = body.bytes();
      const Counters counters = body.counters();
      uint8_t seen = 5;
      if (body.Try(&hash, 1, &seen) == 1) {
        taken.push_back(hash);
        continue;
      }
      ++refused;
      ASSERT_EQ(seen, 5);
      ASSERT_EQ(body.bytes(), before);
      ASSERT_EQ(body.counters().count, counters.count);
      ASSERT_FALSE(body.Contains(hash));
    }
    EXPECT_EQ(Found(body, taken), 1);
  }
}

TEST(Cuckoo, StrictKeepsCopiesOfWhatIsInserted) {
  const Shape shape = PlanMemory(Cuckoo(), 1000, 0.01, "strict=on");
  const Twin twin(shape);
  uint64_t hash = HashOf(1);
  while (twin.First(hash) == twin.Partner(twin.First(hash), twin.Fingerprint(hash))) ++hash;
  Body body(shape);
  for (int i = 0; i < 8; ++i) body.Insert(hash);
  Counters counters = body.counters();
  const Bytes before = body.bytes();
  EXPECT_EQ(Cuckoo().insert(shape, &counters, body.bytes().data(), &hash, 1), 0u);
  EXPECT_EQ(body.bytes(), before);
  EXPECT_TRUE(body.TestAndAdd(hash));
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(body.Forget(hash));
  EXPECT_FALSE(body.Forget(hash));
  // A stream filter keeps one.
  Body stream(PlanMemory(Cuckoo(), 1000, 0.01));
  stream.Insert(hash);
  const Bytes once = stream.bytes();
  stream.Insert(hash);
  EXPECT_EQ(stream.bytes(), once);
}

TEST(Cuckoo, OnlyStrictForgets) {
  EXPECT_TRUE(Cuckoo().can_forget(PlanMemory(Cuckoo(), 1000, 0.01, "strict=on")));
  EXPECT_FALSE(Cuckoo().can_forget(PlanMemory(Cuckoo(), 1000, 0.01)));
  EXPECT_EQ(Cuckoo().remembers(PlanMemory(Cuckoo(), 1000, 0.01, "strict=on")), Remembers::kAll);
  EXPECT_EQ(Cuckoo().remembers(PlanMemory(Cuckoo(), 1000, 0.01)), Remembers::kByChance);
}

// ---- merges -------------------------------------------------------------------------

TEST(Cuckoo, StrictMergeIsTheUnion) {
  for (const char* options : {"strict=on", "strict=on slots=2", "strict=on bits=5"}) {
    const Shape shape = PlanMemory(Cuckoo(), 4000, 0.02, options, 2);
    const Twin twin(shape);
    Random random(13);
    for (int round = 0; round < 20; ++round) {
      // A fingerprint and its two buckets; copies in each input.
      std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, uint64_t>> copies;
      Body a(shape), b(shape);
      const uint64_t n = random.Below(shape.keys / 2);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t left = HashOf(random.Below(2 * n), 14),
                       right = HashOf(random.Below(2 * n), 14);
        const auto name = [&](uint64_t hash) {
          const uint64_t f = twin.Fingerprint(hash), at = twin.First(hash);
          return std::make_pair(f, std::min(at, twin.Partner(at, f)));
        };
        // Copies of some, two at most: far from what two buckets hold.
        if (copies[name(left)].first < 2) {
          a.Insert(left);
          ++copies[name(left)].first;
        }
        if (copies[name(right)].second < 2) {
          b.Insert(right);
          ++copies[name(right)].second;
        }
      }
      a.Merge(b);
      uint64_t total = 0;
      for (const auto& [name, counts] : copies) total += std::max(counts.first, counts.second);
      EXPECT_EQ(a.counters().count, total);
      EXPECT_TRUE(Cuckoo().sound(shape, a.counters(), a.bytes().data()));
      for (uint64_t i = 0; i < 2 * n; ++i) {
        const uint64_t hash = HashOf(i, 14), f = twin.Fingerprint(hash), at = twin.First(hash);
        const auto it = copies.find({f, std::min(at, twin.Partner(at, f))});
        ASSERT_EQ(a.Contains(hash), it != copies.end());
      }
      // And as many copies of each as that.
      for (uint64_t i = 0; i < 2 * n; ++i) {
        const uint64_t hash = HashOf(i, 14), f = twin.Fingerprint(hash), at = twin.First(hash);
        const auto it = copies.find({f, std::min(at, twin.Partner(at, f))});
        if (it == copies.end()) continue;
        for (uint64_t c = std::max(it->second.first, it->second.second); c > 0; --c) {
          ASSERT_TRUE(a.Forget(hash));
        }
        ASSERT_FALSE(a.Forget(hash));
        copies.erase(it);
      }
      EXPECT_EQ(a.bytes(), Bytes(shape.bytes));
    }
  }
}

TEST(Cuckoo, StrictMergeSaysWhenItIsFull) {
  const Shape shape = PlanMemory(Cuckoo(), 4000, 0.001, "strict=on");
  Body a(shape), b(shape);
  a.Insert(Hashes(0, shape.keys * 3 / 4, 15).data(), shape.keys * 3 / 4);
  b.Insert(Hashes(shape.keys, shape.keys * 3 / 4, 15).data(), shape.keys * 3 / 4);
  Counters counters = a.counters();
  EXPECT_FALSE(Cuckoo().merge(shape, &counters, a.bytes().data(), b.counters(), b.bytes().data(),
                              Weights{}));
  EXPECT_TRUE(Cuckoo().valid(shape, counters));
}

// A full filter holds m fingerprints; the merge keeps m of the two's, each equally likely by
// weight: ours with probability w m / (w m + v m), theirs with v m / (w m + v m). Then a
// window of m new keys leaves exp(-1) of them.
TEST(Cuckoo, StreamMergeIsAFairSample) {
  for (const auto& [left, right] : {std::pair{1u, 1u}, std::pair{3u, 1u}, std::pair{10u, 1u}}) {
    const Shape shape = PlanMemory(Cuckoo(), 40000, 0.01, "bits=18", 3);
    const uint64_t m = shape.keys;
    Body a(shape), b(shape);
    const std::vector<uint64_t> ours = Hashes(0, 2 * m, 16), theirs = Hashes(2 * m, 2 * m, 16);
    for (uint64_t hash : ours) a.TestAndAdd(hash);
    for (uint64_t hash : theirs) b.TestAndAdd(hash);
    std::vector<uint64_t> in_a, in_b;
    for (uint64_t hash : ours) {
      if (a.Contains(hash)) in_a.push_back(hash);
    }
    for (uint64_t hash : theirs) {
      if (b.Contains(hash)) in_b.push_back(hash);
    }
    a.Merge(b, Weights{left, right});
    const double share = static_cast<double>(left) / (left + right);
    const double error = std::sqrt(share * (1 - share) / static_cast<double>(m));
    EXPECT_NEAR(Found(a, in_a), share, 5 * error + 0.005) << left;
    EXPECT_NEAR(Found(a, in_b), 1 - share, 5 * error + 0.005) << left;
    const double rate = Cuckoo().expected_fpr(shape, static_cast<double>(m));
    EXPECT_LE(Found(a, Hashes(10 * m, 200000 / kThin, 16)), rate + 4 * std::sqrt(rate / 40000));
    for (uint64_t hash : Hashes(5 * m, m, 16)) a.TestAndAdd(hash);
    EXPECT_NEAR(Found(a, in_a), share * std::exp(-1.0), 5 * error + 0.01) << left;
    EXPECT_LE(Found(a, Hashes(10 * m, 200000 / kThin, 16)), rate + 4 * std::sqrt(rate / 40000));
  }
}

// Two that fit together lose nothing but what the kicks do.
TEST(Cuckoo, StreamMergeOfHalfFullFiltersKeepsAll) {
  const Shape shape = PlanMemory(Cuckoo(), 40000, 0.01, "", 3);
  const uint64_t n = shape.keys * 40 / 100;
  Body a(shape), b(shape);
  for (uint64_t hash : Hashes(0, n, 17)) a.TestAndAdd(hash);
  for (uint64_t hash : Hashes(n, n, 17)) b.TestAndAdd(hash);
  a.Merge(b);
  EXPECT_GE(Found(a, Hashes(0, 2 * n, 17)), 0.999);
  Body again = a;
  again.Merge(a);
  EXPECT_EQ(again.bytes(), a.bytes());
}

// ---- any bits -----------------------------------------------------------------------

TEST(Cuckoo, AnyBitsAreSafe) {
  Random random(18);
  for (uint64_t round = 0; round < 1000 / kThin; ++round) {
    const Case& c = kCases[random.Below(std::size(kCases))];
    const Shape shape = PlanMemory(Cuckoo(), c.memory, c.fpr, c.options, round);
    const auto make = [&] {
      Bytes bytes(shape.bytes);
      const uint64_t kind = random.Below(4);
      for (size_t i = 0; i < bytes.size(); ++i) {
        const uint64_t noise = random.Next();
        bytes[i] = static_cast<uint8_t>(kind == 0   ? noise
                                        : kind == 1 ? 0xff
                                        : kind == 2 ? noise & noise >> 8 & noise >> 16
                                                    : 0);
      }
      return bytes;
    };
    Bytes body = make();
    const Bytes other = make();
    Counters counters;
    counters.count = random.Below(Of(shape).all_slots() + 1);
    for (int i = 0; i < 10; ++i) {
      const uint64_t hash = random.Next();
      uint8_t seen = 0;
      Cuckoo().contains(shape, counters, body.data(), &hash, 1, &seen);
      EXPECT_LE(seen, 1);
      Cuckoo().test_and_add(shape, &counters, body.data(), &hash, 1, &seen);
      Cuckoo().insert(shape, &counters, body.data(), &hash, 1);
      Cuckoo().forget(shape, &counters, body.data(), hash);
      Cuckoo().sound(shape, counters, body.data());
      ASSERT_TRUE(Cuckoo().valid(shape, counters));
    }
    Cuckoo().merge(shape, &counters, body.data(), counters, other.data(), {});
    ASSERT_TRUE(Cuckoo().valid(shape, counters));
    const Reading reading = Cuckoo().read(shape, counters, body.data());
    EXPECT_GE(reading.count, 0);
    EXPECT_TRUE(std::isfinite(reading.count));
    EXPECT_TRUE(reading.fpr >= 0 && reading.fpr <= 1);
  }
}

}  // namespace
}  // namespace dedup::test
