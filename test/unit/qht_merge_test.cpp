// Merges of qht, qhtd, qqht, qqhtd: row by row against the rule, and what of each input
// is found at once and one window later, against what the rows' loads say.

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

class QhtMerge : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string name = GetParam();
  const Method& method = Named(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, QhtMerge, ::testing::ValuesIn(kNames),
                         [](const auto& info) { return info.param; });

// A filter of so many distinct keys, those of part `part`.
uint64_t KeyOf(uint64_t part, uint64_t i) { return HashOf(part << 40 | i, 7); }
Body FilledWith(const Shape& shape, uint64_t keys, uint64_t part) {
  Body body(shape);
  Add(&body, 0, keys, [&](uint64_t i) { return KeyOf(part, i); });
  return body;
}

// ---- row by row ---------------------------------------------------------------------

using Row = std::vector<uint64_t>;

Row RowAt(const std::vector<uint64_t>& cells, size_t row, unsigned k) {
  return Row(cells.begin() + static_cast<std::ptrdiff_t>(row * k),
             cells.begin() + static_cast<std::ptrdiff_t>((row + 1) * k));
}
// Each fingerprint once, at its first place.
Row Distinct(const Row& row) {
  Row distinct;
  for (uint64_t cell : row) {
    if (cell != 0 && std::find(distinct.begin(), distinct.end(), cell) == distinct.end()) {
      distinct.push_back(cell);
    }
  }
  return distinct;
}
// Taking turns, the left or the right first; then what is left over.
Row InTurns(const Row& left, const Row& right, bool left_first) {
  Row both;
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    if (left_first && i < left.size()) both.push_back(left[i]);
    if (i < right.size()) both.push_back(right[i]);
    if (!left_first && i < left.size()) both.push_back(left[i]);
  }
  return Distinct(both);
}

// Every row is what the rule says, for rows of every kind of width and inputs of every
// fill: a row that is empty on one side is the other's; else fingerprints of both, each
// once, as many as there are or as have room; in queues the first of the two taken in
// turns. The same again gives the same bytes; the other is not changed.
TEST_P(QhtMerge, IsTheRuleRowByRow) {
  uint64_t seed = 0;
  for (const auto& [k, bits] : kLayouts) {
    for (double fill : {0.2, 0.7, 5.0}) {
      const Shape shape =
          PlanMemory(method, LeastBytes(k, bits) * 20 + 8, 0.01, Options(k, bits), ++seed);
      const uint64_t keys = static_cast<uint64_t>(fill * static_cast<double>(shape.keys)) + 1;
      Body left = FilledWith(shape, keys, 1), right = FilledWith(shape, keys / 2 + 1, 2);
      const Body before = left, other = right;
      left.Merge(right);
      EXPECT_TRUE(right.bytes() == other.bytes());
      Body again = before;
      again.Merge(right);
      EXPECT_TRUE(again.bytes() == left.bytes());
      EXPECT_EQ(again.counters().count, left.counters().count);
      EXPECT_TRUE(method.valid(shape, left.counters()));
      // The next merge, and the next key, draw anew.
      const uint64_t steps = before.counters().count + right.counters().count;

      const auto merged = CellsOf(left), a = CellsOf(before), b = CellsOf(right);
      bool both_hold = false;
      for (size_t row = 0; row * k < merged.size(); ++row) {
        const Row got = RowAt(merged, row, k), l = RowAt(a, row, k), r = RowAt(b, row, k);
        const Row one = Distinct(l), two = Distinct(r);
        if (two.empty() || one.empty()) {
          EXPECT_EQ(got, two.empty() ? l : r);
          continue;
        }
        both_hold = true;
        Row both = one;
        both.insert(both.end(), two.begin(), two.end());
        both = Distinct(both);
        const size_t kept = std::min<size_t>(k, both.size());
        Row head(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(kept));
        for (size_t i = kept; i < k; ++i) EXPECT_EQ(got[i], 0u);
        EXPECT_EQ(Distinct(head).size(), kept);
        for (uint64_t cell : head) {
          EXPECT_NE(std::find(both.begin(), both.end(), cell), both.end());
        }
        if (Queue(name)) {
          Row ours = InTurns(one, two, true), theirs = InTurns(one, two, false);
          ours.resize(kept);
          theirs.resize(kept);
          EXPECT_TRUE(head == ours || head == theirs) << NameOf(shape);
        }
      }
      EXPECT_EQ(left.counters().count, steps + both_hold);
    }
  }
}

// An empty filter changes nothing, on either side, and neither do a filter's own keys
// where each is held once.
TEST_P(QhtMerge, OfNothingIsNothing) {
  for (const auto& [k, bits] : kLayouts) {
    const Shape shape = PlanMemory(method, LeastBytes(k, bits) * 9, 0.01, Options(k, bits));
    Body left = FilledWith(shape, 2 * shape.keys, 1), empty(shape);
    const Body before = left;
    left.Merge(empty);
    EXPECT_TRUE(left.bytes() == before.bytes());
    EXPECT_EQ(left.counters().count, before.counters().count);
    empty.Merge(before);
    EXPECT_TRUE(empty.bytes() == before.bytes());
    if (WithDuplicates(name)) continue;
    left.Merge(before);
    EXPECT_TRUE(left.bytes() == before.bytes());
  }
}

// ---- what is found ------------------------------------------------------------------

double Poisson(double mean, unsigned n) {
  return std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0));
}
double PoissonBelow(double mean, unsigned n) {
  double sum = 0;
  for (unsigned i = 0; i < n; ++i) sum += Poisson(mean, i);
  return sum;
}

// The keys of a part that the filter finds.
std::vector<uint64_t> Found(const Body& body, uint64_t part, uint64_t keys) {
  std::vector<uint64_t> found;
  for (uint64_t i = 0; i < keys; ++i) {
    if (body.Contains(KeyOf(part, i))) found.push_back(KeyOf(part, i));
  }
  return found;
}
double ShareFound(const Body& body, const std::vector<uint64_t>& hashes) {
  const uint64_t found = Ask(body, 0, hashes.size(), [&](uint64_t i) { return hashes[i]; });
  return static_cast<double>(found) / static_cast<double>(hashes.size());
}
double Rate(const Body& body) {
  const uint64_t found = Ask(body, 0, 400000 / kThin, [](uint64_t i) { return KeyOf(99, i); });
  return static_cast<double>(found) / (400000.0 / kThin);
}

// k and bits with S large, so that what two rows have in common and what is found by
// chance is a few percent at most: `common`, k/S.
struct Case {
  unsigned k, bits;
};
constexpr Case kCases[] = {{1, 8}, {2, 9}, {4, 8}, {4, 12}, {8, 12}, {3, 10}};

// Two full filters: each keeps half of what it held, and a little more where they have
// fingerprints in common. The rate is that of full rows, at once and a window later.
// By then qht holds a cell's key with 1/e, as it does of its own keys; a queue's are
// pushed on by a Poisson number of places.
TEST_P(QhtMerge, OfFullFiltersKeepsHalfOfEach) {
  for (const Case& c : kCases) {
    const double values = std::ldexp(1.0, static_cast<int>(c.bits)) - 1, k = c.k;
    const double common = k / values;
    const Shape shape = PlanMemory(method, 65536, 0.01, Options(c.k, c.bits), c.bits);
    Body left = FilledWith(shape, 6 * shape.keys, 1);
    const Body right = FilledWith(shape, 6 * shape.keys, 2);
    // Cells that hold a key of the last window, or one of the same fingerprint.
    const auto of_left = Found(left, 1, 6 * shape.keys), of_right = Found(right, 2, 6 * shape.keys);
    left.Merge(right);
    // Half or more; keys that only a false positive found are as many as the rate says.
    // The standard error: rows choose independently, k keys each at most together.
    const double rows = static_cast<double>(shape.keys) / k;
    const double error = 4 * 0.5 / std::sqrt(rows) + 1e-3;
    for (const auto& hashes : {of_left, of_right}) {
      const double kept = ShareFound(left, hashes);
      EXPECT_GE(kept, 0.5 - error) << NameOf(shape);
      EXPECT_LE(kept, 0.5 + common + error) << NameOf(shape);
    }
    const double rate_error = 4 * std::sqrt(common / (400000.0 / kThin)) + 1e-4;
    EXPECT_NEAR(Rate(left), common, rate_error + (WithDuplicates(name) ? common * common : 0));
    EXPECT_NEAR(left.Read().fpr, common, 1e-4 + (WithDuplicates(name) ? common * common : 0));

    Add(&left, 0, shape.keys, [](uint64_t i) { return KeyOf(3, i); });
    EXPECT_NEAR(Rate(left), FullRate(name, c.k, c.bits), rate_error + common * common);
    const double full = FullRate(name, c.k, c.bits), moves = k * (1 - common);
    double later = 0;  // share of the cells' keys that are still in their cells
    if (Queue(name)) {
      for (unsigned place = 0; place < c.k; ++place) {
        later += PoissonBelow(WithDuplicates(name) ? k : moves, c.k - place) / (2 * k);
      }
    } else {
      later = std::exp(WithDuplicates(name) ? -1 : -(1 - common)) / 2;
    }
    const double expected = later + (1 - later) * full;
    for (const auto& hashes : {of_left, of_right}) {
      EXPECT_NEAR(ShareFound(left, hashes), expected, common + error) << NameOf(shape);
    }
  }
}

// Two half-full filters (k/2 keys a row on the mean): what has room is kept. By the
// loads, Poisson numbers: rows of l and r cells in use keep min(k, l + r) of them.
TEST_P(QhtMerge, OfHalfFullFiltersKeepsWhatHasRoom) {
  for (const Case& c : kCases) {
    const double k = c.k, common = k / (std::ldexp(1.0, static_cast<int>(c.bits)) - 1);
    const Shape shape = PlanMemory(method, 65536, 0.01, Options(c.k, c.bits), c.bits);
    const uint64_t half = shape.keys / 2;
    Body left = FilledWith(shape, half, 1);
    const Body right = FilledWith(shape, half, 2);
    double held = 0, kept = 0, in_use = 0;
    for (unsigned l = 0; l < 60; ++l) {
      for (unsigned r = 0; r < 60; ++r) {
        const double p = Poisson(k / 2, l) * Poisson(k / 2, r);
        const unsigned a = std::min(l, c.k), b = std::min(r, c.k), room = std::min(c.k, a + b);
        held += p * a;
        in_use += p * room;
        double of_left = static_cast<double>(a) * room / std::max(1u, a + b);
        if (Queue(name) && a + b > c.k) {
          // Half of the room each, or all that one has and what then is left.
          of_left = std::clamp(k / 2, k - std::min<double>(b, k), static_cast<double>(a));
        }
        kept += p * of_left;
      }
    }
    const auto of_left = Found(left, 1, half), of_right = Found(right, 2, half);
    left.Merge(right);
    const double rows = static_cast<double>(shape.keys) / k;
    const double error = 4 * 0.5 / std::sqrt(rows) + common;
    EXPECT_NEAR(ShareFound(left, of_left), kept / held, error) << NameOf(shape);
    EXPECT_NEAR(ShareFound(left, of_right), kept / held, error) << NameOf(shape);
    const double rate = in_use / k * common;
    const double rate_error = 4 * std::sqrt(common / (400000.0 / kThin)) + common * common;
    EXPECT_NEAR(Rate(left), rate, rate_error + 0.01 * rate) << NameOf(shape);
    std::printf("%-6s k=%u bits=%-2u of half-full filters' keys found: %.3f, by loads %.3f\n",
                name.c_str(), c.k, c.bits, ShareFound(left, of_left), kept / held);
    Add(&left, 0, shape.keys, [](uint64_t i) { return KeyOf(3, i); });
    const double later = ShareFound(left, of_left);
    // Fewer by what the window's keys displace; never more.
    EXPECT_LT(later, kept / held * 0.75 + 4 * common);
    EXPECT_GT(later, std::exp(-1.0) * (Queue(name) ? 0.1 : 0.9) * kept / held);
    EXPECT_LE(Rate(left), common + rate_error);
  }
}

// Four full filters, one into the next, each as heavy as the number that it is made of:
// each has a quarter of the cells, give or take what rows have in common.
TEST_P(QhtMerge, FavoursNoneOfFour) {
  for (const Case& c : {Case{1, 8}, Case{4, 12}, Case{8, 12}}) {
    const double common = c.k / (std::ldexp(1.0, static_cast<int>(c.bits)) - 1);
    const Shape shape = PlanMemory(method, 65536, 0.01, Options(c.k, c.bits), 3);
    std::vector<Body> parts;
    std::vector<std::vector<uint64_t>> found;
    for (uint64_t part = 1; part <= 4; ++part) {
      parts.push_back(FilledWith(shape, 5 * shape.keys, part));
      found.push_back(Found(parts.back(), part, 5 * shape.keys));
    }
    Body all = parts[0];
    for (uint32_t part = 2; part <= 4; ++part) all.Merge(parts[part - 1], Weights{part - 1, 1});
    const double rows = static_cast<double>(shape.keys) / c.k;
    for (const auto& hashes : found) {
      EXPECT_NEAR(ShareFound(all, hashes), 0.25, 4 * 0.45 / std::sqrt(rows) + 3 * common)
          << NameOf(shape);
    }
  }
}

// Each of the cells of two full rows is as likely to be kept: a chi-square over the
// places where the kept ones were.
TEST(QhtMergeCells, AreChosenEvenly) {
  constexpr unsigned k = 4;
  const Shape shape = PlanMemory(Named("qht"), 65536, 0.01, "k=4 bits=16", 11);
  Body left = FilledWith(shape, 8 * shape.keys, 1);
  const auto a = CellsOf(left);
  const Body right = FilledWith(shape, 8 * shape.keys, 2);
  const auto b = CellsOf(right);
  left.Merge(right);
  const auto merged = CellsOf(left);
  double kept[2 * k] = {}, rows = 0;
  for (size_t row = 0; row * k < merged.size(); ++row) {
    const Row got = RowAt(merged, row, k);
    ++rows;
    for (unsigned i = 0; i < 2 * k; ++i) {
      const uint64_t cell = i < k ? a[row * k + i] : b[row * k + i - k];
      kept[i] += std::find(got.begin(), got.end(), cell) != got.end();
    }
  }
  double chi_square = 0;
  for (double one : kept) chi_square += (one - rows / 2) * (one - rows / 2) / (rows / 4);
  EXPECT_LT(chi_square, 26);  // 7 degrees of freedom, a little less: 1 in 2,000
}

}  // namespace
}  // namespace dedup::test
