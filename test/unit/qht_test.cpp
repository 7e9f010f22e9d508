// qht, qhtd, qqht, qqhtd: against plain lists key by key, and the paper's rates and tables.

#include "core/methods/qht.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qht_support.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using qht_test::Add;
using qht_test::Ask;
using qht_test::CellsOf;
using qht_test::FullRate;
using qht_test::kLayouts;
using qht_test::kNames;
using qht_test::LeastBytes;
using qht_test::Options;
using qht_test::Queue;
using qht_test::WithDuplicates;

class QhtMethod : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string name = GetParam();
  const Method& method = Named(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, QhtMethod, ::testing::ValuesIn(kNames),
                         [](const auto& info) { return info.param; });

// ---- key by key -------------------------------------------------------------------

// The rules of Algorithms 1 and 2 on lists. In qht and qhtd a row's list is its cells in
// order; in queues the back is the youngest, and the front gives way.
class Twin {
 public:
  Twin(const std::string& name, unsigned k, unsigned bits, uint64_t rows, uint64_t seed)
      : queue_(Queue(name)),
        duplicates_(WithDuplicates(name)),
        k_(k),
        values_((uint64_t{1} << bits) - 1),
        seed_(seed),
        rows_(rows) {}

  bool Contains(uint64_t hash) const {
    const std::vector<uint64_t>& row = rows_[FastRange(hash, rows_.size())];
    return std::find(row.begin(), row.end(), FingerprintOf(hash)) != row.end();
  }
  bool TestAndAdd(uint64_t hash) {
    const bool found = Contains(hash);
    if (found && !duplicates_) return true;
    std::vector<uint64_t>& row = rows_[FastRange(hash, rows_.size())];
    if (row.size() < k_) {
      row.push_back(FingerprintOf(hash));
    } else if (queue_) {
      row.erase(row.begin());
      row.push_back(FingerprintOf(hash));
    } else {
      const uint64_t at = k_ == 1 ? 0 : StepRandom(seed_, draws_++).Below(k_);
      row[at] = FingerprintOf(hash);
    }
    return found;
  }

  // The cells in the order of the body: a queue's youngest comes first.
  std::vector<uint64_t> Cells() const {
    std::vector<uint64_t> cells;
    for (std::vector<uint64_t> row : rows_) {
      if (queue_) std::reverse(row.begin(), row.end());
      row.resize(k_);
      cells.insert(cells.end(), row.begin(), row.end());
    }
    return cells;
  }
  uint64_t draws() const { return draws_; }

 private:
  uint64_t FingerprintOf(uint64_t hash) const { return 1 + FastRange(Derived(hash, 0), values_); }

  bool queue_, duplicates_;
  unsigned k_;
  uint64_t values_, seed_;
  std::vector<std::vector<uint64_t>> rows_;
  uint64_t draws_ = 0;
};

// Same answers, same cells and same count of draws after every batch, for rows of every
// kind of width, of bodies from the least one on, and with keys singly and in batches.
// The bits behind the last row stay clear.
TEST_P(QhtMethod, IsItsTwin) {
  uint64_t trial = 0;
  for (const auto& [k, bits] : kLayouts) {
    for (uint64_t more : {0, 8, 600}) {
      const uint64_t bytes = LeastBytes(k, bits) + more, seed = ++trial;
      Body body(PlanMemory(method, bytes, 0.01, Options(k, bits), seed));
      Twin twin(name, k, bits, bytes * 8 / (k * bits), seed);
      Random random(seed);
      const uint64_t alphabet = 1 + body.shape().keys * (1 + random.Below(8));
      for (int batch = 0; batch < 60; ++batch) {
        uint64_t hashes[100];
        uint8_t seen[100];
        const size_t n = random.OneIn(3) ? 1 : 1 + random.Below(100);
        for (size_t i = 0; i < n; ++i) hashes[i] = HashOf(random.Below(alphabet), seed);
        const uint64_t kind = random.Below(4);
        if (kind == 0) {
          body.Contains(hashes, n, seen);
        } else if (kind == 1) {
          body.Insert(hashes, n);
        } else {
          body.TestAndAdd(hashes, n, seen);
        }
        for (size_t i = 0; i < n; ++i) {
          const bool expected = kind == 0 ? twin.Contains(hashes[i]) : twin.TestAndAdd(hashes[i]);
          if (kind == 1) continue;
          ASSERT_EQ(seen[i], expected) << NameOf(body.shape());
        }
        ASSERT_EQ(CellsOf(body), twin.Cells()) << NameOf(body.shape());
        ASSERT_EQ(body.counters().count, twin.draws());
        ASSERT_EQ(body.counters().state, 0u);
      }
      for (uint64_t bit = bytes * 8 / (k * bits) * (k * bits); bit < bytes * 8; ++bit) {
        ASSERT_EQ(body.bytes()[bit / 8] >> bit % 8 & 1, 0);
      }
    }
  }
}

// Keys one by one and in batches of any size: the same answers and the same bytes.
TEST_P(QhtMethod, TakesBatches) {
  for (const char* options : {"k=1 bits=3", "k=4 bits=8", "k=8 bits=8", "k=16 bits=6"}) {
    const Shape shape = PlanMemory(method, 4096, 0.01, options, 5);
    Body singly(shape), batched(shape);
    Random random(6);
    std::vector<uint64_t> hashes(50000);
    for (uint64_t& hash : hashes) hash = HashOf(random.Below(30000));
    std::vector<uint8_t> seen(hashes.size());
    for (size_t i = 0; i < hashes.size();) {
      const size_t n = std::min<size_t>(1 + random.Below(700), hashes.size() - i);
      batched.TestAndAdd(&hashes[i], n, &seen[i]);
      i += n;
    }
    for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(singly.TestAndAdd(hashes[i]), seen[i]);
    EXPECT_TRUE(singly.bytes() == batched.bytes());
    EXPECT_EQ(singly.counters().count, batched.counters().count);
  }
}

// "A QQHTD with one bucket per cell is equivalent to its QHT counterpart": all four are.
TEST(Qht, OfOneCellARowIsTheSameInAllFour) {
  for (unsigned bits : {1, 3, 7, 20}) {
    std::vector<Body> bodies;
    for (const std::string& name : kNames) {
      bodies.emplace_back(PlanMemory(Named(name), 1000, 0.01, Options(1, bits), 3));
    }
    Random random(bits);
    for (int i = 0; i < 20000; ++i) {
      const uint64_t hash = HashOf(random.Below(6000));
      const bool seen = bodies[0].TestAndAdd(hash);
      for (size_t m = 1; m < bodies.size(); ++m) ASSERT_EQ(bodies[m].TestAndAdd(hash), seen);
    }
    for (const Body& body : bodies) EXPECT_TRUE(body.bytes() == bodies[0].bytes());
  }
}

// ---- rates ------------------------------------------------------------------------

// The share of keys never seen that are found.
double MeasuredRate(const Body& body, uint64_t probes, uint64_t seed) {
  const uint64_t found = Ask(body, 0, probes, [&](uint64_t i) { return HashOf(~i, seed); });
  return static_cast<double>(found) / static_cast<double>(probes);
}

// Theorem 4.1 and section 5.1: k/S without duplicates, 1 - (1 - 1/S)^k with. Theorem 4.2:
// a key of long ago is missed with 1 less that.
TEST_P(QhtMethod, HasThePapersLimits) {
  const uint64_t n = 400000 / kThin;
  for (const auto& [k, bits] : {std::pair{1u, 1u},
                                {1u, 3u},
                                {2u, 3u},
                                {4u, 4u},
                                {4u, 8u},
                                {8u, 5u},
                                {8u, 8u},
                                {16u, 6u},
                                {7u, 3u}}) {
    Body body(PlanMemory(method, 4096, 0.01, Options(k, bits), k));
    const uint64_t window = body.shape().keys;
    const auto hash = [](uint64_t key) { return HashOf(key); };
    Add(&body, 0, 20 * window, hash);
    const double expected = FullRate(name, k, bits);
    EXPECT_NEAR(method.expected_fpr(body.shape(), 1e12), expected, 1e-12);
    const uint64_t found = Add(&body, 20 * window, 20 * window + n, hash);
    uint64_t old = 0;
    // Keys more than 20 windows old; each is asked at its own moment.
    Random random(bits);
    const uint64_t next = 20 * window + n;
    for (uint64_t i = 0; i < n; ++i) {
      old += body.Contains(HashOf(random.Below(n)));
      body.TestAndAdd(HashOf(next + i));
    }
    // Binomials; the 2 is for keys of one row that see some of the same cells.
    const double sd = std::sqrt(2 * expected * (1 - expected) / static_cast<double>(n));
    EXPECT_NEAR(static_cast<double>(found) / static_cast<double>(n), expected, 4 * sd + 1e-9)
        << NameOf(body.shape());
    EXPECT_NEAR(static_cast<double>(old) / static_cast<double>(n), expected, 4 * sd + 1e-9)
        << NameOf(body.shape());
  }
}

// The rate on the way there, of many rows: without duplicates a row that x keys fell on
// by the mean has min(k, D) cells in use, D binomial: each fingerprint came with 1 -
// exp(-x/S). With duplicates min(k, Poisson(x)) cells, each of any fingerprint.
double RisingRate(const std::string& name, unsigned k, unsigned bits, double x) {
  const double values = std::ldexp(1.0, static_cast<int>(bits)) - 1;
  double rate = FullRate(name, k, bits);
  for (unsigned used = 0; used < k; ++used) {
    if (WithDuplicates(name)) {
      const double p = std::exp(used * std::log(x) - x - std::lgamma(used + 1.0));
      rate -= p * (std::pow(1 - 1 / values, used) - std::pow(1 - 1 / values, k));
    } else {
      const double came = -std::expm1(-x / values);
      const double p = std::exp(std::lgamma(values + 1) - std::lgamma(used + 1.0) -
                                std::lgamma(values - used + 1) + used * std::log(came) -
                                (values - used) * x / values);
      rate -= p * (k - used) / values;
    }
  }
  return rate;
}

TEST_P(QhtMethod, RatesRiseWithTheRowsLoads) {
  for (const auto& [k, bits] :
       {std::pair{1u, 3u}, {2u, 3u}, {4u, 4u}, {4u, 8u}, {8u, 8u}, {16u, 6u}, {7u, 3u}}) {
    const Shape shape = PlanMemory(method, 65536, 0.01, Options(k, bits), 2);
    const double rows = static_cast<double>(65536 * 8 / (k * bits));
    Body body(shape);
    uint64_t key = 0;
    for (double x : {0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 30.0}) {
      const auto upto = static_cast<uint64_t>(std::ceil(x * rows));
      Add(&body, key, upto, [](uint64_t one) { return HashOf(one); });
      key = upto;
      const double load = static_cast<double>(key) / rows;
      const double expected = RisingRate(name, k, bits, load);
      EXPECT_NEAR(method.expected_fpr(shape, static_cast<double>(key)), expected, 1e-8)
          << NameOf(shape) << " at " << x;
      const uint64_t probes = 200000 / kThin;
      // Of counting, and of the filter's own fill: a row's is off by less than 1.
      const double sd = std::sqrt(expected / static_cast<double>(probes) +
                                  expected / (static_cast<double>((1 << bits) - 1) * rows));
      EXPECT_NEAR(MeasuredRate(body, probes, 9), expected, 4 * sd) << NameOf(shape) << " at " << x;
      // Read counts the very bits.
      EXPECT_NEAR(body.Read().fpr, expected,
                  4 * std::sqrt(expected / (static_cast<double>((1 << bits) - 1) * rows)));
    }
  }
}

// One cell a row: the paper's FP_m = 1/S (1 - (1 - 1/N)^m), at any number of rows.
TEST_P(QhtMethod, OfOneCellRisesAsInThePaper) {
  for (uint64_t rows : {1, 2, 5, 60, 399, 400, 30000}) {
    const uint64_t bytes = (rows * 7 + 63) / 64 * 8;
    const Shape shape = PlanMemory(method, bytes, 0.01, Options(1, 7));
    const double n = static_cast<double>(bytes * 8 / 7);
    for (double m : {1.0, 2.0, n / 3, n, 3 * n, 30 * n}) {
      const double expected = (1 - std::pow(1 - 1 / n, std::floor(m))) / 127;
      // From 400 rows on the loads are taken for Poisson's: within 1/(2N) of it.
      EXPECT_NEAR(method.expected_fpr(shape, std::floor(m)), expected,
                  n < 400 ? 1e-12 : expected / n)
          << rows << " rows, " << m << " keys";
    }
  }
}

// Small filters: the mean over many of them, whose standard error is their own.
TEST_P(QhtMethod, RatesOfFewRowsAreExpected) {
  const int filters = 3000 / static_cast<int>(kThin);
  for (uint64_t keys : {1, 3, 6, 20}) {
    double sum = 0, squares = 0, expected = 0;
    for (int i = 0; i < filters; ++i) {
      Body body(PlanMemory(method, 16, 0.01, "k=4 bits=5"));  // 6 rows
      expected = method.expected_fpr(body.shape(), static_cast<double>(keys));
      for (uint64_t key = 0; key < keys; ++key) body.TestAndAdd(HashOf(key, i));
      const double rate = body.Read().fpr;
      sum += rate;
      squares += rate * rate;
    }
    const double mean = sum / filters;
    const double error = std::sqrt(std::max(0.0, squares / filters - mean * mean) / filters);
    EXPECT_NEAR(mean, expected, 4 * error + 1e-12) << keys;
  }
}

TEST_P(QhtMethod, ExpectedRatesDoNotFall) {
  for (const auto& [k, bits] : kLayouts) {
    const Shape shape = PlanMemory(method, LeastBytes(k, bits) + 400, 0.01, Options(k, bits));
    double before = method.expected_fpr(shape, 0);
    EXPECT_EQ(before, 0);
    for (double keys = 0.5; keys < 1e13; keys *= 1.3) {
      const double rate = method.expected_fpr(shape, keys);
      EXPECT_GE(rate, before * (1 - 1e-9)) << NameOf(shape) << " " << keys;
      before = rate;
    }
    EXPECT_NEAR(before, FullRate(name, k, bits), 1e-9 * before);
  }
}

// ---- the paper's tables ------------------------------------------------------------

struct Errors {
  double fpr = 0, fnr = 0;  // in percent
};

// Streams of 100,000 of 2^20 elements through 65,536 bits.
Errors OnUniformStreams(const Method& method, unsigned k, unsigned bits, int runs) {
  Errors mean;
  for (int run = 1; run <= runs; ++run) {
    const auto seed = static_cast<uint64_t>(run);
    Body body(PlanMemory(method, 8192, 0.01, Options(k, bits), seed));
    Random random(seed);
    std::vector<bool> came(1 << 20);
    double news = 0, duplicates = 0, false_positives = 0, missed = 0;
    for (int i = 0; i < 100000; ++i) {
      const uint64_t element = random.Below(1 << 20);
      const bool seen = body.TestAndAdd(HashOf(element, seed));
      (came[element] ? duplicates : news) += 1;
      (came[element] ? missed : false_positives) += came[element] != seen;
      came[element] = true;
    }
    mean.fpr += 100 * false_positives / news / runs;
    mean.fnr += 100 * missed / duplicates / runs;
  }
  return mean;
}

// Table 1, with its S = 4 ... 64 for two to six bits, and Table 5's artificial rows. The
// FNR of a run, of 4,600 duplicates, has a standard deviation of 0.8 points, and theirs
// is a mean of ten; the FPR's is a fifth of that.
TEST(QhtTables, AreThePapers) {
  struct Row {
    unsigned k, bits;
    double fpr, fnr, sum, queue_sum;
  };
  const int runs = 40 / static_cast<int>(kThin);
  const double allowed = 3.4 * 0.8 * std::sqrt(1.0 / 10 + 1.0 / runs);
  for (const Row& row :
       {Row{1, 2, 22.57, 35.89, 58.45, 58.45}, Row{2, 3, 23.25, 44.24, 67.39, 67.91},
        Row{4, 4, 23.53, 50.77, 74.48, 74.41}, Row{8, 5, 23.62, 54.55, 79.32, 79.19},
        Row{16, 6, 23.50, 58.73, 82.10, 82.26}}) {
    const Errors random = OnUniformStreams(Named("qht"), row.k, row.bits, runs);
    const Errors queue = OnUniformStreams(Named("qqhtd"), row.k, row.bits, runs);
    EXPECT_NEAR(random.fpr, row.fpr, allowed / 4) << row.k;
    EXPECT_NEAR(random.fnr, row.fnr, allowed) << row.k;
    EXPECT_NEAR(random.fpr + random.fnr, row.sum, allowed) << row.k;
    EXPECT_NEAR(queue.fpr + queue.fnr, row.queue_sum, allowed) << row.k;
  }
}

}  // namespace
}  // namespace dedup::test
