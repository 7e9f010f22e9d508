// count_min: frequencies against exact counts.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

const Method& CountMin() { return Named("count_min"); }

// A shape by its own options.
Shape Sized(double epsilon, double delta, bool conservative) {
  char text[100];
  std::snprintf(text, sizeof text, "epsilon=%g delta=%g conservative=%s", epsilon, delta,
                conservative ? "on" : "off");
  Request request;
  request.options = OptionsFrom(CountMin(), text);
  Shape shape;
  EXPECT_EQ(PlanFilter(CountMin(), request, 0, &shape), PlanStatus::kOk) << text;
  return shape;
}

// A shape of so many counters.
Shape Table(uint64_t width, uint64_t depth, bool conservative) {
  Shape shape;
  shape.method = CountMin().code;
  shape.bytes = static_cast<uint32_t>(4 * width * depth);
  shape.detail = depth | (conservative ? 256 : 0);
  EXPECT_TRUE(CountMin().valid(shape, Counters{}));
  return shape;
}

Frequency Of(const Body& body, uint64_t hash) {
  return CountMin().frequency(body.shape(), body.counters(), body.bytes().data(), hash);
}
Frequency Of(const Filter& filter, uint64_t hash) {
  return FrequencyOf(filter.image().data(), filter.header(), hash);
}
void AddCounted(Body* body, uint64_t hash, uint64_t count) {
  CountMin().add_counts(body->shape(), &body->counters(), body->bytes().data(), &hash, &count, 1);
}

// The twin: counts by key, and the keys in the order of their first sight.
struct Twin {
  std::map<uint64_t, uint64_t> counts;
  std::vector<uint64_t> keys;
  uint64_t total = 0;

  void See(uint64_t key, uint64_t times = 1) {
    uint64_t& count = counts[key];
    if (count == 0) keys.push_back(key);
    count += times;
    total += times;
  }
};

// Streams of `length` keys: uniform over an alphabet, or Zipf.
std::vector<uint64_t> Stream(const std::string& kind, uint64_t length, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> keys(length);
  if (kind == "uniform") {
    for (uint64_t& key : keys) key = random.Below(length / 5);
  } else {
    const Zipf zipf(length / 2, kind == "zipf1.0" ? 1.0 : 1.2);
    for (uint64_t& key : keys) key = zipf.Next(&random);
  }
  return keys;
}
const char* const kStreams[] = {"uniform", "zipf1.0", "zipf1.2"};

// ---- sizes ----------------------------------------------------------------------

// width = ceil(e / epsilon), depth = ceil(ln(1 / delta)).
TEST(CountMinSizes, FollowFromEpsilonAndDelta) {
  struct Case {
    double epsilon, delta;
    uint64_t width, depth;
  };
  // e = 2.718281828...; ln 100 = 4.605, ln 1000 = 6.908, ln 2 = 0.693, ln 1e9 = 20.72.
  const Case cases[] = {{0.001, 0.01, 2719, 5},
                        {0.01, 0.001, 272, 7},
                        {0.9, 0.5, 4, 1},
                        {0.5, 0.9, 6, 1},
                        {0.00001, 1e-9, 271829, 21}};
  for (const Case& each : cases) {
    for (bool conservative : {false, true}) {
      const Shape shape = Sized(each.epsilon, each.delta, conservative);
      EXPECT_EQ(shape.bytes, 4 * each.width * each.depth);
      EXPECT_EQ(shape, Table(each.width, each.depth, conservative));
      char text[128], expected[128];
      DescribeParameters(shape, text, sizeof text);
      std::snprintf(expected, sizeof expected,
                    "width=%llu depth=%llu epsilon=%.3g delta=%.3g conservative=%s",
                    static_cast<unsigned long long>(each.width),
                    static_cast<unsigned long long>(each.depth),
                    std::exp(1.0) / static_cast<double>(each.width),
                    std::exp(-static_cast<double>(each.depth)), conservative ? "on" : "off");
      EXPECT_STREQ(text, expected);
      EXPECT_LE(CountMin().epsilon(shape), each.epsilon);
    }
  }
  // e^-5, which is no decimal number: the nearest asks for no sixth row.
  EXPECT_EQ(Sized(0.1, 0.006737946999085467, false).detail, 5u);
}

// The widest that fits the memory, with every byte of it that makes a column.
TEST(CountMinSizes, TakeTheWidestThatFits) {
  for (uint64_t memory : {60, 64, 100, 4096, 65536, 1000001}) {
    for (const auto& [delta, depth] : {std::pair{"0.5", 1u}, {"0.01", 5u}, {"0.001", 7u}}) {
      Request request;
      request.memory = memory;
      request.options = OptionsFrom(CountMin(), std::string("delta=") + delta);
      Shape shape;
      const PlanStatus status = PlanFilter(CountMin(), request, 0, &shape);
      if (memory / (4 * depth) < 3) {
        EXPECT_EQ(status, PlanStatus::kMemoryTooSmall) << memory << " " << delta;
        continue;
      }
      ASSERT_EQ(status, PlanStatus::kOk) << memory << " " << delta;
      EXPECT_LE(shape.bytes, memory);
      EXPECT_GT(shape.bytes + 4 * depth, memory);
      EXPECT_EQ(shape, Table(memory / (4 * depth), depth, false));
    }
  }
}

TEST(CountMinSizes, RefuseWhatHasNoSizeOrTwo) {
  Request request;
  Shape shape;
  EXPECT_EQ(PlanFilter(CountMin(), request, 0, &shape), PlanStatus::kNoSize);
  request.options = OptionsFrom(CountMin(), "epsilon=0.01");
  request.memory = 4096;
  EXPECT_EQ(PlanFilter(CountMin(), request, 0, &shape), PlanStatus::kTwoSizes);
  request.memory = 0;
  request.options = OptionsFrom(CountMin(), "epsilon=0.000000001");
  EXPECT_EQ(PlanFilter(CountMin(), request, 0, &shape), PlanStatus::kTooLarge);
}

TEST(CountMinSizes, AreChecked) {
  const Shape good = Table(10, 3, true);
  const auto bad = [&](auto change) {
    Shape shape = good;
    Counters counters;
    change(&shape, &counters);
    EXPECT_FALSE(CountMin().valid(shape, counters));
  };
  bad([](Shape* shape, Counters*) { shape->detail = 0; });
  bad([](Shape* shape, Counters*) { shape->detail = 22; });
  bad([](Shape* shape, Counters*) { shape->detail |= 512; });
  bad([](Shape* shape, Counters*) { shape->bytes += 4; });
  bad([](Shape* shape, Counters*) { shape->bytes = 2 * 4 * 3; });
  bad([](Shape*, Counters* counters) { counters->state = 2; });
  bad([](Shape*, Counters* counters) { counters->count = kMaxCount + 1; });
}

// ---- frequencies --------------------------------------------------------------------

class CountMinTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool conservative() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Updates, CountMinTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Conservative" : "Plain"; });

// No key's count is ever too low, whatever the way in which its sights came.
TEST_P(CountMinTest, IsNeverTooLow) {
  for (const char* kind : kStreams) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const std::vector<uint64_t> stream = Stream(kind, 4000, seed);
      const Shape shape = Table(300, 3, conservative());
      Filter single(shape), deferred(shape), values(shape);
      Twin twin;
      for (uint64_t key : stream) {
        twin.See(key);
        single.Add(HashOf(key, seed));
        deferred.AddDeferred(HashOf(key, seed));
        if (twin.total <= 1000) values.AddValue(HashOf(key, seed));
        if (twin.total == 1000) {
          EXPECT_EQ(values.Canonical(), single.Canonical());
        }
      }
      deferred.Settle();
      EXPECT_EQ(deferred.Canonical(), single.Canonical()) << kind;
      ASSERT_FALSE(single.exact());
      EXPECT_EQ(TotalOf(single.image().data(), single.header()), twin.total);
      for (const auto& [key, count] : twin.counts) {
        ASSERT_GE(Of(single, HashOf(key, seed)).count, count) << kind << " " << key;
      }
    }
  }
}

// The share of keys whose count is too high by more than epsilon times all sights. Of one
// stream the keys share their rows, so a trial is a seed: the share of its keys that are
// over is a number from 0 to 1 of mean at most delta, so of variance at most delta, and the
// mean of T of them is at most delta + 4 sqrt(delta / T) but once in 30,000 runs.
TEST_P(CountMinTest, KeepsItsPromise) {
  const uint64_t trials = 200 / kThin;
  for (const char* kind : kStreams) {
    for (const auto& [width, depth] : {std::pair<uint64_t, uint64_t>{272, 2}, {272, 5}, {28, 3}}) {
      const Shape shape = Table(width, depth, conservative());
      const double delta = std::exp(-static_cast<double>(depth));
      double shares = 0;
      for (uint64_t seed = 0; seed < trials; ++seed) {
        Body body(shape);
        Twin twin;
        for (uint64_t key : Stream(kind, 3000, seed)) {
          twin.See(key);
          body.TestAndAdd(HashOf(key, seed));
        }
        const double allowed = CountMin().epsilon(shape) * static_cast<double>(twin.total);
        uint64_t over = 0;
        for (const auto& [key, count] : twin.counts) {
          const uint64_t told = Of(body, HashOf(key, seed)).count;
          ASSERT_GE(told, count);
          over += static_cast<double>(told - count) > allowed;
        }
        shares += static_cast<double>(over) / static_cast<double>(twin.counts.size());
      }
      const double share = shares / static_cast<double>(trials);
      EXPECT_LE(share, delta + 4 * std::sqrt(delta / static_cast<double>(trials)))
          << kind << " " << width << " x " << depth;
    }
  }
}

// The rows are independent: another key meets a heavy one in all of them with probability
// width^-depth exactly, at the smallest widths too, where two hashes for all rows would give
// no less than width^-2.
TEST_P(CountMinTest, HasIndependentRows) {
  for (const auto& [width, depth] :
       {std::pair<uint64_t, uint64_t>{3, 1}, {3, 4}, {4, 4}, {5, 3}, {17, 2}, {6, 5}}) {
    const Shape shape = Table(width, depth, conservative());
    const uint64_t probes = 400000;
    uint64_t met = 0;
    for (uint64_t heavy = 0; heavy < 4; ++heavy) {
      Body body(shape);
      AddCounted(&body, HashOf(heavy, 1), 1000);
      for (uint64_t i = 0; i < probes / 4; ++i) met += Of(body, HashOf(i, 2)).count != 0;
    }
    const double expected = std::pow(static_cast<double>(width), -static_cast<double>(depth));
    EXPECT_NEAR(static_cast<double>(met) / static_cast<double>(probes), expected,
                5 * StandardError(expected, probes))
        << width << " x " << depth;
  }
}

// Every sight counts when it comes alone, in a batch, or as one of many.
TEST_P(CountMinTest, CountsManySightsAsOneByOne) {
  Random random(3);
  const Shape shape = Table(40, 4, conservative());
  Body one(shape), many(shape);
  for (int round = 0; round < 2000; ++round) {
    const uint64_t hash = HashOf(random.Below(100)), count = random.Below(6);
    for (uint64_t i = 0; i < count; ++i) one.TestAndAdd(hash);
    AddCounted(&many, hash, count);
    ASSERT_EQ(many.bytes(), one.bytes());
    ASSERT_EQ(many.counters().count, one.counters().count);
  }
}

// No counter with conservative update is above what it is without, so no count is; and on
// skewed streams the counts are better for it.
TEST(CountMinConservative, IsNeverWorse) {
  for (const char* kind : kStreams) {
    uint64_t plain_error = 0, conservative_error = 0;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Body plain(Table(200, 4, false)), conservative(Table(200, 4, true));
      Twin twin;
      for (uint64_t key : Stream(kind, 5000, seed)) {
        twin.See(key);
        plain.TestAndAdd(HashOf(key, seed));
        conservative.TestAndAdd(HashOf(key, seed));
      }
      for (size_t i = 0; i < plain.bytes().size(); i += 4) {
        ASSERT_LE(LoadU32(conservative.bytes().data() + i), LoadU32(plain.bytes().data() + i));
      }
      for (const auto& [key, count] : twin.counts) {
        plain_error += Of(plain, HashOf(key, seed)).count - count;
        conservative_error += Of(conservative, HashOf(key, seed)).count - count;
      }
    }
    EXPECT_LT(conservative_error, plain_error) << kind;
  }
}

// By hand: three counters a row in two rows, keys picked so that they share one row only.
TEST(CountMinConservative, RaisesOnlyTheLeast) {
  const Shape shape = Table(3, 2, true);
  const auto place = [&](uint64_t hash, int row) { return Position(hash, row, 3); };
  const uint64_t a = HashOf(1);
  uint64_t b = HashOf(2);
  for (uint64_t key = 2; place(a, 0) != place(b, 0) || place(a, 1) == place(b, 1); ++key) {
    b = HashOf(key);
  }
  Body body(shape);
  for (int i = 0; i < 5; ++i) body.TestAndAdd(a);
  const auto counter = [&](uint64_t hash, uint64_t row) {
    return LoadU32(body.bytes().data() + 4 * (3 * row + place(hash, static_cast<int>(row))));
  };
  body.TestAndAdd(b);
  EXPECT_EQ(counter(b, 0), 5u);
  EXPECT_EQ(counter(b, 1), 1u);
  AddCounted(&body, b, 6);
  EXPECT_EQ(counter(b, 0), 7u);
  EXPECT_EQ(counter(b, 1), 7u);
  EXPECT_EQ(Of(body, a).count, 5u);
  EXPECT_EQ(Of(body, b).count, 7u);
  EXPECT_EQ(body.counters().count, 12u);
}

// ---- merges ------------------------------------------------------------------------

// Filters of the first `left` and the other sights of a stream, and of all of them.
struct Parts {
  Filter left, right, whole;
  Twin twin;

  Parts(const Shape& shape, const std::vector<uint64_t>& stream, size_t split)
      : left(shape), right(shape), whole(shape) {
    for (size_t i = 0; i < stream.size(); ++i) {
      twin.See(stream[i]);
      (i < split ? left : right).Add(HashOf(stream[i]));
      whole.Add(HashOf(stream[i]));
    }
  }
};

// The merge of plain sketches is the sketch of both streams, in every form they can have:
// both exact, exact until merged, one exact, none.
TEST(CountMinMerge, IsTheSketchOfBothStreams) {
  const Shape shape = Table(100, 4, false);
  const uint64_t limit = shape.bytes / 16;
  bool seen[2][2][2] = {};
  for (const char* kind : kStreams) {
    for (uint64_t length : {20ul, limit, limit + limit / 2, 2 * limit, 6 * limit, 40 * limit}) {
      const std::vector<uint64_t> stream = Stream(kind, std::max<uint64_t>(length, 20), length);
      for (size_t split : {size_t{0}, size_t{1}, stream.size() / 2, stream.size() - 10}) {
        Parts parts(shape, stream, split);
        seen[parts.left.exact()][parts.right.exact()][parts.whole.exact()] = true;
        const Bytes expected = parts.whole.Canonical();
        EXPECT_EQ(parts.left.MergedWith(parts.right).Canonical(), expected);
        EXPECT_EQ(parts.right.MergedWith(parts.left).Canonical(), expected);
        // Key by key, and in place.
        Filter taken(parts.left);
        if (parts.right.exact()) {
          ForEachEntry(parts.right.image().data(), parts.right.header(),
                       [&](uint64_t hash, uint64_t count) { taken.AddTakenOver(hash, count); });
          EXPECT_EQ(taken.Canonical(), expected);
        }
        if (!parts.left.exact()) {
          parts.left.MakeWorkingForm();
          ASSERT_TRUE(parts.left.MergeInPlaceWith(parts.right));
          EXPECT_EQ(parts.left.Canonical(), expected);
        }
      }
    }
  }
  EXPECT_TRUE(seen[1][1][1] && seen[1][1][0] && seen[0][1][0] && seen[1][0][0] && seen[0][0][0])
      << "not every form came up";
}

// With conservative update the sum still bounds the counts of both streams, and from above
// by what plain sketches would say.
TEST(CountMinMerge, OfConservativeOnesBoundsTheCounts) {
  const Shape conservative = Table(100, 4, true), plain = Table(100, 4, false);
  const uint64_t limit = conservative.bytes / 16;
  for (const char* kind : kStreams) {
    for (uint64_t length : {20ul, limit + limit / 2, 6 * limit, 40 * limit}) {
      const std::vector<uint64_t> stream = Stream(kind, length, length);
      for (size_t split : {size_t{1}, stream.size() / 2, stream.size() - 10}) {
        Parts parts(conservative, stream, split), plain_parts(plain, stream, split);
        Filter in_place(parts.left);
        std::vector<Filter> merged = {parts.left.MergedWith(parts.right),
                                      parts.right.MergedWith(parts.left)};
        if (!parts.left.exact()) {
          in_place.MakeWorkingForm();
          ASSERT_TRUE(in_place.MergeInPlaceWith(parts.right));
          EXPECT_EQ(in_place.Canonical(), merged[0].Canonical());
        }
        for (const Filter& each : merged) {
          EXPECT_EQ(TotalOf(each.image().data(), each.header()), parts.twin.total);
          for (const auto& [key, count] : parts.twin.counts) {
            const uint64_t told = Of(each, HashOf(key)).count;
            ASSERT_GE(told, count) << kind << " " << key;
            ASSERT_LE(told, Of(plain_parts.whole, HashOf(key)).count) << kind << " " << key;
            if (each.exact()) {
              ASSERT_EQ(told, count);
            }
          }
        }
      }
    }
  }
}

// ---- the end of the counters ---------------------------------------------------------

TEST_P(CountMinTest, StaysAtTheEndAndSaysSo) {
  const uint64_t end = 0xffffffff;
  const Shape shape = Table(1000, 3, conservative());
  Body body(shape);
  const uint64_t heavy = HashOf(1), other = HashOf(2);
  body.TestAndAdd(other);
  AddCounted(&body, heavy, end);
  // Exactly full is no loss.
  EXPECT_EQ(Of(body, heavy).count, end);
  EXPECT_FALSE(Of(body, heavy).at_least);
  EXPECT_EQ(body.counters().state, 0u);
  EXPECT_TRUE(body.TestAndAdd(heavy));
  EXPECT_EQ(Of(body, heavy).count, end);
  EXPECT_TRUE(Of(body, heavy).at_least);
  EXPECT_EQ(body.counters().state, 1u);
  EXPECT_EQ(body.counters().count, end + 2);
  // Others are as they were.
  EXPECT_EQ(Of(body, other).count, 1u);
  EXPECT_FALSE(Of(body, other).at_least);
  // More than any counter at once, and more than any total.
  AddCounted(&body, heavy, kMaxCount);
  EXPECT_EQ(body.counters().count, kMaxCount);
  AddCounted(&body, heavy, ~uint64_t{0});
  EXPECT_EQ(body.counters().count, kMaxCount);
  EXPECT_EQ(Of(body, heavy).count, end);
  EXPECT_TRUE(CountMin().valid(shape, body.counters()));
  EXPECT_TRUE(CountMin().sound(shape, body.counters(), body.bytes().data()));
}

TEST_P(CountMinTest, MergesUpToTheEnd) {
  const uint64_t end = 0xffffffff;
  for (uint64_t more : {0, 1}) {
    Body left(Table(1000, 3, conservative())), right(left.shape());
    AddCounted(&left, HashOf(1), end - 5);
    AddCounted(&right, HashOf(1), 5 + more);
    left.Merge(right);
    EXPECT_EQ(Of(left, HashOf(1)).count, end);
    EXPECT_EQ(Of(left, HashOf(1)).at_least, more == 1);
    EXPECT_EQ(left.counters().count, end + more);
    EXPECT_EQ(left.counters().state, more);
    // What was said once is not taken back, by whichever side it was said.
    Body empty(left.shape()), copy(left);
    copy.Merge(empty);
    empty.Merge(left);
    EXPECT_EQ(copy.counters().state, more);
    EXPECT_EQ(empty.counters().state, more);
    EXPECT_EQ(empty.bytes(), copy.bytes());
  }
}

// ---- exact ----------------------------------------------------------------------------

// The stored bytes, written out: each hash and its count, by value or in the order of the
// first sight.
TEST_P(CountMinTest, KeepsExactCountsInOrder) {
  const Shape shape = Table(200, 3, conservative());
  Filter filter(shape), deferred(shape), values(shape);
  Twin twin;
  Random random(8);
  for (int i = 0; i < 300; ++i) {
    const uint64_t key = random.Below(40);
    twin.See(key);
    filter.Add(HashOf(key));
    deferred.AddDeferred(HashOf(key));
    values.AddValue(HashOf(key));
    std::vector<std::pair<uint64_t, uint64_t>> entries;
    for (uint64_t each : twin.keys) entries.emplace_back(HashOf(each), twin.counts[each]);
    if (!conservative()) std::sort(entries.begin(), entries.end());
    Bytes expected(kHeaderBytes + 16 * entries.size());
    WriteHeader(expected.data(), shape, Form::kExact, Counters{entries.size(), 0});
    for (size_t j = 0; j < entries.size(); ++j) {
      StoreU64(expected.data() + kHeaderBytes + 16 * j, entries[j].first);
      StoreU64(expected.data() + kHeaderBytes + 16 * j + 8, entries[j].second);
    }
    Seal(expected.data(), expected.size());
    ASSERT_EQ(filter.Canonical(), expected) << i;
    ASSERT_EQ(deferred.Canonical(), expected) << i;
    ASSERT_EQ(values.Canonical(), expected) << i;
    ASSERT_EQ(Of(filter, HashOf(key)).count, twin.counts[key]);
    ASSERT_EQ(Of(values, HashOf(key)).count, twin.counts[key]);
  }
  EXPECT_EQ(TotalOf(filter.image().data(), filter.header()), 300u);
  EXPECT_EQ(Of(filter, HashOf(999)).count, 0u);
  EXPECT_EQ(filter.Read().count, static_cast<double>(twin.keys.size()));
}

// The sketch takes over what was counted exactly, at the same key in whatever way it came.
TEST_P(CountMinTest, TakesOverTheExactCounts) {
  for (uint64_t width : {20, 100, 30000}) {  // the last defers keys
    const Shape shape = Table(width, 3, conservative());
    const uint64_t limit = shape.bytes / 16;
    Filter filter(shape), deferred(shape), values(shape);
    Body sketch(shape);
    Twin twin;
    Random random(width);
    while (twin.keys.size() <= limit) {
      const uint64_t key =
          twin.keys.empty() || random.OneIn(2) ? twin.keys.size() : random.Below(twin.keys.size());
      twin.See(key);
      ASSERT_TRUE(filter.exact());
      filter.Add(HashOf(key));
      deferred.AddDeferred(HashOf(key));
      if (width < 1000) values.AddValue(HashOf(key));
    }
    deferred.Settle();
    EXPECT_FALSE(filter.exact());
    std::vector<uint64_t> order(twin.keys);
    if (!conservative()) std::sort(order.begin(), order.end());
    for (uint64_t key : order) AddCounted(&sketch, HashOf(key), twin.counts[key]);
    Bytes expected(kHeaderBytes + shape.bytes);
    WriteHeader(expected.data(), shape, Form::kFull, Counters{twin.total, 0});
    std::memcpy(expected.data() + kHeaderBytes, sketch.bytes().data(), shape.bytes);
    Seal(expected.data(), expected.size());
    EXPECT_EQ(filter.Canonical(), expected) << width;
    EXPECT_EQ(deferred.Canonical(), expected) << width;
    if (width < 1000) {
      EXPECT_EQ(values.Canonical(), expected) << width;
    }
  }
}

// Exact counts end at kMaxCount, and say so.
TEST_P(CountMinTest, ExactCountsEndToo) {
  Filter filter(Table(200, 3, conservative()));
  filter.AddTakenOver(HashOf(1), kMaxCount - 1);
  EXPECT_FALSE(Of(filter, HashOf(1)).at_least);
  EXPECT_EQ(Of(filter, HashOf(1)).count, kMaxCount - 1);
  filter.Add(HashOf(1));
  filter.Add(HashOf(1));
  filter.AddTakenOver(HashOf(1), kMaxCount);
  filter.AddValue(HashOf(1));
  Filter twice = filter.MergedWith(filter);
  for (const Filter* each : {&filter, &twice}) {
    EXPECT_TRUE(Of(*each, HashOf(1)).at_least);
    EXPECT_EQ(Of(*each, HashOf(1)).count, kMaxCount);
    EXPECT_EQ(TotalOf(each->image().data(), each->header()), kMaxCount);
  }
}

// ---- bytes from outside ------------------------------------------------------------------

TEST_P(CountMinTest, RefusesBytesThatItDoesNotMake) {
  const Shape shape = Table(200, 3, conservative());
  Filter filter(shape);
  for (uint64_t key = 0; key < 5; ++key) filter.Add(HashOf(key));
  const Bytes exact = filter.Canonical();
  for (uint64_t key = 0; key < 1000; ++key) filter.Add(HashOf(key));
  const Bytes full = filter.Canonical();
  const auto flaw = [](Bytes bytes, size_t at, uint64_t value) {
    Header header;
    EXPECT_EQ(Validate(bytes.data(), bytes.size(), &header), Flaw::kNone);
    StoreU64(bytes.data() + at, value);
    Seal(bytes.data(), bytes.size());
    return Validate(bytes.data(), bytes.size(), &header);
  };
  const size_t first = kHeaderBytes, last = kHeaderBytes + 4 * 16;
  for (size_t entry : {first, last}) {
    EXPECT_EQ(flaw(exact, entry + 8, 0), Flaw::kBody);
    EXPECT_EQ(flaw(exact, entry + 8, kMaxCount + 1), Flaw::kBody);
    EXPECT_EQ(flaw(exact, entry + 8, kMaxCount), Flaw::kNone);
  }
  if (!conservative()) {
    EXPECT_EQ(flaw(exact, last, LoadU64(exact.data() + last - 16)), Flaw::kOrder);  // twice
    EXPECT_EQ(flaw(exact, last, 0), Flaw::kOrder);
  }
  // More entries than there are bytes for, or a room.
  EXPECT_EQ(flaw(exact, 48, 6), Flaw::kSize);
  EXPECT_EQ(flaw(exact, 48, 4), Flaw::kSize);
  EXPECT_EQ(flaw(exact, 48, shape.bytes / 16 + 1), Flaw::kParameters);
  // Counters that no such number of sights makes.
  EXPECT_EQ(flaw(full, 48, 1), Flaw::kBody);
  EXPECT_EQ(flaw(full, 48, kMaxCount + 1), Flaw::kParameters);
  EXPECT_EQ(flaw(full, 48, 1006), conservative() ? Flaw::kNone : Flaw::kBody);
  EXPECT_EQ(flaw(full, full.size() - 8, ~uint64_t{0}), Flaw::kBody);
}

// ---- distinct keys -----------------------------------------------------------------------

// Linear counting, over one row: the standard error of the number of keys is
// sqrt(w (e^t - t - 1)) at t keys a counter (Whang et al.); several rows are no worse.
TEST_P(CountMinTest, EstimatesDistinctKeys) {
  const uint64_t width = 2000;
  for (double load : {0.1, 0.5, 1.0, 2.0}) {
    const auto keys = static_cast<uint64_t>(load * static_cast<double>(width));
    for (uint64_t seed = 0; seed < 5; ++seed) {
      Body body(Table(width, 4, conservative()));
      for (uint64_t key = 0; key < keys; ++key) {
        for (uint64_t i = 0; i <= key % 3; ++i) body.TestAndAdd(HashOf(key, seed));
      }
      const double error = std::sqrt(static_cast<double>(width) * (std::exp(load) - load - 1));
      EXPECT_NEAR(body.Read().count, static_cast<double>(keys), 5 * error) << load;
    }
  }
}

}  // namespace
}  // namespace dedup::test
