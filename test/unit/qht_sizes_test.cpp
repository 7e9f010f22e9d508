// qht, qhtd, qqht, qqhtd: sizes, and what of the last keys is missed.

#include "core/methods/qht_sizes.hpp"

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
using qht_test::FullRate;
using qht_test::kLayouts;
using qht_test::kNames;
using qht_test::LeastBytes;
using qht_test::Options;
using qht_test::Queue;
using qht_test::WithDuplicates;

class QhtSizes : public ::testing::TestWithParam<std::string> {
 protected:
  const std::string name = GetParam();
  const Method& method = Named(GetParam());

  PlanStatus Try(uint64_t keys, uint64_t memory, const std::string& options, Shape* shape) {
    Request request;
    request.keys = keys;
    request.memory = memory;
    request.options = OptionsFrom(method, options);
    if (request.options.given[kFpr]) request.fpr = request.options.value[kFpr];
    return PlanFilter(method, request, 4, shape);
  }
};
INSTANTIATE_TEST_SUITE_P(All, QhtSizes, ::testing::ValuesIn(kNames),
                         [](const auto& info) { return info.param; });

// ---- parameters -----------------------------------------------------------------------

unsigned KOf(const Shape& shape) { return shape.detail & 0xff; }
unsigned BitsOf(const Shape& shape) { return static_cast<unsigned>(shape.detail >> 8); }

// rows = floor(M / (k bits)), of the bytes asked for down to a multiple of 8, and
// nominally k keys a row.
TEST_P(QhtSizes, AreTheRowsThatFit) {
  for (const auto& [k, bits] : kLayouts) {
    for (uint64_t memory : {LeastBytes(k, bits), LeastBytes(k, bits) + 7, uint64_t{1000},
                            uint64_t{131072}, uint64_t{1000003}, uint64_t{512} << 20}) {
      const Shape shape = PlanMemory(method, memory, 0.01, Options(k, bits));
      const uint64_t rows = memory / 8 * 64 / (k * bits);
      EXPECT_EQ(shape.bytes, memory / 8 * 8);
      EXPECT_EQ(shape.keys, rows * k);
      EXPECT_EQ(shape.detail, k | bits << 8);
      EXPECT_TRUE(method.valid(shape, Counters{}));
      EXPECT_TRUE(method.valid(shape, Counters{~uint64_t{0}, 0}));
      EXPECT_FALSE(method.valid(shape, Counters{0, 1}));
      char text[100], expected[100];
      std::snprintf(expected, sizeof expected, "k=%u bits=%u rows=%llu", k, bits,
                    static_cast<unsigned long long>(rows));
      method.describe(shape, text, sizeof text);
      EXPECT_STREQ(text, expected);
    }
    Shape shape;
    EXPECT_EQ(Try(0, LeastBytes(k, bits) - 1, Options(k, bits), &shape),
              PlanStatus::kMemoryTooSmall);
  }
}

// By keys: the least multiple of 8 bytes with so many cells.
TEST_P(QhtSizes, ByKeysAreTheLeast) {
  for (const auto& [k, bits] : kLayouts) {
    for (uint64_t keys : {1, 2, 31, 1000, 123457}) {
      const Shape shape = PlanKeys(method, keys, 0.01, Options(k, bits));
      EXPECT_EQ(shape.keys, keys);
      EXPECT_GE(uint64_t{shape.bytes} * 8 / (k * bits) * k, keys);
      EXPECT_LT(uint64_t{shape.bytes - 8} * 8 / (k * bits) * k, keys);
      EXPECT_TRUE(method.valid(shape, Counters{}));
    }
  }
  Shape shape;
  EXPECT_EQ(Try(uint64_t{512} << 20, 0, "k=1 bits=8", &shape), PlanStatus::kOk);
  EXPECT_EQ(shape.bytes, uint64_t{512} << 20);
  EXPECT_EQ(Try((uint64_t{512} << 20) + 1, 0, "k=1 bits=8", &shape), PlanStatus::kTooLarge);
}

// What is not given is taken from the rate: bits = ceil(log2(k / fpr + 1)), with which the
// full rate is at most the one asked for; one cell a row, and in queues four, or as many
// as make one word of 64 bits.
TEST_P(QhtSizes, FollowFromTheRate) {
  for (double fpr : {0.5, 0.3, 0.1, 0.01, 0.001, 1e-4, 5e-5, 1e-5, 1e-6, 1e-9}) {
    const auto bits_for = [&](unsigned k) { return std::ceil(std::log2(k / fpr + 1)); };
    for (unsigned k : {0, 1, 2, 3, 8, 32}) {
      const std::string option = k == 0 ? "" : "k=" + std::to_string(k);
      const Shape shape = PlanMemory(method, 65536, fpr, option);
      unsigned cells = k > 0 ? k : 1;
      if (k == 0 && Queue(name)) cells = fpr > 9e-5 ? 4 : fpr > 2e-6 ? 3 : 2;
      EXPECT_EQ(KOf(shape), cells) << fpr;
      EXPECT_EQ(BitsOf(shape), bits_for(cells)) << fpr;
      EXPECT_LE(method.expected_fpr(shape, 1e12), fpr * (1 + 1e-9));
      EXPECT_EQ(shape.fpr, fpr);
      if (k == 0) {
        EXPECT_LE(KOf(shape) * BitsOf(shape), 64u);
        EXPECT_EQ(PlanMemory(method, 8, fpr).keys, 64 / (cells * BitsOf(shape)) * cells);
      }
      if (k == 0 && Queue(name) && cells < 4) {
        EXPECT_GT((cells + 1) * bits_for(cells + 1), 64);
      }
    }
  }
  // Of given fingerprints as many cells, up to the usual, as the rate and the word allow.
  EXPECT_EQ(KOf(PlanMemory(method, 4096, 0.01, "bits=16")), Queue(name) ? 4u : 1u);
  EXPECT_EQ(KOf(PlanMemory(method, 4096, 0.01, "bits=17")), Queue(name) ? 3u : 1u);
  EXPECT_EQ(KOf(PlanMemory(method, 4096, 0.1, "bits=5")), Queue(name) ? 3u : 1u);  // 3.1 / 31
  EXPECT_EQ(KOf(PlanMemory(method, 4096, 0.01, "bits=2")), 1u);
  EXPECT_EQ(KOf(PlanMemory(method, 4096, 0.01, "bits=40")), 1u);
}

// A row cannot have more cells than there are fingerprints: Algorithm 1's k <= 2^sigma,
// less the one that is reserved.
TEST_P(QhtSizes, HaveNoMoreCellsThanFingerprints) {
  Shape shape;
  for (const auto& [k, bits] : {std::pair{2, 1}, {4, 2}, {8, 3}, {16, 4}, {32, 5}}) {
    EXPECT_EQ(Try(0, 65536, Options(k, bits), &shape), PlanStatus::kConflict);
    EXPECT_EQ(Try(100, 0, Options(k, bits), &shape), PlanStatus::kConflict);
    EXPECT_EQ(Try(0, 65536, Options(k - 1, bits), &shape), PlanStatus::kOk);
  }
  EXPECT_NE(method.conflict, nullptr);
}

TEST_P(QhtSizes, RefuseOtherShapes) {
  const Shape good = PlanMemory(method, 800, 0.01, "k=4 bits=8");
  ASSERT_TRUE(method.valid(good, Counters{}));
  auto refused = [&](auto change) {
    Shape shape = good;
    change(&shape);
    return !method.valid(shape, Counters{});
  };
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 4; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 8 << 8; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 33 | 8 << 8; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 4 | 41 << 8; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail = 4 | 2 << 8; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail |= 1 << 16; }));
  EXPECT_TRUE(refused([](Shape* s) { s->detail |= uint64_t{1} << 63; }));
  EXPECT_TRUE(refused([](Shape* s) { s->bytes = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->bytes = 804; }));
  EXPECT_TRUE(refused([](Shape* s) { s->keys = 0; }));
  EXPECT_TRUE(refused([](Shape* s) { s->keys = 801; }));  // 200 rows of 4
  EXPECT_TRUE(refused([](Shape* s) {
    s->bytes = 8;
    s->detail = 32 | 40 << 8;  // no row
    s->keys = 1;
  }));
}

// What is told of it.
TEST(QhtRegistry, IsOfTheFormat) {
  const uint8_t codes[] = {11, 12, 13, 14};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const Method& method = Named(kNames[i]);
    const Shape shape = PlanKeys(method, 1000, 0.01);
    EXPECT_EQ(method.code, codes[i]);
    EXPECT_EQ(method.remembers(shape), Remembers::kByChance);
    EXPECT_EQ(method.exact_order(shape),
              WithDuplicates(kNames[i]) ? ExactOrder::kLastSight : ExactOrder::kFirstSight);
    EXPECT_FALSE(method.merge_keeps_all);
    EXPECT_EQ(method.forget, nullptr);
  }
}

// ---- what is missed -----------------------------------------------------------------

// On an endless stream of distinct keys, in closed form where there is one, and measured:
// the mean of filters whose standard error is their own.
TEST_P(QhtSizes, MissesWhatItSays) {
  const int filters = 20;
  for (const auto& [k, bits] :
       {std::pair{1u, 3u}, {1u, 7u}, {2u, 3u}, {4u, 4u}, {4u, 8u}, {8u, 5u}, {16u, 6u}, {7u, 3u}}) {
    const Shape shape = PlanMemory(method, 8192 / kThin / 8 * 8, 0.01, Options(k, bits));
    const double said = method.missed(shape), never = 1 - FullRate(name, k, bits);
    if (!Queue(name)) {
      EXPECT_NEAR(said, never / std::exp(1.0), 1e-12);
    } else if (WithDuplicates(name)) {
      EXPECT_NEAR(said, never * std::exp(k * std::log(k) - k - std::lgamma(k + 1.0)), 1e-9);
    }
    double sum = 0, squares = 0;
    for (int i = 0; i < filters; ++i) {
      Body body(shape);
      const uint64_t keys = shape.keys, last = 7 * keys;
      const auto hash = [&](uint64_t key) { return HashOf(key, i); };
      Add(&body, 0, last, hash);
      const auto found = static_cast<double>(Ask(body, last - keys, last, hash));
      const double missed = 1 - found / static_cast<double>(keys);
      sum += missed;
      squares += missed * missed;
    }
    const double mean = sum / filters;
    const double error = std::sqrt((squares / filters - mean * mean) / (filters - 1));
    EXPECT_LT(error, (0.01 * mean + 0.0002) * std::sqrt(static_cast<double>(kThin)))
        << NameOf(shape);
    EXPECT_NEAR(mean, said, 4.5 * error) << NameOf(shape);
  }
}

// A shorter window than the rows would hold is missed less: down to nothing.
TEST_P(QhtSizes, MissesLessOfFewerKeys) {
  for (const char* options : {"k=1 bits=7", "k=4 bits=8", "k=16 bits=12"}) {
    double before = 1;
    Shape shape = PlanMemory(method, 8192, 0.01, options);
    for (uint64_t keys = shape.keys; keys > 0; keys /= 2) {
      shape.keys = keys;
      const double missed = method.missed(shape);
      EXPECT_GE(missed, 0);
      EXPECT_LE(missed, before + 1e-12);
      if (before > 1e-9) {
        EXPECT_LT(missed, 0.97 * before);
      }
      before = missed;
    }
    EXPECT_LT(before, 1e-3);
  }
}

}  // namespace
}  // namespace dedup::test
