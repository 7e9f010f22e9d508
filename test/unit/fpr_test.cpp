// The rate at capacity: for every method, rate and capacity a new key is called a
// duplicate at most 1.05 times as often as was asked, and the filter is no larger
// than the tables allow.
//
// The methods are asked directly, from the first key on: a small filter would
// still be exact and have no false positives at all.
//
// A measured rate is the mean over filters of different seeds. Its standard error
// has two parts: of counting (false positives of one filter are a binomial), and
// between filters (one filter's bits are denser than another's). Where there are
// at least 8 filters both are taken from the filters themselves. Larger filters
// are many independent lines, so their relative variance falls with the number of
// keys: it is scaled from the capacity before.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include "core/methods/fifo.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// With fewer samples a relative standard error grows by the square root of kThin. The
// largest filters need most of the time, and only the thorough run measures them.
constexpr double kFalsePositives = 5000.0 / kThin;
constexpr uint64_t kMostKeys = kThin == 1 ? 10000000 : 100000;
const double kErrorAllowed = 0.03 * std::sqrt(static_cast<double>(kThin));

// Most bytes by the tables and formulas: 1.03 times the bits for blocked_bloom and
// a line, 1.05 times for ring and a block; 1.01 times for fifo and a group; the
// formula for bloom and recent.
double MostBytes(const std::string& method, double fpr, uint64_t keys) {
  const double rates[] = {0.3, 0.1, 0.01, 0.001, 0.0001};
  const auto row = std::find(std::begin(rates), std::end(rates), fpr) - std::begin(rates);
  EXPECT_LT(row, 5) << "no row for " << fpr;
  const double n = static_cast<double>(keys);
  if (method == "blocked_bloom") {
    const double bits[] = {2.52, 4.84, 9.92, 15.55, 22.03};
    return 1.03 * bits[row] * n / 8 + 64;
  }
  if (method == "bloom") return 1.02 * 1.4427 * std::log2(1 / fpr) * n / 8 + 64;
  if (method == "ring") {
    // At 0.3 the formula without blocks for fpr/8 a column: K = 5, times 8/7.
    const double bits[] = {7.82, 10.6, 17.1, 21.8, 27.6};
    return 1.05 * bits[row] * n / 8 + (fpr < 0.01 ? 4096 : 512);
  }
  if (method == "fifo")
    return 1.01 * (fpr < 0.0005 ? 57.2 : fpr < 0.01 ? 30.9 : 22.1) * n / 8 + 103 * 64;
  const double slots[] = {56, 50, 38, 31, 26};
  return 64 * std::max(1.0, std::ceil(n / (0.8 * slots[row])));
}

uint64_t GenerationKeys(const Shape& shape) {
  const uint64_t generations = shape.detail >> 8 & 0xff;
  return (shape.keys + generations - 2) / (generations - 1);
}

// Fills an empty body to where the rate is highest: to its capacity; a window to
// its steady state, lines full (recent, fifo) or just before a generation ends with all
// columns full (ring). `ask`: through test-and-add, where refused keys do not
// count; else by inserting, as a replay does.
void FillUp(Body* body, bool ask, Random* random) {
  const Shape& shape = body->shape();
  const std::string name = MethodByCode(shape.method)->name;
  uint64_t keys = shape.keys;
  if (name == "recent") keys = 3 * (shape.bytes / 64) * (shape.detail & 0xff) + 100;
  if (name == "ring") keys = (shape.detail >> 8 & 0xff) * GenerationKeys(shape) - 1;
  if (name == "fifo") keys = 6 * (shape.bytes / 64) * fifo::LayoutOf(shape).slots();
  uint64_t batch[1024];
  while (keys > 0) {
    const uint64_t n = std::min<uint64_t>(keys, ask ? 1 : 1024);
    for (uint64_t i = 0; i < n; ++i) batch[i] = random->Next();
    if (ask) {
      keys -= !body->TestAndAdd(batch[0]);
    } else {
      body->Insert(batch, n);
      keys -= n;
    }
  }
}

// The rate that must be measured: for recent with full lines the closed form, one
// key in `lines` having two equal candidates; else the method's own sum.
double Expected(const Shape& shape) {
  const Method& method = *MethodByCode(shape.method);
  if (std::string(method.name) == "recent") {
    const double k = shape.detail & 0xff, lines = shape.bytes / 64;
    const double differs = 1 - 1 / (std::exp2(shape.detail >> 8) - 1);
    return 1 - (std::pow(differs, k) / lines + std::pow(differs, 2 * k) * (1 - 1 / lines));
  }
  double keys = static_cast<double>(shape.keys);
  if (method.forgets(shape)) keys *= 16;
  if (std::string(method.name) == "fifo") keys = 8.0 * shape.bytes;  // all lines full
  return method.expected_fpr(shape, keys);
}

struct Rate {
  double mean = 0;
  double error = 0;
  double between = 0;  // relative variance between filters
  uint64_t filters = 0;
  double probes = 0;  // of all filters
};

// Mean rate of filters of this shape. `before`: relative variance between filters
// of a tenth of the size.
Rate Measure(const Shape& shape, bool ask, double before, Random* random) {
  Rate rate;
  rate.filters = std::max<uint64_t>(1, std::min<uint64_t>(4000, 800000 / shape.keys) / kThin);
  const double wanted = kFalsePositives / shape.fpr;
  const auto probes =
      static_cast<uint64_t>(std::ceil(wanted / static_cast<double>(rate.filters) / 1024)) * 1024;
  Body body(shape);
  double sum = 0, squares = 0;
  uint64_t hashes[1024];
  uint8_t seen[1024];
  for (uint64_t filter = 0; filter < rate.filters; ++filter) {
    body.Clear();
    FillUp(&body, ask, random);
    uint64_t found = 0;
    for (uint64_t done = 0; done < probes; done += 1024) {
      for (uint64_t& hash : hashes) hash = random->Next();
      body.Contains(hashes, 1024, seen);
      for (uint8_t one : seen) found += one;
    }
    const double share = static_cast<double>(found) / static_cast<double>(probes);
    sum += share;
    squares += share * share;
  }
  const double n = static_cast<double>(rate.filters);
  rate.mean = sum / n;
  rate.probes = n * static_cast<double>(probes);
  const double counting = rate.mean * (1 - rate.mean) / static_cast<double>(probes);
  if (rate.filters >= 8) {
    const double variance = std::max(0.0, squares / n - rate.mean * rate.mean) * n / (n - 1);
    rate.error = std::sqrt(variance / n);
    if (rate.mean > 0) {
      rate.between = std::max(0.0, variance - counting) / (rate.mean * rate.mean);
    }
  } else {
    rate.between = before / 10;
    rate.error = std::sqrt((counting + rate.between * rate.mean * rate.mean) / n);
  }
  return rate;
}

void ExpectKept(const Shape& shape, const Rate& rate) {
  const double asked = shape.fpr;
  EXPECT_LE(rate.error, kErrorAllowed * asked) << NameOf(shape) << ": too few probes";
  // With fewer samples the standard error is no longer small beside 5 %.
  const double allowance = kThin == 1 ? 0 : 3 * rate.error;
  EXPECT_LE(rate.mean, 1.05 * asked + allowance)
      << NameOf(shape) << ": " << rate.mean / asked << " times the rate asked, standard error "
      << rate.error / asked;
}

class FprAtCapacity : public ::testing::TestWithParam<std::tuple<std::string, double>> {};

// At most 1.05 times the rate asked, in at most the bytes of the tables, from one
// key to ten million. The mean is also what the method says it expects.
TEST_P(FprAtCapacity, IsKept) {
  const auto& [name, fpr] = GetParam();
  const Method& method = Named(name);
  Random random(static_cast<uint64_t>(1 / fpr) + name.size());
  double between = 0;
  for (uint64_t keys : {1, 2, 10, 100, 1000, 10000, 100000, 1000000, 10000000}) {
    if (keys > kMostKeys) break;
    const Shape shape = PlanKeys(method, keys, fpr);
    EXPECT_LE(shape.bytes, MostBytes(name, fpr, keys)) << NameOf(shape);
    const Rate rate = Measure(shape, false, between, &random);
    between = rate.between;
    ExpectKept(shape, rate);
    const double expected = Expected(shape);
    // Where next to nothing is found, its error is that of the expected count.
    const double error = std::max(rate.error, std::sqrt(expected / rate.probes));
    EXPECT_NEAR(rate.mean, expected, 4.5 * error + 0.01 * expected + 1e-4 * fpr) << NameOf(shape);
    std::printf("%-13s %-6g %8llu keys %9u bytes: %.4f of the rate asked, +- %.4f, %llu filters\n",
                name.c_str(), fpr, static_cast<unsigned long long>(keys), shape.bytes,
                rate.mean / fpr, rate.error / fpr, static_cast<unsigned long long>(rate.filters));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FprAtCapacity,
                         ::testing::Combine(::testing::Values("blocked_bloom", "bloom", "recent",
                                                              "ring", "fifo"),
                                            ::testing::Values(0.3, 0.1, 0.01, 0.001, 0.0001)),
                         [](const auto& info) {
                           std::string text = std::to_string(std::get<1>(info.param));
                           std::replace(text.begin(), text.end(), '.', '_');
                           return std::get<0>(info.param) + "_" + text;
                         });

// Every method: filled to its capacity, or to what its window holds and far beyond, a filter
// has no more than the rate that the method expects then, and no more than what was asked for,
// but where chance decides and the method itself expects more. The mean
// of filters of different seeds; where one filter's rate is not another's, its error is
// taken from them.
class EveryMethodsFpr : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, EveryMethodsFpr, ::testing::ValuesIn(MembershipVariants()),
                         VariantName);

TEST_P(EveryMethodsFpr, IsTheExpectedOne) {
  const Method& method = *GetParam().method;
  Random random(11);
  for (double fpr : {0.1, 0.01}) {
    for (uint64_t keys : {1000, 20000}) {
      for (uint64_t fill : {uint64_t{1}, uint64_t{4}}) {
        const Shape shape = PlanKeys(method, keys, fpr, GetParam().options);
        if (fill > 1 && !method.forgets(shape)) continue;
        const int filters = static_cast<int>(40000 / keys / kThin) + 2;
        const uint64_t probes = 100000 / kThin / 1024 * 1024;
        double sum = 0, squares = 0;
        for (int filter = 0; filter < filters; ++filter) {
          Body body(shape);
          for (uint64_t key = 0; key < fill * keys; ++key) {
            const uint64_t hash = random.Next();
            // A filter that can be full may be that a little early.
            if (body.Try(&hash, 1, nullptr) == 0) {
              EXPECT_FALSE(method.forgets(shape));
              EXPECT_GE(key, keys * 9 / 10);
            }
          }
          uint64_t hashes[1024], found = 0;
          uint8_t seen[1024];
          for (uint64_t done = 0; done < probes; done += 1024) {
            for (uint64_t& hash : hashes) hash = random.Next();
            body.Contains(hashes, 1024, seen);
            for (uint8_t one : seen) found += one;
          }
          const double share = static_cast<double>(found) / static_cast<double>(probes);
          sum += share;
          squares += share * share;
        }
        const double n = filters, mean = sum / n;
        const double counting = mean / (n * static_cast<double>(probes));
        const double error =
            std::sqrt(std::max((squares / n - mean * mean) / (n - 1), 0.0) + counting + 1e-12);
        if (KeepsItsRate(method, shape)) {
          EXPECT_LE(mean, 1.05 * fpr + 4 * error) << NameOf(shape) << " filled " << fill;
        }
        if (AnswersAtRandom(GetParam())) continue;
        const double expected = method.expected_fpr(shape, static_cast<double>(fill * keys));
        EXPECT_LE(mean, 1.05 * expected + 4 * error) << NameOf(shape) << " filled " << fill;
      }
    }
  }
}

// What a method expects does not fall with the keys, and is a rate.
TEST_P(EveryMethodsFpr, IsExpectedNotToFall) {
  const Method& method = *GetParam().method;
  for (double fpr : {0.3, 0.01, 1e-6}) {
    if (!HasRate(GetParam(), fpr)) continue;
    for (uint64_t keys : {1, 30, 5000}) {
      const Shape shape = PlanKeys(method, keys, fpr, GetParam().options);
      double before = 0;
      for (double held = 0; held < 40.0 * static_cast<double>(keys);
           held += 0.1 * static_cast<double>(keys)) {
        const double rate = method.expected_fpr(shape, held);
        ASSERT_TRUE(rate >= before * (1 - 1e-8) && rate <= 1)
            << NameOf(shape) << " " << held << ": " << rate << " after " << before;
        before = rate;
      }
    }
  }
}

// A ring's rate is kept too when the keys come through test-and-add, so that only
// those that look new are counted and set bits: with 8 and 16 generations, with
// and without refresh.
TEST(RingFpr, IsKeptOnAStream) {
  Random random(5);
  for (const char* options : {"", "refresh=on", "generations=16", "generations=16 refresh=on"}) {
    for (double fpr : {0.3, 0.1, 0.01, 0.001}) {
      double between = 0;
      for (uint64_t keys : {100, 1000, 10000, 100000}) {
        const Shape shape = PlanKeys(Named("ring"), keys, fpr, options);
        const Rate rate = Measure(shape, true, between, &random);
        between = rate.between;
        ExpectKept(shape, rate);
      }
    }
  }
}

// With a k that the user chose the filter is sized so that the rate is kept, at
// both ends of what may be chosen.
TEST(ChosenK, KeepsTheRate) {
  Random random(6);
  struct Case {
    const char *method, *options;
  };
  for (const Case& c : {Case{"blocked_bloom", "k=1"}, Case{"blocked_bloom", "k=16"},
                        Case{"bloom", "k=1"}, Case{"bloom", "k=32"}, Case{"ring", "k=1"},
                        Case{"ring", "k=40"}, Case{"ring", "k=40 generations=16"}}) {
    for (double fpr : {0.3, 0.01}) {
      double between = 0;
      for (uint64_t keys : {1, 20, 300, 5000, 50000}) {
        const Shape shape = PlanKeys(Named(c.method), keys, fpr, c.options);
        const Rate rate = Measure(shape, false, between, &random);
        between = rate.between;
        ExpectKept(shape, rate);
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
