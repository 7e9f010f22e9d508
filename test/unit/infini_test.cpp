// infini against an exact twin: a set of prefixes, kept by the rules of infini.hpp. Its rate and
// size at every number of keys, growing, and merges.

#include "core/methods/infini.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_set>
#include <vector>

#include "core/merge.hpp"
#include "support/infini.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// A rate of which the slots have so many bytes.
double RateOfWidth(unsigned slot_bytes) {
  return slot_bytes == 2 ? 0.01 : slot_bytes == 3 ? 0.0001 : slot_bytes == 4 ? 1e-7 : 1e-9;
}

// ---- the twin ---------------------------------------------------------------------------

// A set of prefixes of hashes: of p bits, by p.
class Prefixes {
 public:
  void Add(uint64_t hash, unsigned p) { by_length_[p].insert(hash >> (64 - p)); }
  // Whether a prefix of at most p bits holds this one.
  bool Holds(uint64_t hash, unsigned p = 64) const {
    for (const auto& [length, set] : by_length_) {
      if (length > p) break;
      if (set.count(hash >> (64 - length)) > 0) return true;
    }
    return false;
  }
  void Merge(const Prefixes& other) {
    for (const auto& [length, set] : other.by_length_) {
      by_length_[length].insert(set.begin(), set.end());
    }
    DropHeld();
  }
  // To no more than so many bits each.
  void CutTo(unsigned most) {
    while (!by_length_.empty() && by_length_.rbegin()->first > most) {
      const auto longest = std::prev(by_length_.end());
      for (uint64_t prefix : longest->second) {
        by_length_[most].insert(prefix >> (longest->first - most));
      }
      by_length_.erase(longest);
    }
    DropHeld();
  }
  double Rate() const {
    double rate = 0;
    for (const auto& [length, set] : by_length_) {
      rate += std::ldexp(static_cast<double>(set.size()), -static_cast<int>(length));
    }
    return rate;
  }

 private:
  // Those that a shorter one holds.
  void DropHeld() {
    for (auto& [length, set] : by_length_) {
      const unsigned p = length;
      std::erase_if(set,
                    [&](uint64_t prefix) { return p > 0 && Holds(prefix << (64 - p), p - 1); });
    }
  }
  std::map<unsigned, std::unordered_set<uint64_t>> by_length_;
};

// A filter beside its twin.
struct Twin {
  explicit Twin(const Shape& shape) : filter(shape) {}

  unsigned SlotBytes() const { return infini::SlotBytes(filter.header().shape); }
  // The bits of a prefix that is added now.
  unsigned NewBits() const {
    return infini::SizeAt(filter.header().counters.state).bits + 8 * SlotBytes() - 1;
  }
  // Exact hashes became prefixes.
  void TakeExact() {
    if (filter.exact()) return;
    for (uint64_t hash : exact) prefixes.Add(hash, NewBits());
    exact.clear();
  }

  void Add(uint64_t hash) {
    keys.push_back(hash);
    const bool was_exact = filter.exact();
    const bool seen = filter.Add(hash);
    if (was_exact) {
      if (!seen) exact.insert(hash);
      TakeExact();
    } else if (seen) {
      EXPECT_TRUE(prefixes.Holds(hash)) << "no prefix explains it";
    } else {
      EXPECT_FALSE(prefixes.Holds(hash) && !AtLinesEnd(hash));
      prefixes.Add(hash, NewBits());
    }
  }
  void AddDeferred(const std::vector<uint64_t>& hashes) {
    // Of what waits the twin knows nothing: it is asked in the order in which they are settled.
    for (uint64_t hash : hashes) {
      keys.push_back(hash);
      const bool was_exact = filter.exact();
      const uint64_t before = filter.header().counters.count;
      filter.AddDeferred(hash);
      filter.Settle();
      if (was_exact) {
        exact.insert(hash);
        TakeExact();
      } else if (filter.header().counters.count > before) {
        prefixes.Add(hash, NewBits());
      }
    }
  }
  // Whether a prefix in front of this hash may reach into its line, or out of it: of three
  // lines for two cells.
  bool AtLinesEnd(uint64_t hash) const {
    const infini::Size size = infini::SizeAt(filter.header().counters.state);
    if (size.lines == 2) return false;
    const uint64_t place = hash << (size.bits - 1);
    const uint64_t near = uint64_t{1} << (64 - 8 * SlotBytes() + 2);
    return FastRange(place > near ? place - near : 0, 3) !=
           FastRange(place < ~near ? place + near : ~uint64_t{0}, 3);
  }
  void MergeWith(const Twin& other) {
    keys.insert(keys.end(), other.keys.begin(), other.keys.end());
    const bool was_exact = filter.exact(), other_exact = other.filter.exact();
    filter = filter.MergedWith(other.filter);
    if (was_exact && other_exact) {
      exact.insert(other.exact.begin(), other.exact.end());
      TakeExact();
      return;
    }
    if (was_exact) std::swap(prefixes, const_cast<Prefixes&>(empty = other.prefixes));
    if (!was_exact && !other_exact) prefixes.Merge(other.prefixes);
    std::vector<uint64_t> hashes(exact.begin(), exact.end());
    if (other_exact) hashes.assign(other.exact.begin(), other.exact.end());
    exact.clear();
    if (!was_exact && !other_exact) return;
    std::sort(hashes.begin(), hashes.end());
    for (uint64_t hash : hashes) {
      if (!prefixes.Holds(hash)) prefixes.Add(hash, NewBits());
    }
  }

  void ExpectAgree(Random* random) const {
    std::unordered_set<uint64_t> distinct(keys.begin(), keys.end());
    const double n = static_cast<double>(distinct.size());
    for (uint64_t hash : distinct) ASSERT_TRUE(filter.Contains(hash)) << "lost";
    const Reading reading = filter.Read();
    if (filter.exact()) {
      ASSERT_EQ(reading.count, n);
      return;
    }
    ASSERT_LE(filter.header().counters.count,
              infini::Limit(SlotBytes(), filter.header().counters.state));
    ASSERT_NEAR(reading.fpr, prefixes.Rate(), 0.01 * prefixes.Rate());
    ASSERT_NEAR(reading.count, n, 0.01 * n + 5 * std::sqrt(n * reading.fpr) + 2);
    uint64_t differ = 0;
    for (int i = 0; i < 3000; ++i) {
      // Far from all keys, or near one, where only the last bits of its prefix differ.
      uint64_t hash = random->Next();
      if (random->OneIn(2)) hash = keys[random->Below(keys.size())] ^ hash >> random->Below(64);
      const bool seen = filter.Contains(hash), explained = prefixes.Holds(hash);
      ASSERT_TRUE(explained || !seen) << "no prefix explains it";
      differ += seen != explained && !AtLinesEnd(hash);
    }
    ASSERT_EQ(differ, 0u);
    const Bytes stored = filter.Canonical();
    Header header;
    ASSERT_EQ(Validate(stored.data(), stored.size(), &header), Flaw::kNone);
  }

  Filter filter;
  std::vector<uint64_t> keys;
  std::unordered_set<uint64_t> exact;
  Prefixes prefixes;
  Prefixes empty;
};

class InfiniTwin : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(SlotBytes, InfiniTwin, ::testing::Values(2, 3, 4, 5));

// Random sequences of all that can be done with two filters.
TEST_P(InfiniTwin, AgreesWithAnySequence) {
  const Shape plain = Growing(RateOfWidth(GetParam()));
  ASSERT_EQ(infini::SlotBytes(plain), GetParam());
  for (uint64_t seed = 0; seed < 20 / kQuick; ++seed) {
    Random random(seed);
    const Shape shape = seed % 4 == 3 ? infini::StateShape(plain) : plain;
    std::vector<Twin> twins(2, Twin(shape));
    uint64_t next = 0;
    for (int step = 0; step < 25; ++step) {
      Twin& twin = twins[random.Below(2)];
      const uint64_t many = random.Below(random.OneIn(3) ? 8000 : random.OneIn(2) ? 900 : 30);
      std::vector<uint64_t> hashes(many);
      for (uint64_t& hash : hashes) {
        hash = HashOf(random.OneIn(3) ? random.Below(next + 1) : next++, seed);
      }
      switch (random.Below(6)) {
        case 0:
          twin.AddDeferred(hashes);
          break;
        case 1:
          twin.filter.MakeCanonical();
          break;
        case 2:
          twin.filter.MakeCanonical();
          twin.filter.MakeWorkingForm();
          break;
        case 3:
          twin.MergeWith(&twin == &twins[0] ? twins[1] : twins[0]);
          break;
        default:
          for (uint64_t hash : hashes) twin.Add(hash);
      }
      if (HasFailure()) FAIL() << "seed " << seed << " step " << step;
      twin.ExpectAgree(&random);
      if (HasFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    // A state becomes plain.
    for (Twin& twin : twins) {
      if (!infini::IsState(shape)) continue;
      twin.filter.MakeCanonical();
      Bytes out(ReducedBytes(twin.filter.header(), plain));
      ReduceTo(twin.filter.image().data(), twin.filter.header(), plain, out.data());
      twin.filter = Filter(out);
      if (!twin.filter.exact()) twin.prefixes.CutTo(twin.NewBits());
      twin.ExpectAgree(&random);
      if (HasFailure()) FAIL() << "seed " << seed << " reduced";
    }
  }
}

// ---- the rate ---------------------------------------------------------------------------

// The sum of the rates stays below the one asked for up to the largest table.
TEST(InfiniRate, ConvergesBelowTheOneAskedFor) {
  for (double fpr :
       {0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0001, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9}) {
    const Shape shape = Growing(fpr);
    const unsigned width = infini::SlotBytes(shape);
    const auto most = static_cast<double>(infini::Limit(width, infini::kTopStep));
    EXPECT_LE(infini::RateOf(width, most), fpr);
    EXPECT_LE(Infini().expected_fpr(shape, most), fpr);
    EXPECT_EQ(Infini().growth->most_keys(shape), infini::Limit(width, infini::kTopStep));
    // No narrower slots would do.
    if (width > infini::kMinSlotBytes) {
      const auto fewer = static_cast<double>(infini::Limit(width - 1, infini::kTopStep));
      EXPECT_GT(infini::RateOf(width - 1, fewer), fpr);
    }
    // An eighth of it, of the states of aggregates.
    const Shape state = infini::StateShape(shape);
    EXPECT_LE(Infini().expected_fpr(state, static_cast<double>(infini::Limit(
                                               infini::SlotBytes(state), infini::kTopStep))),
              std::max(fpr / 8, 2e-10));
    EXPECT_TRUE(Infini().reducible(state, shape));
    EXPECT_FALSE(Infini().reducible(shape, state));
    EXPECT_FALSE(Infini().reducible(shape, shape));
  }
}

class InfiniRateKept : public ::testing::TestWithParam<double> {};
INSTANTIATE_TEST_SUITE_P(Rates, InfiniRateKept, ::testing::Values(0.1, 0.01, 0.001, 0.0001));

// One filter from its first key on: the rate is measured at every size, and is the one read.
TEST_P(InfiniRateKept, AtEverySize) {
  const double fpr = GetParam();
  Random random(31);
  Filter filter(Growing(fpr));
  const uint64_t most = kQuick == 1 && !kSanitize ? 5000000 : kSanitize ? 100000 : 1000000;
  const uint64_t probes = 1024 * (kQuick == 1 ? 4000 : 400);
  uint64_t key = 0;
  for (double size = 1; size <= static_cast<double>(most); size = std::ceil(size * 1.5)) {
    for (; static_cast<double>(key) < size; ++key) filter.AddDeferred(HashOf(key, 41));
    filter.Settle();
    const double rate =
        static_cast<double>(FoundOf(filter, probes, &random)) / static_cast<double>(probes);
    const Reading reading = filter.Read();
    EXPECT_LE(rate, 1.05 * fpr + 4 * StandardError(fpr, probes)) << key;
    EXPECT_LE(reading.fpr, fpr) << key;
    EXPECT_NEAR(rate, reading.fpr,
                5 * std::sqrt((reading.fpr + 1e-9) / static_cast<double>(probes)) +
                    3 / static_cast<double>(probes))
        << key;
    // A little more where keys were joined.
    EXPECT_LE(reading.fpr,
              1.02 * Infini().expected_fpr(filter.header().shape, static_cast<double>(key)))
        << key;
    EXPECT_NEAR(reading.count, size, 0.005 * size + 5 * std::sqrt(size * fpr) + 1e-9);
    EXPECT_FALSE(Overfull(filter.header(), reading));
  }
  std::vector<uint8_t> seen(1);
  for (uint64_t i = 0; i < key; ++i) ASSERT_TRUE(filter.Contains(HashOf(i, 41)));
}

// ---- sizes --------------------------------------------------------------------------------

TEST(InfiniSizes, AreTheStepsOfTheTable) {
  for (unsigned step = 0; step <= infini::kTopStep; ++step) {
    const infini::Size size = infini::SizeAt(step);
    EXPECT_EQ(infini::StateOf(size.Bytes()), step);
    EXPECT_EQ(Infini().growth->start(size.Bytes()).state, step);
    if (step > 0) {
      EXPECT_EQ(size.Lines() * (step % 2 == 1 ? 2 : 3),
                infini::SizeAt(step - 1).Lines() * (step % 2 == 1 ? 3 : 4));
    }
    for (double fpr : {0.01, 0.0001, 1e-7, 1e-9}) {
      const Shape shape = Growing(fpr);
      const uint64_t limit = infini::Limit(infini::SlotBytes(shape), step);
      EXPECT_EQ(Infini().growth->bytes_for(shape, limit), size.Bytes());
      EXPECT_EQ(Infini().growth->bytes_for(shape, limit + 1),
                infini::SizeAt(std::min(step + 1, infini::kTopStep)).Bytes());
      EXPECT_EQ(Infini().growth->limit(shape, Counters{0, step}),
                step < infini::kTopStep ? limit : ~uint64_t{0});
      EXPECT_TRUE(Infini().valid(shape, Counters{limit, step}));
      EXPECT_EQ(Infini().valid(shape, Counters{limit + 1, step}), step == infini::kTopStep);
    }
  }
  EXPECT_EQ(infini::SizeAt(0).Bytes(), 2048u);
  EXPECT_EQ(infini::SizeAt(infini::kTopStep).Bytes(), kMaxBodyBytes);
  EXPECT_FALSE(Infini().valid(Growing(0.01), Counters{0, infini::kTopStep + 1}));
}

// Beside a blocked Bloom filter that was made for exactly the number of keys.
TEST(InfiniSizes, AreAFewTimesThoseOfBlockedBloom) {
  for (const auto& [fpr, mean] : {std::pair{0.01, 2.8}, {0.0001, 2.0}}) {
    double sum = 0, worst = 0;
    int sizes = 0;
    const Shape shape = Growing(fpr);
    for (double keys = 1000; keys <= 1e8; keys *= 1.25) {
      const auto n = static_cast<uint64_t>(keys);
      const double bytes = kHeaderBytes + Infini().growth->bytes_for(shape, n);
      const double beside = kHeaderBytes + PlanKeys(Named("blocked_bloom"), n, fpr).bytes;
      sum += bytes / beside;
      worst = std::max(worst, bytes / beside);
      ++sizes;
    }
    std::printf("%g: %.3f times the size on average, %.3f at most\n", fpr, sum / sizes, worst);
    EXPECT_LE(sum / sizes, mean);
    EXPECT_LE(worst, 4);
  }
}

// A plan has a rate, and neither keys nor memory.
TEST(InfiniSizes, AreNotAskedFor) {
  Request request;
  Shape shape;
  ASSERT_EQ(PlanFilter(Infini(), request, 3, &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.keys, 0u);
  EXPECT_EQ(shape.bytes, kMaxBodyBytes);
  EXPECT_EQ(shape.fpr, 0.01);
  request.keys = 1;
  EXPECT_EQ(PlanFilter(Infini(), request, 3, &shape), PlanStatus::kConflict);
  request.keys = 0;
  request.memory = 1 << 20;
  EXPECT_EQ(PlanFilter(Infini(), request, 3, &shape), PlanStatus::kConflict);
  EXPECT_NE(Infini().conflict, nullptr);
  Options options;
  EXPECT_EQ(ParseOptions(Infini(), "keys=10", 7, &options).status, OptionStatus::kUnknown);
}

// ---- growing ------------------------------------------------------------------------------

class InfiniGrowth : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(SlotBytes, InfiniGrowth, ::testing::Values(2, 3, 4, 5));

// Step by step, many steps at once, or in one table: the same keys are found, and steps leave
// the rate as it is.
TEST_P(InfiniGrowth, ByOneStepOrByMany) {
  const Shape shape = Growing(RateOfWidth(GetParam()));
  Random random(GetParam());
  for (uint64_t keys : {600, 2000, 11000}) {
    Body first(shape);
    std::vector<uint64_t> hashes(keys);
    for (uint64_t i = 0; i < keys; ++i) hashes[i] = HashOf(i, keys);
    first.Insert(hashes.data(), keys);
    const Reading before = first.Read();
    Body steps(first), at_once(first);
    for (unsigned step = first.counters().state; step < first.counters().state + 9; ++step) {
      steps.GrowFor(infini::Limit(GetParam(), step) + 1);
      ASSERT_EQ(steps.counters().state, step + 1);
      ASSERT_EQ(steps.counters().count, first.counters().count);
      ASSERT_NEAR(steps.Read().fpr, before.fpr, 1e-9 * before.fpr) << step;
      Body jump(first);
      jump.GrowFor(infini::Limit(GetParam(), step) + 1);
      ASSERT_NEAR(jump.Read().fpr, before.fpr, 1e-9 * before.fpr) << step;
      ASSERT_TRUE(Infini().sound(shape, steps.counters(), steps.bytes().data()));
      ASSERT_TRUE(Infini().sound(shape, jump.counters(), jump.bytes().data()));
      for (uint64_t hash : hashes) {
        ASSERT_TRUE(steps.Contains(hash)) << step;
        ASSERT_TRUE(jump.Contains(hash)) << step;
      }
      for (int i = 0; i < 20000; ++i) {
        uint64_t hash = random.Next();
        if (random.OneIn(2)) hash = hashes[random.Below(keys)] ^ hash >> random.Below(64);
        ASSERT_EQ(steps.Contains(hash), jump.Contains(hash)) << step;
      }
    }
  }
}

// ---- merges -------------------------------------------------------------------------------

// Of any two sizes, disjoint and not: no key is missed, at no more than both rates, in no more
// bytes than a step above those of one filter with all keys.
TEST(InfiniMerge, OfAnyTwoSizes) {
  for (double fpr : {0.01, 0.0001, 1e-7, 1e-9}) {
    const Shape shape = Growing(fpr);
    for (uint64_t a : {0, 1, 300, 512, 600, 3000, 40000}) {
      for (uint64_t b : {0, 1, 400, 513, 5000, 40000}) {
        for (uint64_t common : {uint64_t{0}, std::min(a, b) / 2, std::min(a, b)}) {
          const uint64_t from = a - common, all = from + b;
          const Filter left = FilterOf(shape, 0, a), right = FilterOf(shape, from, all);
          const Filter merged = left.MergedWith(right), swapped = right.MergedWith(left);
          for (uint64_t key = 0; key < std::max(a, all); ++key) {
            ASSERT_TRUE(merged.Contains(HashOf(key, 9))) << a << " " << b << " " << common;
            ASSERT_TRUE(swapped.Contains(HashOf(key, 9))) << a << " " << b << " " << common;
          }
          const Reading reading = merged.Read();
          const double n = static_cast<double>(std::max(a, all));
          ASSERT_NEAR(reading.count, n, 0.01 * n + 5 * std::sqrt(n * reading.fpr) + 1);
          ASSERT_NEAR(swapped.Read().count, n, 0.01 * n + 5 * std::sqrt(n * reading.fpr) + 1);
          // Hashes that become prefixes have at least those of the size at the end.
          const double sum = left.Read().fpr + right.Read().fpr;
          const uint64_t exact = (a <= 512 ? a : 0) + (b <= 512 ? b : 0);
          const double as_keys = std::ldexp(static_cast<double>(exact),
                                            1 - 5 - static_cast<int>(8 * infini::SlotBytes(shape)));
          ASSERT_LE(reading.fpr, 1.0001 * sum + as_keys);
          const Filter one = FilterOf(shape, 0, std::max(a, all));
          if (one.exact()) {
            ASSERT_EQ(merged.Canonical(), one.Canonical());
          } else {
            ASSERT_FALSE(merged.exact());
            ASSERT_LE(merged.header().counters.state, one.header().counters.state + 1);
          }
        }
      }
    }
  }
}

// With itself, or what it has already, it stays as it is.
TEST(InfiniMerge, WithItselfChangesNothing) {
  for (double fpr : {0.01, 0.0001, 1e-9}) {
    for (uint64_t keys : {0, 100, 700, 3000, 50000}) {
      const Filter one = FilterOf(Growing(fpr), 0, keys);
      // A prefix over a line's end is in both lines then; a key that is added is in its own.
      const Filter itself = one.MergedWith(one);
      EXPECT_EQ(itself.header().counters.count, one.header().counters.count) << keys;
      EXPECT_EQ(itself.header().counters.state, one.header().counters.state) << keys;
      EXPECT_EQ(itself.Read().fpr, one.Read().fpr) << keys;
      EXPECT_EQ(itself.MergedWith(itself).Canonical(), itself.Canonical()) << keys;
      EXPECT_EQ(itself.MergedWith(one).Canonical(), itself.Canonical()) << keys;
      const Filter empty(one.header().shape);
      EXPECT_EQ(one.MergedWith(empty).Canonical(), one.Canonical()) << keys;
      EXPECT_EQ(empty.MergedWith(one).Canonical(), one.Canonical()) << keys;
      const Filter twice = one.MergedWith(FilterOf(one.header().shape, keys / 2, keys));
      EXPECT_LE(twice.header().counters.count, one.header().counters.count);
      // A key of both has the shorter of its two prefixes.
      EXPECT_LE(twice.Read().fpr, 2 * one.Read().fpr);
    }
  }
}

// Thirty days of one size: all keys of all of them, at no more than thirty rates.
TEST(InfiniMerge, OfThirtyDays) {
  const Shape shape = Growing(0.001);
  constexpr uint64_t kKeys = 7000;
  Filter all(shape);
  double sum = 0;
  for (uint64_t day = 0; day < 30; ++day) {
    // A fifth of the keys came the day before.
    const uint64_t from = day * kKeys * 4 / 5;
    const Filter one = FilterOf(shape, from, from + kKeys);
    sum += one.Read().fpr;
    all = all.MergedWith(one);
  }
  const uint64_t keys = 29 * kKeys * 4 / 5 + kKeys;
  for (uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(all.Contains(HashOf(key, 9)));
  const Reading reading = all.Read();
  EXPECT_LE(reading.fpr, sum);
  const double n = static_cast<double>(keys);
  EXPECT_NEAR(reading.count, n, 0.01 * n);
  EXPECT_LE(all.header().counters.state, infini::StepFor(infini::SlotBytes(shape), keys) + 1);
}

// The keys of one filter, or of a merge of many, are counted whatever the rate has become: the more
// of them hold others by chance, the fewer are taken.
TEST(InfiniMerge, CountsKeysAtHighRates) {
  const Shape shape = Growing(0.01);
  constexpr uint64_t kKeys = 20000;
  for (uint64_t common : {uint64_t{0}, kKeys / 4}) {
    Filter all(shape);
    for (uint64_t part = 0; part < 40; ++part) {
      const uint64_t from = part * (kKeys - common);
      all = all.MergedWith(FilterOf(shape, from, from + kKeys));
      const Reading reading = all.Read();
      const double n = static_cast<double>(from + kKeys);
      EXPECT_NEAR(reading.count, n, 0.003 * n) << part << " at " << reading.fpr;
    }
    EXPECT_GT(all.Read().fpr, 0.08);
  }
}

// A body that is made of the sorted hashes of two exact filters has an entry of full length for
// each, whether it is small or nearly full: its rate is exactly that of so many.
TEST(InfiniMerge, OfExactFiltersFillsAllLinesAlike) {
  for (double fpr : {0.1, 0.01, 0.001, 0.0001, 1e-6}) {
    const Shape plain = Growing(fpr);
    for (const Shape& shape : {plain, Infini().growth->state_shape(plain)}) {
      for (uint64_t keys = 513; keys <= 1024; keys += 7) {
        const Filter left = FilterOf(shape, 0, 512);
        const Filter right = FilterOf(shape, std::min<uint64_t>(512, keys - 400), keys);
        const Filter sorted = left.MergedWith(right);
        Filter working = left, other = right;
        working.MakeWorkingForm();
        other.MakeWorkingForm();
        const Filter arrived = working.MergedWith(other);
        for (const Filter* merged : {&sorted, &arrived}) {
          ASSERT_FALSE(merged->exact());
          const unsigned bits = infini::SizeAt(merged->header().counters.state).bits +
                                8 * infini::SlotBytes(shape) - 1;
          const double rate = std::ldexp(static_cast<double>(keys), -static_cast<int>(bits));
          EXPECT_NEAR(merged->Read().fpr, rate, 0.01 * rate) << fpr << " " << keys;
          for (uint64_t key = 0; key < keys; ++key) ASSERT_TRUE(merged->Contains(HashOf(key, 9)));
        }
      }
      // The same into a body that is there already, and has no room for more afterwards.
      Filter full = FilterOf(shape, 0, 600);
      const uint64_t limit = infini::LimitOf(shape, full.header().counters);
      const Filter more = FilterOf(shape, 600, limit);
      const Filter both = full.MergedWith(more);
      EXPECT_EQ(both.header().counters.state, full.header().counters.state);
      EXPECT_NEAR(both.Read().fpr, full.Read().fpr * static_cast<double>(limit) / 600,
                  0.01 * both.Read().fpr);
    }
  }
}

// ---- the largest ----------------------------------------------------------------------------

// Past its last key it takes more: none is lost, and it says that it is overfull.
TEST(InfiniLargest, TakesKeysForEver) {
  if (kQuick > 1 || kSanitize) GTEST_SKIP() << "512 MB are filled in the thorough run";
  const Shape shape = Growing(0.01);
  const uint64_t most = Infini().growth->most_keys(shape);
  Body body(shape);
  std::vector<uint64_t> hashes(1 << 16);
  uint64_t key = 0;
  const auto fill = [&](uint64_t end) {
    while (key < end) {
      for (uint64_t& hash : hashes) hash = HashOf(key++, 4);
      body.Try(hashes.data(), hashes.size(), nullptr);
    }
  };
  Header header = {};
  header.method = &Infini();
  header.shape = shape;
  header.form = Form::kFull;
  fill(most);
  header.counters = body.counters();
  const Reading before = body.Read();
  EXPECT_EQ(body.counters().state, infini::kTopStep);
  EXPECT_LE(before.fpr, 0.01);
  EXPECT_FALSE(Overfull(header, before));
  fill(most + most / 10);
  header.counters = body.counters();
  const Reading after = body.Read();
  EXPECT_EQ(body.bytes().size(), kMaxBodyBytes);
  EXPECT_GT(after.fpr, before.fpr);
  EXPECT_TRUE(Overfull(header, after));
  EXPECT_TRUE(Infini().sound(shape, body.counters(), body.bytes().data()));
  for (uint64_t i = 0; i < key; i += 7) ASSERT_TRUE(body.Contains(HashOf(i, 4))) << i;
  Random random(8);
  uint64_t found = 0;
  for (int i = 0; i < 1000000; ++i) found += body.Contains(random.Next());
  EXPECT_NEAR(static_cast<double>(found) / 1e6, after.fpr, 0.02 * after.fpr + 0.001);
}

}  // namespace
}  // namespace dedup::test
