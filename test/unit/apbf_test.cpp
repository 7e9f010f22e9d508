// apbf: its sizes and the rate they follow from, a twin with a queue of slices, the
// promise to the insertion, and what a merge keeps.

#include "core/methods/apbf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

std::string KL(unsigned k, unsigned l) {
  return "k=" + std::to_string(k) + " l=" + std::to_string(l);
}

// Probability that k slices in a row are set, slice i with probability fill[i]: a chain
// over the length of the row that ends at the last slice.
double ChainRate(unsigned k, const std::vector<double>& fill) {
  std::vector<double> row(k + 1);  // row[k]: there was one
  row[0] = 1;
  for (double f : fill) {
    std::vector<double> next(k + 1);
    next[k] = row[k];
    for (unsigned length = 0; length < k; ++length) {
      next[length + 1] += row[length] * f;
      next[0] += row[length] * (1 - f);
    }
    row = next;
  }
  return row[k];
}

// The paper's: slice i < k has been through i + 1 of its k generations.
double RateOf(unsigned k, unsigned l) {
  std::vector<double> fill;
  for (unsigned i = 0; i < k + l; ++i)
    fill.push_back(1 - std::pow(0.5, std::min(i + 1, k) / (1.0 * k)));
  return ChainRate(k, fill);
}

double GenerationOf(uint64_t bytes, unsigned k, unsigned l) {
  return std::floor(std::floor(static_cast<double>(bytes) * 8 / (k + l)) * std::log(2.0) / k);
}

// The search for rows against counting all patterns of slices.
TEST(ApbfRate, OfARowIsThatOfAllPatterns) {
  Random random(1);
  for (unsigned k : {1, 2, 3, 5, 8}) {
    for (unsigned l : {1, 2, 4}) {
      std::vector<double> fill;
      for (unsigned i = 0; i < k + l; ++i) fill.push_back(random.OneIn(5) ? 0 : random.Unit());
      double sum = 0;
      for (unsigned set = 0; set < 1u << (k + l); ++set) {
        bool row = false;
        for (unsigned s = 0; s <= l; ++s) row |= (set >> s & ((1u << k) - 1)) == (1u << k) - 1;
        double p = 1;
        for (unsigned i = 0; i < k + l; ++i) p *= (set >> i & 1) != 0 ? fill[i] : 1 - fill[i];
        sum += row ? p : 0;
      }
      EXPECT_NEAR(apbf::RunRate(k, k + l, [&](unsigned i) { return fill[i]; }), sum, 1e-12);
      EXPECT_NEAR(ChainRate(k, fill), sum, 1e-12);
    }
  }
  EXPECT_NEAR(RateOf(10, 7), 0.0014735, 1e-7);
}

TEST(ApbfSizes, FollowTheRule) {
  for (uint64_t memory : {1000, 131072, 1 << 24}) {
    for (double fpr : {0.5, 0.01, 0.002}) {
      const Shape shape = PlanMemory(Named("apbf"), memory, fpr);
      const apbf::Layout layout = apbf::LayoutOf(shape);
      EXPECT_EQ(shape.bytes, memory / 8 * 8);
      EXPECT_EQ(layout.k, 10u);
      EXPECT_EQ(layout.l, 7u);
      EXPECT_EQ(layout.slice_bits, shape.bytes * uint64_t{8} / 17);
      EXPECT_EQ(static_cast<double>(layout.generation), GenerationOf(shape.bytes, 10, 7));
      EXPECT_EQ(shape.keys, 7 * layout.generation);
    }
    for (unsigned k : {1, 5, 17, 48}) {
      for (unsigned l : {1, 7, 25, 64}) {
        const Shape shape = PlanMemory(Named("apbf"), memory, 1e-6, KL(k, l));
        const apbf::Layout layout = apbf::LayoutOf(shape);
        EXPECT_EQ(layout.k, k);
        EXPECT_EQ(layout.l, l);
        EXPECT_EQ(static_cast<double>(layout.generation),
                  std::max(1.0, GenerationOf(shape.bytes, k, l)));
        EXPECT_EQ(shape.keys, l * layout.generation);
        const Method& method = Named("apbf");
        EXPECT_TRUE(method.valid(shape, Counters{layout.generation - 1, k * (k + l) - 1}));
        EXPECT_FALSE(method.valid(shape, Counters{layout.generation, 0}));
        EXPECT_FALSE(method.valid(shape, Counters{0, k * (k + l)}));
      }
    }
  }
  // The row of the published comparison: 17 slices in 1048576 bits.
  const Shape row = PlanMemory(Named("apbf"), 131072, 0.01, KL(10, 7));
  EXPECT_EQ(apbf::LayoutOf(row).slice_bits, 61680u);
  EXPECT_EQ(row.keys, 7u * 4275);
}

// What is not given is chosen: the rate is kept, and no other choice that keeps it has
// more keys in that memory.
TEST(ApbfSizes, KeepTheRateWithTheMostKeys) {
  const uint64_t memory = 50000;
  for (double fpr : {0.1, 0.001, 1e-5}) {
    for (unsigned k : {0, 14, 20}) {
      for (unsigned l : {0, 3, 20}) {
        if ((k == 0) == (l == 0) && (k != 0 || fpr > 0.00147)) continue;
        std::string options;
        if (k != 0) options = "k=" + std::to_string(k);
        if (l != 0) options = "l=" + std::to_string(l);
        double most = 0;
        for (unsigned i = 1; i <= 48; ++i) {
          for (unsigned j = 1; j <= 64; ++j) {
            if ((k != 0 && i != k) || (l != 0 && j != l) || RateOf(i, j) > fpr) continue;
            most = std::max(most, j * GenerationOf(memory, i, j));
          }
        }
        Request request;
        request.memory = memory;
        request.fpr = fpr;
        request.options = OptionsFrom(Named("apbf"), options);
        Shape shape;
        const PlanStatus status = PlanFilter(Named("apbf"), request, 0, &shape);
        if (most == 0) {
          EXPECT_EQ(status, PlanStatus::kConflict) << options << " " << fpr;
          request.memory = 0;
          request.keys = 1000;
          EXPECT_EQ(PlanFilter(Named("apbf"), request, 0, &shape), PlanStatus::kConflict);
          continue;
        }
        ASSERT_EQ(status, PlanStatus::kOk) << options << " " << fpr;
        const apbf::Layout layout = apbf::LayoutOf(shape);
        EXPECT_EQ(static_cast<double>(shape.keys), most) << NameOf(shape);
        EXPECT_LE(RateOf(layout.k, layout.l), fpr);
        EXPECT_TRUE(k == 0 || layout.k == k);
        EXPECT_TRUE(l == 0 || layout.l == l);
      }
    }
  }
}

TEST(ApbfSizes, ByKeysAreTheLeast) {
  for (double fpr : {0.01, 1e-4, 1e-9}) {
    for (uint64_t keys : {100, 1234, 1000000}) {
      const Shape shape = PlanKeys(Named("apbf"), keys, fpr);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(PlanMemory(Named("apbf"), shape.bytes, fpr).keys, keys);
      EXPECT_LT(PlanMemory(Named("apbf"), shape.bytes - 8, fpr).keys, keys);
    }
  }
}

// Slices have at least 64 bits, and so a body 17 times as many, unless k and l were asked
// for. Where they have, the rate is that of k and l, whatever was asked.
TEST(ApbfSizes, SlicesOfFewBitsAreRefused) {
  Request request;
  Shape shape;
  uint64_t refused = 0;
  for (uint64_t units = 1; units < 30; ++units) {
    request.memory = units * 8;
    request.options = Options{};
    const bool keeps = units * 64 / 17 >= 64;
    EXPECT_EQ(PlanFilter(Named("apbf"), request, 0, &shape) == PlanStatus::kOk, keeps) << units;
    refused += !keeps;
    request.options = OptionsFrom(Named("apbf"), KL(10, 7));
    EXPECT_EQ(PlanFilter(Named("apbf"), request, 0, &shape), PlanStatus::kOk);
    EXPECT_GE(apbf::LayoutOf(shape).generation, 1u);
    const double bits = std::floor(static_cast<double>(units) * 64 / 17);
    const double load = static_cast<double>(apbf::LayoutOf(shape).generation) / bits;
    std::vector<double> fill;
    for (unsigned i = 0; i < 17; ++i) {
      fill.push_back(1 - std::exp(-std::min(i + 1.0, 10.0) * load));
    }
    EXPECT_NEAR(shape.fpr, std::min(kMaxFpr, ChainRate(10, fill)), 1e-9) << units;
  }
  EXPECT_GT(refused, 0u);
}

// The rule, with a queue of slices, the youngest in front. Slices are numbered by the
// generation in which they were the youngest, those of the start backwards from it.
class Twin {
 public:
  explicit Twin(const Shape& shape) : layout_(apbf::LayoutOf(shape)) {
    for (int64_t i = 0; i < layout_.slices(); ++i) {
      slices_.push_back({-i, std::vector<bool>(layout_.slice_bits)});
    }
  }
  bool Contains(uint64_t hash) const {
    for (unsigned from = 0; from <= layout_.l; ++from) {
      unsigned set = 0;
      for (unsigned i = 0; i < layout_.k; ++i) {
        set += slices_[from + i].bits[PositionOf(hash, slices_[from + i])];
      }
      if (set == layout_.k) return true;
    }
    return false;
  }
  bool TestAndAdd(uint64_t hash) {
    const bool seen = Contains(hash);
    bool changed = false;
    for (unsigned i = 0; i < layout_.k; ++i) {
      const uint64_t position = PositionOf(hash, slices_[i]);
      if (slices_[i].bits[position]) continue;
      slices_[i].bits[position] = true;
      changed = true;
    }
    if (changed && ++count_ == layout_.generation) EndGeneration();
    return seen;
  }
  void EndGeneration() {
    slices_.pop_back();
    slices_.push_front({slices_.front().generation + 1, std::vector<bool>(layout_.slice_bits)});
    count_ = 0;
  }
  uint64_t ended() const { return static_cast<uint64_t>(slices_.front().generation); }
  uint64_t SetInOldest(unsigned count) const {
    uint64_t set = 0;
    for (unsigned i = 0; i < count; ++i) {
      for (bool bit : slices_[layout_.slices() - 1 - i].bits) set += bit;
    }
    return set;
  }
  // Of two that agree modulo k.
  void Unite(const Twin& other) {
    for (size_t i = 0; i < slices_.size(); ++i) {
      ASSERT_EQ(Modulo(slices_[i].generation, layout_.k),
                Modulo(other.slices_[i].generation, layout_.k));
      for (uint64_t bit = 0; bit < layout_.slice_bits; ++bit) {
        if (other.slices_[i].bits[bit]) slices_[i].bits[bit] = true;
      }
    }
    count_ = std::max(count_, other.count_);
  }
  void ExpectSame(const Body& body) const {
    EXPECT_EQ(body.counters().count, count_);
    EXPECT_EQ(body.counters().state, ended() % (layout_.k * layout_.slices()));
    Bytes expected(body.bytes().size());
    for (const Slice& slice : slices_) {
      const uint64_t start = Modulo(slice.generation, layout_.slices()) * layout_.slice_bits;
      for (uint64_t i = 0; i < layout_.slice_bits; ++i) {
        if (slice.bits[i]) expected[(start + i) / 8] |= 1 << (start + i) % 8;
      }
    }
    ASSERT_EQ(body.bytes(), expected);
  }

 private:
  struct Slice {
    int64_t generation;
    std::vector<bool> bits;
  };
  static uint64_t Modulo(int64_t a, int64_t n) { return static_cast<uint64_t>((a % n + n) % n); }
  uint64_t PositionOf(uint64_t hash, const Slice& slice) const {
    const auto i = static_cast<unsigned>(Modulo(slice.generation, layout_.k));
    return FastRange(Derived(hash, i), layout_.slice_bits);
  }
  apbf::Layout layout_;
  std::deque<Slice> slices_;
  uint64_t count_ = 0;
};

struct Case {
  unsigned k, l;
  uint64_t memory;
};
constexpr Case kCases[] = {{10, 7, 1024}, {1, 1, 64},  {1, 9, 200},    {3, 2, 304},   {7, 1, 512},
                           {4, 12, 640},  {5, 5, 776}, {16, 40, 2048}, {48, 64, 1000}};

TEST(ApbfTwin, AnswersAndBytesAreTheSame) {
  Random random(2);
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Named("apbf"), c.memory, 0.01, KL(c.k, c.l));
    Body body(shape);
    Twin twin(shape);
    const uint64_t alphabet = 3 * shape.keys + 5;
    uint64_t seen = 0;
    for (uint64_t i = 0; i < 12000; ++i) {
      const uint64_t hash = HashOf(random.Below(alphabet), 1);
      const uint64_t other = HashOf(random.Below(alphabet), 1);
      ASSERT_EQ(body.Contains(other), twin.Contains(other));
      const bool expected = twin.TestAndAdd(hash);
      ASSERT_EQ(body.TestAndAdd(hash), expected);
      seen += expected;
      if (i % 101 == 0) twin.ExpectSame(body);
    }
    EXPECT_GT(seen, 100u);
    EXPECT_GT(twin.ended(), 2 * (c.k + c.l)) << NameOf(shape);
    twin.ExpectSame(body);
  }
}

TEST(ApbfBatches, AreTheSameAsSingleKeys) {
  for (const char* options : {"", "k=4 l=12"}) {
    const Shape shape = PlanMemory(Named("apbf"), 4096, 0.01, options);
    ExpectBatchesAreSingles(shape, 2 * shape.keys, 3);
  }
}

// Counted insertions so far, told from the counters after every key.
class Counted {
 public:
  explicit Counted(const Shape& shape) : generation_(apbf::LayoutOf(shape).generation) {}
  uint64_t Note(const Counters& counters) {
    ended_ += counters.state != state_;
    state_ = counters.state;
    return ended_ * generation_ + counters.count;
  }

 private:
  uint64_t generation_, ended_ = 0;
  uint32_t state_ = 0;
};

// No key is answered new while fewer than l g insertions were counted since its last
// sight, repeats among them; nor while fewer than g other distinct keys came.
TEST(ApbfPromise, IsNeverViolated) {
  for (const Case& c : kCases) {
    const Shape shape = PlanMemory(Named("apbf"), c.memory, 0.01, KL(c.k, c.l));
    Body body(shape);
    Counted counted(shape);
    const uint64_t length = 30 * shape.keys + 5000;
    std::vector<int64_t> last(length, -1);
    LastKeys distinct(apbf::LayoutOf(shape).generation, length);
    Random random(4);
    uint64_t next = 0, held = 0, total = 0;
    for (uint64_t i = 0; i < length; ++i) {
      uint64_t key = next;
      if (next > 0 && !random.OneIn(3)) {
        key = next - 1 - random.Below(std::min(next, 2 * shape.keys));
      } else {
        ++next;
      }
      const bool within = last[key] >= 0 && total - static_cast<uint64_t>(last[key]) < shape.keys;
      const bool near = distinct.See(key);
      ASSERT_TRUE(body.TestAndAdd(HashOf(key, 5)) || !(within || near))
          << NameOf(shape) << " at " << i;
      const uint64_t before = total;
      total = counted.Note(body.counters());
      ASSERT_LE(total - before, 1u);
      last[key] = static_cast<int64_t>(total);
      held += within;
    }
    EXPECT_GT(held, length / 10);
    EXPECT_GT(total, 2 * shape.keys);
  }
}

// To the insertion: the key that ends a generation is lost with the l g-th counted after
// it, the one that starts it a generation later. A key that repeats within a generation is
// counted once; a few more than g keys that come in turn push all others out.
TEST(ApbfPromise, IsTight) {
  const Shape shape = PlanMemory(Named("apbf"), 16384, 0.01, "k=25 l=9");
  const uint64_t g = apbf::LayoutOf(shape).generation;
  ASSERT_GT(g, 10u);
  for (bool first : {false, true}) {
    Body body(shape);
    uint64_t key = 1;
    for (uint64_t i = 1; i < g && !first; ++i) body.Insert(HashOf(key++));
    body.Insert(HashOf(0));
    for (uint64_t i = 0; first && i < 3 * g; ++i) body.Insert(HashOf(0));  // not counted
    const uint64_t lives = first ? shape.keys + g - 2 : shape.keys - 1;
    for (uint64_t i = 0; i < lives; ++i) body.Insert(HashOf(key++));
    EXPECT_TRUE(body.Contains(HashOf(0)));
    body.Insert(HashOf(key++));
    EXPECT_FALSE(body.Contains(HashOf(0)));
  }
  Body body(shape);
  body.Insert(HashOf(0));
  for (uint64_t i = 0; i < 20 * g; ++i) body.Insert(HashOf(1 + i % (g + g / 8)));
  EXPECT_FALSE(body.Contains(HashOf(0)));
  Body kept(shape);  // fewer than g keys never end a generation
  kept.Insert(HashOf(0));
  for (uint64_t i = 0; i < 20 * g; ++i) kept.Insert(HashOf(1 + i % (g - 2)));
  EXPECT_TRUE(kept.Contains(HashOf(0)));
}

// Where a generation is about to end the rate is the paper's for (k, l), and expected_fpr
// gives it there, rising until then. 5 standard errors of the probes, and 4 % for how
// evenly the bits of one filter are spread and for keys that happened to change nothing.
TEST(ApbfRate, IsTheOneExpected) {
  const uint64_t probes = 400000 / kThin;
  for (const Case& c : {Case{10, 7, 0}, Case{6, 13, 0}, Case{4, 3, 0}, Case{8, 2, 0}}) {
    const Shape shape = PlanMemory(Named("apbf"), 131072, 0.01, KL(c.k, c.l));
    const uint64_t g = apbf::LayoutOf(shape).generation;
    const double bits = static_cast<double>(apbf::LayoutOf(shape).slice_bits);
    Body body(shape);
    uint64_t key = 0, ended = 0;
    for (uint64_t stop : {g - 1, 3 * g - 1, 3 * g + g / 2, uint64_t{c.k + c.l} * g - 1,
                          uint64_t{c.k + c.l} * g + 3 * g / 2, 3 * (c.k + c.l) * g - 1}) {
      // A row of keys that change nothing is short of this by less than 0.1 %.
      uint32_t state = body.counters().state;
      while (ended * g + body.counters().count < stop) {
        body.Insert(HashOf(key++, 8));
        ended += body.counters().state != state;
        state = body.counters().state;
      }
      std::vector<double> fill;  // by how many keys were set in each
      for (uint64_t i = 0; i < c.k + c.l; ++i) {
        const double last = static_cast<double>(stop);
        const double from = ended > i ? static_cast<double>((ended - i) * g) : 0;
        const double to = ended + c.k < i + 1 ? 0 : static_cast<double>((ended + c.k - i) * g);
        fill.push_back(1 - std::exp(-std::max(0.0, std::min(to, last) - from) / bits));
      }
      const double expected = ChainRate(c.k, fill);
      const double error = 5 * StandardError(expected, probes) + 0.04 * expected;
      EXPECT_NEAR(FreshRate(body, probes, 8), expected, error) << NameOf(shape) << " " << stop;
      EXPECT_NEAR(body.Read().fpr, expected, 0.05 * expected + 1e-9);
      EXPECT_GE(Named("apbf").expected_fpr(shape, static_cast<double>(stop)), expected * 0.9999);
      if (stop % g == g - 1) {
        EXPECT_NEAR(Named("apbf").expected_fpr(shape, static_cast<double>(stop)), expected,
                    0.01 * expected);
      }
      // Those within the last l to l + 1 generations.
      const double held = static_cast<double>(std::min(stop, c.l * g + stop % g));
      EXPECT_NEAR(body.Read().count, held, 0.02 * held);
    }
    double before = 0;
    for (double keys = 0; keys < 3.0 * (c.k + c.l) * static_cast<double>(g);
         keys += static_cast<double>(g) / 7) {
      const double rate = Named("apbf").expected_fpr(shape, keys);
      EXPECT_GE(rate, before - 1e-15);
      before = rate;
    }
    EXPECT_NEAR(before, RateOf(c.k, c.l), 0.01 * before);
  }
}

Body Filled(const Shape& shape, uint64_t from, uint64_t keys) {
  Body body(shape);
  for (uint64_t i = 0; i < keys; ++i) body.Insert(HashOf(from + i));
  return body;
}

double ShareFound(const Body& body, uint64_t from, uint64_t to) {
  uint64_t found = 0;
  for (uint64_t i = from; i < to; ++i) found += body.Contains(HashOf(i));
  return static_cast<double>(found) / static_cast<double>(to - from);
}

// Generations that agree modulo k: nothing is lost at once, the other's window ends at
// most a generation early, and when it has passed the rate is the usual one.
TEST(ApbfMerge, OfAgreeingGenerationsKeepsEveryKey) {
  const Shape shape = PlanMemory(Named("apbf"), 32768, 0.01);
  const uint64_t g = apbf::LayoutOf(shape).generation, other = 1 << 24;
  const uint64_t probes = 400000 / kThin;
  const double bits = static_cast<double>(apbf::LayoutOf(shape).slice_bits);
  for (uint64_t keys_b : {3 * g + g / 3, 13 * g + g / 3, 43 * g + g / 3}) {
    const uint64_t keys_a = 23 * g + g / 2;
    const Body a = Filled(shape, 0, keys_a), b = Filled(shape, other, keys_b);
    ASSERT_EQ((a.counters().state + 100 - b.counters().state) % 10, 0u);
    Body merged = a;
    merged.Merge(b);
    EXPECT_EQ(merged.counters().count, a.counters().count);
    EXPECT_EQ(merged.counters().state, a.counters().state);
    for (uint64_t i = 0; i < keys_a; ++i) {
      ASSERT_TRUE(merged.Contains(HashOf(i)) || !a.Contains(HashOf(i)));
    }
    for (uint64_t i = other; i < other + keys_b; ++i) {
      ASSERT_TRUE(merged.Contains(HashOf(i)) || !b.Contains(HashOf(i)));
    }
    // At once: every slice has the keys of both.
    std::vector<double> fill;
    for (uint64_t i = 0; i < 17; ++i) {
      double keys = 0;
      for (uint64_t stop : {keys_a, keys_b}) {
        const double ended = static_cast<double>(stop / g);
        const double from = std::max(0.0, ended - static_cast<double>(i));
        const double to = std::max(0.0, ended - static_cast<double>(i) + 10);
        const double n = static_cast<double>(stop) / static_cast<double>(g);
        keys += std::max(0.0, std::min(to, n) - from) * static_cast<double>(g);
      }
      fill.push_back(1 - std::exp(-keys / bits));
    }
    const double expected = ChainRate(10, fill);
    EXPECT_NEAR(FreshRate(merged, probes, 7), expected,
                5 * StandardError(expected, probes) + 0.06 * expected);
    // Half a window on.
    for (uint64_t i = 0; i < 3 * g; ++i) merged.Insert(HashOf(2 * other + i));
    EXPECT_EQ(ShareFound(merged, keys_a - 3 * g, keys_a), 1);
    EXPECT_EQ(ShareFound(merged, other + keys_b - 3 * g, other + keys_b), 1);
    for (uint64_t i = 3 * g; i < 18 * g; ++i) merged.Insert(HashOf(2 * other + i));
    EXPECT_LT(ShareFound(merged, 0, keys_a), 0.004);
    EXPECT_LT(FreshRate(merged, probes, 7), 0.0017 + 5 * StandardError(0.0017, probes));
  }
}

// Generations that do not agree: the twin ends those of the input that loses fewer bits,
// then unites; the answers are its, the other way round too, and of both inputs all is
// found but the oldest j generations of that one.
TEST(ApbfMerge, OfOthersDropsTheOldestOfOne) {
  for (const Case& c : {Case{10, 7, 4096}, Case{4, 12, 2048}, Case{5, 1, 520}, Case{1, 3, 80}}) {
    const Shape shape = PlanMemory(Named("apbf"), c.memory, 0.01, KL(c.k, c.l));
    const uint64_t g = apbf::LayoutOf(shape).generation, other = 1 << 24;
    for (uint64_t ends_a : {0, 2, 23, 40}) {
      for (uint64_t ends_b : {0, 1, 24, 26, 28, 31, 35}) {
        Body a(shape), b(shape);
        Twin twin_a(shape), twin_b(shape);
        uint64_t keys_a = 0, keys_b = 0;
        while (twin_a.ended() < ends_a || keys_a < g / 2) {
          a.Insert(HashOf(keys_a));
          twin_a.TestAndAdd(HashOf(keys_a++));
        }
        while (twin_b.ended() < ends_b || keys_b < g / 3) {
          b.Insert(HashOf(other + keys_b));
          twin_b.TestAndAdd(HashOf(other + keys_b++));
        }
        Body merged = a, turned = b;
        merged.Merge(b);
        turned.Merge(a);
        const unsigned a_behind =
            static_cast<unsigned>((twin_b.ended() + 1000 * c.k - twin_a.ended()) % c.k);
        const unsigned b_behind = (c.k - a_behind) % c.k;
        uint64_t a_loses = 0, b_loses = 0;
        if (a_behind > 0) {
          const uint64_t a_bits = twin_a.SetInOldest(a_behind);
          const uint64_t b_bits = twin_b.SetInOldest(b_behind);
          const bool a_ends = a_bits != b_bits       ? a_bits < b_bits
                              : a_behind != b_behind ? a_behind < b_behind
                                                     : twin_a.ended() % c.k < b_behind;
          (a_ends ? a_loses : b_loses) = a_ends ? a_behind : b_behind;
        }
        for (uint64_t i = 0; i < a_loses; ++i) twin_a.EndGeneration();
        for (uint64_t i = 0; i < b_loses; ++i) twin_b.EndGeneration();
        Twin united = twin_a;
        united.Unite(twin_b);
        for (uint64_t i = 0; i < keys_a; ++i) {
          ASSERT_EQ(merged.Contains(HashOf(i)), united.Contains(HashOf(i)));
          ASSERT_EQ(turned.Contains(HashOf(i)), united.Contains(HashOf(i)));
        }
        for (uint64_t i = 0; i < keys_b; ++i) {
          ASSERT_EQ(merged.Contains(HashOf(other + i)), united.Contains(HashOf(other + i)));
          ASSERT_EQ(turned.Contains(HashOf(other + i)), united.Contains(HashOf(other + i)));
        }
        EXPECT_EQ(merged.counters().count, turned.counters().count);
        EXPECT_EQ(merged.counters().state % c.k, turned.counters().state % c.k);
        if (b_loses == 0) united.ExpectSame(merged);
        const uint64_t of_a = a_loses < c.l ? std::min(keys_a, (c.l - a_loses) * g) : 0;
        const uint64_t of_b = b_loses < c.l ? std::min(keys_b, (c.l - b_loses) * g) : 0;
        for (uint64_t i = 0; i < of_a; ++i) ASSERT_TRUE(merged.Contains(HashOf(keys_a - 1 - i)));
        for (uint64_t i = 0; i < of_b; ++i) {
          ASSERT_TRUE(merged.Contains(HashOf(other + keys_b - 1 - i)));
        }
      }
    }
  }
}

// An empty filter changes nothing, from either side, wherever the generations stand.
TEST(ApbfMerge, WithTheEmptyFilterIsNothing) {
  const Shape shape = PlanMemory(Named("apbf"), 4096, 0.01);
  const uint64_t g = apbf::LayoutOf(shape).generation;
  for (uint64_t keys = 0; keys < 30 * g; keys += g / 2) {
    const Body a = Filled(shape, 0, keys);
    Body same = a, taken(shape);
    same.Merge(Body(shape));
    EXPECT_EQ(same.bytes(), a.bytes());
    EXPECT_EQ(same.counters().count, a.counters().count);
    taken.Merge(a);
    EXPECT_EQ(taken.counters().count, a.counters().count);
    for (uint64_t i = 0; i < keys + 500; ++i) {
      ASSERT_EQ(taken.Contains(HashOf(i)), a.Contains(HashOf(i)));
    }
  }
}

}  // namespace
}  // namespace dedup::test
