// Changing a page keeps its meaning: whatever becomes of the transactions that still run, each key
// is seen after it exactly if it was seen before. Checks settling, the fates of tags, and the
// division of pages, on random pages.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/fanning.hpp"
#include "core/live_method.hpp"
#include "core/methods/fifo.hpp"
#include "core/settling.hpp"
#include "core/splitting.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Entry;
using live::Geometry;
using live::Kind;
using live::Settled;
using live::Tag;
using live::Verdict;

constexpr Geometry kSet = {10, {3, false}, false};
constexpr Geometry kGrowingSet = {0, {4, false, true}, false};
constexpr Geometry kGrowingWindow = {0, {4, true, true}, false};

constexpr uint32_t kMainBlock = 3, kOtherBlock = 20;

// Ids of transactions. Those from kBase on are only bases.
constexpr uint64_t kFirst = 10, kBase = 140, kEnd = 150;

struct Key {
  unsigned line;
  uint64_t rest;
};

// A main page and a page of its chain.
struct Pages {
  Geometry geometry;
  std::array<uint8_t, live::kPageBytes> main = {};
  std::array<uint8_t, live::kPageBytes> other = {};

  Pages(const Geometry& of, uint32_t number, unsigned level) : geometry(of) {
    live::LineLayout layout = of.layout;
    layout.level = level;
    live::InitPage(main.data(), Kind::kMain, kMainBlock, layout, number);
    live::InitChainPage(other.data(), Kind::kOverflow, kOtherBlock, of.layout, main.data());
  }
  const char* Flaw() const {
    const char* flaw = live::PageFlaw(main.data(), Kind::kMain, kMainBlock, geometry);
    return flaw != nullptr ? flaw
                           : live::PageFlaw(other.data(), Kind::kOverflow, kOtherBlock, geometry);
  }
};

// The end of each transaction. A transaction that still runs may end either way.
using Commits = std::array<bool, kEnd>;

// By the rules at the top of page.hpp: an entry adds its key if its transaction commits. An entry
// that is forgotten has a key that is there if its base commits, or there is none, unless its
// transaction commits.
bool Counts(const Entry& entry, const Tag& tag, const Commits& commits) {
  const bool committed = tag.xid == live::kFrozen || commits.at(tag.xid);
  return entry.forgotten ? !committed && (tag.base == 0 || commits.at(live::BaseOf(tag)))
                         : committed;
}

// Returns the generation of the last sight of a key in an area, plus 1, or 0 if it has none that
// is alive in generation `now`.
uint32_t SeenIn(const uint8_t* page, const Geometry& geometry, const Key& key,
                const Commits& commits, uint32_t now) {
  uint32_t last = 0;
  live::VisitKey(page, live::AreaOf(page), key.line, key.rest, [&](unsigned, const Entry& entry) {
    const Tag tag = live::LoadTag(page, entry.tag);
    if (Counts(entry, tag, commits) &&
        (!geometry.layout.timed || live::Alive(tag.generation, now))) {
      last = std::max(last, tag.generation + 1);
    }
    return false;
  });
  return last;
}

// The same for the lines of a main page.
uint32_t SeenInLine(const uint8_t* main, const Geometry& geometry, const Key& key, uint32_t now) {
  const uint8_t* line = live::LineAt(main, key.line);
  const live::LineLayout layout = live::LayoutIn(main, geometry.layout);
  uint32_t last = 0;
  if (!layout.timed) return live::LineHolds(line, layout, key.rest, 0, 0) ? 1 : 0;
  return live::LastSightInLine(line, layout, key.rest, live::ClockOf(main), now, &last) ? last + 1
                                                                                        : 0;
}

// The same for a main page and the page of its chain.
uint32_t Seen(const Pages& pages, const Key& key, const Commits& commits, uint32_t now) {
  return std::max({SeenInLine(pages.main.data(), pages.geometry, key, now),
                   SeenIn(pages.main.data(), pages.geometry, key, commits, now),
                   SeenIn(pages.other.data(), pages.geometry, key, commits, now)});
}

// Random pages with few keys and entries of many transactions, so that some keys were added and
// forgotten several times, also by one transaction. In half of them the page `bytes()` has no free
// tag, and some lines are full.
class Scene {
 public:
  Scene(Random* random, const Geometry& geometry)
      : random_(random),
        level_(geometry.layout.grows && random->OneIn(2) ? 2 : 0),
        number_(static_cast<uint32_t>(random->Below(uint64_t{1} << level_))),
        in_other_(random->OneIn(2)),
        pages(geometry, number_, level_) {
    for (int i = 0; i < 8; ++i) keys.push_back({static_cast<unsigned>(random->Below(4)), Rest()});
    const bool crowded = random->OneIn(2);
    if (geometry.layout.timed) live::SetClock(pages.main.data(), 100 + Small(3));
    if (crowded) FillLines();
    // Some of the keys are in their lines.
    for (const Key& key : keys) {
      if (random->OneIn(4)) AddToLine(key.line, key.rest);
    }
    const unsigned tags = crowded ? area().tags : 1 + Small(area().tags);
    for (unsigned i = 0; i < (crowded ? 3 * tags : 60); ++i) PutEntry(tags, crowded);
    for (uint64_t xid = kFirst; xid < kEnd; ++xid) {
      verdict_.at(xid) = static_cast<Verdict>(random->Below(3));
    }
  }

  uint8_t* bytes() { return in_other_ ? pages.other.data() : pages.main.data(); }
  const live::AreaShape& area() { return live::AreaOf(bytes()); }
  uint32_t clock() const { return live::ClockOf(pages.main.data()); }

  // Random ends of the transactions, which those that have ended have in common.
  Commits Ends() {
    Commits commits = {};
    const uint64_t running = random_->Below(4);  // all of these commit, or none, or some
    for (uint64_t xid = kFirst; xid < kEnd; ++xid) {
      commits.at(xid) = verdict_.at(xid) == Verdict::kKeep
                            ? running == 0 || (running > 1 && random_->OneIn(2))
                            : verdict_.at(xid) == Verdict::kCommitted;
    }
    return commits;
  }

  // Decides the fates of the tags. None of the transactions is one of the caller.
  void ReviseTags() {
    for (unsigned tag = 1; tag <= area().tags; ++tag) {
      const Tag value = live::LoadTag(bytes(), tag);
      if (value.xid == live::kNoXid) continue;
      const uint64_t base = live::BaseOf(value);
      live::ApplyFate(pages.main.data(), bytes(), tag,
                      base == live::kNoXid
                          ? live::FateOfTag(value, value.xid)
                          : live::FateOfForgotten(value, {VerdictOf(base), base},
                                                  {VerdictOf(value.xid), value.xid}));
    }
  }

  void Settle(bool fold) {
    Verdict verdicts[live::kMaxTags + 1] = {};
    Settled settled;
    for (unsigned tag = 1; tag <= area().tags; ++tag) {
      const Tag value = live::LoadTag(bytes(), tag);
      if (value.xid != live::kNoXid) {
        verdicts[tag] = live::VerdictOn(value, VerdictOf(value.xid), false);
      }
    }
    live::Settle(pages.main.data(), bytes(), pages.geometry, verdicts, fold, &settled);
  }

 private:
  unsigned Small(unsigned n) { return static_cast<unsigned>(random_->Below(n)); }
  Verdict VerdictOf(uint64_t xid) const {
    return xid == live::kFrozen ? Verdict::kCommitted : verdict_.at(xid);
  }

  // The rest of a key of this page.
  uint64_t Rest() {
    for (;;) {
      const uint64_t rest = random_->Next() >> (64 - live::kRestBits);
      if (live::HasBits(number_, level_, live::PageBits(rest))) return rest;
    }
  }

  // In a window of time, of the last generations. Some of them may have expired.
  uint32_t Generation() { return pages.geometry.layout.timed ? 90 + Small(14) : 0; }

  void AddToLine(unsigned line, uint64_t rest) {
    uint8_t* bytes = live::LineAt(pages.main.data(), line);
    const live::LineLayout layout = live::LayoutIn(pages.main.data(), pages.geometry.layout);
    if (live::IsFullLine(bytes, layout)) return;
    if (layout.timed) {
      (void)live::AddSightToLine(bytes, layout, rest, clock() - Small(8), clock());
    } else {
      (void)live::AddOnceToLine(bytes, layout, rest);
    }
  }

  void FillLines() {
    const live::LineLayout layout = live::LayoutIn(pages.main.data(), pages.geometry.layout);
    for (unsigned line = 0; line < 2; ++line) {
      while (!live::IsFullLine(live::LineAt(pages.main.data(), line), layout)) {
        AddToLine(line, Rest());
      }
    }
  }

  void PutEntry(unsigned tags, bool crowded) {
    const Key& key = keys[random_->Below(keys.size())];
    const uint64_t at = random_->Below(tags + (crowded ? 0 : 1));
    const uint64_t xid = at == tags ? live::kFrozen : kFirst + at;
    const bool forgotten = xid != live::kFrozen && random_->OneIn(3);
    Tag tag = {xid, Generation()};
    // The base is older than the transaction that forgets, or another one.
    if (forgotten && random_->OneIn(2)) {
      tag.base = static_cast<uint32_t>(random_->OneIn(2) ? kBase + Small(kEnd - kBase)
                                                         : kFirst + random_->Below(at + 1));
    }
    if (tag.base == xid) tag.base = 0;
    (void)live::PutEntry(bytes(), area(), tag, key.line, key.rest, forgotten);
  }

  Random* random_;
  unsigned level_;
  uint32_t number_;
  bool in_other_;
  std::array<Verdict, kEnd> verdict_ = {};

 public:
  Pages pages;
  std::vector<Key> keys;
};

// Runs change(scene) for random scenes, and same(before, scene, key, commits) for each key behind
// it.
template <typename Change, typename Same>
void Compare(const Geometry& geometry, int rounds, Change change, Same same) {
  Random random(7);
  for (int round = 0; round < rounds; ++round) {
    Scene scene(&random, geometry);
    ASSERT_EQ(nullptr, scene.pages.Flaw());
    const Pages before = scene.pages;
    change(&scene, &random);
    for (int end = 0; end < 8; ++end) {
      const Commits commits = scene.Ends();
      for (const Key& key : scene.keys) {
        same(before, &scene, key, commits);
        if (::testing::Test::HasFailure()) FAIL() << "round " << round << ", line " << key.line;
      }
    }
  }
}

class Settling : public ::testing::TestWithParam<Geometry> {};
INSTANTIATE_TEST_SUITE_P(Geometries, Settling,
                         ::testing::Values(kSet, kGrowingSet, kGrowingWindow));

// A key that was seen before is seen in the same generation, unless it has expired.
void ExpectSame(const Pages& before, Scene* scene, const Key& key, const Commits& commits) {
  for (uint32_t now = scene->clock(); now < scene->clock() + 3; ++now) {
    ASSERT_EQ(Seen(before, key, commits, now), Seen(scene->pages, key, commits, now));
  }
}

TEST_P(Settling, KeepsTheMeaningOfAPage) {
  Compare(
      GetParam(), 5000,
      [](Scene* scene, Random* random) {
        scene->Settle(random->OneIn(2));
        ASSERT_EQ(nullptr, scene->pages.Flaw());
      },
      ExpectSame);
}

TEST_P(Settling, KeepsItWithTheFatesOfTags) {
  Compare(
      GetParam(), 5000,
      [](Scene* scene, Random* random) {
        scene->ReviseTags();
        ASSERT_EQ(nullptr, scene->pages.Flaw());
        scene->Settle(random->OneIn(2));
        ASSERT_EQ(nullptr, scene->pages.Flaw());
      },
      ExpectSame);
}

// A leaf that is divided: each half has the keys of its slots, as they were, also when it is
// settled afterwards.
TEST_P(Settling, KeepsTheMeaningOfHalvesOfALeaf) {
  Pages halves[2] = {{GetParam(), 0, 0}, {GetParam(), 0, 0}};
  live::LeafHalves ranges = {};
  Compare(
      GetParam(), 2500,
      [&](Scene* scene, Random* random) {
        live::SetSlotsOfLeaf(scene->pages.other.data(), live::kAllSlots);
        ranges = live::HalvesOf(live::SlotsOfLeaf(scene->pages.other.data()));
        for (Pages* half : {&halves[0], &halves[1]}) {
          *half = scene->pages;
          (void)live::KeepHalf(half->other.data(), half == halves ? ranges.low : ranges.high);
          ASSERT_EQ(nullptr, half->Flaw());
        }
        if (random->OneIn(2)) return;
        for (Pages& half : halves) {
          std::swap(scene->pages, half);
          scene->ReviseTags();
          scene->Settle(random->OneIn(2));
          std::swap(scene->pages, half);
        }
      },
      [&](const Pages& before, Scene*, const Key& key, const Commits& commits) {
        const Pages& half = live::HasSlotOf(ranges.low, key.rest) ? halves[0] : halves[1];
        const uint32_t now = live::ClockOf(half.main.data());
        ASSERT_EQ(Seen(before, key, commits, now), Seen(half, key, commits, now));
      });
}

// A page that splits, and the page of its chain, whose upper entries move to a page of their own.
// If that page has no room for some of them, the page does not split yet. All pages are settled
// afterwards, or none.
TEST_P(Settling, KeepsTheMeaningOfAPageThatSplits) {
  if (!GetParam().layout.grows) return;
  Pages upper(GetParam(), 0, 0);
  bool splits = false;
  int split = 0;
  Compare(
      GetParam(), 2500,
      [&](Scene* scene, Random* random) {
        uint8_t* main = scene->pages.main.data();
        const unsigned level = live::LevelOf(main);
        upper = Pages(GetParam(), live::NumberOf(main), level);
        splits = live::MoveUpper(scene->pages.other.data(), upper.other.data(), level);
        if (splits) {
          live::SplitMainPage(main, GetParam().layout, kMainBlock, main, upper.main.data());
          ++split;
        }
        ASSERT_EQ(nullptr, scene->pages.Flaw());
        ASSERT_EQ(nullptr, upper.Flaw());
        if (random->OneIn(2)) return;
        for (int i = 0; i < 2; ++i) {
          scene->ReviseTags();
          scene->Settle(true);
          ASSERT_EQ(nullptr, scene->pages.Flaw());
          std::swap(scene->pages, upper);
        }
      },
      [&](const Pages& before, Scene* scene, const Key& key, const Commits& commits) {
        const Pages& low = scene->pages;
        const bool is_upper =
            splits && live::HasBits(live::NumberOf(upper.main.data()),
                                    live::LevelOf(upper.main.data()), live::PageBits(key.rest));
        const uint32_t now = live::ClockOf(is_upper ? upper.main.data() : low.main.data());
        uint32_t seen = Seen(is_upper ? upper : low, key, commits, now);
        if (!splits)
          seen = std::max(seen, SeenIn(upper.other.data(), GetParam(), key, commits, now));
        ASSERT_EQ(Seen(before, key, commits, now), seen);
      });
  EXPECT_GT(split, 1000);
}

}  // namespace
}  // namespace dedup::test
