// sqf: signatures and their chances, an exact twin, the paper's and the caches' closed
// forms, merges, parameters.

#include "core/methods/sqf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

using quotient_signature::Chances;
using quotient_signature::Form;

const Method& Sqf() { return sqf::kMethod; }

unsigned SignatureBits(unsigned r, unsigned r_prime) {
  return r_prime + static_cast<unsigned>(std::ceil(std::log2(r + 1.0)));
}

// The paper's signature: the highest r' bits of the remainder, and its number of ones.
using Signature = std::pair<uint64_t, unsigned>;

Signature SignatureOf(uint64_t remainder, unsigned r, unsigned r_prime) {
  unsigned ones = 0;
  for (unsigned i = 0; i < r; ++i) ones += remainder >> i & 1;
  return {remainder >> (r - r_prime), ones};
}

uint64_t RemainderOf(uint64_t hash, unsigned r) { return Derived(hash, 0) & LowMask(r); }

// The signatures' chances, by counting the remainders.
std::map<Signature, double> CountedChances(unsigned r, unsigned r_prime) {
  std::map<Signature, double> chances;
  for (uint64_t remainder = 0; remainder < uint64_t{1} << r; ++remainder) {
    chances[SignatureOf(remainder, r, r_prime)] += std::ldexp(1.0, -static_cast<int>(r));
  }
  return chances;
}

// The rule with nothing packed: rows of signatures in the order of their buckets.
class Twin {
 public:
  Twin(uint64_t rows, unsigned k, unsigned r, unsigned r_prime, uint64_t seed)
      : k_(k), r_(r), r_prime_(r_prime), seed_(seed), rows_(rows) {}

  bool TestAndAdd(uint64_t hash) {
    std::vector<Signature>& row = RowOf(hash);
    const Signature signature = SignatureOf(RemainderOf(hash, r_), r_, r_prime_);
    if (std::find(row.begin(), row.end(), signature) != row.end()) return true;
    if (row.size() < k_) {
      row.push_back(signature);
    } else {
      row[k_ == 1 ? 0 : StepRandom(seed_, choices_++).Below(k_)] = signature;
    }
    return false;
  }
  uint64_t choices() const { return choices_; }

  // The body that this makes, bit by bit.
  Bytes Packed(size_t bytes) const {
    Bytes body(bytes);
    const unsigned weight_bits = SignatureBits(r_, r_prime_) - r_prime_;
    uint64_t at = 0;
    for (const std::vector<Signature>& row : rows_) {
      for (unsigned i = 0; i < k_; ++i) {
        uint64_t code = 0;
        if (i < row.size()) code = row[i].first << weight_bits | (r_ - row[i].second);
        for (unsigned bit = 0; bit < SignatureBits(r_, r_prime_); ++bit, ++at) {
          body[at / 8] |= static_cast<uint8_t>((code >> bit & 1) << (at % 8));
        }
      }
    }
    return body;
  }

 private:
  std::vector<Signature>& RowOf(uint64_t hash) {
    const auto row = static_cast<unsigned __int128>(hash) * rows_.size() >> 64;
    return rows_[static_cast<size_t>(row)];
  }

  unsigned k_, r_, r_prime_;
  uint64_t seed_, choices_ = 0;
  std::vector<std::vector<Signature>> rows_;
};

std::string OptionsOf(unsigned k, unsigned r, unsigned r_prime, bool pow2 = false) {
  return "k=" + std::to_string(k) + " r=" + std::to_string(r) +
         " r_prime=" + std::to_string(r_prime) + (pow2 ? " pow2=on" : "");
}

uint64_t RowsOf(const Shape& shape) { return shape.detail >> 32; }

// ---- signatures -----------------------------------------------------------------

TEST(SqfSignature, CodesTellSignaturesApartAndAreNeverZero) {
  Random random(1);
  for (const auto& [r, r_prime] : {std::pair{1u, 1u},
                                   {2u, 1u},
                                   {2u, 2u},
                                   {8u, 4u},
                                   {12u, 6u},
                                   {15u, 7u},
                                   {31u, 9u},
                                   {63u, 29u},
                                   {48u, 48u}}) {
    const Form form = {r, r_prime};
    EXPECT_EQ(form.bits(), SignatureBits(r, r_prime));
    std::map<uint64_t, Signature> of_code;
    std::map<Signature, uint64_t> of_signature;
    for (int i = 0; i < 3000; ++i) {
      const uint64_t hash = random.Next();
      const uint64_t code = form.Code(hash);
      const Signature signature = SignatureOf(RemainderOf(hash, r), r, r_prime);
      EXPECT_NE(code, 0u);
      EXPECT_LT(code, uint64_t{1} << SignatureBits(r, r_prime));
      EXPECT_EQ(of_code.emplace(code, signature).first->second, signature);
      EXPECT_EQ(of_signature.emplace(signature, code).first->second, code);
    }
  }
}

TEST(SqfSignature, ChancesAreThoseOfCountedRemainders) {
  for (unsigned r = 1; r <= 10; ++r) {
    for (unsigned r_prime = 1; r_prime <= r; ++r_prime) {
      const std::map<Signature, double> counted = CountedChances(r, r_prime);
      const Form form = {r, r_prime};
      const Chances chances(form);
      EXPECT_EQ(chances.signatures(), static_cast<double>(counted.size()));
      double equal = 0, all = 0;
      for (const auto& [signature, p] : counted) {
        const uint64_t code = signature.first << form.weight_bits() | (r - signature.second);
        EXPECT_NEAR(chances.Of(code), p, 1e-12);
        equal += p * p;
      }
      for (uint64_t code = 0; code < uint64_t{1} << form.bits(); ++code) all += chances.Of(code);
      EXPECT_NEAR(all, 1, 1e-12);  // so every other code has chance 0
      const double n = r - r_prime;
      const double central = std::exp(std::lgamma(2 * n + 1) - 2 * std::lgamma(n + 1));
      EXPECT_NEAR(equal, std::ldexp(central, -static_cast<int>(r_prime + 2 * (r - r_prime))),
                  1e-12);
      EXPECT_NEAR(chances.Sum([](double p) { return p * p; }), equal, 1e-12);
    }
  }
}

// ---- closed forms ---------------------------------------------------------------

TEST(SqfRate, OfEquallyLikelySignaturesIsKByS) {
  for (const auto& [r, r_prime] : {std::pair{2u, 1u}, {3u, 2u}, {5u, 4u}, {4u, 4u}}) {
    const double s = std::ldexp(r == r_prime ? 1 : 2, static_cast<int>(r_prime));
    for (unsigned k = 1; k <= 4; ++k) {
      EXPECT_NEAR(sqf::SteadyRate({r, r_prime}, k), k / s, 1e-12);
    }
  }
}

TEST(SqfRate, OfFullRowsIsThatOfTheExactChain) {
  for (const auto& [r, r_prime, k] :
       {std::tuple{3u, 1u, 2u}, {3u, 1u, 3u}, {4u, 1u, 2u}, {4u, 2u, 3u}, {5u, 1u, 5u}}) {
    std::vector<double> p;
    for (const auto& chance : CountedChances(r, r_prime)) p.push_back(chance.second);
    const auto size = static_cast<unsigned>(p.size());
    std::map<unsigned, double> now = {{(1u << k) - 1, 1.0}};  // sets of k signatures
    double rate = 0;
    for (int step = 0; step < 400; ++step) {
      std::map<unsigned, double> next;
      rate = 0;
      for (const auto& [set, chance] : now) {
        for (unsigned i = 0; i < size; ++i) {
          if (set >> i & 1) {
            rate += chance * p[i];
            next[set] += chance * p[i];
            continue;
          }
          for (unsigned out = 0; out < size; ++out) {
            if (set >> out & 1) next[(set & ~(1u << out)) | 1u << i] += chance * p[i] / k;
          }
        }
      }
      now = next;
    }
    EXPECT_NEAR(sqf::SteadyRate({r, r_prime}, k), rate, 1e-7) << r << " " << r_prime << " " << k;
  }
}

// Steady state of a uniform stream over many elements: FPR = k/S, FNR = 1 - k/S.
TEST(SqfRate, SteadyErrorsOfALongStream) {
  for (const unsigned k : {1u, 2u, 3u}) {
    const Shape shape = PlanMemory(Sqf(), 256, .01, OptionsOf(k, 3, 2), 5);  // S = 8
    Body body(shape);
    Random random(k);
    const uint64_t alphabet = 400000, n = 400000 / kThin;
    std::vector<bool> seen(alphabet);
    uint64_t fresh = 0, positives = 0, repeats = 0, negatives = 0;
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t key = random.Below(alphabet);
      const bool found = body.TestAndAdd(HashOf(key));
      ++(seen[key] ? repeats : fresh);
      if (seen[key]) negatives += !found;
      if (!seen[key]) positives += found;
      seen[key] = true;
    }
    // Four standard errors of a share, and the few repeats that are still remembered.
    const double share = k / 8.0, bound = 4 * std::sqrt(share * (1 - share) / (n * .1)) + .004;
    EXPECT_NEAR(static_cast<double>(positives) / fresh, share, bound);
    EXPECT_NEAR(static_cast<double>(negatives) / repeats, 1 - share, bound + .004 * kThin);
  }
}

TEST(SqfRate, ExpectedAtEveryLoad) {
  for (const char* options : {"", "k=1", "k=2 r=4 r_prime=2", "k=12 r=15 r_prime=6"}) {
    const Shape shape = PlanMemory(Sqf(), 8192, .1, options, 3);
    const uint64_t buckets = shape.keys, filters = 12 / kThin + 2;
    double before = 0;
    for (const double fill : {.1, .5, 1.0, 2.0, 6.0}) {
      uint64_t hits = 0;
      const uint64_t keys = static_cast<uint64_t>(static_cast<double>(buckets) * fill);
      const uint64_t asked = 20000;
      for (uint64_t f = 0; f < filters; ++f) {
        Body body(shape);
        for (uint64_t i = 0; i < keys; ++i) body.TestAndAdd(HashOf(i, f));
        for (uint64_t i = 0; i < asked; ++i) hits += body.Contains(HashOf((1u << 30) + i, f));
        const Reading reading = body.Read();
        uint64_t fresh = 0;
        for (uint64_t i = 0; i < asked; ++i) fresh += body.Contains(HashOf((1u << 29) + i, f));
        EXPECT_NEAR(static_cast<double>(fresh) / asked, reading.fpr,
                    5 * std::sqrt(reading.fpr / asked) + 1e-4);
      }
      const double expected = Sqf().expected_fpr(shape, static_cast<double>(keys));
      const double n = static_cast<double>(asked * filters);
      // Signatures of a row that is not full yet are taken as those of one full for long.
      EXPECT_NEAR(hits / n, expected, 5 * std::sqrt(expected / n) + .01 * expected)
          << NameOf(shape) << " fill " << fill;
      EXPECT_GE(expected, before);
      before = expected;
    }
    EXPECT_NEAR(Sqf().expected_fpr(shape, 1e12), before, .02 * before);
  }
}

TEST(SqfMissed, ShareOfTheLastKeysIsAsSaid) {
  for (const char* options : {"", "k=1 r=2 r_prime=1", "k=2 r=3 r_prime=2", "k=3 r=31 r_prime=9"}) {
    const Shape shape = PlanMemory(Sqf(), 16384, .01, options, 3);
    Body body(shape);
    const uint64_t n = shape.keys;
    for (uint64_t i = 0; i < 5 * n; ++i) body.TestAndAdd(HashOf(i));
    uint64_t missed = 0;
    for (uint64_t i = 4 * n; i < 5 * n; ++i) missed += !body.Contains(HashOf(i));
    const double said = Sqf().missed(shape);
    EXPECT_NEAR(static_cast<double>(missed) / static_cast<double>(n), said,
                4 * std::sqrt(said * (1 - said) / static_cast<double>(n)))
        << NameOf(shape);
  }
}

TEST(SqfRead, CountsTheKeysThatAreHeld) {
  for (const char* options : {"", "k=8 r=4 r_prime=3"}) {
    const Shape shape = PlanMemory(Sqf(), 16384, .01, options, 3);
    Body body(shape);
    EXPECT_EQ(body.Read().count, 0);
    EXPECT_EQ(body.Read().fpr, 0);
    const uint64_t some = shape.keys / 5;  // hardly any row is full
    for (uint64_t i = 0; i < some; ++i) body.TestAndAdd(HashOf(i));
    const double n = static_cast<double>(some);
    EXPECT_NEAR(body.Read().count, n, .01 * n + 3 * std::sqrt(.2 * n) * .3);
    for (uint64_t i = some; i < 20 * shape.keys; ++i) body.TestAndAdd(HashOf(i));
    EXPECT_GE(body.Read().count, static_cast<double>(shape.keys) * .99);
  }
}

// ---- the twin -------------------------------------------------------------------

TEST(SqfTwin, SameAnswersAndSameBytes) {
  const struct {
    size_t memory;
    unsigned k, r, r_prime;
    bool pow2;
  } cases[] = {{8, 1, 1, 1, false},   {64, 1, 2, 1, false},    {100, 3, 2, 1, true},
               {256, 4, 2, 1, false}, {256, 4, 15, 7, false},  {512, 5, 15, 7, false},
               {512, 6, 15, 7, true}, {999, 19, 12, 6, false}, {4096, 32, 63, 48, false},
               {640, 32, 3, 3, false}};
  for (const auto& c : cases) {
    const Shape shape =
        PlanMemory(Sqf(), c.memory, .01, OptionsOf(c.k, c.r, c.r_prime, c.pow2), c.memory);
    uint64_t rows = c.memory / 8 * 64 / (c.k * SignatureBits(c.r, c.r_prime));
    if (c.pow2) {
      while ((rows & (rows - 1)) != 0) rows &= rows - 1;
    }
    Twin twin(rows, c.k, c.r, c.r_prime, shape.seed);
    Body body(shape), batched(shape);
    Random random(c.k);
    for (int round = 0; round < 60; ++round) {
      uint64_t hashes[70];
      uint8_t expected[70], seen[70], before[70];
      for (uint64_t& hash : hashes) hash = HashOf(random.Below(6 * shape.keys + 9));
      batched.Contains(hashes, 70, before);
      for (int i = 0; i < 70; ++i) {
        EXPECT_EQ(before[i], batched.Contains(hashes[i]));
        expected[i] = twin.TestAndAdd(hashes[i]);
        EXPECT_EQ(body.TestAndAdd(hashes[i]), expected[i] != 0) << NameOf(shape);
        EXPECT_TRUE(body.Contains(hashes[i]));
      }
      if (round % 2 == 0) {
        batched.TestAndAdd(hashes, 70, seen);
        EXPECT_EQ(std::memcmp(seen, expected, sizeof seen), 0);
      } else {
        batched.Insert(hashes, 70);
      }
      ASSERT_EQ(body.bytes(), twin.Packed(shape.bytes)) << NameOf(shape);
      ASSERT_EQ(batched.bytes(), body.bytes());
      EXPECT_EQ(body.counters().count, twin.choices());
      EXPECT_EQ(batched.counters().count, twin.choices());
      EXPECT_EQ(body.counters().state, 0u);
    }
  }
}

// ---- merges ---------------------------------------------------------------------

double Share(const Body& body, uint64_t from, uint64_t to, uint64_t seed) {
  uint64_t found = 0;
  for (uint64_t i = from; i < to; ++i) found += body.Contains(HashOf(i, seed));
  return static_cast<double>(found) / static_cast<double>(to - from);
}

TEST(SqfMerge, RowsWithRoomKeepEveryKey) {
  const Shape shape = PlanMemory(Sqf(), 4096, .01, "k=16 r=15 r_prime=7");
  Body left(shape), right(shape);
  const uint64_t n = shape.keys / 8;  // no row has more than 16 of both
  for (uint64_t i = 0; i < n; ++i) left.TestAndAdd(HashOf(i, 1));
  for (uint64_t i = 0; i < n; ++i) right.TestAndAdd(HashOf(i, 2));
  Body again = left;
  left.Merge(right);
  EXPECT_EQ(Share(left, 0, n, 1), 1);
  EXPECT_EQ(Share(left, 0, n, 2), 1);
  EXPECT_EQ(left.counters().count, again.counters().count + right.counters().count + 1);
  again.Merge(right);
  EXPECT_EQ(left.bytes(), again.bytes());
  Body empty(shape);
  empty.Merge(right);
  EXPECT_EQ(empty.bytes(), right.bytes());
  right.Merge(Body(shape));
  EXPECT_EQ(empty.bytes(), right.bytes());
}

// Half full: loads of a row are Poisson; with d1 + d2 > k signatures each stays with
// k / (d1 + d2). Full: half of each.
TEST(SqfMerge, FullRowsKeepRandomOnesOfBoth) {
  const Shape shape = PlanMemory(Sqf(), 65536 / kThin / 8 * 8, .001, "", 9);
  const double rows = static_cast<double>(RowsOf(shape));
  const unsigned k = shape.detail & 0xff;
  for (const double fill : {.5, 20.0}) {
    const double load = fill * k;
    std::vector<double> chance(k + 1);  // of d signatures in a row
    double p = std::exp(-load), sum = 0;
    for (unsigned d = 0; d < k; ++d, p *= load / d) sum += chance[d] = p;
    chance[k] = 1 - sum;
    double held = 0, kept = 0;
    for (unsigned a = 0; a <= k; ++a) {
      for (unsigned b = 0; b <= k; ++b) {
        held += chance[a] * chance[b] * a;
        kept += chance[a] * chance[b] * a * std::min(1.0, k / std::max(1.0, double(a + b)));
      }
    }
    const auto n = static_cast<uint64_t>(load * rows);
    Body left(shape), right(shape);
    for (uint64_t i = 0; i < n; ++i) left.TestAndAdd(HashOf(i, 1));
    for (uint64_t i = 0; i < n; ++i) right.TestAndAdd(HashOf(i, 2));
    left.Merge(right);
    for (const uint64_t seed : {1, 2}) {
      const double found = Share(left, 0, n, seed) * static_cast<double>(n) / rows;
      // Standard error of the mean of a row's kept signatures, at most sqrt(k / 4); keys
      // that are found by chance.
      const double chance_hits = Sqf().expected_fpr(shape, 1e12) * static_cast<double>(n) / rows;
      EXPECT_NEAR(found, kept, 4 * std::sqrt(k / 4.0 / rows) + chance_hits) << fill << " " << held;
    }
    const double steady = Sqf().expected_fpr(shape, 1e12);
    EXPECT_LE(left.Read().fpr, steady * 1.05);
    // A window later: as if never merged.
    for (uint64_t i = 0; i < 6 * shape.keys; ++i) left.TestAndAdd(HashOf(i, 3));
    const double said = Sqf().missed(shape);
    EXPECT_NEAR(1 - Share(left, 5 * shape.keys, 6 * shape.keys, 3), said,
                4 * std::sqrt(said / static_cast<double>(shape.keys)));
    EXPECT_NEAR(left.Read().fpr, steady, .05 * steady);
  }
}

// Of parts merged one after the other each stays with the same share.
TEST(SqfMerge, WeightsFavourNone) {
  const Shape shape = PlanMemory(Sqf(), 32768, .0001, "k=8", 9);
  Body all(shape);
  const uint64_t n = 6 * shape.keys;
  for (uint64_t part = 0; part < 4; ++part) {
    Body body(shape);
    for (uint64_t i = 0; i < n; ++i) body.TestAndAdd(HashOf(i, part));
    if (part == 0) {
      all = body;
    } else {
      all.Merge(body, {static_cast<uint32_t>(part), 1});
    }
  }
  const double keys = static_cast<double>(shape.keys);
  for (uint64_t part = 0; part < 4; ++part) {
    // A quarter of the buckets; standard error sqrt(3/16 buckets); keys found by chance.
    const double by_chance = Sqf().expected_fpr(shape, 1e12) * 6;
    EXPECT_NEAR(Share(all, 0, n, part) * static_cast<double>(n) / keys, .25,
                4 * std::sqrt(3 / 16.0 / keys) + by_chance);
  }
}

// ---- parameters -------------------------------------------------------------------

TEST(SqfPlan, RowsOfEveryBit) {
  for (const auto& [k, used] : {std::pair{1u, 1048575u}, {3u, 1048572u}, {4u, 1048572u}}) {
    const Shape shape = PlanMemory(Sqf(), 131072, .01, OptionsOf(k, 2, 1));
    EXPECT_EQ(RowsOf(shape) * k * 3, used);
    EXPECT_EQ(shape.keys, RowsOf(shape) * k);
    EXPECT_EQ(shape.bytes, 131072u);
    const Shape power = PlanMemory(Sqf(), 131072, .01, OptionsOf(k, 2, 1, true));
    EXPECT_EQ(RowsOf(power), k == 1 ? 262144u : 65536u);
  }
  EXPECT_EQ(PlanMemory(Sqf(), 15, .01).bytes, 8u);
  EXPECT_EQ(PlanMemory(Sqf(), kMaxBodyBytes, .5, "k=1 r=1 r_prime=1").keys, kMaxBodyBytes * 4);
}

TEST(SqfPlan, DefaultsKeepTheRateInTheFewestBits) {
  for (const double fpr : {.5, .3, .1, .01, .001, .0001}) {
    for (const unsigned k : {1u, 4u, 16u}) {
      const Shape shape = PlanMemory(Sqf(), 65536, fpr, "k=" + std::to_string(k));
      const Form form = sqf::LayoutOf(shape).form;
      EXPECT_LE(Sqf().expected_fpr(shape, 1e12), fpr);
      unsigned least = 99;
      for (unsigned r = 1; r <= 63; ++r) {
        for (unsigned r_prime = 1; r_prime <= std::min(r, 22u); ++r_prime) {
          if (SignatureBits(r, r_prime) < least && sqf::SteadyRate({r, r_prime}, k) <= fpr) {
            least = SignatureBits(r, r_prime);
          }
        }
      }
      EXPECT_EQ(form.bits(), least) << fpr << " " << k;
    }
  }
  const sqf::Layout usual = sqf::LayoutOf(PlanMemory(Sqf(), 65536, .01));
  EXPECT_EQ(usual.k, 4u);
  EXPECT_EQ(usual.form.r, 15u);
  EXPECT_EQ(usual.form.r_prime, 7u);
  // What is given stays; the rest is the least that does.
  const sqf::Layout given = sqf::LayoutOf(PlanMemory(Sqf(), 65536, .01, "k=1 r=9"));
  EXPECT_EQ(given.form.r, 9u);
  EXPECT_LE(sqf::SteadyRate(given.form, 1), .01);
  EXPECT_GT(sqf::SteadyRate({9, given.form.r_prime - 1}, 1), .01);
  EXPECT_EQ(sqf::LayoutOf(PlanMemory(Sqf(), 65536, .01, "r_prime=8")).form.r_prime, 8u);
}

TEST(SqfPlan, KeysAskForTheLeastMemory) {
  for (const uint64_t keys : {uint64_t{1}, uint64_t{100}, uint64_t{99999}}) {
    for (const char* options : {"", "pow2=on", "k=1 r=2 r_prime=1"}) {
      const Shape shape = PlanKeys(Sqf(), keys, .01, options);
      EXPECT_EQ(shape.keys, keys);
      const sqf::Layout layout = sqf::LayoutOf(shape);
      EXPECT_GE(layout.rows * layout.k, keys);
      EXPECT_TRUE(Sqf().valid(shape, {}));
      if (shape.bytes > 8) {
        EXPECT_LT(PlanMemory(Sqf(), shape.bytes - 8, .01, options).keys, keys);
      }
      EXPECT_LE(Sqf().missed(shape), .368);
    }
  }
}

PlanStatus StatusOf(uint64_t keys, uint64_t memory, const std::string& options) {
  Request request;
  request.keys = keys;
  request.memory = memory;
  request.options = OptionsFrom(Sqf(), options);
  Shape shape;
  return PlanFilter(Sqf(), request, 0, &shape);
}

TEST(SqfPlan, Refusals) {
  EXPECT_EQ(StatusOf(0, 4096, "r=4 r_prime=5"), PlanStatus::kConflict);
  EXPECT_EQ(StatusOf(100, 0, "r=4 r_prime=5"), PlanStatus::kConflict);
  EXPECT_EQ(StatusOf(0, 4096, "r=4 r_prime=4"), PlanStatus::kOk);
  EXPECT_EQ(StatusOf(0, 7, ""), PlanStatus::kMemoryTooSmall);
  EXPECT_EQ(StatusOf(0, 208, "k=32 r=63 r_prime=48"), PlanStatus::kMemoryTooSmall);  // 216 B a row
  EXPECT_EQ(StatusOf(0, 216, "k=32 r=63 r_prime=48"), PlanStatus::kOk);
  EXPECT_EQ(StatusOf(0, kMaxBodyBytes + 8, ""), PlanStatus::kTooLarge);
  EXPECT_EQ(StatusOf(kMaxKeys, 0, ""), PlanStatus::kTooLarge);
  const Shape good = PlanMemory(Sqf(), 4096, .01);
  EXPECT_TRUE(Sqf().valid(good, {~uint64_t{0}, 0}));
  EXPECT_FALSE(Sqf().valid(good, {0, 1}));
  for (int bit = 0; bit < 64; ++bit) {
    if (bit >= 8 && bit <= 10) continue;  // an r of as many bits of weight
    Shape bad = good;                     // another k or r' has other rows
    bad.detail ^= uint64_t{1} << bit;
    EXPECT_FALSE(Sqf().valid(bad, {})) << bit;
  }
  Shape bad = good;
  bad.keys = good.keys + 1;
  EXPECT_FALSE(Sqf().valid(bad, {}));
}

// Bits that no keys made do no harm, and give numbers that are numbers.
TEST(SqfNoise, AnyBitsAreSafe) {
  Random random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const auto r = static_cast<unsigned>(1 + random.Below(63));
    const auto r_prime = static_cast<unsigned>(1 + random.Below(std::min(r, 48u)));
    const auto k = static_cast<unsigned>(1 + random.Below(32));
    const Shape shape = PlanMemory(Sqf(), 216 + random.Below(400), .01,
                                   OptionsOf(k, r, r_prime, trial % 2 == 0), trial);
    Body body(shape), other(shape);
    for (size_t i = 0; i < shape.bytes; ++i) {
      const auto noise = static_cast<uint8_t>(random.Next());
      body.bytes()[i] = trial % 3 == 0 ? 0xff : noise;
      other.bytes()[i] = trial % 5 == 0 ? noise & static_cast<uint8_t>(random.Next()) : noise;
    }
    for (int i = 0; i < 100; ++i) {
      const uint64_t hash = random.Next();
      body.TestAndAdd(hash);
      EXPECT_TRUE(body.Contains(hash));
    }
    body.Merge(other);
    EXPECT_TRUE(Sqf().valid(shape, body.counters()));
    const Reading reading = body.Read();
    EXPECT_TRUE(std::isfinite(reading.count) && reading.count >= 0);
    EXPECT_TRUE(reading.fpr >= 0 && reading.fpr <= 1);
    EXPECT_TRUE(Sqf().missed(shape) >= 0 && Sqf().missed(shape) <= 1);
  }
}

}  // namespace
}  // namespace dedup::test
