// The set behind an approximate DISTINCT: exact while small, then within its rate and
// its budget, and what it gives up when that is spent.

#include "core/distinct_set.hpp"

#include <unordered_set>

#include "test_support.hpp"

namespace dedup::test {
namespace {

// An owner: provides what is wanted, and watches the budget.
class Owner {
 public:
  Owner(uint64_t budget, double fpr) : budget_(budget) { set_.Start(budget, fpr); }

  // Test-and-adds a batch; true for those let through.
  std::vector<bool> Ask(const std::vector<uint64_t>& hashes) {
    std::vector<bool> passed;
    for (size_t done = 0; done < hashes.size();) {
      const size_t n = std::min(hashes.size() - done, DistinctSet::kMaxBatch);
      while (const size_t bytes = set_.Wants(n)) {
        // Exactly sized and no more aligned than malloc does it, for the sanitizer.
        held_.push_back(std::make_unique<Bytes>(bytes));
        size_t held = 0;
        for (const auto& block : held_) held += block->size();
        most_ = std::max(most_, held);
        const uint8_t* old = set_.Give(held_.back()->data());
        std::erase_if(held_, [&](const auto& block) { return block->data() == old; });
      }
      uint8_t seen[DistinctSet::kMaxBatch];
      for (size_t i = 0; i < n; ++i) set_.Prefetch(hashes[done + i]);
      if (!set_.TestAndAdd(hashes.data() + done, n, seen)) ++warnings_;
      for (size_t i = 0; i < n; ++i) passed.push_back(seen[i] == 0);
      done += n;
    }
    EXPECT_LE(most_, budget_);
    return passed;
  }
  bool Ask(uint64_t hash) { return Ask(std::vector<uint64_t>{hash})[0]; }

  const DistinctSet& set() const { return set_; }
  size_t most() const { return most_; }
  int warnings() const { return warnings_; }

 private:
  DistinctSet set_;
  uint64_t budget_;
  std::vector<std::unique_ptr<Bytes>> held_;
  size_t most_ = 0;
  int warnings_ = 0;
};

std::vector<uint64_t> Fresh(uint64_t first, uint64_t n, uint64_t seed = 0) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < n; ++i) hashes.push_back(HashOf(first + i, seed));
  return hashes;
}

uint64_t Count(const std::vector<bool>& passed) {
  return static_cast<uint64_t>(std::count(passed.begin(), passed.end(), true));
}

TEST(DistinctSet, IsExactWhileSmall) {
  Owner owner(uint64_t{64} << 20, 0.001);
  std::unordered_set<uint64_t> twin;
  Random random(1);
  const uint64_t rows = 3000000 / kThin;
  std::vector<uint64_t> batch;
  for (uint64_t row = 0; row < rows; ++row) {
    batch.push_back(HashOf(random.Below(rows / 2)));
    if (batch.size() < 1 + row % DistinctSet::kMaxBatch) continue;
    const std::vector<bool> passed = owner.Ask(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      ASSERT_EQ(passed[i], twin.insert(batch[i]).second) << row;
    }
    batch.clear();
  }
  EXPECT_TRUE(owner.set().exact());
  EXPECT_EQ(owner.set().keys(), twin.size());
  EXPECT_LT(owner.set().fpr(), 1e-12);
  EXPECT_EQ(owner.warnings(), 0);
}

// Half of the budget holds three quarters of its eighth.
TEST(DistinctSet, IsExactUpToHalfTheBudget) {
  for (const uint64_t budget : {uint64_t{1} << 20, uint64_t{3} << 20, uint64_t{5000001}}) {
    Owner owner(budget, 0.001);
    uint64_t exact = 0;
    while (owner.set().exact()) {
      EXPECT_EQ(Count(owner.Ask(Fresh(exact, 64))), 64u);
      exact += 64;
      ASSERT_LT(exact, budget);
    }
    const double room = static_cast<double>(budget) / 2 / 8 * 0.75;
    EXPECT_LE(static_cast<double>(exact), room + 128);
    EXPECT_GT(static_cast<double>(exact), 0.6 * room);
  }
}

TEST(DistinctSet, ZeroIsAHashLikeAnyOther) {
  Owner owner(DistinctSet::kLeastBudget, 0.01);
  EXPECT_TRUE(owner.Ask(0));
  EXPECT_FALSE(owner.Ask(0));
  owner.Ask(Fresh(1, 10000));
  ASSERT_FALSE(owner.set().exact());
  EXPECT_FALSE(owner.Ask(Fresh(1, 1))[0] && owner.set().given_up() == 0);
  EXPECT_FALSE(owner.Ask(0) && owner.set().given_up() == 0);
}

// Up to the last key before it gives one up: nothing let through is let through again,
// in any batch sizes, and of the new keys at most the rate are taken for old.
TEST(DistinctSet, KeepsItsRateAndForgetsNothingWhileItFits) {
  struct Case {
    uint64_t budget;
    double fpr;
  };
  for (const Case& c : {Case{1 << 20, 0.001}, Case{1 << 20, 0.01}, Case{8 << 20, 0.001},
                        Case{1 << 20, 1e-8}, Case{64 << 10, 0.001}, Case{64 << 10, 0.1}}) {
    double lost = 0, asked = 0;
    for (uint64_t seed = 0; seed < 10 / kThin; ++seed) {
      Owner owner(c.budget, c.fpr);
      Random random(seed);
      std::vector<uint64_t> through;
      uint64_t next = 0;
      for (;;) {
        std::vector<uint64_t> batch = Fresh(next, 1 + random.Below(64), seed);
        const size_t fresh = batch.size();
        // An old one behind each new one, at most.
        for (size_t i = 0; i < fresh && !through.empty() && batch.size() < 64; ++i) {
          batch.push_back(through[random.Below(through.size())]);
        }
        const std::vector<bool> passed = owner.Ask(batch);
        if (owner.set().given_up() > 0) break;
        next += fresh;
        for (size_t i = 0; i < batch.size(); ++i) {
          if (i < fresh) {
            if (passed[i]) through.push_back(batch[i]);
          } else {
            ASSERT_FALSE(passed[i]);
          }
        }
        ASSERT_EQ(owner.set().keys(), through.size());
      }
      ASSERT_GT(owner.set().links(), 2);
      // More keys than any unique index would hold in as many bytes.
      EXPECT_GT(static_cast<double>(through.size()),
                static_cast<double>(c.budget) / (c.fpr < 1e-6 ? 10 : 3.2));
      lost += static_cast<double>(next - through.size());
      asked += static_cast<double>(next);
      EXPECT_LE(owner.set().fpr(), c.fpr);
      EXPECT_EQ(owner.warnings(), 1);
    }
    const double expected = c.fpr * asked;
    EXPECT_LE(lost, expected + 4 * std::sqrt(expected)) << c.budget << " " << c.fpr;
  }
}

// The rate that it tells is the one that fresh keys meet.
TEST(DistinctSet, TellsItsRate) {
  double told = 0, met = 0, asked = 0;
  for (uint64_t seed = 0; seed < 20 / kThin; ++seed) {
    Owner owner(1 << 20, 0.05);
    owner.Ask(Fresh(0, 700000, seed));
    ASSERT_FALSE(owner.set().exact());
    ASSERT_EQ(owner.set().given_up(), 0u);
    const uint64_t probes = 2000;
    told += owner.set().fpr() * static_cast<double>(probes);
    met += static_cast<double>(probes - Count(owner.Ask(Fresh(uint64_t{1} << 40, probes, seed))));
    asked += static_cast<double>(probes);
  }
  EXPECT_NEAR(met, told, 5 * std::sqrt(told)) << asked;
}

// Past its budget it gives up the oldest keys, and only those come out again; the rate
// for new keys stays.
TEST(DistinctSet, GivesUpTheOldestWhenTheBudgetIsSpent) {
  const double fpr = 0.002;
  const uint64_t keys = 5000000 / kThin;
  const uint64_t budget = 1 << 20;
  Owner owner(budget, fpr);
  double lost = 0;
  std::vector<bool> through;
  for (uint64_t first = 0; first < keys; first += 64) {
    const std::vector<bool> passed = owner.Ask(Fresh(first, 64));
    lost += static_cast<double>(64 - Count(passed));
    through.insert(through.end(), passed.begin(), passed.end());
    ASSERT_LE(owner.set().fpr(), fpr);
  }
  const double expected = fpr * static_cast<double>(keys);
  EXPECT_LE(lost, expected + 4 * std::sqrt(expected));
  EXPECT_EQ(owner.warnings(), 1);
  const uint64_t held = owner.set().keys() - owner.set().given_up();
  EXPECT_GT(held, keys / 50);
  EXPECT_LT(held, budget);
  // The latest are remembered: all those of the links that were not given up.
  for (uint64_t key = keys - held + 2 * static_cast<uint64_t>(expected); key < keys; key += 97) {
    if (through[key]) {
      ASSERT_FALSE(owner.Ask(HashOf(key))) << key;
    }
  }
}

}  // namespace
}  // namespace dedup::test
