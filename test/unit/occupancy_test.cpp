// The sums behind the sizes, against exact computation and against simulation.

#include "core/occupancy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

// The exact distribution of the number of positions set, of m, after each
// setting: a Markov chain in which a setting meets a clear position with
// probability (m - set) / m.
class Occupancy {
 public:
  explicit Occupancy(int m) : m_(m), p_(m + 1) { p_[0] = 1; }

  void Set() {
    for (int set = std::min(++settings_, m_); set >= 0; --set) {
      p_[set] *= static_cast<double>(set) / m_;
      if (set > 0) p_[set] += p_[set - 1] * (m_ - set + 1) / m_;
    }
  }

  // Probability that k random positions are all set.
  double AllSet(int k) const {
    double sum = 0;
    for (int set = 0; set <= m_; ++set) sum += p_[set] * std::pow(static_cast<double>(set) / m_, k);
    return sum;
  }

 private:
  int m_;
  int settings_ = 0;
  std::vector<double> p_;
};

// Largest relative error of AllSetProbability() over all loads at which the
// exact probability is at least `from`.
double WorstError(int m, int k, double from) {
  Occupancy exact(m);
  double worst = 0;
  for (int keys = 1; keys * k <= 4 * m; ++keys) {
    for (int i = 0; i < k; ++i) exact.Set();
    const double truth = exact.AllSet(k);
    if (truth < from) continue;
    worst = std::max(worst, std::fabs(AllSetProbability(m, keys * k, k) / truth - 1));
  }
  return worst;
}

// In a line of 512 bits the sum is right to 0.25 % for every k that blocked_bloom
// takes by itself, wherever the probability matters to a rate of 1e-9.
TEST(AllSetProbability, AgreesWithTheExactChainInALine) {
  for (int k : {1, 2, 3, 6, 9, 12, 16}) EXPECT_LE(WorstError(512, k, 1e-9), 0.0025) << "k=" << k;
}

// In the column of a small ring block the same, for the k that are worth trying
// at the rates for which there are small blocks.
TEST(AllSetProbability, AgreesWithTheExactChainInARingBlock) {
  for (int k : {2, 4, 6, 8, 10}) EXPECT_LE(WorstError(256, k, 1e-5), 0.003) << "k=" << k;
  for (int k : {2, 4, 6, 8, 10}) EXPECT_LE(WorstError(512, k, 1e-5), 0.002) << "k=" << k;
}

// In 64 positions, fewer than any method has, it is still right to 2 % for small k.
TEST(AllSetProbability, AgreesWithTheExactChainInSixtyFourPositions) {
  for (int k : {1, 2}) EXPECT_LE(WorstError(64, k, 1e-4), 1e-9) << "k=" << k;
  for (int k : {3, 4, 6}) EXPECT_LE(WorstError(64, k, 1e-4), 0.02) << "k=" << k;
}

// The hardest case that a size is ever computed for, 512 bits at a rate of 1e-9,
// stays within the 5 % that a rate may be over what was asked.
TEST(AllSetProbability, StaysWithinFivePercentAtTheLowestRate) {
  EXPECT_LE(WorstError(512, 30, 1e-10), 0.05);
}

// Nothing set, nothing found; everything set, everything found; one position.
TEST(AllSetProbability, HoldsAtTheEnds) {
  EXPECT_EQ(AllSetProbability(512, 0, 3), 0);
  EXPECT_NEAR(AllSetProbability(512, 1e6, 3), 1, 1e-12);
  EXPECT_NEAR(AllSetProbability(512, 1, 1), 1.0 / 512, 1e-15);
  EXPECT_NEAR(AllSetProbability(512, 2, 1), 1 - std::pow(511.0 / 512, 2), 1e-15);
}

// Rate of a simulated blocked filter: `blocks` blocks of m positions with `keys`
// keys of k independent positions. The standard error comes back too: filters
// differ, so it is taken between filters.
struct Measured {
  double mean;
  double error;
};

Measured Simulate(int keys, int blocks, int m, int k, int filters, Random* random) {
  double sum = 0, squares = 0;
  std::vector<int> set(blocks);
  std::vector<std::vector<char>> bits(blocks, std::vector<char>(m));
  for (int filter = 0; filter < filters; ++filter) {
    for (auto& block : bits) std::fill(block.begin(), block.end(), 0);
    std::fill(set.begin(), set.end(), 0);
    for (int key = 0; key < keys; ++key) {
      const auto block = random->Below(blocks);
      for (int i = 0; i < k; ++i) {
        char& bit = bits[block][random->Below(m)];
        set[block] += bit == 0;
        bit = 1;
      }
    }
    // A new key's k positions are independent of the filter's: its chance is
    // known once the fill is, and need not be simulated.
    double rate = 0;
    for (int block : set) rate += std::pow(static_cast<double>(block) / m, k) / blocks;
    sum += rate;
    squares += rate * rate;
  }
  const double mean = sum / filters;
  return {mean, std::sqrt(std::max(0.0, squares / filters - mean * mean) / filters)};
}

// BlockedRate() is the mean over simulated filters, from one block to a thousand,
// on both sides of the border between binomial and Poisson loads.
TEST(BlockedRate, AgreesWithSimulation) {
  Random random(1);
  struct Case {
    int keys, blocks, m, k;
  };
  for (const Case& c : {Case{1, 1, 512, 1}, Case{50, 1, 512, 6}, Case{100, 2, 512, 6},
                        Case{250, 10, 512, 12}, Case{1000, 20, 512, 5}, Case{500, 40, 64, 3},
                        Case{9000, 399, 512, 12}, Case{9000, 401, 512, 12},
                        Case{51200, 1000, 512, 6}, Case{3000, 5, 4096, 9}, Case{3, 2, 256, 3}}) {
    const int filters = static_cast<int>(4000000 / kThin / (c.keys * c.k) + 20);
    const Measured measured = Simulate(c.keys, c.blocks, c.m, c.k, filters, &random);
    const double expected = BlockedRate(c.keys, c.blocks, c.m, c.k);
    // Besides chance, what the second-order sum leaves out.
    EXPECT_NEAR(measured.mean, expected, 4.5 * measured.error + 0.01 * expected)
        << c.keys << " keys, " << c.blocks << " blocks of " << c.m << ", k=" << c.k;
  }
}

// Loads are a distribution: they sum to one and have the mean that they must.
TEST(ForEachLoad, IsADistribution) {
  for (double blocks : {1.0, 2.0, 7.0, 399.0, 400.0, 1e6}) {
    for (double keys : {1.0, 2.0, 100.0, 5000.0, 1e7}) {
      double total = 0, mean = 0;
      ForEachLoad(keys, blocks, [&](double load, double p) {
        total += p;
        mean += p * load;
      });
      EXPECT_NEAR(total, 1, 1e-6) << keys << " keys in " << blocks;
      EXPECT_NEAR(mean, keys / blocks, 1e-6 * (1 + keys / blocks)) << keys << " keys in " << blocks;
    }
  }
}

// KeysFromClear() undoes the mean fill, and is finite when every bit is set.
TEST(KeysFromClear, InvertsTheMeanFill) {
  for (double blocks : {1.0, 10.0, 1000.0}) {
    for (int k : {1, 6, 16}) {
      for (double keys : {1.0, 20.0, 40.0 * blocks}) {
        const double clear = std::pow(1 - (1 - std::pow(1 - 1.0 / 512, k)) / blocks, keys);
        EXPECT_NEAR(KeysFromClear(clear, blocks, 512, k), keys, 1e-6 * keys);
      }
      EXPECT_TRUE(std::isfinite(KeysFromClear(0, blocks, 512, k)));
      EXPECT_EQ(KeysFromClear(1, blocks, 512, k), 0);
    }
  }
}

}  // namespace
}  // namespace dedup::test
