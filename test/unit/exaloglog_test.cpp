// exaloglog: the sketch against a slow twin that keeps what each register saw, merging and
// reducing against building at once, and the estimate against the truth, from one key to
// 10^12: by keys, and by register states that are drawn as so many keys leave them.

#include "core/methods/exaloglog.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& ExaLogLog() { return CountMethod(); }

Shape WithPrecision(unsigned p) { return PlanMemory(ExaLogLog(), exaloglog::BytesFor(p), 0.01); }

// What the definition says of a hash.
struct Update {
  uint64_t at;
  int value;
};
Update UpdateOf(uint64_t hash, unsigned p) {
  int zeros = 0;
  for (int bit = 63; bit >= static_cast<int>(p) + 2 && (hash >> bit & 1) == 0; --bit) ++zeros;
  return {hash >> 2 & ((uint64_t{1} << p) - 1), 4 * zeros + static_cast<int>(hash & 3) + 1};
}

// The twin: every update value of every register. A register is written from them.
class Twin {
 public:
  explicit Twin(unsigned p) : p_(p), values_(size_t{1} << p) {}
  void Add(uint64_t hash) {
    const Update update = UpdateOf(hash, p_);
    values_[update.at].insert(update.value);
  }
  uint32_t Register(uint64_t at) const {
    if (values_[at].empty()) return 0;
    const int u = *values_[at].rbegin();
    uint32_t value = static_cast<uint32_t>(u) << 20;
    for (int back = 1; back <= 20; ++back) {
      // That it saw "0", which every register did, is written too.
      if (u == back || values_[at].count(u - back) > 0) value |= uint32_t{1} << (20 - back);
    }
    return value;
  }
  Bytes Body() const {
    Bytes body(7 * values_.size() / 2);
    for (uint64_t at = 0; at < values_.size(); at += 2) {
      const uint64_t two = Register(at) | uint64_t{Register(at + 1)} << 28;
      for (int byte = 0; byte < 7; ++byte) {
        body[7 * at / 2 + byte] = static_cast<uint8_t>(two >> (8 * byte));
      }
    }
    return body;
  }

 private:
  unsigned p_;
  std::vector<std::set<int>> values_;
};

// A hash with long runs of zeros more often than chance has them.
uint64_t RunOfZeros(Random* random) { return random->Next() >> random->Below(64); }

TEST(ExaLogLog, IsWhatItsTwinKeeps) {
  for (unsigned p : {4u, 5u, 9u, 12u}) {
    const Shape shape = WithPrecision(p);
    ASSERT_EQ(shape.bytes, 7u << (p - 1));
    Random random(p);
    Body body(shape), batches(shape);
    Twin twin(p);
    std::vector<uint64_t> hashes;
    for (int i = 0; i < 20000; ++i) {
      hashes.push_back(i % 3 == 0 ? RunOfZeros(&random) : random.Next());
      const Bytes before = body.bytes();
      const bool seen = body.TestAndAdd(hashes.back());
      twin.Add(hashes.back());
      if (i % 100 == 0) {
        ASSERT_EQ(seen, before == body.bytes());
        ASSERT_EQ(body.bytes(), twin.Body());
      }
      ASSERT_TRUE(body.Contains(hashes.back()));
    }
    EXPECT_EQ(body.bytes(), twin.Body());
    batches.Insert(hashes.data(), hashes.size());
    std::reverse(hashes.begin(), hashes.end());
    batches.TestAndAdd(hashes.data(), hashes.size(), nullptr);
    EXPECT_EQ(batches.bytes(), body.bytes());
  }
}

TEST(ExaLogLog, MergingIsBuildingAtOnce) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const Shape shape = WithPrecision(4 + static_cast<unsigned>(random.Below(6)));
    Body left(shape), right(shape), both(shape);
    for (uint64_t n = random.Below(3000); n > 0; --n) {
      const uint64_t hash = random.OneIn(4) ? RunOfZeros(&random) : random.Next();
      const uint64_t to = random.Below(3);
      if (to != 1) left.Insert(hash);
      if (to != 0) right.Insert(hash);
      both.Insert(hash);
    }
    Body swapped = right;
    swapped.Merge(left);
    left.Merge(right);
    ASSERT_EQ(left.bytes(), both.bytes());
    ASSERT_EQ(swapped.bytes(), both.bytes());
    left.Merge(left);
    ASSERT_EQ(left.bytes(), both.bytes());
  }
}

TEST(ExaLogLog, ReducingIsBuildingCoarser) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const auto p = 5 + static_cast<unsigned>(random.Below(7));
    const auto q = 4 + static_cast<unsigned>(random.Below(p - 4));
    const Shape fine = WithPrecision(p), coarse = WithPrecision(q);
    Body from(fine), direct(coarse);
    for (uint64_t n = random.Below(3000); n > 0; --n) {
      // Often with nothing but zeros in front of the register's number, and in it.
      const uint64_t hash = random.OneIn(2) ? random.Next() : random.Next() >> random.Below(64);
      from.Insert(hash);
      direct.Insert(hash);
    }
    ASSERT_TRUE(ExaLogLog().reducible(fine, coarse));
    ASSERT_FALSE(ExaLogLog().reducible(coarse, fine));
    ASSERT_FALSE(ExaLogLog().reducible(fine, fine));
    Bytes reduced(coarse.bytes);
    Counters counters;
    ExaLogLog().reduce(fine, from.counters(), from.bytes().data(), coarse, coarse.bytes, &counters,
                       reduced.data());
    ASSERT_EQ(reduced, direct.bytes()) << p << " to " << q;
  }
  Shape other = WithPrecision(6);
  other.seed = 1;
  EXPECT_FALSE(ExaLogLog().reducible(WithPrecision(8), other));
  other = WithPrecision(6);
  other.hash = kSipHash;
  EXPECT_FALSE(ExaLogLog().reducible(WithPrecision(8), other));
}

// As a filter: exact ones stay so while their hashes fit, and all forms reduce alike.
TEST(ExaLogLog, FiltersOfEveryFormReduce) {
  const Shape fine = WithPrecision(8), coarse = WithPrecision(5);  // 112 hashes, 14
  for (uint64_t keys : {0, 1, 14, 15, 50, 112, 113, 5000}) {
    Filter working(fine), direct(coarse);
    for (uint64_t key = 0; key < keys; ++key) {
      working.Add(HashOf(key));
      direct.Add(HashOf(key));
    }
    const Filter stored(working.Canonical());
    for (const Filter* filter : std::initializer_list<const Filter*>{&working, &stored}) {
      ASSERT_TRUE(Reducible(filter->header(), coarse));
      Bytes out(ReducedBytes(filter->header(), coarse));
      ReduceTo(filter->image().data(), filter->header(), coarse, out.data());
      EXPECT_EQ(out, direct.Canonical()) << keys;
    }
  }
  EXPECT_FALSE(Reducible(Filter(coarse).header(), fine));
  EXPECT_FALSE(Reducible(Filter(PlanKeys(Named("bloom"), 1000, 0.01)).header(), coarse));
}

TEST(ExaLogLog, TakesTheLargestPrecisionThatFits) {
  for (unsigned p = 4; p <= 26; ++p) {
    const uint64_t bytes = (uint64_t{7} << p) / 2;
    EXPECT_EQ(PlanMemory(ExaLogLog(), bytes, 0.01).detail, p);
    EXPECT_EQ(PlanMemory(ExaLogLog(), 2 * bytes - 1, 0.01).detail, p);
  }
  EXPECT_EQ(PlanMemory(ExaLogLog(), kMaxBodyBytes, 0.01).detail, 26u);
  EXPECT_FALSE(TryMemory(ExaLogLog(), 55, 0.01).has_value());
  EXPECT_FALSE(TryMemory(ExaLogLog(), kMaxBodyBytes + 1, 0.01).has_value());
  EXPECT_EQ(PlanMemory(ExaLogLog(), 4096, 0.01).bytes, 3584u);
  EXPECT_EQ(PlanMemory(ExaLogLog(), 16384, 0.01).bytes, 14336u);
}

TEST(ExaLogLog, TakesTheSmallestPrecisionWithinAnError) {
  const auto planned = [](double error) {
    Request request;
    request.options.value[0] = error;
    request.options.given[0] = true;
    Shape shape;
    EXPECT_EQ(PlanFilter(ExaLogLog(), request, 0, &shape), PlanStatus::kOk);
    EXPECT_EQ(shape.keys, 0u);
    EXPECT_EQ(shape.fpr, 0);
    return shape.detail;
  };
  EXPECT_EQ(planned(0.5), 4u);
  EXPECT_EQ(planned(0.01), 11u);
  EXPECT_EQ(planned(0.0057), 12u);
  EXPECT_EQ(planned(0.0056), 13u);
  EXPECT_EQ(planned(0.00005), 26u);
  Request none;
  Shape shape;
  EXPECT_EQ(PlanFilter(ExaLogLog(), none, 0, &shape), PlanStatus::kNoSize);
  none.memory = 4096;
  none.options.given[0] = true;
  none.options.value[0] = 0.01;
  EXPECT_EQ(PlanFilter(ExaLogLog(), none, 0, &shape), PlanStatus::kTwoSizes);
}

// ---- the constants -----------------------------------------------------------------

// Of a register's values in the limit of many keys, for z = n/m: value i has the rate
// z b^-i (b - 1), is seen or not on its own, and is told of if it is u or one of u-1 ...
// u-20. The Fisher information of ln n of one register, averaged over a period of z.
double Information() {
  const double b = std::pow(2, 0.25);
  double sum = 0;
  constexpr int kSteps = 64;
  for (int step = 0; step < kSteps; ++step) {
    const double z = std::pow(b, static_cast<double>(step) / kSteps) * 1e6;
    // Value i tells something if no value above i+20 came, and if it did or one above did;
    // the maximum's own silence above it is the rate of all of those.
    double information = 0;
    for (int i = -60; i < 200; ++i) {
      const double rate = z * std::pow(b, -i) * (b - 1);
      const double above_window = z * std::pow(b, -(i + 20));  // rates of i+21 and above
      // Observed and unseen above the window: the information of "seen or not" about ln z,
      // rate^2 / (exp(rate) - 1), in the runs in which it is told of.
      information += rate * rate / std::expm1(rate) * std::exp(-above_window);
    }
    sum += information;
  }
  return sum / kSteps;
}

double Zeta(double s, double q) {
  double sum = 0;
  constexpr int kTerms = 100000;
  for (int k = kTerms - 1; k >= 0; --k) sum += std::pow(k + q, -s);
  return sum + std::pow(kTerms + q, 1 - s) / (s - 1) + 0.5 * std::pow(kTerms + q, -s);
}

TEST(ExaLogLog, ConstantsAreTheFormulas) {
  const double b = std::pow(2, 0.25), a = std::pow(b, -20) / (b - 1);
  const double zeta2 = Zeta(2, 1 + a), zeta3 = Zeta(3, 1 + a);
  EXPECT_NEAR(exaloglog::kErrorFactor, std::sqrt(std::log(b) / zeta2), 1e-5);
  EXPECT_NEAR(exaloglog::kBias, std::log(b) * (1 + 2 * a) * zeta3 / (zeta2 * zeta2), 1e-5);
  EXPECT_NEAR(exaloglog::kErrorFactor, 1 / std::sqrt(Information()), 1e-4);
  // Bits times the variance: 43 % below HyperLogLog's 6.48 with registers of 6 bits.
  EXPECT_NEAR(28 * exaloglog::kErrorFactor * exaloglog::kErrorFactor, 3.67, 0.005);
}

// ---- the estimate ---------------------------------------------------------------------

// A sketch as about n random keys leave it (Poisson's number of them, whose own error of
// 1/sqrt(n) is nothing from 10^6 on): in each register each value comes at
// Poisson's rate n/m times its probability, and only the values near the largest are drawn.
Bytes Simulated(unsigned p, double n, Random* random) {
  const Shape shape = WithPrecision(p);
  Bytes body(shape.bytes);
  const int most = static_cast<int>(exaloglog::MostValue(p));
  const double m = static_cast<double>(uint64_t{1} << p);
  const auto exponent = [&](int k) {
    const int j = 3 + (k - 1) / 4, last = 64 - static_cast<int>(p);
    return j < last ? j : last;
  };
  std::vector<double> comes(static_cast<size_t>(most) + 1);
  int first = most;  // above this no value is likely to come in any of a thousand sketches
  for (int k = most; k >= 1; --k) {
    comes[static_cast<size_t>(k)] = -std::expm1(-n / m * std::ldexp(1, -exponent(k)));
  }
  while (first > 1 && comes[static_cast<size_t>(first)] * m < 1e-9) --first;
  for (uint64_t at = 0; at < uint64_t{1} << p; ++at) {
    int u = 0;
    uint32_t value = 0;
    for (int k = first; k >= 1 && (u == 0 || u - k <= 20); --k) {
      if (random->Unit() >= comes[static_cast<size_t>(k)]) continue;
      if (u == 0) u = k;
      value |= u == k ? static_cast<uint32_t>(u) << 20 : uint32_t{1} << (20 - (u - k));
    }
    exaloglog::StoreRegister(body.data(), at, value);
  }
  return body;
}

struct Errors {
  double bias, rmse;
  double bias_error;  // standard error of the bias
};
template <typename Draw>
Errors Measure(int runs, double truth, Draw draw) {
  double sum = 0, squares = 0;
  for (int run = 0; run < runs; ++run) {
    const double error = draw(run) / truth - 1;
    sum += error;
    squares += error * error;
  }
  const double rmse = std::sqrt(squares / runs);
  return {sum / runs, rmse, rmse / std::sqrt(runs)};
}

// At most a tenth of the standard error of bias, beyond what chance makes of the measure,
// and the error of the theory, or less while keys are few.
void ExpectGood(const Errors& errors, double standard, int runs, const std::string& where) {
  EXPECT_LE(std::abs(errors.bias), 0.1 * standard + 3 * errors.bias_error) << where;
  EXPECT_LE(errors.rmse, standard * (1 + 3 / std::sqrt(2.0 * runs))) << where;
}

TEST(ExaLogLog, EstimatesManyKeys) {
  const int runs = static_cast<int>(100 / kThin);
  const Shape shape = WithPrecision(12);
  Random random(3);
  for (double n : {1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e15, 1e17}) {
    const Errors errors = Measure(runs, n, [&](int) {
      const Bytes body = Simulated(12, n, &random);
      return ExaLogLog().read(shape, Counters{}, body.data()).count;
    });
    ExpectGood(errors, 0.00566, runs, "n=" + std::to_string(n));
    EXPECT_LE(errors.rmse, 0.008) << n;
    // Nor much less than the theory, where there are many keys to a register.
    EXPECT_GE(errors.rmse, 0.00566 * (1 - 4 / std::sqrt(2.0 * runs))) << n;
  }
}

// As filters, and so through the exact form and the end of it.
TEST(ExaLogLog, CountsKeys) {
  const int runs = static_cast<int>(200 / kThin);
  const Shape shape = WithPrecision(12);
  std::vector<uint64_t> at = {1,    2,    10,   100,  1000, 1791,  1792,
                              1793, 1800, 2000, 3000, 5000, 20000, 100000};
  std::vector<std::vector<double>> counts(at.size());
  for (int run = 0; run < runs; ++run) {
    Filter filter(shape);
    uint64_t keys = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      for (; keys < at[i]; ++keys) filter.Add(HashOf(keys, static_cast<uint64_t>(run)));
      ASSERT_EQ(filter.exact(), at[i] <= 1792);
      counts[i].push_back(filter.Read().count);
    }
  }
  for (size_t i = 0; i < at.size(); ++i) {
    const double truth = static_cast<double>(at[i]);
    if (at[i] <= 1792) {
      for (double count : counts[i]) ASSERT_EQ(count, truth);
      continue;
    }
    const Errors errors =
        Measure(runs, truth, [&](int run) { return counts[i][static_cast<size_t>(run)]; });
    ExpectGood(errors, 0.00566, runs, "n=" + std::to_string(at[i]));
  }
}

TEST(ExaLogLog, SmallSketchesEstimateToo) {
  const int runs = static_cast<int>(4000 / kThin);
  for (unsigned p : {4u, 5u, 7u}) {
    const Shape shape = WithPrecision(p);
    const double standard = exaloglog::StandardError(p);
    Random random(p);
    for (double n : {100.0, 1e3, 1e6, 1e10}) {
      const Errors errors = Measure(runs, n, [&](int) {
        if (n > 1000) {
          const Bytes simulated = Simulated(p, n, &random);
          return ExaLogLog().read(shape, Counters{}, simulated.data()).count;
        }
        Body body(shape);
        for (int key = 0; key < n; ++key) body.Insert(random.Next());
        return body.Read().count;
      });
      EXPECT_LE(std::abs(errors.bias), 0.1 * standard + 3 * errors.bias_error) << p << " " << n;
      // Of few registers the second order shows: a tenth at 16.
      EXPECT_LE(errors.rmse, standard * 1.1) << p << " " << n;
    }
  }
}

// No bits make it anything but a number, and not a negative one.
TEST(ExaLogLog, AnyBitsGiveANumber) {
  Random random(5);
  for (int round = 0; round < 3000; ++round) {
    const Shape shape = WithPrecision(4 + static_cast<unsigned>(random.Below(5)));
    Body body(shape);
    const uint64_t kind = random.Below(5);
    for (size_t i = 0; i < shape.bytes; ++i) {
      body.bytes()[i] = kind == 0   ? 0xff
                        : kind == 1 ? static_cast<uint8_t>(random.Next())
                        : kind == 2 ? static_cast<uint8_t>(random.OneIn(9) ? random.Next() : 0)
                        : kind == 3 ? 0
                                    : static_cast<uint8_t>(random.OneIn(9) ? random.Next() : 0xff);
    }
    const Reading reading = body.Read();
    ASSERT_TRUE(std::isfinite(reading.count));
    ASSERT_GE(reading.count, 0);
    ASSERT_LT(reading.count, 0x1p63);
    ASSERT_GE(reading.fpr, 0);
    ASSERT_LE(reading.fpr, 1);
    if (kind == 3) {
      ASSERT_EQ(reading.count, 0);
    }
    Body other = body;
    other.Insert(random.Next());
    other.Merge(body);
    const Shape coarse = WithPrecision(4);
    if (!ExaLogLog().reducible(shape, coarse)) continue;
    Body reduced(coarse);
    ExaLogLog().reduce(shape, other.counters(), other.bytes().data(), coarse, coarse.bytes,
                       &reduced.counters(), reduced.bytes().data());
    ASSERT_TRUE(std::isfinite(reduced.Read().count));
  }
}

// Every value of every register seen, and the largest key counts below it.
TEST(ExaLogLog, EndsOfTheScale) {
  for (unsigned p : {4u, 12u}) {
    const Shape shape = WithPrecision(p);
    Body body(shape);
    for (uint64_t at = 0; at < uint64_t{1} << p; ++at) {
      for (int zeros = 0; zeros <= 62 - static_cast<int>(p); ++zeros) {
        for (uint64_t low = 0; low < 4; ++low) {
          const uint64_t top = zeros < 62 - static_cast<int>(p) ? uint64_t{1} << (63 - zeros) : 0;
          body.Insert(top | at << 2 | low);
        }
      }
    }
    EXPECT_GE(body.Read().count, 0x1p62);
    EXPECT_LT(body.Read().count, 0x1p63);
    EXPECT_EQ(body.Read().fpr, 1);
    body.Clear();
    body.Insert(HashOf(1));
    EXPECT_NEAR(body.Read().count, 1, 0.1 / static_cast<double>(uint64_t{1} << (p / 2)));
    EXPECT_NEAR(1 - body.Read().fpr, 1, 1.0 / (uint64_t{1} << p));
  }
}

// The same number wherever it is worked out: frozen, to the last bit.
TEST(ExaLogLog, EstimatesAreFrozen) {
  Body body(WithPrecision(10));
  for (uint64_t key = 0; key < 100000; ++key) body.Insert(HashOf(key));
  const double count = body.Read().count;
  EXPECT_NEAR(count, 100000, 3 * 0.01132 * 100000);
  EXPECT_EQ(count, 0x1.8bdb8e5f68e2ap+16);
}

// The exponential by single operations is the library's.
TEST(ExaLogLog, ExpMinus1) {
  for (double v = 1e-12; v < 100; v *= 1.37) {
    EXPECT_NEAR(exaloglog::ExpMinus1(v) / std::expm1(v), 1, 1e-13) << v;
  }
}

}  // namespace
}  // namespace dedup::test
