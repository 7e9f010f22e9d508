// quotient: against an exact multiset of fingerprints; its bytes against a table laid out
// from the paper's rules; growth, being full, forgetting, merging, and bits that are no table.

#include "core/methods/quotient.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& Quotient() { return Named("quotient"); }

unsigned FingerprintBits(const Shape& shape) { return shape.detail & 0xff; }
unsigned TopQ(const Shape& shape) { return shape.detail >> 8 & 0xff; }
unsigned StartQ(const Shape& shape) {
  // 256 slots, or all that fit; a slot's remainder has at most 54 bits.
  const int least = static_cast<int>(FingerprintBits(shape)) - 54;
  return static_cast<unsigned>(std::max(least, static_cast<int>(std::min(TopQ(shape), 8u))));
}
unsigned QNow(const Body& body) { return StartQ(body.shape()) + body.counters().state; }
uint64_t Fingerprint(const Shape& shape, uint64_t hash) {
  return hash >> (64 - FingerprintBits(shape));
}
uint64_t LimitAt(unsigned q) { return std::max<uint64_t>(1, (uint64_t{9} << q) / 10); }
uint64_t SlotsAt(unsigned q) { return (1ull << q) + std::min<uint64_t>(128, (1ull << q) / 2); }

// The bytes of a table that holds these fingerprints, bit by bit.
Bytes LaidOut(const std::multiset<uint64_t>& fingerprints, const Shape& shape, unsigned q) {
  const unsigned r = FingerprintBits(shape) - q;
  struct Slot {
    bool used = false, occupied = false, continuation = false, shifted = false;
    uint64_t remainder = 0;
  };
  std::vector<Slot> slots(SlotsAt(q));
  uint64_t free = 0, last = ~0ull;
  for (uint64_t fingerprint : fingerprints) {
    const uint64_t quotient = fingerprint >> r;
    free = std::max(free, quotient);
    if (free >= slots.size()) {
      ADD_FAILURE() << "pushed out of the table";
      break;
    }
    slots[free].used = true;
    slots[free].remainder = fingerprint & ((1ull << r) - 1);
    slots[free].shifted = free != quotient;
    slots[free].continuation = quotient == last;
    slots[quotient].occupied = true;
    last = quotient;
    ++free;
  }
  Bytes bytes(shape.bytes);
  uint64_t bit = 0;
  const auto put = [&](uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i, ++bit) {
      if (value >> i & 1) bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | 1 << bit % 8);
    }
  };
  for (const Slot& slot : slots) {
    EXPECT_TRUE(slot.used || !slot.occupied);
    put(slot.occupied, 1);
    put(slot.continuation, 1);
    put(slot.shifted, 1);
    put(slot.remainder, r);
  }
  return bytes;
}

std::multiset<uint64_t> FingerprintsOf(const Shape& shape, const std::vector<uint64_t>& hashes,
                                       bool copies) {
  std::multiset<uint64_t> result;
  for (uint64_t hash : hashes) {
    const uint64_t fingerprint = Fingerprint(shape, hash);
    if (copies || result.count(fingerprint) == 0) result.insert(fingerprint);
  }
  return result;
}

std::vector<uint64_t> Hashes(uint64_t n, uint64_t seed) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t i = 0; i < n; ++i) hashes[i] = HashOf(i, seed);
  return hashes;
}

bool Sound(const Body& body) {
  return Quotient().sound(body.shape(), body.counters(), body.bytes().data());
}
bool Valid(const Body& body) { return Quotient().valid(body.shape(), body.counters()); }

struct Size {
  uint64_t memory;
  double fpr;
};
const Size kSizes[] = {{8, 0.5},     {8, 0.01},     {16, 0.1},    {40, 0.01},
                       {100, 1e-9},  {200, 0.001},  {1000, 0.5},  {1000, 0.01},
                       {4096, 1e-4}, {20000, 0.01}, {20000, 1e-9}};

// ---- sizes --------------------------------------------------------------------------

// Of all tables that fit, 2^q slots of r + 3 bits, the one that keeps 1 - exp(-n / 2^(q + r))
// at the rate for the most n up to its full load; p is the least that these keys need.
TEST(Quotient, PlanTakesTheTableForTheMostKeys) {
  for (const Size& size : kSizes) {
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    EXPECT_EQ(shape.bytes, size.memory / 8 * 8);
    uint64_t most = 0;
    for (unsigned q = 1; q < 20; ++q) {
      for (unsigned r = 1; q + r <= 62; ++r) {
        if ((SlotsAt(q) * (r + 3) + 63) / 64 * 8 > shape.bytes) break;
        const double keys = std::ldexp(-std::log1p(-size.fpr), static_cast<int>(q + r));
        most = std::max(
            most, static_cast<uint64_t>(std::min<double>(keys, static_cast<double>(LimitAt(q)))));
      }
    }
    EXPECT_EQ(shape.keys, most) << NameOf(shape);
    const unsigned q = TopQ(shape), p = FingerprintBits(shape);
    EXPECT_LE((SlotsAt(q) * (p - q + 3) + 63) / 64 * 8, shape.bytes) << NameOf(shape);
    EXPECT_LE(shape.keys, LimitAt(q));
    const auto rate = [&](unsigned bits) {
      return -std::expm1(-std::ldexp(static_cast<double>(most), -static_cast<int>(bits)));
    };
    EXPECT_LE(rate(p), size.fpr);
    EXPECT_TRUE(p == q + 1 || rate(p - 1) > size.fpr) << NameOf(shape);
  }
  // By hand: 1 MiB at 0.01 has 2^19 slots of 7 + 3 bits (2^20 would take 10 Mbit), since
  // 471859 / 2^26 = 0.0070 and 471859 / 2^25 = 0.0141.
  const Shape shape = PlanMemory(Quotient(), 1 << 20, 0.01);
  EXPECT_EQ(shape.detail, 26u | 19 << 8);
  EXPECT_EQ(shape.keys, 471859u);
}

TEST(Quotient, UsedBytesNeverPassTheCeilingAndGrow) {
  for (const Size& size : kSizes) {
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    uint64_t before = 0;
    for (unsigned q = StartQ(shape); q <= TopQ(shape); ++q) {
      const Counters counters = {q == StartQ(shape) ? 0u : 1u, q - StartQ(shape)};
      ASSERT_TRUE(Quotient().valid(shape, counters)) << NameOf(shape) << " q=" << q;
      const uint64_t used = Quotient().used_bytes(shape, counters);
      EXPECT_EQ(used, (SlotsAt(q) * (FingerprintBits(shape) - q + 3) + 63) / 64 * 8);
      EXPECT_GE(used, 8u);
      EXPECT_GE(used, before);
      EXPECT_LE(used, shape.bytes);
      before = used;
    }
  }
}

TEST(Quotient, PlanByKeysTakesTheLeastMemory) {
  for (uint64_t keys : {1, 2, 3, 10, 230, 231, 1000, 100000, 5000000}) {
    for (double fpr : {0.5, 0.01, 1e-6}) {
      const Shape shape = PlanKeys(Quotient(), keys, fpr);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(LimitAt(TopQ(shape)), keys);
      EXPECT_LE(Quotient().expected_fpr(shape, static_cast<double>(keys)), fpr);
      const unsigned q = TopQ(shape);
      // In so few bytes more slots with less remainder may be the larger table.
      EXPECT_TRUE(shape.bytes <= 16 || LimitAt(q - 1) < keys) << NameOf(shape);
      EXPECT_EQ(shape.bytes, (SlotsAt(q) * (FingerprintBits(shape) - q + 3) + 63) / 64 * 8);
    }
  }
}

TEST(Quotient, PlanRefusesWhatCannotBe) {
  Request request;
  Shape shape;
  request.memory = 7;
  EXPECT_EQ(PlanFilter(Quotient(), request, 0, &shape), PlanStatus::kMemoryTooSmall);
  request.memory = kMaxBodyBytes + 8;
  EXPECT_EQ(PlanFilter(Quotient(), request, 0, &shape), PlanStatus::kTooLarge);
  request.memory = 0;
  request.keys = kMaxKeys;
  EXPECT_EQ(PlanFilter(Quotient(), request, 0, &shape), PlanStatus::kTooLarge);
  // The remainder sets the rate where it is given.
  const Shape given = PlanMemory(Quotient(), 1 << 16, 0.01, "r=12");
  EXPECT_EQ(FingerprintBits(given) - TopQ(given), 12u);
  EXPECT_NEAR(given.fpr, 0.9 / 4096, 1e-5);
  const Shape largest = PlanMemory(Quotient(), kMaxBodyBytes, 0.01);
  EXPECT_EQ(TopQ(largest), 28u);
}

TEST(Quotient, ValidRefusesWhatPlanDoesNotMake) {
  const Shape shape = PlanMemory(Quotient(), 4096, 0.01);
  const unsigned steps = TopQ(shape) - StartQ(shape);
  EXPECT_TRUE(Quotient().valid(shape, {}));
  EXPECT_TRUE(Quotient().valid(shape, {LimitAt(TopQ(shape)), steps}));
  EXPECT_FALSE(Quotient().valid(shape, {LimitAt(TopQ(shape)) + 1, steps}));
  EXPECT_FALSE(Quotient().valid(shape, {1, steps + 1}));
  EXPECT_FALSE(Quotient().valid(shape, {0, 1}));
  EXPECT_FALSE(Quotient().valid(shape, {LimitAt(StartQ(shape)) + 1, 0}));
  for (uint64_t detail : {uint64_t{0}, shape.detail | 1 << 16, shape.detail + (1 << 8),
                          (shape.detail & 0xff00) | 63, uint64_t{9 | 9 << 8}, ~uint64_t{0}}) {
    Shape wrong = shape;
    wrong.detail = detail;
    EXPECT_FALSE(Quotient().valid(wrong, {})) << detail;
  }
  Shape wrong = shape;
  wrong.bytes = 4092;
  EXPECT_FALSE(Quotient().valid(wrong, {}));
  wrong.bytes = 8;
  EXPECT_FALSE(Quotient().valid(wrong, {}));
}

// ---- keys ---------------------------------------------------------------------------

// Every answer, every count, and (now and then) every bit.
TEST(Quotient, AgreesWithASetOfFingerprints) {
  for (const Size& size : kSizes) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr, "", seed);
      Body body(shape);
      Random random(seed);
      std::multiset<uint64_t> twin;
      const uint64_t keys = 1 + random.Below(2 * shape.keys + 8);
      const uint64_t operations = 20000 / kThin;
      unsigned q = StartQ(shape);
      for (uint64_t i = 0; i < operations; ++i) {
        const uint64_t hash = HashOf(random.Below(keys), seed);
        const uint64_t fingerprint = Fingerprint(shape, hash);
        const bool there = twin.count(fingerprint) > 0;
        const uint64_t operation = random.Below(10);
        if (operation < 6) {
          uint8_t seen = 2;
          const size_t taken = body.Try(&hash, 1, &seen);
          ASSERT_EQ(taken, there || twin.size() < LimitAt(TopQ(shape)) ? 1u : 0u) << NameOf(shape);
          if (taken == 1) {
            ASSERT_EQ(seen, there);
            if (!there) twin.insert(fingerprint);
          }
        } else if (operation < 7) {
          if (twin.size() < LimitAt(TopQ(shape)) && twin.count(fingerprint) < 20) {
            body.Insert(hash);
            twin.insert(fingerprint);
          }
        } else if (operation < 9) {
          ASSERT_EQ(body.Forget(hash), there);
          if (there) twin.erase(twin.find(fingerprint));
        } else {
          ASSERT_EQ(body.Contains(hash), there);
        }
        if (twin.empty()) q = StartQ(shape);
        while (twin.size() > LimitAt(q)) ++q;
        ASSERT_EQ(body.counters().count, twin.size());
        ASSERT_EQ(QNow(body), q);
        ASSERT_TRUE(Valid(body));
        if (i % 97 == 0 || size.memory <= 40) {
          ASSERT_TRUE(Sound(body));
          if (size.memory <= 4096 || i % 970 == 0) {
            ASSERT_EQ(body.bytes(), LaidOut(twin, shape, q));
          }
        }
      }
    }
  }
}

TEST(Quotient, TheSameKeysGiveTheSameBytesInAnyOrder) {
  const Shape shape = PlanMemory(Quotient(), 20000, 0.01);
  std::vector<uint64_t> hashes = Hashes(LimitAt(TopQ(shape)), 1);
  const std::multiset<uint64_t> all = FingerprintsOf(shape, hashes, true);
  const Bytes expected = LaidOut(all, shape, TopQ(shape));
  Random random(2);
  for (int round = 0; round < 4; ++round) {
    Body body(shape);
    if (round == 0) std::sort(hashes.begin(), hashes.end());
    if (round == 1) std::reverse(hashes.begin(), hashes.end());
    for (size_t i = hashes.size(); round > 1 && i > 1; --i) {
      std::swap(hashes[i - 1], hashes[random.Below(i)]);
    }
    body.Insert(hashes.data(), hashes.size());
    EXPECT_EQ(body.bytes(), expected);
    EXPECT_EQ(body.counters().count, all.size());
    EXPECT_EQ(QNow(body), TopQ(shape));
  }
}

TEST(Quotient, BatchesAreKeysOneByOne) {
  const Shape shape = PlanMemory(Quotient(), 20000, 0.05);
  const uint64_t n = 2 * shape.keys;
  Random random(3);
  std::vector<uint64_t> hashes(n);
  for (uint64_t& hash : hashes) hash = HashOf(random.Below(shape.keys), 3);
  Body one(shape), many(shape);
  std::vector<uint8_t> seen(n);
  for (uint64_t i = 0; i < n;) {
    const uint64_t batch = std::min<uint64_t>(1 + random.Below(700), n - i);
    many.TestAndAdd(&hashes[i], batch, &seen[i]);
    i += batch;
  }
  std::vector<uint8_t> asked(n);
  many.Contains(hashes.data(), n, asked.data());
  for (uint64_t i = 0; i < n; ++i) {
    ASSERT_EQ(one.TestAndAdd(hashes[i]), seen[i] != 0);
    ASSERT_TRUE(asked[i]);
  }
  EXPECT_EQ(one.bytes(), many.bytes());
}

TEST(Quotient, FullRefusesAndChangesNothing) {
  for (const Size& size : kSizes) {
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    Body body(shape);
    uint64_t key = 0;
    std::vector<uint64_t> added;
    while (body.counters().count < LimitAt(TopQ(shape))) {
      const uint64_t hash = HashOf(key++);
      body.TestAndAdd(hash);
      added.push_back(hash);
    }
    const Bytes before = body.bytes();
    const Counters counters = body.counters();
    std::vector<uint64_t> batch(added.begin(), added.begin() + std::min<size_t>(added.size(), 40));
    uint64_t fresh = HashOf(key++);
    while (body.Contains(fresh)) fresh = HashOf(key++);
    const size_t known = batch.size();
    batch.push_back(fresh);
    batch.insert(batch.end(), added.begin(), added.begin() + 1);
    std::vector<uint8_t> seen(batch.size(), 7);
    EXPECT_EQ(body.Try(batch.data(), batch.size(), seen.data()), known) << NameOf(shape);
    for (size_t i = 0; i < known; ++i) EXPECT_EQ(seen[i], 1);
    EXPECT_EQ(seen[known], 7);
    Counters after = counters;
    Bytes copy = body.bytes();
    EXPECT_EQ(Quotient().insert(shape, &after, copy.data(), &fresh, 1), 0u);
    EXPECT_EQ(copy, before);
    EXPECT_EQ(body.bytes(), before);
    EXPECT_EQ(body.counters().count, counters.count);
    EXPECT_EQ(body.counters().state, counters.state);
    for (uint64_t hash : added) ASSERT_TRUE(body.Contains(hash));
    EXPECT_TRUE(Sound(body));
  }
}

TEST(Quotient, CopiesOfOneFingerprintAreBounded) {
  const Shape shape = PlanMemory(Quotient(), 4096, 0.01);
  Body body(shape);
  const uint64_t hash = HashOf(1);
  for (int i = 0; i < 64; ++i) body.Insert(hash);
  const Bytes before = body.bytes();
  Counters counters = body.counters();
  EXPECT_EQ(Quotient().insert(shape, &counters, body.bytes().data(), &hash, 1), 0u);
  EXPECT_EQ(body.bytes(), before);
  EXPECT_EQ(counters.count, 64u);
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(body.Forget(hash));
  EXPECT_FALSE(body.Forget(hash));
}

// Hashes that are not spread: all of one quotient's neighbourhood. They are refused in
// time, not lost, and the table stays one.
TEST(Quotient, CrowdedFingerprintsAreRefusedNotLost) {
  for (uint64_t top : {uint64_t{0}, ~uint64_t{0} << 52, uint64_t{1} << 62}) {
    const Shape shape = PlanMemory(Quotient(), 20000, 1e-4);
    Body body(shape);
    std::vector<uint64_t> taken;
    Random random(top);
    const unsigned unused = 64 - FingerprintBits(shape);
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint64_t hash = top + (random.Below(1 << 12) << unused);
      uint8_t seen;
      if (body.Try(&hash, 1, &seen) == 1) {
        taken.push_back(hash);
      } else {
        EXPECT_FALSE(body.Contains(hash));
      }
    }
    EXPECT_GT(taken.size(), 100u);
    EXPECT_LT(taken.size(), 2000u);
    EXPECT_TRUE(Sound(body));
    for (uint64_t hash : taken) ASSERT_TRUE(body.Contains(hash));
    EXPECT_EQ(body.bytes(), LaidOut(FingerprintsOf(shape, taken, false), shape, QNow(body)));
  }
}

// A filter that has grown in vain, before it refused a key, is still one: in the header of
// its image too, which is what is read after an error was caught.
TEST(Quotient, AnImageThatGrewInVainHoldsTogether) {
  const Shape shape = PlanMemory(Quotient(), 20000, 1e-4);
  for (const bool insert : {false, true}) {
    Filter filter(shape);
    filter.SetLimit(1);
    std::vector<uint64_t> taken;
    for (uint64_t i = 0; filter.refused() == 0 && i < 2000; ++i) {
      const uint64_t hash = (uint64_t{1} << 62) + (i << 41);
      if (insert && i > 2) {
        Bytes image = filter.image();
        Header header;
        ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
        if (!AddNew(image.data(), &header, hash)) {
          ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
          EXPECT_GT(header.counters.state, 0u);
          for (uint64_t held : taken) ASSERT_TRUE(Contains(image.data(), header, held));
        }
      }
      filter.Add(hash);
      if (filter.refused() == 0) taken.push_back(hash);
    }
    ASSERT_EQ(filter.refused(), 1u);
    Header header;
    ASSERT_EQ(Check(filter.image().data(), filter.image().size(), &header), Flaw::kNone);
    EXPECT_GT(header.counters.state, 0u);
    for (uint64_t held : taken) ASSERT_TRUE(Contains(filter.image().data(), header, held));
  }
}

TEST(Quotient, ForgettingAllLeavesTheEmptyFilter) {
  for (const Size& size : kSizes) {
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    Body body(shape);
    std::vector<uint64_t> added;
    for (uint64_t key = 0; body.counters().count < shape.keys; ++key) {
      if (!body.TestAndAdd(HashOf(key))) added.push_back(HashOf(key));
    }
    Random random(4);
    for (size_t i = added.size(); i > 1; --i) std::swap(added[i - 1], added[random.Below(i)]);
    for (size_t i = 0; i < added.size(); ++i) {
      ASSERT_TRUE(body.Forget(added[i]));
      ASSERT_FALSE(body.Contains(added[i]));
      ASSERT_FALSE(body.Forget(added[i]));
      if (i % 501 == 0) {
        ASSERT_TRUE(Sound(body));
        for (size_t j = i + 1; j < added.size(); ++j) ASSERT_TRUE(body.Contains(added[j]));
      }
    }
    EXPECT_EQ(body.bytes(), Bytes(shape.bytes));
    EXPECT_EQ(body.counters().count, 0u);
    EXPECT_EQ(body.counters().state, 0u);
  }
}

// 1 - exp(-n / 2^p), within 4 standard errors, and no false negative.
TEST(Quotient, TheRateIsTheClosedForm) {
  for (double fpr : {0.5, 0.1, 0.01}) {
    const Shape shape = PlanMemory(Quotient(), 100000, fpr);
    Body body(shape);
    uint64_t key = 0;
    for (double fill : {0.3, 0.7, 1.0}) {
      const auto n = static_cast<uint64_t>(fill * static_cast<double>(shape.keys));
      for (; key < n; ++key) body.TestAndAdd(HashOf(key, 5));
      for (uint64_t i = 0; i < n; i += 7) ASSERT_TRUE(body.Contains(HashOf(i, 5)));
      const double expected = -std::expm1(-static_cast<double>(n) /
                                          std::ldexp(1, static_cast<int>(FingerprintBits(shape))));
      EXPECT_NEAR(Quotient().expected_fpr(shape, static_cast<double>(n)), expected, 1e-12);
      EXPECT_LE(expected, fpr * 1.0000001);
      const uint64_t asked = 200000 / kThin;
      uint64_t hits = 0;
      for (uint64_t i = 0; i < asked; ++i) hits += body.Contains(HashOf(i + (1ull << 40), 5));
      const double trials = static_cast<double>(asked);
      // Of the asked keys, and of the set of fingerprints in the filter.
      const double error = std::sqrt(expected * (1 - expected) / trials) +
                           expected * std::sqrt(expected / static_cast<double>(n));
      EXPECT_NEAR(static_cast<double>(hits) / trials, expected, 4 * error);
      const Reading reading = body.Read();
      EXPECT_NEAR(reading.fpr, expected,
                  4 * expected * std::sqrt(expected / static_cast<double>(n)) + 1e-4 * expected);
      EXPECT_NEAR(reading.count, static_cast<double>(n),
                  4 * std::sqrt(expected * static_cast<double>(n)) + 1);
    }
  }
}

// ---- merges -------------------------------------------------------------------------

TEST(Quotient, MergeIsTheUnion) {
  for (const Size& size : kSizes) {
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    Random random(6);
    for (int round = 0; round < 40; ++round) {
      // From empty to full, sharing keys.
      const uint64_t parts[] = {0, 1, shape.keys / 50, shape.keys / 4, shape.keys / 2, shape.keys};
      const uint64_t na = parts[random.Below(6)], nb = parts[random.Below(6)];
      const uint64_t shared = random.Below(std::min(na, nb) + 1);
      Body a(shape), b(shape);
      std::map<uint64_t, std::pair<uint64_t, uint64_t>> copies;
      for (uint64_t i = 0; i < na; ++i) {
        a.Insert(HashOf(i, 7));
        ++copies[Fingerprint(shape, HashOf(i, 7))].first;
      }
      for (uint64_t i = 0; i < nb; ++i) {
        const uint64_t hash = HashOf(na - shared + i, 7);
        b.Insert(hash);
        ++copies[Fingerprint(shape, hash)].second;
      }
      std::multiset<uint64_t> expected;
      for (const auto& [fingerprint, counts] : copies) {
        for (uint64_t i = 0; i < std::max(counts.first, counts.second); ++i) {
          expected.insert(fingerprint);
        }
      }
      unsigned q = std::max(QNow(a), QNow(b));
      while (q < TopQ(shape) && LimitAt(q) < expected.size()) ++q;
      const bool fits = expected.size() <= LimitAt(q);
      // Only its used bytes may be looked at.
      const Bytes other = b.bytes().Prefix(Quotient().used_bytes(shape, b.counters()));
      Counters counters = a.counters();
      Bytes merged = a.bytes();
      ASSERT_EQ(Quotient().merge(shape, &counters, merged.data(), b.counters(), other.data(), {}),
                fits)
          << NameOf(shape) << " " << na << "+" << nb;
      if (!fits) continue;
      ASSERT_EQ(counters.count, expected.size());
      ASSERT_EQ(counters.state, expected.empty() ? 0 : q - StartQ(shape));
      ASSERT_EQ(merged, LaidOut(expected, shape, expected.empty() ? StartQ(shape) : q))
          << NameOf(shape) << " " << na << "+" << nb << " " << QNow(a) << " " << QNow(b);
      ASSERT_TRUE(Quotient().sound(shape, counters, merged.data()));
    }
  }
}

// Tables that are as full as they may be, all along their length: where a rewrite in place
// has the most to queue.
TEST(Quotient, RewritesInPlaceWithLongShifts) {
  const Shape shape = PlanMemory(Quotient(), 40000, 0.3);
  const unsigned p = FingerprintBits(shape);
  Random random(8);
  int merges = 0;
  for (int round = 0; round < 20; ++round) {
    // Blocks of 250 fingerprints of one quotient's neighbourhood in each of both inputs.
    Body a(shape), b(shape);
    std::multiset<uint64_t> all;
    for (uint64_t at = 0; at < 1ull << p; at += (1ull << p) / (1 + random.Below(40))) {
      for (Body* body : {&a, &b}) {
        for (int i = 0; i < 125; ++i) {
          const uint64_t fingerprint =
              std::min<uint64_t>((1ull << p) - 1, at + random.Below((1ull << p) / 512));
          const uint64_t hash = fingerprint << (64 - p);
          uint8_t seen = 0;
          if (body->Try(&hash, 1, &seen) == 1 && all.count(fingerprint) == 0) {
            all.insert(fingerprint);
          }
        }
      }
    }
    ASSERT_TRUE(Sound(a) && Sound(b));
    Counters counters = a.counters();
    Bytes merged = a.bytes();
    if (!Quotient().merge(shape, &counters, merged.data(), b.counters(), b.bytes().data(), {})) {
      continue;
    }
    ++merges;
    EXPECT_EQ(merged, LaidOut(all, shape, StartQ(shape) + counters.state));
  }
  EXPECT_GE(merges, 5);
}

TEST(Quotient, AMergedKeyIsForgottenOnce) {
  const Shape shape = PlanMemory(Quotient(), 20000, 0.01);
  Body a(shape), b(shape);
  const uint64_t n = shape.keys / 3;
  for (uint64_t i = 0; i < n; ++i) a.TestAndAdd(HashOf(i, 9));
  for (uint64_t i = 0; i < n; ++i) b.TestAndAdd(HashOf(i + n, 9));
  a.Merge(b);
  for (uint64_t i = 0; i < 2 * n; ++i) ASSERT_TRUE(a.Contains(HashOf(i, 9)));
  // Forgetting the left's keys takes few of the right's along: those with an equal
  // fingerprint, n / 2^p of them.
  for (uint64_t i = 0; i < n; ++i) a.Forget(HashOf(i, 9));
  uint64_t lost = 0;
  for (uint64_t i = n; i < 2 * n; ++i) lost += !a.Contains(HashOf(i, 9));
  const double expected = static_cast<double>(n) * static_cast<double>(n) *
                          std::ldexp(1, -static_cast<int>(FingerprintBits(shape)));
  EXPECT_NEAR(static_cast<double>(lost), expected, 4 * std::sqrt(expected) + 1);
}

// ---- bits that are no table ---------------------------------------------------------

TEST(Quotient, SoundFindsEveryFlippedBit) {
  const Shape shape = PlanMemory(Quotient(), 200, 0.01);
  Body body(shape);
  for (uint64_t i = 0; i < shape.keys; ++i) body.TestAndAdd(HashOf(i, 10));
  ASSERT_TRUE(Sound(body));
  const unsigned width = FingerprintBits(shape) - QNow(body) + 3;
  const uint32_t used = Quotient().used_bytes(shape, body.counters());
  const uint64_t slot_bits = SlotsAt(QNow(body)) * width;
  std::vector<bool> empty(SlotsAt(QNow(body)));
  for (uint64_t bit = 0; bit < used * 8ull; ++bit) {
    body.bytes()[bit / 8] = static_cast<uint8_t>(body.bytes()[bit / 8] ^ 1 << bit % 8);
    // A remainder may become another that is as good in its place; nothing else may.
    const bool remainder = bit < slot_bits && bit % width >= 3;
    EXPECT_TRUE(remainder || !Sound(body)) << bit;
    body.bytes()[bit / 8] = static_cast<uint8_t>(body.bytes()[bit / 8] ^ 1 << bit % 8);
  }
  Counters wrong = body.counters();
  --wrong.count;
  EXPECT_FALSE(Quotient().sound(shape, wrong, body.bytes().data()));
  EXPECT_TRUE(Sound(body));
}

// The last slots of a table in every state, of which most are none: nothing reaches for a
// slot behind them.
TEST(Quotient, AnyBitsAtTheEndAreSafe) {
  Random random(12);
  const Shape shape = PlanMemory(Quotient(), 4096, 0.01);
  const quotient::Layout layout = quotient::LayoutOf(shape);
  const unsigned q = StartQ(shape);
  for (uint64_t round = 0; round < 40000 / kThin; ++round) {
    Counters counters;
    counters.count = 1;
    Bytes body(shape.bytes);
    quotient::Table table(body.data(), q, layout.p - q);
    const uint64_t first = table.quotients() - 1 - random.Below(3);
    for (uint64_t i = first; i < table.slots(); ++i) {
      table.SetSlot(i, quotient::kShifted | quotient::kContinuation);
    }
    for (int i = 0; i < 4; ++i) {
      const uint64_t slot = first + random.Below(table.slots() - first);
      table.SetSlot(slot, random.Below(8));
    }
    table.SetSlot(first - 1, random.Below(4));
    table.SetSlot(first, random.Below(8));
    // An empty one that is not clear: it looks like the run's first, with a remainder.
    table.SetSlot(table.slots() - 1, random.Next() & LowMask(table.width()) & ~uint64_t{7});
    const uint64_t hash = (first + random.Below(3)) << (64 - q) | random.Next() >> q;
    uint8_t seen = 0;
    Quotient().test_and_add(shape, &counters, body.data(), &hash, 1, &seen);
    EXPECT_LE(seen, 1);
    EXPECT_TRUE(Quotient().valid(shape, counters));
    ASSERT_TRUE(counters.state > 0 || table.EndsClear()) << round;
  }
}

// Every function ends, and stays within its bytes, whatever these hold.
TEST(Quotient, AnyBitsAreSafe) {
  Random random(11);
  for (uint64_t round = 0; round < 1500 / kThin; ++round) {
    const Size& size = kSizes[random.Below(9)];
    const Shape shape = PlanMemory(Quotient(), size.memory, size.fpr);
    const unsigned steps = TopQ(shape) - StartQ(shape);
    const auto make = [&](Counters* counters) {
      counters->state = static_cast<uint32_t>(random.Below(steps + 1));
      const uint64_t limit = LimitAt(StartQ(shape) + counters->state);
      counters->count = random.OneIn(2) ? limit : 1 + random.Below(limit);
      Bytes bytes(shape.bytes);
      const uint64_t kind = random.Below(4);
      for (size_t i = 0; i < bytes.size(); ++i) {
        const uint64_t noise = random.Next();
        bytes[i] = static_cast<uint8_t>(kind == 0   ? noise
                                        : kind == 1 ? 0xff
                                        : kind == 2 ? noise & noise >> 8 & noise >> 16
                                                    : noise | noise >> 8 | noise >> 16);
      }
      return bytes;
    };
    Counters counters, other_counters;
    Bytes body = make(&counters);
    const Bytes other = make(&other_counters);
    ASSERT_TRUE(Quotient().valid(shape, counters));
    for (int i = 0; i < 20; ++i) {
      const uint64_t hash = random.Next();
      uint8_t seen = 0;
      Quotient().contains(shape, counters, body.data(), &hash, 1, &seen);
      EXPECT_LE(seen, 1);
      Quotient().test_and_add(shape, &counters, body.data(), &hash, 1, &seen);
      Quotient().insert(shape, &counters, body.data(), &hash, 1);
      if (random.OneIn(2)) Quotient().forget(shape, &counters, body.data(), hash);
      Quotient().sound(shape, counters, body.data());
      ASSERT_TRUE(Quotient().valid(shape, counters));
    }
    Quotient().merge(shape, &counters, body.data(), other_counters, other.data(), {});
    ASSERT_TRUE(Quotient().valid(shape, counters));
    const Reading reading = Quotient().read(shape, counters, body.data());
    EXPECT_GE(reading.count, 0);
    EXPECT_TRUE(std::isfinite(reading.count));
    EXPECT_TRUE(reading.fpr >= 0 && reading.fpr <= 1);
  }
}

}  // namespace
}  // namespace dedup::test
