// dsqf: an exact twin down to every link, the model of its steady state, merges, lists
// that do not hold together, parameters.

#include "core/methods/dsqf.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& Dsqf() { return dsqf::kMethod; }

unsigned Width(uint64_t x) {  // ceil(log2(x + 1))
  unsigned width = 0;
  while (x >> width != 0) ++width;
  return width;
}

// Oracle section 8: B = floor(k R), R(w(B) + 2 w(R)) + B(sig + w(B)).
uint64_t BitsOf(uint64_t rows, double k, unsigned signature) {
  const auto buckets = static_cast<uint64_t>(k * static_cast<double>(rows));
  return rows * (Width(buckets) + 2 * Width(rows)) + buckets * (signature + Width(buckets));
}

uint64_t RowsOf(const Shape& shape) { return shape.detail & 0xffffffff; }

// What a filter's lists hold, as vectors: rows from the youngest to the oldest, each
// with its signatures from the first bucket on.
using Lists = std::vector<std::pair<uint64_t, std::vector<uint64_t>>>;

// Reads the lists from the bits as dsqf.hpp describes them.
Lists ListsOf(const Body& body, unsigned signature, uint64_t buckets) {
  const uint64_t rows = RowsOf(body.shape());
  const unsigned to_bucket = Width(buckets), to_row = Width(rows);
  const auto field = [&](uint64_t bit, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; ++i, ++bit) {
      value |= (uint64_t{body.bytes()[bit / 8]} >> bit % 8 & 1) << i;
    }
    return value;
  };
  Lists lists;
  const uint64_t row_bits = to_bucket + 2 * to_row;
  for (uint64_t link = body.counters().state; link != 0;) {
    const uint64_t at = (link - 1) * row_bits;
    lists.emplace_back(link - 1, std::vector<uint64_t>{});
    for (uint64_t bucket = field(at, to_bucket); bucket != 0;) {
      const uint64_t bucket_at = rows * row_bits + (bucket - 1) * (signature + to_bucket);
      lists.back().second.push_back(field(bucket_at, signature));
      bucket = field(bucket_at + signature, to_bucket);
      if (lists.back().second.size() > buckets) return {};
    }
    link = field(at + to_bucket, to_row);
    if (link == body.counters().state) break;
    if (lists.size() > rows) return {};
  }
  return lists;
}

// The rule: rows by last access, the least recently accessed gives up a random bucket.
class Twin {
 public:
  Twin(uint64_t rows, uint64_t buckets, unsigned r, unsigned r_prime, uint64_t seed)
      : rows_(rows), buckets_(buckets), r_(r), r_prime_(r_prime), seed_(seed) {}

  uint64_t RowOf(uint64_t hash) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * rows_ >> 64);
  }
  uint64_t CodeOf(uint64_t hash) const {
    const uint64_t remainder = Derived(hash, 0) & LowMask(r_);
    unsigned zeros = 0;
    for (unsigned i = 0; i < r_; ++i) zeros += (remainder >> i & 1) == 0;
    return remainder >> (r_ - r_prime_) << Width(r_) | zeros;
  }

  bool TestAndAdd(uint64_t hash) {
    const uint64_t row = RowOf(hash), code = CodeOf(hash);
    auto at = std::find_if(lists_.begin(), lists_.end(), [&](auto& l) { return l.first == row; });
    if (at != lists_.end()) {
      lists_.splice(lists_.begin(), lists_, at);
      std::vector<uint64_t>& codes = at->second;
      if (std::find(codes.begin(), codes.end(), code) != codes.end()) return true;
    }
    if (used_ == buckets_) {
      std::vector<uint64_t>& oldest = lists_.back().second;
      const uint64_t out = oldest.size() == 1 ? 0 : StepRandom(seed_, added_).Below(oldest.size());
      oldest.erase(oldest.begin() + static_cast<ptrdiff_t>(out));
      if (oldest.empty()) lists_.pop_back();
    } else {
      ++used_;
    }
    ++added_;
    if (lists_.empty() || lists_.front().first != row) lists_.push_front({row, {}});
    lists_.front().second.insert(lists_.front().second.begin(), code);
    return false;
  }
  uint64_t added() const { return added_; }
  Lists lists() const { return Lists(lists_.begin(), lists_.end()); }

 private:
  uint64_t rows_, buckets_;
  unsigned r_, r_prime_;
  uint64_t seed_, added_ = 0, used_ = 0;
  std::list<std::pair<uint64_t, std::vector<uint64_t>>> lists_;
};

bool Sound(const Body& body) {
  return Dsqf().sound(body.shape(), body.counters(), body.bytes().data());
}

struct Case {
  size_t memory;
  double k;
  unsigned r, r_prime;

  std::string options() const {
    char text[80];
    std::snprintf(text, sizeof text, "k=%g r=%u r_prime=%u", k, r, r_prime);
    return text;
  }
  unsigned signature() const { return r_prime + Width(r); }
};

// ---- the twin -------------------------------------------------------------------

TEST(DsqfTwin, SameAnswersAndSameLists) {
  const Case cases[] = {{8, 1, 2, 1},    {64, 2, 8, 4},      {512, 2, 8, 4},      {700, 4, 15, 7},
                        {900, .5, 8, 8}, {2048, 64, 31, 12}, {256, 7.25, 63, 48}, {512, 3, 2, 1}};
  for (const Case& c : cases) {
    const Shape shape = PlanMemory(Dsqf(), c.memory, .01, c.options(), c.memory);
    const uint64_t buckets = shape.keys;
    Twin twin(RowsOf(shape), buckets, c.r, c.r_prime, shape.seed);
    Body body(shape), batched(shape);
    Random random(c.memory);
    for (int round = 0; round < 40; ++round) {
      uint64_t hashes[90];
      uint8_t expected[90], seen[90], asked[90];
      const uint64_t alphabet = round % 3 == 0 ? buckets / 2 + 1 : 3 * buckets + 9;
      for (uint64_t& hash : hashes) hash = HashOf(random.Below(alphabet));
      batched.Contains(hashes, 90, asked);
      for (int i = 0; i < 90; ++i) {
        EXPECT_EQ(asked[i], batched.Contains(hashes[i]));
        expected[i] = twin.TestAndAdd(hashes[i]);
        EXPECT_EQ(body.TestAndAdd(hashes[i]), expected[i] != 0) << NameOf(shape);
        EXPECT_TRUE(body.Contains(hashes[i]));
      }
      if (round % 2 == 0) {
        batched.TestAndAdd(hashes, 90, seen);
        EXPECT_EQ(std::memcmp(seen, expected, sizeof seen), 0);
      } else {
        batched.Insert(hashes, 90);
      }
      ASSERT_EQ(ListsOf(body, c.signature(), buckets), twin.lists()) << NameOf(shape);
      ASSERT_EQ(batched.bytes(), body.bytes());
      EXPECT_EQ(body.counters().count, twin.added());
      EXPECT_EQ(body.counters().state, twin.lists()[0].first + 1);
      ASSERT_TRUE(Sound(body));
    }
  }
}

// ---- the model of the steady state --------------------------------------------------

double Share(const Body& body, uint64_t from, uint64_t to, uint64_t seed) {
  uint64_t found = 0;
  for (uint64_t i = from; i < to; ++i) found += body.Contains(HashOf(i, seed));
  return static_cast<double>(found) / static_cast<double>(to - from);
}

TEST(DsqfModel, ShareOfTheLastKeysThatIsMissed) {
  // By hand, k = 2 without false positives: q = 1/3, T = ln 3, and the average over 0..2
  // of 1 - s with s = 2/3 - (a - T) / 3 from T on.
  const Shape two = PlanMemory(Dsqf(), 65536 / kThin / 8 * 8, 1e-6, "k=2");
  const double rest = 2 - std::log(3);
  EXPECT_NEAR(Dsqf().missed(two), (rest / 3 + rest * rest / 6) / 2, 1e-4);
  for (const char* options : {"k=0.5", "k=1", "k=2", "k=4", "k=16", "k=2 r=8 r_prime=4"}) {
    const Shape shape = PlanMemory(Dsqf(), 65536 / kThin / 8 * 8, .001, options, 3);
    Body body(shape);
    const uint64_t n = shape.keys;
    for (uint64_t i = 0; i < 8 * n; ++i) body.TestAndAdd(HashOf(i));
    const double said = Dsqf().missed(shape);
    // Keys of a row are lost together: about k of them.
    const double k = static_cast<double>(n) / static_cast<double>(RowsOf(shape));
    EXPECT_NEAR(1 - Share(body, 7 * n, 8 * n, 0), said,
                5 * std::sqrt((1 + k) * said * (1 - said) / static_cast<double>(n)))
        << NameOf(shape);
  }
}

// Repeats keep their rows alive: a key that comes back before any gap of T is not missed.
TEST(DsqfModel, ARowThatIsAccessedIsKept) {
  const Shape shape = PlanMemory(Dsqf(), 8192, .0001, "k=2");
  Body body(shape);
  const uint64_t rows = RowsOf(shape);
  uint64_t next = 1;
  EXPECT_FALSE(body.TestAndAdd(HashOf(0)));
  for (int round = 0; round < 60; ++round) {
    for (uint64_t i = 0; i < rows; ++i) body.TestAndAdd(HashOf(next++));  // T = 1.1 rows
    EXPECT_TRUE(body.TestAndAdd(HashOf(0))) << round;
  }
  for (uint64_t i = 0; i < 40 * rows; ++i) body.TestAndAdd(HashOf(next++));
  EXPECT_FALSE(body.Contains(HashOf(0)));
}

TEST(DsqfModel, RateAtEveryLoad) {
  for (const char* options : {"", "k=2 r=8 r_prime=4", "k=3 r=2 r_prime=1", "k=16"}) {
    const Shape shape = PlanMemory(Dsqf(), 32768, .01, options, 3);
    const unsigned filters = 4;
    double before = 0;
    for (const double fill : {.1, .5, .9, 3.0}) {
      const auto keys = static_cast<uint64_t>(static_cast<double>(shape.keys) * fill);
      const uint64_t asked = 60000 / kThin;
      double found = 0;
      for (unsigned f = 0; f < filters; ++f) {
        Body body(shape);
        for (uint64_t i = 0; i < keys; ++i) body.TestAndAdd(HashOf(i, f));
        const double hits = Share(body, 1u << 30, (1u << 30) + asked, f);
        const Reading reading = body.Read();
        EXPECT_NEAR(hits, reading.fpr, 5 * std::sqrt(reading.fpr / static_cast<double>(asked)));
        if (fill < .9) {  // collisions of signatures counted: sd at most sqrt(n C k)
          const double n = static_cast<double>(keys);
          EXPECT_NEAR(reading.count, n, 5 * std::sqrt(n * reading.fpr) + 1) << NameOf(shape);
        }
        found += hits / filters;
      }
      const double expected = Dsqf().expected_fpr(shape, static_cast<double>(keys));
      const double error = 5 * std::sqrt(expected / static_cast<double>(asked * filters));
      EXPECT_LE(found, expected + error);
      EXPECT_GE(expected, before);
      // Steady rows are of more unequal lengths, so that with few signatures it is less.
      const bool few = shape.detail >> 48 == (2 | 1 << 6);
      EXPECT_GE(found, expected * (fill > 1 && few ? .8 : .95) - error) << NameOf(shape);
      before = expected;
    }
  }
}

// ---- merges ---------------------------------------------------------------------

// The rows of two filters, the youngest first: by rank, the left's first on ties, each with
// its younger rank.
std::vector<uint64_t> ByRank(const Lists& left, const Lists& right, Weights weights) {
  std::vector<uint64_t> rows;
  std::set<uint64_t> known;
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    // The n-th youngest is n / weight old.
    const bool from_left =
        j == right.size() || (i < left.size() && (i + 1) * weights.right <= (j + 1) * weights.left);
    const uint64_t row = from_left ? left[i++].first : right[j++].first;
    if (known.insert(row).second) rows.push_back(row);
  }
  return rows;
}

std::set<std::pair<uint64_t, uint64_t>> Pairs(const Lists& lists) {
  std::set<std::pair<uint64_t, uint64_t>> pairs;
  for (const auto& [row, codes] : lists) {
    for (const uint64_t code : codes) pairs.insert({row, code});
  }
  return pairs;
}

Body Filled(const Shape& shape, uint64_t keys, uint64_t seed) {
  Body body(shape);
  for (uint64_t i = 0; i < keys; ++i) body.TestAndAdd(HashOf(i, seed));
  return body;
}

TEST(DsqfMerge, WhatFitsIsTheUnionInOrderOfRank) {
  const Case c = {4096, 2, 8, 4};
  const Shape shape = PlanMemory(Dsqf(), c.memory, .01, c.options());
  for (const auto& [a, b, weights] : {std::tuple{.5, .5, Weights{1, 1}},
                                      {.2, .7, Weights{1, 1}},
                                      {.6, .3, Weights{3, 1}},
                                      {.0, .5, Weights{1, 1}},
                                      {.5, .0, Weights{1, 1}},
                                      {.02, .01, Weights{1, 5}}}) {
    const auto n = static_cast<double>(shape.keys);
    Body left = Filled(shape, static_cast<uint64_t>(a * n), 1);
    const Body right = Filled(shape, static_cast<uint64_t>(b * n), 2);
    const Lists of_left = ListsOf(left, c.signature(), shape.keys);
    const Lists of_right = ListsOf(right, c.signature(), shape.keys);
    auto both = Pairs(of_left);
    both.merge(Pairs(of_right));
    const uint64_t left_count = left.counters().count;
    left.Merge(right, weights);
    ASSERT_TRUE(Sound(left));
    const Lists merged = ListsOf(left, c.signature(), shape.keys);
    EXPECT_EQ(Pairs(merged), both);
    EXPECT_GE(left.counters().count, left_count);
    EXPECT_EQ(left.counters().count, both.size());
    std::vector<uint64_t> rows;
    for (const auto& entry : merged) rows.push_back(entry.first);
    EXPECT_EQ(rows, ByRank(of_left, of_right, weights));
  }
}

TEST(DsqfMerge, FullOnesKeepTheYoungerRowsOfBoth) {
  for (const char* options : {"k=2", "k=4", "k=8"}) {
    const Shape shape = PlanMemory(Dsqf(), 65536 / kThin / 8 * 8, .0001, options, 5);
    const unsigned signature = dsqf::LayoutOf(shape).form.bits();
    const uint64_t n = shape.keys, rows = RowsOf(shape);
    const uint64_t last = 10 * n;
    Body left = Filled(shape, last, 1);
    const Body right = Filled(shape, last, 2);
    const double held = Share(left, 0, last, 1), others = Share(right, 0, last, 2);
    const Lists of_left = ListsOf(left, signature, n), of_right = ListsOf(right, signature, n);
    left.Merge(right);
    ASSERT_TRUE(Sound(left));
    const Lists merged = ListsOf(left, signature, n);
    EXPECT_EQ(Pairs(merged).size(), n);
    auto both = Pairs(of_left);
    both.merge(Pairs(of_right));
    const auto kept = Pairs(merged);
    EXPECT_TRUE(std::includes(both.begin(), both.end(), kept.begin(), kept.end()));
    // The youngest rows by rank, whole but for the last, as many as B buckets fill.
    const std::vector<uint64_t> ranks = ByRank(of_left, of_right, {1, 1});
    ASSERT_LE(merged.size(), ranks.size());
    for (size_t rank = 0; rank < merged.size(); ++rank) {
      const uint64_t row = merged[rank].first;
      ASSERT_EQ(row, ranks[rank]);
      const auto whole = std::distance(both.lower_bound({row, 0}), both.lower_bound({row + 1, 0}));
      if (rank + 1 < merged.size()) {
        ASSERT_EQ(merged[rank].second.size(), static_cast<size_t>(whole));
      }
    }
    // Half of what each held; the standard error is that of rows of about k.
    const double k = static_cast<double>(n) / static_cast<double>(rows);
    const double error = 5 * std::sqrt((1 + k) / static_cast<double>(n)) + .01;
    EXPECT_NEAR(Share(left, 0, last, 1) / held, .5, error);
    EXPECT_NEAR(Share(left, 0, last, 2) / others, .5, error);
    // All of the last keys of each: those since which the share phi of rows was accessed,
    // phi (2 - q - phi) = (1 - q) / 2 (rows of either's younger ones hold B buckets).
    const double q = 1 / (1 + k);
    const double phi = (2 - q - std::sqrt((2 - q) * (2 - q) - 2 * (1 - q))) / 2;
    // The share of rows has a relative standard error of 1 / sqrt(phi rows), or less.
    const double margin = 1 - 4 / std::sqrt(phi * static_cast<double>(rows));
    const auto sure = static_cast<uint64_t>(-std::log1p(-phi) * margin * static_cast<double>(rows));
    ASSERT_GT(sure, 0u);
    EXPECT_GE(Share(left, last - sure, last, 1), .999) << options;
    EXPECT_GE(Share(left, last - sure, last, 2), .999) << options;
    // The rate at once is that of a full filter, and a window later nothing is left of it.
    const double full = Dsqf().expected_fpr(shape, 1e12);
    EXPECT_NEAR(left.Read().fpr, full, .05 * full);
    for (uint64_t i = 0; i < 8 * n; ++i) left.TestAndAdd(HashOf(i, 3));
    ASSERT_TRUE(Sound(left));
    const double said = Dsqf().missed(shape);
    EXPECT_NEAR(1 - Share(left, 7 * n, 8 * n, 3), said,
                5 * std::sqrt((1 + k) * said / static_cast<double>(n)));
    EXPECT_NEAR(left.Read().fpr, full, .05 * full);
  }
}

// Of parts merged one after the other each keeps about as much.
TEST(DsqfMerge, WeightsFavourNone) {
  const Shape shape = PlanMemory(Dsqf(), 65536 / kThin / 8 * 8, .0001, "k=2", 5);
  Body all = Filled(shape, 8 * shape.keys, 0);
  for (uint64_t part = 1; part < 4; ++part) {
    all.Merge(Filled(shape, 8 * shape.keys, part), {static_cast<uint32_t>(part), 1});
    ASSERT_TRUE(Sound(all));
  }
  double least = 1, most = 0;
  for (uint64_t part = 0; part < 4; ++part) {
    const double share = 8 * Share(all, 0, 8 * shape.keys, part);
    least = std::min(least, share);
    most = std::max(most, share);
  }
  EXPECT_GT(least, .25 * .6);
  EXPECT_LT(most, .25 * 1.5);
}

// ---- bodies that are no lists --------------------------------------------------------

TEST(DsqfSound, OneBitThatIsWrongIsNoticed) {
  const Case c = {512, 2, 8, 4};
  const Shape shape = PlanMemory(Dsqf(), c.memory, .01, c.options());
  for (const double fill : {.4, 5.0}) {
    Body body = Filled(shape, static_cast<uint64_t>(fill * static_cast<double>(shape.keys)), 1);
    ASSERT_TRUE(Sound(body));
    const uint64_t rows = RowsOf(shape), row_bits = Width(shape.keys) + 2 * Width(rows);
    for (uint64_t bit = 0; bit < rows * row_bits; ++bit) {  // every bit of every row
      body.bytes()[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      EXPECT_FALSE(Sound(body)) << bit;
      body.bytes()[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    }
    const uint64_t used = std::min(body.counters().count, shape.keys);
    for (uint64_t bucket = 0; bucket < used; ++bucket) {  // every bit of every next bucket
      for (unsigned i = 0; i < Width(shape.keys); ++i) {
        const uint64_t bit =
            rows * row_bits + bucket * (c.signature() + Width(shape.keys)) + c.signature() + i;
        body.bytes()[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
        EXPECT_FALSE(Sound(body)) << bucket << " " << i;
        body.bytes()[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      }
    }
    Counters counters = body.counters();
    for (counters.state = 0; counters.state <= rows; ++counters.state) {
      // The ring may start at any row: then other rows are the older ones.
      const bool in_ring = counters.state != 0 && [&] {
        for (const auto& entry : ListsOf(body, c.signature(), shape.keys)) {
          if (entry.first + 1 == counters.state) return true;
        }
        return false;
      }();
      EXPECT_EQ(Dsqf().sound(shape, counters, body.bytes().data()), in_ring);
    }
  }
}

// Who chooses keys of one row makes a chain of all buckets. A key costs no more than the
// buckets that are looked at all the same, and a merge no more than so many a bucket.
TEST(DsqfNoise, AChainOfAllBucketsIsCutShort) {
  const Shape shape = PlanMemory(Dsqf(), 1 << 16, .01, "r=63 r_prime=24", 7);
  const uint64_t n = 2 * shape.keys, a_row = ~uint64_t{0} / RowsOf(shape);
  Body left(shape), right(shape);
  std::vector<uint64_t> of_left, of_right;
  Random random(11);
  for (uint64_t i = 0; i < n; ++i) of_left.push_back(random.Below(a_row));
  for (uint64_t i = 0; i < n; ++i) of_right.push_back(random.Below(a_row));
  left.TestAndAdd(of_left.data(), n, nullptr);
  right.TestAndAdd(of_right.data(), n, nullptr);
  const auto found = [&](const Body& body, const std::vector<uint64_t>& hashes, uint64_t last) {
    uint64_t count = 0;
    for (uint64_t i = n - last; i < n; ++i) count += body.Contains(hashes[i]);
    return count;
  };
  const uint64_t looked_at = dsqf::kLongest;
  EXPECT_GT(found(left, of_left, looked_at), looked_at / 4);  // random ones of them give way
  EXPECT_LT(found(left, of_left, n), 2 * looked_at);
  EXPECT_TRUE(Sound(left));
  left.Merge(right);
  EXPECT_TRUE(Sound(left));
  EXPECT_GT(found(left, of_right, looked_at), looked_at / 8);
  EXPECT_TRUE(Dsqf().valid(shape, left.counters()));
  // And other rows are as they were.
  const uint64_t elsewhere = ~uint64_t{0} / 2;
  EXPECT_FALSE(left.TestAndAdd(elsewhere));
  EXPECT_TRUE(left.Contains(elsewhere));
  EXPECT_TRUE(Sound(left));
}

TEST(DsqfNoise, AnyBitsAreSafe) {
  Random random(3);
  for (int trial = 0; trial < 400; ++trial) {
    const auto r = static_cast<unsigned>(1 + random.Below(63));
    const auto r_prime = static_cast<unsigned>(1 + random.Below(std::min(r, 48u)));
    const Case c = {16 + random.Below(900), .25 + static_cast<double>(random.Below(64)) / 4, r,
                    r_prime};
    Request request;
    request.memory = c.memory;
    request.options = OptionsFrom(Dsqf(), c.options() + (trial % 4 == 0 ? " pow2=on" : ""));
    Shape shape;
    if (PlanFilter(Dsqf(), request, trial, &shape) != PlanStatus::kOk) continue;
    Bytes one(shape.bytes), two(shape.bytes);
    for (size_t i = 0; i < shape.bytes; ++i) {
      const auto noise = static_cast<uint8_t>(random.Next());
      one[i] = trial % 3 == 0 ? 0xff : noise;
      two[i] = trial % 5 == 0 ? noise & static_cast<uint8_t>(random.Next()) : noise;
    }
    const auto any_row = [&] { return static_cast<uint32_t>(1 + random.Below(RowsOf(shape))); };
    Counters a = {1 + random.Below(2 * shape.keys), any_row()}, b = {random.Next(), any_row()};
    if (trial % 9 == 0) a.count = b.count = ~uint64_t{0} - random.Below(20);
    if (trial % 7 == 0) a = {};
    if (trial % 11 == 0) b = {};
    ASSERT_TRUE(Dsqf().valid(shape, a));
    for (int round = 0; round < 2; ++round) {
      uint64_t hashes[50];
      uint8_t seen[50];
      for (uint64_t& hash : hashes) hash = random.Next();
      EXPECT_EQ(Dsqf().test_and_add(shape, &a, one.data(), hashes, 50, seen), 50u);
      Dsqf().contains(shape, a, one.data(), hashes, 50, seen);
      EXPECT_EQ(Dsqf().insert(shape, &b, two.data(), hashes, 20), 20u);
      const Reading reading = Dsqf().read(shape, a, one.data());
      EXPECT_TRUE(std::isfinite(reading.count) && reading.count >= 0);
      EXPECT_TRUE(reading.fpr >= 0 && reading.fpr <= 1);
      Dsqf().sound(shape, a, one.data());
      EXPECT_TRUE(Dsqf().merge(shape, &a, one.data(), b, two.data(), {1, 1}));
      EXPECT_TRUE(Dsqf().valid(shape, a));
      EXPECT_TRUE(Dsqf().valid(shape, b));
    }
    EXPECT_TRUE(Dsqf().missed(shape) >= 0 && Dsqf().missed(shape) <= 1);
  }
}

// ---- parameters -------------------------------------------------------------------

TEST(DsqfPlan, TheMostRowsThatFit) {
  const Shape oracle = PlanMemory(Dsqf(), 131072, .01, "k=2 r=8 r_prime=4");
  EXPECT_EQ(RowsOf(oracle), 11781u);
  EXPECT_EQ(oracle.keys, 23562u);
  EXPECT_EQ(BitsOf(11781, 2, 8), 1048509u);
  for (const Case& c : {Case{64, 2, 8, 4}, Case{100000, .375, 3, 1}, Case{4096, 64, 63, 48},
                        Case{1 << 20, 4, 15, 7}, Case{kMaxBodyBytes, 1, 1, 1}}) {
    const Shape shape = PlanMemory(Dsqf(), c.memory, .01, c.options());
    const uint64_t rows = RowsOf(shape), bits = c.memory / 8 * 64;
    EXPECT_LE(BitsOf(rows, c.k, c.signature()), bits);
    EXPECT_GT(BitsOf(rows + 1, c.k, c.signature()), bits);
    EXPECT_EQ(shape.keys, static_cast<uint64_t>(c.k * static_cast<double>(rows)));
    const Shape power = PlanMemory(Dsqf(), c.memory, .01, c.options() + " pow2=on");
    EXPECT_EQ(RowsOf(power) & (RowsOf(power) - 1), 0u);
    EXPECT_LE(RowsOf(power), rows);
    EXPECT_GT(2 * RowsOf(power), rows);
  }
}

TEST(DsqfPlan, DefaultsKeepTheRate) {
  for (const double fpr : {.5, .1, .01, .001, 1e-6, 1e-9}) {
    const Shape shape = PlanMemory(Dsqf(), 65536, fpr);
    EXPECT_LE(Dsqf().expected_fpr(shape, 1e12), fpr);
    EXPECT_GT(Dsqf().expected_fpr(shape, 1e12), fpr / 3);
  }
}

TEST(DsqfPlan, KeysAskForTheLeastMemory) {
  for (const uint64_t keys : {uint64_t{1}, uint64_t{100}, uint64_t{99999}}) {
    for (const char* options : {"", "k=0.5", "pow2=on"}) {
      const Shape shape = PlanKeys(Dsqf(), keys, .01, options);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_TRUE(Dsqf().valid(shape, {}));
      Request less;
      less.memory = shape.bytes - 8;
      less.options = OptionsFrom(Dsqf(), options);
      Shape smaller;
      if (PlanFilter(Dsqf(), less, 0, &smaller) == PlanStatus::kOk) {
        EXPECT_LT(smaller.keys, keys);
      }
    }
  }
}

TEST(DsqfPlan, Refusals) {
  Request request;
  request.memory = 4096;
  Shape shape;
  request.options = OptionsFrom(Dsqf(), "r=4 r_prime=5");
  EXPECT_EQ(PlanFilter(Dsqf(), request, 0, &shape), PlanStatus::kConflict);
  request.options = OptionsFrom(Dsqf(), "");
  request.memory = 7;
  EXPECT_EQ(PlanFilter(Dsqf(), request, 0, &shape), PlanStatus::kMemoryTooSmall);
  request.memory = 8;  // one row of 3 + 2 bits and 4 buckets of 11 + 3 bits
  EXPECT_EQ(PlanFilter(Dsqf(), request, 0, &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.keys, 4u);
  request.memory = kMaxBodyBytes + 8;
  EXPECT_EQ(PlanFilter(Dsqf(), request, 0, &shape), PlanStatus::kTooLarge);
  const Shape good = PlanMemory(Dsqf(), 4096, .01);
  const auto rows = static_cast<uint32_t>(RowsOf(good));
  EXPECT_TRUE(Dsqf().valid(good, {1, rows}));
  EXPECT_FALSE(Dsqf().valid(good, {1, rows + 1}));
  EXPECT_FALSE(Dsqf().valid(good, {1, 0}));
  EXPECT_FALSE(Dsqf().valid(good, {0, 1}));
  Shape bad = good;
  bad.keys = good.keys + 1;
  EXPECT_FALSE(Dsqf().valid(bad, {}));
  bad = good;
  ++bad.detail;  // one row more than fit
  EXPECT_FALSE(Dsqf().valid(bad, {}));
  bad = good;
  bad.bytes += 64;
  EXPECT_FALSE(Dsqf().valid(bad, {}));
}

}  // namespace
}  // namespace dedup::test
