// Settling keeps the meaning of a page: whatever becomes of the transactions that still run, each
// key is seen after it exactly if it was seen before.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/live_method.hpp"
#include "core/methods/fifo.hpp"
#include "core/settling.hpp"
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

struct Key {
  unsigned line;
  uint64_t rest;
};

struct Pages {
  std::array<uint8_t, live::kPageBytes> main = {};
  std::array<uint8_t, live::kPageBytes> other = {};
  bool overflow;

  explicit Pages(bool in_overflow) : overflow(in_overflow) {
    live::InitPage(main.data(), Kind::kMain, 3, kSet.layout, 0);
    live::InitPage(other.data(), Kind::kOverflow, 20, kSet.layout, 2);
  }
  uint8_t* bytes() { return overflow ? other.data() : main.data(); }
  const uint8_t* bytes() const { return overflow ? other.data() : main.data(); }
  const live::AreaShape& area() const { return live::AreaOf(bytes()); }
};

// The end of each transaction. A transaction without a verdict may end either way.
using Commits = std::array<bool, 160>;

// By the rules at the top of page.hpp: an entry adds its key if its transaction commits; an entry
// that is forgotten has a key that is there unless its transaction commits.
bool IsSeen(const Pages& pages, const Key& key, const Commits& commits) {
  if (live::LineHolds(live::LineAt(pages.main.data(), key.line), kSet.layout, key.rest, 0, 0)) {
    return true;
  }
  return live::VisitKey(pages.bytes(), pages.area(), key.line, key.rest,
                        [&](unsigned, const Entry& entry) {
                          const uint64_t xid = live::LoadTag(pages.bytes(), entry.tag).xid;
                          return (xid == live::kFrozen || commits.at(xid)) != entry.forgotten;
                        });
}

// A page with few keys and entries of many transactions, so that some keys were added and
// forgotten several times, also by one transaction. In half of the pages no tag is free and some
// lines are full.
TEST(Settle, KeepsTheMeaningOfAPage) {
  Random random(7);
  for (int round = 0; round < 20000; ++round) {
    Pages pages(round % 2 == 1);
    const bool fold = round % 4 < 2;
    const bool crowded = round % 8 < 4;
    const unsigned tags = crowded ? pages.area().tags : 1 + random.Next() % pages.area().tags;
    std::vector<Key> keys;
    for (int i = 0; i < 8; ++i) {
      keys.push_back(
          {static_cast<unsigned>(random.Next() % 4), random.Next() >> (64 - fifo::kLongBits)});
    }
    if (crowded) {
      for (unsigned line = 0; line < 2; ++line) {
        uint8_t* bytes = live::LineAt(pages.main.data(), line);
        while (!live::IsFullLine(bytes, kSet.layout)) {
          live::AddToLine(bytes, kSet.layout, random.Next() >> (64 - fifo::kLongBits), 0, 0);
        }
      }
    }
    for (unsigned i = 0; i < (crowded ? 3 * tags : 60); ++i) {
      const Key& key = keys[random.Next() % keys.size()];
      const uint64_t at = random.Next() % (tags + (crowded ? 0 : 1));
      const uint64_t xid = at == tags ? live::kFrozen : 10 + at;
      (void)live::PutEntry(pages.bytes(), pages.area(), {xid, 0}, key.line, key.rest,
                           xid != live::kFrozen && random.Next() % 3 == 0);
    }

    Verdict verdicts[live::kMaxTags + 1] = {};
    Commits commits = {};
    std::array<bool, 160> ended = {};
    for (unsigned tag = 1; tag <= pages.area().tags; ++tag) {
      const uint64_t xid = live::LoadTag(pages.bytes(), tag).xid;
      if (xid == live::kNoXid) continue;
      verdicts[tag] =
          xid == live::kFrozen ? Verdict::kCommitted : static_cast<Verdict>(random.Next() % 3);
      if (xid == live::kFrozen || verdicts[tag] == Verdict::kKeep) continue;
      commits.at(xid) = verdicts[tag] == Verdict::kCommitted;
      ended.at(xid) = true;
    }
    const Pages before = pages;
    Settled settled;
    live::Settle(pages.main.data(), pages.bytes(), kSet, verdicts, fold, &settled);
    ASSERT_EQ(nullptr, live::PageFlaw(pages.main.data(), Kind::kMain, 3, kSet));
    ASSERT_EQ(nullptr, live::PageFlaw(pages.other.data(), Kind::kOverflow, 20, kSet));

    for (int end = 0; end < 8; ++end) {
      for (size_t xid = 0; xid < commits.size(); ++xid) {
        if (!ended.at(xid)) commits.at(xid) = end < 2 ? end == 1 : random.Next() % 2 == 0;
      }
      for (const Key& key : keys) {
        ASSERT_EQ(IsSeen(before, key, commits), IsSeen(pages, key, commits))
            << "round " << round << ", line " << key.line;
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
