// sbf: cell by cell against a plain twin for all widths; the paper's sums (Eq. 1 to 17)
// against what the method makes of them and against what filters show; merges.

#include "core/methods/sbf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& Sbf() { return Named("sbf"); }

// The parameters of a shape, as Describe() tells them.
struct Parameters {
  unsigned d = 0;
  int k = 0;
  unsigned long long p = 0, cells = 0;
  int max() const { return (1 << d) - 1; }
};

Parameters ParametersOf(const Shape& shape) {
  char text[200];
  Sbf().describe(shape, text, sizeof text);
  Parameters found;
  EXPECT_EQ(
      std::sscanf(text, "d=%u k=%d p=%llu cells=%llu", &found.d, &found.k, &found.p, &found.cells),
      4)
      << text;
  return found;
}

unsigned CellAt(const Body& body, unsigned d, uint64_t cell) {
  unsigned value = 0;
  for (unsigned i = 0; i < d; ++i) {
    const uint64_t bit = cell * d + i;
    value |= (body.bytes()[bit / 8] >> bit % 8 & 1u) << i;
  }
  return value;
}

// Algorithm 1, with the P cells adjacent: probe, decrement one by one, set.
class Twin {
 public:
  Twin(const Parameters& of, uint64_t seed) : of_(of), seed_(seed), cells_(of.cells) {}

  bool Contains(uint64_t hash) const {
    for (int i = 0; i < of_.k; ++i) {
      if (cells_[Position(hash, i)] == 0) return false;
    }
    return true;
  }
  bool Add(uint64_t hash) {
    const bool seen = Contains(hash);
    uint64_t at = StepRandom(seed_, steps_++).Below(cells_.size());
    for (uint64_t i = 0; i < of_.p; ++i) {
      if (cells_[at] >= 1) --cells_[at];
      at = (at + 1) % cells_.size();
    }
    for (int i = 0; i < of_.k; ++i) cells_[Position(hash, i)] = of_.max();
    return seen;
  }
  void Merge(const Twin& other) {
    for (size_t i = 0; i < cells_.size(); ++i) cells_[i] = std::max(cells_[i], other.cells_[i]);
    steps_ += other.steps_;
  }
  void ExpectSame(const Body& body) const {
    EXPECT_EQ(body.counters().count, steps_);
    for (size_t i = 0; i < cells_.size(); ++i) {
      ASSERT_EQ(CellAt(body, of_.d, i), static_cast<unsigned>(cells_[i])) << i;
    }
  }
  uint64_t zeros() const {
    return static_cast<uint64_t>(std::count(cells_.begin(), cells_.end(), 0));
  }

 private:
  size_t Position(uint64_t hash, int i) const {
    return FastRange(Derived(hash, static_cast<unsigned>(i)), cells_.size());
  }
  Parameters of_;
  uint64_t seed_;
  uint64_t steps_ = 0;
  std::vector<int> cells_;
};

// Every width; P from 1 to all cells, so that runs begin and end anywhere and go round
// the end; one by one and in batches.
TEST(Sbf, DoesWhatItsTwinDoes) {
  for (unsigned d = 1; d <= 8; ++d) {
    for (uint64_t bytes : {8, 16, 200}) {
      const uint64_t cells = bytes * 8 / d;
      for (uint64_t p : {uint64_t{1}, uint64_t{4}, cells / 3, cells - 1, cells}) {
        for (int k : {1, 3, 7}) {
          const std::string options = "d=" + std::to_string(d) + " k=" + std::to_string(k) +
                                      " p=" + std::to_string(std::max<uint64_t>(p, 1));
          const Shape shape = PlanMemory(Sbf(), bytes, 0.01, options, bytes + d);
          const Parameters of = ParametersOf(shape);
          ASSERT_EQ(of.cells, cells);
          Body body(shape), other(shape);
          Twin twin(of, shape.seed), other_twin(of, shape.seed);
          Random random(d * 100 + p);
          for (int round = 0; round < 20; ++round) {
            std::vector<uint64_t> hashes(1 + random.Below(40));
            for (uint64_t& hash : hashes) hash = HashOf(random.Below(cells + 3));
            Bytes seen(hashes.size());
            body.TestAndAdd(hashes.data(), hashes.size(), seen.data());
            for (size_t i = 0; i < hashes.size(); ++i) {
              ASSERT_EQ(twin.Add(hashes[i]), seen[i] != 0) << NameOf(shape);
            }
            for (int i = 0; i < 10; ++i) {
              const uint64_t hash = HashOf(random.Below(2 * cells));
              ASSERT_EQ(body.Contains(hash), twin.Contains(hash));
              other.Insert(hash);
              other_twin.Add(hash);
            }
            if (round % 8 == 7) {
              body.Merge(other);
              twin.Merge(other_twin);
            }
            twin.ExpectSame(body);
          }
          const double share = static_cast<double>(cells - twin.zeros()) / of.cells;
          EXPECT_NEAR(body.Read().fpr, std::pow(share, k), 1e-12);
        }
      }
    }
  }
}

// ---- parameters -------------------------------------------------------------

// Eq. 8.
double StableRate(double k, double p, double m, double max) {
  return std::pow(1 - std::pow(1 / (1 + 1 / (p * (1 / k - 1 / m))), max), k);
}

TEST(Sbf, PFollowsEquation17) {
  struct {
    const char* options;
    double fpr;
    int k;
    uint64_t p;
  } known[] = {
      // The figures of oracle.md, section 3 and 2.
      {"d=2 k=2", 0.02, 2, 38},
      {"d=3 k=3", 0.01, 3, 85},
      // K is half of log2(1/fpr), at least 1; P by hand for Max = 1, 1/m left out:
      // K / (1/(1 - fpr^(1/K)) - 1) = K (1/fpr^(1/K) - 1).
      {"", 0.5, 1, 1},
      {"", 0.1, 2, 4},     // 2 (3.162 - 1) = 4.32
      {"", 0.01, 3, 11},   // 3 (4.642 - 1) = 10.92
      {"", 0.001, 5, 15},  // 5 (3.981 - 1) = 14.91
      {"k=1", 0.001, 1, 999},
      {"", 1e-9, 15, 45},  // 15 (3.981 - 1) = 44.7
  };
  for (const auto& one : known) {
    const Shape shape = PlanMemory(Sbf(), 131072, one.fpr, one.options);
    const Parameters of = ParametersOf(shape);
    EXPECT_EQ(of.k, one.k) << one.options << " " << one.fpr;
    EXPECT_EQ(of.p, one.p) << one.options << " " << one.fpr;
    EXPECT_EQ(of.cells, 1048576 / of.d);
    EXPECT_EQ(shape.keys, of.max() * of.cells / of.p);
  }
  for (double fpr : {0.5, 0.3, 0.1, 0.01, 1e-4, 1e-9}) {
    for (unsigned d = 1; d <= 8; ++d) {
      const Shape shape = PlanMemory(Sbf(), 131072, fpr, "d=" + std::to_string(d));
      const Parameters of = ParametersOf(shape);
      const double m = static_cast<double>(of.cells), max = of.max(), k = of.k;
      EXPECT_EQ(of.k, std::max(1.0, std::round(0.5 * std::log2(1 / fpr))));
      const double p =
          1 / ((1 / std::pow(1 - std::pow(fpr, 1 / k), 1 / max) - 1) * (1 / k - 1 / m));
      EXPECT_EQ(of.p, std::max(1.0, std::round(p)));
      // So that the bound is the rate asked for, but for the rounding of P.
      EXPECT_LE(StableRate(k, p, m, max), fpr * 1.0000001);
      EXPECT_GE(StableRate(k, p, m, max), fpr * 0.9999999);
    }
  }
}

TEST(Sbf, StableRateIsEquation8) {
  // oracle.md: 11.1 % and 28.04 %.
  const Shape one = PlanMemory(Sbf(), 131072, 0.01, "d=1 k=2 p=4");
  EXPECT_NEAR(Sbf().expected_fpr(one, 1e12), 0.1111, 0.0001);
  const Shape two = PlanMemory(Sbf(), 131072, 0.01, "d=2 k=2 p=7");
  EXPECT_NEAR(Sbf().expected_fpr(two, 1e12), 0.2804, 0.0001);
  for (unsigned d = 1; d <= 8; ++d) {
    for (uint64_t p : {1, 5, 60}) {
      const Shape shape =
          PlanMemory(Sbf(), 4096, 0.01, "k=4 d=" + std::to_string(d) + " p=" + std::to_string(p));
      const Parameters of = ParametersOf(shape);
      const double expected =
          StableRate(4, static_cast<double>(p), static_cast<double>(of.cells), of.max());
      EXPECT_NEAR(Sbf().expected_fpr(shape, 1e12), expected, 1e-9 * expected);
    }
  }
}

TEST(Sbf, SmallestLargestAndConflicts) {
  const auto plan = [](uint64_t memory, double fpr, const char* options, Shape* shape) {
    Request request;
    request.memory = memory;
    request.fpr = fpr;
    request.options = OptionsFrom(Sbf(), options);
    return PlanFilter(Sbf(), request, 0, shape);
  };
  Shape shape;
  EXPECT_EQ(plan(7, 0.01, "", &shape), PlanStatus::kMemoryTooSmall);
  EXPECT_EQ(plan(15, 0.01, "", &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.bytes, 8u);
  // More cells than K, and no fewer than P.
  EXPECT_EQ(plan(8, 0.01, "d=8 k=8 p=1", &shape), PlanStatus::kMemoryTooSmall);
  EXPECT_EQ(plan(8, 0.01, "d=8 k=7 p=8", &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.keys, 255u);
  EXPECT_EQ(plan(8, 0.01, "d=8 k=7 p=9", &shape), PlanStatus::kMemoryTooSmall);
  EXPECT_EQ(plan(kMaxBodyBytes, 0.01, "", &shape), PlanStatus::kOk);
  EXPECT_EQ(ParametersOf(shape).cells, uint64_t{1} << 32);
  EXPECT_TRUE(Sbf().valid(shape, {}));
  EXPECT_EQ(plan(kMaxBodyBytes + 8, 0.01, "", &shape), PlanStatus::kTooLarge);
  EXPECT_EQ(plan(kMaxBodyBytes, 1e-9, "k=1", &shape), PlanStatus::kConflict);
  EXPECT_EQ(plan(kMaxBodyBytes, 1e-5, "k=1", &shape), PlanStatus::kOk);
  EXPECT_EQ(plan(kMaxBodyBytes, 1e-5, "k=1 d=8", &shape), PlanStatus::kConflict);
  EXPECT_EQ(plan(kMaxBodyBytes, 1e-5, "k=1 d=8 p=7", &shape), PlanStatus::kOk);
  Request request;
  request.keys = uint64_t{1} << 40;
  EXPECT_EQ(PlanFilter(Sbf(), request, 0, &shape), PlanStatus::kTooLarge);
}

TEST(Sbf, KeysFindTheLeastMemory) {
  for (uint64_t keys : {1, 10, 1000, 123456}) {
    for (const char* options : {"", "d=2", "d=3 k=3", "d=8 p=100"}) {
      const Shape shape = PlanKeys(Sbf(), keys, 0.01, options);
      const Parameters of = ParametersOf(shape);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(of.max() * of.cells / of.p, keys);
      Request request;
      request.memory = shape.bytes - 8;
      request.options = OptionsFrom(Sbf(), options);
      Shape less;
      EXPECT_TRUE(PlanFilter(Sbf(), request, 0, &less) != PlanStatus::kOk || less.keys < keys)
          << NameOf(shape);
    }
  }
}

// ---- the paper's sums -------------------------------------------------------

// A cell's distribution, step by step: decrement with probability P/m, then set with K/m.
class Chain {
 public:
  Chain(const Parameters& of, int start)
      : p_(static_cast<double>(of.p) / static_cast<double>(of.cells)),
        k_(of.k / static_cast<double>(of.cells)),
        value_(static_cast<size_t>(of.max()) + 1) {
    value_[static_cast<size_t>(start)] = 1;
  }
  void Step() {
    for (size_t i = 0; i + 1 < value_.size(); ++i) {
      value_[i] = (i == 0 ? value_[0] : value_[i] * (1 - p_)) + value_[i + 1] * p_;
    }
    value_.back() *= 1 - p_;
    for (double& share : value_) share *= 1 - k_;
    value_.back() += k_;
  }
  double zero() const { return value_[0]; }

 private:
  double p_, k_;
  std::vector<double> value_;
};

const char* const kSmall[] = {"d=1 k=2 p=4", "d=1 k=3 p=60",  "d=2 k=2 p=7",  "d=3 k=3 p=85",
                              "d=4 k=1 p=9", "d=8 k=2 p=120", "d=1 k=5 p=400"};

TEST(Sbf, ExpectedRateIsThatOfTheChain) {
  for (const char* options : kSmall) {
    const Shape shape = PlanMemory(Sbf(), 128, 0.01, options);
    const Parameters of = ParametersOf(shape);
    Chain cell(of, 0);
    const uint64_t steps = 6 * of.max() * of.cells / of.p + 50;
    for (uint64_t n = 0; n < steps; ++n) {
      const double expected = std::pow(1 - cell.zero(), of.k);
      ASSERT_NEAR(Sbf().expected_fpr(shape, static_cast<double>(n)), expected,
                  1e-9 * expected + 1e-13)
          << options << " " << n;
      cell.Step();
    }
  }
}

// Eq. 14, averaged over the last `keys` keys; exact where the window is short, and with
// 512 of its keys where it is long.
TEST(Sbf, MissedIsThatOfTheChain) {
  for (const char* options : kSmall) {
    const Shape shape = PlanMemory(Sbf(), 128, 0.01, options);
    const Parameters of = ParametersOf(shape);
    Chain cell(of, of.max());
    double missed = 0;
    for (uint64_t age = 0; age < shape.keys; ++age) {
      missed += 1 - std::pow(1 - cell.zero(), of.k);
      cell.Step();
    }
    missed /= static_cast<double>(shape.keys);
    EXPECT_NEAR(Sbf().missed(shape), missed, shape.keys <= 512 ? 1e-9 : 2e-4 * missed) << options;
  }
}

// ---- measured ---------------------------------------------------------------

struct Measured {
  double fpr;
  double missed;  // of the last `window` keys
};

// Of a body to which the keys first .. n-1 were added in that order.
Measured Measure(const Body& body, uint64_t n, uint64_t window, uint64_t probes) {
  uint64_t found = 0, missed = 0;
  for (uint64_t i = 0; i < probes; ++i) found += body.Contains(HashOf((uint64_t{1} << 40) + i));
  for (uint64_t i = n - window; i < n; ++i) missed += !body.Contains(HashOf(i));
  return {static_cast<double>(found) / static_cast<double>(probes),
          static_cast<double>(missed) / static_cast<double>(window)};
}

// Five standard errors of a share of `n`, and `own` of it for the spread of the filter
// itself, whose cells decay P at a time.
void ExpectShare(double measured, double expected, double n, double own, const std::string& what) {
  EXPECT_NEAR(measured, expected, 5 * std::sqrt(expected * (1 - expected) / n) + own * expected)
      << what;
}

const char* const kLarge[] = {"d=1 k=2 p=4", "", "d=2", "d=3 k=3", "d=5 k=2"};

// Distinct keys: the rate rises as the closed form says and then stays, and of the window
// as many are missed as it says.
TEST(Sbf, RateAndMissesAreThoseExpected) {
  const uint64_t probes = 100000 / kThin;
  for (const char* options : kLarge) {
    const Shape shape = PlanMemory(Sbf(), 65536 / kThin, 0.01, options, 9);
    Body body(shape);
    uint64_t n = 0;
    for (double windows : {0.1, 0.3, 1.0, 2.0, 5.0, 8.0}) {
      while (n < windows * static_cast<double>(shape.keys)) body.TestAndAdd(HashOf(n++));
      const Measured now = Measure(body, n, std::min(n, shape.keys), probes);
      const std::string what = NameOf(shape) + " after " + std::to_string(n);
      const double expected = Sbf().expected_fpr(shape, static_cast<double>(n));
      ExpectShare(now.fpr, expected, static_cast<double>(probes), 0.05, what);
      EXPECT_NEAR(body.Read().fpr, expected, 0.05 * expected) << what;
      if (windows >= 1) {
        ExpectShare(now.missed, Sbf().missed(shape), static_cast<double>(shape.keys), 0.03, what);
      }
      EXPECT_LE(now.fpr, 1.1 * Sbf().expected_fpr(shape, 1e12) + 5e-4) << what;
    }
  }
}

// Eq. 14 by age: what is missed `age` keys later.
TEST(Sbf, MissesByAgeAreEquation14) {
  const Shape shape = PlanMemory(Sbf(), 65536, 0.01, "d=2 k=3 p=36", 4);
  const Parameters of = ParametersOf(shape);
  Body body(shape);
  const uint64_t n = 6 * shape.keys, band = shape.keys / 10;
  for (uint64_t i = 0; i < n; ++i) body.Insert(HashOf(i));
  Chain cell(of, of.max());
  uint64_t at = 0;
  for (uint64_t age : {shape.keys / 10, shape.keys / 2, shape.keys, 2 * shape.keys}) {
    uint64_t missed = 0;
    for (uint64_t i = age - band / 2; i < age + band / 2; ++i) {
      missed += !body.Contains(HashOf(n - 1 - i));
    }
    for (; at < age; ++at) cell.Step();
    ExpectShare(static_cast<double>(missed) / static_cast<double>(band),
                1 - std::pow(1 - cell.zero(), of.k), static_cast<double>(band), 0.03,
                "age " + std::to_string(age));
  }
}

// Duplicates refresh: a key that comes again and again is hardly ever missed.
TEST(Sbf, DuplicatesAreSetAgain) {
  const Shape shape = PlanMemory(Sbf(), 65536, 0.01, "d=2");
  ASSERT_EQ(Sbf().exact_order(shape), ExactOrder::kLastSight);
  Body body(shape);
  uint64_t missed = 0;
  const uint64_t rounds = 2000 / kThin;
  for (uint64_t i = 0, next = 1; i < rounds; ++i) {
    missed += !body.TestAndAdd(HashOf(0));
    for (int j = 0; j < 100; ++j) body.TestAndAdd(HashOf(next++));
  }
  // 100 steps of 36 decrements of 262144 cells: 3 of them on one cell have probability
  // below 1e-6.
  EXPECT_EQ(missed, 1u);  // the first
}

TEST(Sbf, CountIsLinearWhileLittleDecays) {
  const Shape shape = PlanMemory(Sbf(), 65536, 0.01, "d=3 k=3");
  Body body(shape);
  const uint64_t n = shape.keys / 10;
  for (uint64_t i = 0; i < n; ++i) body.Insert(HashOf(i));
  EXPECT_NEAR(body.Read().count, static_cast<double>(n), 0.03 * static_cast<double>(n));
}

// ---- merging ----------------------------------------------------------------

double ZeroShare(const Body& body) {
  const Parameters of = ParametersOf(body.shape());
  uint64_t zeros = 0;
  for (uint64_t i = 0; i < of.cells; ++i) zeros += CellAt(body, of.d, i) == 0;
  return static_cast<double>(zeros) / static_cast<double>(of.cells);
}

// Of the keys first .. first + n - 1, those found.
std::vector<bool> Found(const Body& body, uint64_t first, uint64_t n) {
  std::vector<bool> found(n);
  for (uint64_t i = 0; i < n; ++i) found[i] = body.Contains(HashOf(first + i));
  return found;
}

// At once: what either finds is found, and the share of zeros is the product of theirs.
// One window later: as the chain goes on from there.
TEST(Sbf, MergeKeepsWhatIsFoundAndTheRateComesBack) {
  const uint64_t probes = 100000 / kThin, far = uint64_t{1} << 30;
  for (const char* options : {"", "d=2", "d=3 k=3"}) {
    for (double fill : {0.5, 1.0, 6.0}) {
      const Shape shape = PlanMemory(Sbf(), 65536 / kThin, 0.01, options, 2);
      const Parameters of = ParametersOf(shape);
      const uint64_t keys = shape.keys;
      const auto n = static_cast<uint64_t>(fill * static_cast<double>(keys));
      Body left(shape), right(shape);
      // The right one ten windows ahead: its decay is another.
      for (uint64_t i = 0; i < 10 * keys; ++i) right.Insert(HashOf(2 * far + i));
      for (uint64_t i = 0; i < n; ++i) {
        left.Insert(HashOf(i));
        right.Insert(HashOf(far + i));
      }
      const uint64_t window = std::min(n, keys);
      const auto left_found = Found(left, n - window, window);
      const auto right_found = Found(right, far + n - window, window);
      const double zero = ZeroShare(left) * ZeroShare(right);
      left.Merge(right);
      const auto left_after = Found(left, n - window, window);
      const auto right_after = Found(left, far + n - window, window);
      for (uint64_t i = 0; i < window; ++i) {
        ASSERT_TRUE(left_after[i] || !left_found[i]);
        ASSERT_TRUE(right_after[i] || !right_found[i]);
      }
      const std::string what = NameOf(shape) + " fill " + std::to_string(fill);
      EXPECT_NEAR(ZeroShare(left), zero, 0.02 * zero) << what;
      ExpectShare(Measure(left, n, window, probes).fpr, std::pow(1 - zero, of.k),
                  static_cast<double>(probes), 0.05, what);

      // d = 1: the share of cells not 0 that exceeds the stable one goes by e^-(1+K/P).
      for (uint64_t i = 0; i < keys; ++i) left.Insert(HashOf(3 * far + i));
      const double later = Measure(left, n, window, probes).fpr;
      const double stable = Sbf().expected_fpr(shape, 1e12);
      if (of.d == 1) {
        const double r = of.k / static_cast<double>(of.p), steady = 1 / (1 + r);
        const double then = steady + (zero - steady) * std::exp(-(1 + r));
        ExpectShare(later, std::pow(1 - then, of.k), static_cast<double>(probes), 0.05, what);
      }
      EXPECT_LT(later, 2.0 * stable) << what;
      // The inputs' keys go on as in any filter: no fewer found than Eq. 14 has it. The
      // new window's own are found as ever.
      Chain cell(of, of.max());
      double expected = 0;
      for (uint64_t age = 0; age < keys + window; ++age) {
        if (age >= keys) expected += std::pow(1 - cell.zero(), of.k);
        cell.Step();
      }
      expected /= static_cast<double>(window);
      for (uint64_t first : {n - window, far + n - window}) {
        uint64_t found = 0;
        for (bool one : Found(left, first, window)) found += one;
        EXPECT_GE(static_cast<double>(found) / static_cast<double>(window),
                  0.95 * expected - 5 * std::sqrt(expected / static_cast<double>(window)))
            << what;
      }
      uint64_t missed = 0;
      for (bool one : Found(left, 3 * far, keys)) missed += !one;
      EXPECT_LE(static_cast<double>(missed) / static_cast<double>(keys),
                Sbf().missed(shape) * 1.03 +
                    5 * std::sqrt(Sbf().missed(shape) / static_cast<double>(keys)))
          << what;
    }
  }
}

// Inputs of one seed and as many keys decayed at the same places: a cell is 0 in both if
// neither set it since its last decay, P/(P + 2K) where d = 1.
TEST(Sbf, MergeOfFiltersOfOneLength) {
  const Shape shape = PlanMemory(Sbf(), 65536, 0.01, "d=1 k=2 p=4");
  Body left(shape), right(shape);
  for (uint64_t i = 0; i < 8 * shape.keys; ++i) {
    left.Insert(HashOf(i));
    right.Insert(HashOf((uint64_t{1} << 30) + i));
  }
  EXPECT_NEAR(ZeroShare(left), 4.0 / (4 + 2), 0.01);
  left.Merge(right);
  EXPECT_NEAR(ZeroShare(left), 4.0 / (4 + 4), 0.01);
  EXPECT_EQ(left.counters().count, 16 * shape.keys);
}

}  // namespace
}  // namespace dedup::test
