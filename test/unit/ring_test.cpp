// ring: its promise, word for word, through many turnovers of the window; what a
// window lets through again; refresh; generations; merges.

#include "core/methods/ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "test_support.hpp"

namespace dedup::test {
namespace {

unsigned GenerationsOf(const Shape& shape) { return shape.detail >> 8 & 0xff; }

uint64_t KeysAGeneration(const Shape& shape) {
  const uint64_t rest = GenerationsOf(shape) - 1;
  return (shape.keys + rest - 1) / rest;
}

// Counted insertions since the filter was empty. Generations that ended are told
// apart by the current column, so this has to be fed after every key.
class Counted {
 public:
  explicit Counted(const Shape& shape) : shape_(shape) {}
  // Says whether something was counted.
  bool Note(const Counters& counters) {
    const uint64_t before = total_;
    if (counters.state != state_) {
      EXPECT_EQ(counters.state, (state_ + 1) % GenerationsOf(shape_));
      ++ended_;
      state_ = counters.state;
    }
    total_ = ended_ * KeysAGeneration(shape_) + counters.count;
    EXPECT_LE(total_ - before, 1u);
    return total_ != before;
  }
  uint64_t total() const { return total_; }

 private:
  Shape shape_;
  uint64_t total_ = 0, ended_ = 0;
  uint32_t state_ = 0;
};

struct Case {
  const char* options;
  uint64_t keys;
  double fpr;
};

std::vector<Case> Cases(bool refresh) {
  std::vector<Case> cases;
  for (const char* options :
       {refresh ? "refresh=on" : "", refresh ? "generations=16 refresh=on" : "generations=16"}) {
    for (uint64_t keys : {1, 2, 7, 8, 15, 100, 1000, 20000}) {
      for (double fpr : {0.1, 0.01, 0.001}) cases.push_back({options, keys, fpr});
    }
  }
  return cases;
}

// A stream of which half are keys of the last two windows, so that keys come
// again at every age, and a few are one steady repeat.
class Stream {
 public:
  Stream(uint64_t keys, uint64_t seed) : keys_(keys), random_(seed) {}
  uint64_t Next() {
    const uint64_t dice = random_.Below(20);
    if (dice == 0) return 0;
    if (dice < 11 || next_ == 1) return next_++;
    return next_ - 1 - random_.Below(std::min<uint64_t>(next_ - 1, 3 * keys_ + 3));
  }

 private:
  uint64_t keys_, next_ = 1;
  Random random_;
};

uint64_t LengthFor(uint64_t keys) { return std::max<uint64_t>(20000, 24 * keys); }

// A key answered new is answered duplicate until at least `keys` further keys
// have been answered new: never violated, and asked of every key that comes.
TEST(RingPromise, IsNeverViolated) {
  for (const Case& c : Cases(false)) {
    const Shape shape = PlanKeys(Named("ring"), c.keys, c.fpr, c.options);
    Body body(shape);
    Stream stream(c.keys, 1);
    std::unordered_map<uint64_t, uint64_t> promised;  // by key: new answers up to its own
    uint64_t news = 0, asked = 0, turnovers = 0;
    for (uint64_t i = 0; i < LengthFor(c.keys); ++i) {
      const uint64_t key = stream.Next(), hash = HashOf(key, 1);
      const auto found = promised.find(key);
      const bool held = found != promised.end() && news - found->second < c.keys;
      const bool contained = body.Contains(hash);
      const bool seen = body.TestAndAdd(hash);
      ASSERT_EQ(contained, seen);
      ASSERT_TRUE(seen || !held) << NameOf(shape) << " after " << news - found->second
                                 << " further new keys";
      asked += held;
      if (!seen) promised[key] = ++news;
    }
    turnovers = news / c.keys;
    EXPECT_GE(asked, 500u) << NameOf(shape);
    EXPECT_GE(turnovers, 3u) << NameOf(shape);
  }
}

// The same in a large window, over millions of keys.
TEST(RingPromise, IsNeverViolatedInALargeWindow) {
  const Shape shape = PlanKeys(Named("ring"), 200000 / kThin, 0.01);
  Body body(shape);
  Stream stream(shape.keys, 11);
  std::vector<uint64_t> promised(30 * shape.keys);  // by key: one more than new answers before
  uint64_t news = 0, asked = 0;
  for (uint64_t i = 0; i < 15 * shape.keys; ++i) {
    const uint64_t key = stream.Next();
    const bool held = promised[key] != 0 && news - promised[key] < shape.keys;
    const bool seen = body.TestAndAdd(HashOf(key, 11));
    ASSERT_TRUE(seen || !held);
    asked += held;
    if (!seen) promised[key] = ++news;
  }
  EXPECT_GE(asked, 3 * shape.keys);
  EXPECT_GE(news, 6 * shape.keys);
}

// And at any moment all keys of the window are found, not only those that come.
TEST(RingPromise, HoldsForAllKeysOfTheWindow) {
  for (const Case& c : Cases(false)) {
    if (c.keys > 1000) continue;
    const Shape shape = PlanKeys(Named("ring"), c.keys, c.fpr, c.options);
    Body body(shape);
    std::vector<uint64_t> news;
    for (uint64_t key = 0; key < 6 * c.keys + 50; ++key) {
      if (!body.TestAndAdd(HashOf(key, 2))) news.push_back(key);
      for (size_t age = 0; age < std::min<size_t>(c.keys, news.size()); ++age) {
        ASSERT_TRUE(body.Contains(HashOf(news[news.size() - 1 - age], 2)))
            << NameOf(shape) << " age " << age;
      }
    }
  }
}

// Without refresh hits change nothing, and once the window has passed a key is let
// through again: after G full generations it is answered duplicate no more often
// than a key never seen. So a steady repeat comes through about once a window.
TEST(RingWindow, LetsAKeyThroughAgain) {
  for (const char* options : {"", "generations=16"}) {
    const Shape shape = PlanKeys(Named("ring"), 2000, 0.01, options);
    Body body(shape);
    const uint64_t longest = GenerationsOf(shape) * KeysAGeneration(shape);
    std::unordered_map<uint64_t, uint64_t> added;
    Random random(3);
    uint64_t news = 0, past = 0, refused = 0, through = 0, late = 0;
    uint64_t last = 0;
    for (uint64_t i = 0; i < 200000; ++i) {
      // Key 0 comes every tenth time.
      const uint64_t key = i % 10 == 0 ? 0 : 1 + random.Below(10 * shape.keys);
      const auto found = added.find(key);
      const bool over = key != 0 && found != added.end() && news - found->second >= longest;
      const bool seen = body.TestAndAdd(HashOf(key, 4));
      past += over;
      refused += over && seen;
      if (!seen) {
        added[key] = ++news;
        if (key == 0) {
          if (last != 0) {
            late += news - last > longest + 20;
            EXPECT_GT(news - last, shape.keys);
          }
          last = news;
          ++through;
        }
      }
    }
    EXPECT_GT(past, 10000u);
    EXPECT_LE(static_cast<double>(refused),
              0.0105 * static_cast<double>(past) + 4 * std::sqrt(0.01 * static_cast<double>(past)));
    EXPECT_GE(through, 9 * news / (10 * longest));
    // Now and then it is a false positive just then, until that generation goes.
    EXPECT_LE(late, through / 20) << "of " << through;
  }
}

// With refresh=on every key set in the current generation counts, also one that
// was seen in an older one, and the last `keys` counted insertions are found.
TEST(RingRefresh, KeepsTheLastCountedInsertions) {
  for (const Case& c : Cases(true)) {
    const Shape shape = PlanKeys(Named("ring"), c.keys, c.fpr, c.options);
    Body body(shape);
    Counted counted(shape);
    Stream stream(c.keys, 5);
    std::unordered_map<uint64_t, uint64_t> last;  // by key: its last counted insertion
    uint64_t asked = 0, refreshed = 0;
    for (uint64_t i = 0; i < LengthFor(c.keys); ++i) {
      const uint64_t key = stream.Next(), hash = HashOf(key, 5);
      const auto found = last.find(key);
      const bool held = found != last.end() && counted.total() - found->second < c.keys;
      const bool seen = body.TestAndAdd(hash);
      ASSERT_TRUE(seen || !held) << NameOf(shape);
      asked += held;
      const bool counts = counted.Note(body.counters());
      ASSERT_TRUE(seen || counts);  // a new key always counts
      refreshed += seen && counts;
      if (counts) last[key] = counted.total();
    }
    EXPECT_GE(asked, 500u) << NameOf(shape);
    EXPECT_GE(refreshed, 100u) << NameOf(shape);
  }
}

// With refresh=on a steady repeat never comes through again; without, hits are not
// counted at all.
TEST(RingRefresh, HoldsASteadyRepeat) {
  for (const bool refresh : {false, true}) {
    const Shape shape = PlanKeys(Named("ring"), 1000, 0.001, refresh ? "refresh=on" : "");
    Body body(shape);
    uint64_t through = 0;
    for (uint64_t i = 0; i < 20000; ++i) {
      body.TestAndAdd(HashOf(i, 6));
      through += !body.TestAndAdd(HashOf(~uint64_t{0}, 6));
    }
    if (refresh) {
      EXPECT_EQ(through, 1u);
    } else {
      EXPECT_GE(through, 15u);
    }
  }
}

// The bits that survive tell in which generation a key was added.
TEST(RingGenerations, AreShown) {
  for (const char* options : {"", "generations=16"}) {
    const Shape shape = PlanKeys(Named("ring"), 3000, 0.001, options);
    const ring::Layout layout = ring::LayoutOf(shape);
    Body body(shape);
    std::vector<std::pair<uint64_t, uint32_t>> added;  // hash, generation
    for (uint64_t key = 0; key < shape.keys; ++key) {
      const uint32_t generation = body.counters().state;
      if (!body.TestAndAdd(HashOf(key, 7))) added.emplace_back(HashOf(key, 7), generation);
    }
    uint64_t others = 0;
    for (const auto& [hash, generation] : added) {
      const uint8_t* block =
          body.bytes().data() + ring::BlockAt(layout, ring::Blocks(shape, layout), hash);
      const unsigned alive = layout.cell_bytes() == 1 ? ring::Ask<1>(layout, block, hash)
                                                      : ring::Ask<2>(layout, block, hash);
      ASSERT_TRUE(alive >> generation & 1);
      others += alive != 1u << generation;
    }
    EXPECT_LE(others, 10u);  // a false positive of another generation
  }
}

// A generation ends after ceil(keys / (G-1)) keys answered new; then the next
// column is the current one, and it is clear.
TEST(RingGenerations, EndOnTime) {
  for (const Case& c : Cases(false)) {
    const Shape shape = PlanKeys(Named("ring"), c.keys, c.fpr, c.options);
    Body body(shape);
    const uint64_t full = KeysAGeneration(shape);
    const unsigned generations = GenerationsOf(shape);
    uint64_t added = 0;
    for (uint64_t key = 0; added < std::min<uint64_t>(20 * full, 4000); ++key) {
      if (body.TestAndAdd(HashOf(key, 8))) continue;
      ++added;
      ASSERT_EQ(body.counters().count, added % full);
      ASSERT_EQ(body.counters().state, added / full % generations);
      if (added % full != 0) continue;
      const unsigned bit = body.counters().state;
      for (size_t i = bit / 8; i < shape.bytes; i += generations / 8) {
        ASSERT_FALSE(body.bytes()[i] >> bit % 8 & 1);
      }
    }
  }
}

// A merge drops no key of either input, and promises what both promised: it holds
// until `keys` further keys are new. The inputs stand at different generations.
TEST(RingMerge, DropsNoKeyOfEitherInput) {
  for (const Case& c : Cases(false)) {
    if (c.keys < 7) continue;
    const Shape shape = PlanKeys(Named("ring"), c.keys, c.fpr, c.options);
    for (uint64_t lead : {uint64_t{0}, KeysAGeneration(shape), c.keys / 2 + 1}) {
      Body left(shape), right(shape);
      std::vector<uint64_t> kept;  // keys that either input promises
      auto fill = [&](Body* body, uint64_t first, uint64_t length) {
        std::vector<uint64_t> news;
        for (uint64_t key = first; key < first + length; ++key) {
          if (!body->TestAndAdd(HashOf(key, 9))) news.push_back(key);
        }
        const size_t window = std::min<size_t>(news.size(), c.keys);
        kept.insert(kept.end(), news.end() - static_cast<int64_t>(window), news.end());
      };
      fill(&left, 0, 3 * c.keys);
      fill(&right, 10 * c.keys, 2 * c.keys + lead);
      const Counters before = left.counters();
      const uint64_t larger = std::max(before.count, right.counters().count);
      left.Merge(right);
      EXPECT_EQ(left.counters().count, larger);
      EXPECT_EQ(left.counters().state, before.state);
      for (uint64_t key : kept) ASSERT_TRUE(left.Contains(HashOf(key, 9))) << NameOf(shape);
    }
  }
}

// After a merge an input's youngest keys are held for `keys` further new keys, less
// a generation at most: the larger of the two counters ends the current generation
// early for the other input's keys.
TEST(RingMerge, KeepsThePromiseOfTheYoungest) {
  const Shape shape = PlanKeys(Named("ring"), 700, 0.001);
  Body left(shape), right(shape);
  for (uint64_t key = 0; key < 1000; ++key) left.TestAndAdd(HashOf(key, 10));
  for (uint64_t key = 5000; key < 5350; ++key) right.TestAndAdd(HashOf(key, 10));
  left.Merge(right);
  uint64_t news = 0;
  for (uint64_t key = 20000; news < shape.keys - KeysAGeneration(shape); ++key) {
    news += !left.TestAndAdd(HashOf(key, 10));
    ASSERT_TRUE(left.Contains(HashOf(999, 10)));
    ASSERT_TRUE(left.Contains(HashOf(5349, 10)));
  }
}

}  // namespace
}  // namespace dedup::test
