// The pages of live filters: entries and tags against a plain list, settling by verdict,
// the order in which keys are folded, and the bytes of a page.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/live_method.hpp"
#include "core/methods/fifo.hpp"
#include "core/page_sum.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::AreaShape;
using live::Entry;
using live::Geometry;
using live::Kind;
using live::Settled;
using live::Tag;
using live::Verdict;

constexpr Geometry kWindow = {10, {2, false}, true};
constexpr Geometry kSet = {10, {3, false}, false};
constexpr Geometry kTimed = {10, {3, true}, true};

struct Page {
  uint8_t bytes[live::kPageBytes];

  explicit Page(Kind kind, const Geometry& geometry = kWindow, uint32_t block = 3) {
    std::memset(bytes, 0, sizeof bytes);
    live::InitPage(bytes, kind, block, geometry.layout, kind == Kind::kOverflow ? 2 : 0);
  }
  const AreaShape& area() const { return live::AreaOf(bytes); }
  bool Put(const Tag& tag, unsigned line, uint64_t rest, bool forgotten = false) {
    return live::PutEntry(bytes, area(), tag, line, rest, forgotten);
  }
  // The transactions whose entries of this key are there.
  std::multiset<uint64_t> Of(unsigned line, uint64_t rest) const {
    std::multiset<uint64_t> xids;
    live::VisitKey(bytes, area(), line, rest, [&](unsigned, const Entry& entry) {
      xids.insert(live::LoadTag(bytes, entry.tag).xid);
      return false;
    });
    return xids;
  }
};

uint64_t SomeRest(Random* random) { return random->Next() >> (64 - fifo::kLongBits); }

// ---- bytes --------------------------------------------------------------------------

// Written down from the description at the top of page.hpp.
TEST(LivePage, BytesAreFrozen) {
  Page page(Kind::kMain, kWindow, 0x01020304);
  const uint8_t header[40] = {'S', 'D', 'P', 0, 5, 1, 1, 2, 4, 3, 2, 1};
  EXPECT_EQ(0, std::memcmp(page.bytes + 24, header, sizeof header));

  ASSERT_TRUE(page.Put({0x1122334455667788, 0}, 5, 0xa1b2c3d4ff, true));
  const uint8_t tag[16] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
  EXPECT_EQ(0, std::memcmp(page.bytes + 64, tag, sizeof tag));
  const uint8_t entry[8] = {1, 1, 0x85, 0xff, 0xd4, 0xc3, 0xb2, 0xa1};
  unsigned found = 0;
  for (size_t at = 320; at < 1600; at += 8) found += std::memcmp(page.bytes + at, entry, 8) == 0;
  EXPECT_EQ(1u, found);
  EXPECT_EQ(1600u, live::kLinesAt);
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 0x01020304, kWindow));
}

// ---- entries ------------------------------------------------------------------------

// Random puts and takings back, beside a list of what is there.
TEST(LivePage, EntriesAreFoundUntilTakenBack) {
  for (Kind kind : {Kind::kMain, Kind::kOverflow}) {
    Random random(kind == Kind::kMain ? 1 : 2);
    Page page(kind);
    std::map<std::pair<unsigned, uint64_t>, std::multiset<uint64_t>> there;
    std::vector<std::tuple<unsigned, uint64_t, uint64_t>> list;
    unsigned refused = 0;
    for (int step = 0; step < 20000; ++step) {
      if (random.Next() % 3 != 0 || list.empty()) {
        const auto line = static_cast<unsigned>(random.Next() % live::kLines);
        const uint64_t rest = random.Next() % 5;  // the same keys again and again
        const uint64_t xid = 3 + random.Next() % page.area().tags;
        if (page.Put({xid, 0}, line, rest)) {
          there[{line, rest}].insert(xid);
          list.emplace_back(line, rest, xid);
        } else {
          ++refused;
        }
      } else {
        const size_t i = random.Next() % list.size();
        const auto [line, rest, xid] = list[i];
        const bool found = live::VisitKey(page.bytes, page.area(), line, rest,
                                          [&, xid = xid](unsigned place, const Entry& entry) {
                                            if (live::LoadTag(page.bytes, entry.tag).xid != xid)
                                              return false;
                                            page.bytes[live::EntryAt(page.area(), place)] = 0;
                                            return true;
                                          });
        ASSERT_TRUE(found);
        auto& xids = there[{line, rest}];
        xids.erase(xids.find(xid));
        list[i] = list.back();
        list.pop_back();
      }
      if (step % 100 == 0) {
        for (const auto& [key, xids] : there) ASSERT_EQ(xids, page.Of(key.first, key.second));
      }
    }
    EXPECT_GT(refused, 0u);  // it was full at times
    EXPECT_EQ(list.size(), live::CountEntries(page.bytes, page.area()));
    EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, kind, 3, kWindow));
  }
}

TEST(LivePage, AMainPageTakesAllItsEntries) {
  Random random(3);
  Page page(Kind::kMain);
  for (int i = 0; i < 160; ++i) {
    ASSERT_TRUE(page.Put({7, 0}, static_cast<unsigned>(i) % live::kLines, SomeRest(&random))) << i;
  }
  EXPECT_FALSE(page.Put({7, 0}, 0, SomeRest(&random)));
  EXPECT_EQ(160u, live::CountEntries(page.bytes, page.area()));
}

TEST(LivePage, TagsRunOut) {
  Random random(4);
  Page page(Kind::kMain);
  for (uint64_t xid = 10; xid < 26; ++xid) ASSERT_TRUE(page.Put({xid, 0}, 1, SomeRest(&random)));
  EXPECT_FALSE(page.Put({26, 0}, 1, SomeRest(&random)));
  EXPECT_TRUE(page.Put({25, 0}, 1, SomeRest(&random)));
}

// The tag that is there, or the first free one; if it is known not to be there, no look for it.
TEST(LivePage, ChoosesATag) {
  Page page(Kind::kMain);
  for (uint64_t xid = 10; xid < 14; ++xid) {
    live::StoreTag(page.bytes, static_cast<unsigned>(xid - 9), {xid, 7});
  }
  live::StoreTag(page.bytes, 2, {live::kNoXid, 0});
  for (uint64_t xid : {10, 12, 13}) {
    const live::TagChoice choice = live::ChooseTag(page.bytes, page.area(), {xid, 7});
    EXPECT_TRUE(choice.found);
    EXPECT_EQ(choice.tag, xid - 9);
  }
  const Tag others[] = {{11, 7}, {13, 8}, {13, 7, 5}};
  for (const Tag& tag : others) {
    for (bool is_new : {false, true}) {
      const live::TagChoice choice = live::ChooseTag(page.bytes, page.area(), tag, is_new);
      EXPECT_FALSE(choice.found);
      EXPECT_EQ(choice.tag, 2u);
    }
  }
  for (unsigned tag = 1; tag <= page.area().tags; ++tag) {
    live::StoreTag(page.bytes, tag, {100 + tag, 0});
  }
  for (bool is_new : {false, true}) {
    EXPECT_EQ(live::ChooseTag(page.bytes, page.area(), {99, 0}, is_new).tag, 0u);
  }
}

// ---- settling -----------------------------------------------------------------------

// Every entry goes where its verdict says, for many random pages, in the area itself and
// in an overflow page, folded or only frozen.
TEST(LivePage, SettlesByVerdict) {
  Random random(5);
  for (int round = 0; round < 400; ++round) {
    const Geometry& geometry = round % 2 == 0 ? kWindow : kSet;
    const bool fold = round % 4 < 2;
    const bool overflow = round % 8 < 4;
    Page main(Kind::kMain, geometry), other(Kind::kOverflow, geometry, 20);
    Page& page = overflow ? other : main;
    Verdict verdicts[256] = {};
    struct Added {
      unsigned line;
      uint64_t rest, xid;
      bool forgotten;
    };
    std::vector<Added> added;
    const auto count = random.Next() % 150;
    for (uint64_t i = 0; i < count; ++i) {
      const Added one = {static_cast<unsigned>(random.Next() % live::kLines), SomeRest(&random),
                         random.Next() % 8 == 0 ? live::kFrozen : 10 + random.Next() % 12,
                         random.Next() % 8 == 0};
      const bool forgotten = one.forgotten && one.xid != live::kFrozen;
      ASSERT_TRUE(page.Put({one.xid, 0}, one.line, one.rest, forgotten));
      added.push_back({one.line, one.rest, one.xid, forgotten});
    }
    std::map<uint64_t, Verdict> of;
    for (unsigned tag = 1; tag <= page.area().tags; ++tag) {
      const uint64_t xid = live::LoadTag(page.bytes, tag).xid;
      verdicts[tag] =
          xid == live::kFrozen ? Verdict::kCommitted : static_cast<Verdict>(random.Next() % 3);
      of[xid] = verdicts[tag];
    }
    Settled settled;
    live::Settle(main.bytes, page.bytes, geometry, verdicts, fold, &settled);
    for (const Added& one : added) {
      const bool in_line = fifo::Holds(live::LineAt(main.bytes, one.line), geometry.layout,
                                       fifo::FingerprintOf(one.rest, geometry.layout), 0, 0);
      const auto entries = page.Of(one.line, one.rest);
      if (of[one.xid] == Verdict::kKeep) {
        EXPECT_EQ(std::multiset<uint64_t>{one.xid}, entries);
      } else if ((of[one.xid] == Verdict::kCommitted) == one.forgotten) {
        EXPECT_TRUE(entries.empty());  // rolled back, or forgotten
      } else if (fold) {
        EXPECT_TRUE(in_line);
        EXPECT_TRUE(entries.empty());
      } else {
        EXPECT_EQ(std::multiset<uint64_t>{live::kFrozen}, entries);
      }
    }
    EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, overflow ? Kind::kOverflow : Kind::kMain,
                                      overflow ? 20 : 3, geometry));
    EXPECT_EQ(nullptr, live::PageFlaw(main.bytes, Kind::kMain, 3, geometry));
  }
}

// A tag of forgotten keys says who had added them, in the four bytes behind the generation.
TEST(LivePage, ATagHasABase) {
  Page page(Kind::kMain);
  ASSERT_TRUE(page.Put({0x1122334455667788, 0, 0x55667700}, 5, 0xa1b2c3d4ff, true));
  const uint8_t tag[16] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                           0,    0,    0,    0,    0x00, 0x77, 0x66, 0x55};
  EXPECT_EQ(0, std::memcmp(page.bytes + 64, tag, sizeof tag));
  EXPECT_EQ(0x1122334455667700u, live::BaseOf(live::LoadTag(page.bytes, 1)));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kWindow));
  // Each base has a tag of its own; keys that are not forgotten have none.
  ASSERT_TRUE(page.Put({0x1122334455667788, 0}, 6, 0xa1b2c3d4ff, true));
  ASSERT_TRUE(page.Put({0x1122334455667788, 0}, 7, 0xa1b2c3d4ff));
  EXPECT_EQ(live::kNoXid, live::BaseOf(live::LoadTag(page.bytes, 2)));
  EXPECT_EQ(live::kNoXid, live::LoadTag(page.bytes, 3).xid);
  ASSERT_TRUE(page.Put({0x1122334455667788, 0, 0x55667700}, 8, 0xa1b2c3d4ff));
  EXPECT_STREQ("An entry that is not forgotten has a base.",
               live::PageFlaw(page.bytes, Kind::kMain, 3, kWindow));
}

// The low half of an id is widened next to another one, across the end of an epoch too.
TEST(LivePage, BasesAreWidened) {
  for (const uint64_t near :
       {uint64_t{0x100000005}, uint64_t{0x1fffffffe}, uint64_t{0x180000000}}) {
    for (const int64_t away : {-2000000000, -7, -1, 1, 6, 2000000000}) {
      const uint64_t xid = near + static_cast<uint64_t>(away);
      EXPECT_EQ(xid, live::WidenXid(static_cast<uint32_t>(xid), near));
    }
  }
}

// Tags are changed with all their entries, and their entries with no other.
TEST(LivePage, TagsAreChanged) {
  Random random(11);
  Page page(Kind::kMain);
  std::vector<uint64_t> of[4];
  const Tag tags[4] = {{100, 0}, {101, 0, 100}, {102, 0, 100}, {103, 0}};
  for (unsigned i = 0; i < 80; ++i) {
    of[i % 4].push_back(SomeRest(&random));
    ASSERT_TRUE(page.Put(tags[i % 4], 1, of[i % 4].back(), tags[i % 4].base != 0));
  }
  const auto has = [&](unsigned i, uint64_t xid, uint32_t base, bool forgotten) {
    for (const uint64_t rest : of[i]) {
      unsigned found = 0;
      live::VisitKey(page.bytes, page.area(), 1, rest, [&](unsigned, const Entry& entry) {
        const Tag tag = live::LoadTag(page.bytes, entry.tag);
        found += tag.xid == xid && tag.base == base && entry.forgotten == forgotten;
        return false;
      });
      if (found != 1) return false;
    }
    return true;
  };
  // 101 was rolled back: its keys are 100's again, beside those that always were.
  live::Retag(page.bytes, 2, {100, 0}, true);
  EXPECT_TRUE(has(1, 100, 0, false));
  // 102 has ended and left its keys to 99; 100 committed.
  live::Retag(page.bytes, 3, {99, 0}, false);
  EXPECT_TRUE(has(2, 99, 0, true));
  EXPECT_TRUE(has(0, 100, 0, false));
  EXPECT_TRUE(has(3, 103, 0, false));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kWindow));
  live::DropTag(page.bytes, 3);
  for (const uint64_t rest : of[2]) EXPECT_TRUE(page.Of(1, rest).empty());
  EXPECT_TRUE(has(0, 100, 0, false));
  EXPECT_TRUE(has(3, 103, 0, false));
  EXPECT_EQ(60u, live::CountEntries(page.bytes, page.area()));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kWindow));
}

// A window's line that is full gives up its oldest key, a set's keeps the entry.
TEST(LivePage, FullLines) {
  for (const Geometry& geometry : {kWindow, kSet}) {
    Random random(6);
    Page page(Kind::kMain, geometry);
    const unsigned room = geometry.layout.usable();
    std::vector<uint64_t> keys;
    for (unsigned i = 0; i < room + 10; ++i) {
      keys.push_back(SomeRest(&random));
      ASSERT_TRUE(page.Put({10 + i % 16, 0}, 7, keys.back()));
      if (i % 16 == 15 || i == room + 9) {
        Verdict verdicts[256];
        std::fill_n(verdicts, 256, Verdict::kCommitted);
        Settled settled;
        live::Settle(page.bytes, page.bytes, geometry, verdicts, true, &settled);
        EXPECT_EQ(0u, settled.early);
      }
    }
    unsigned there = 0;
    for (uint64_t key : keys) {
      there +=
          !page.Of(7, key).empty() || fifo::Holds(live::LineAt(page.bytes, 7), geometry.layout,
                                                  fifo::FingerprintOf(key, geometry.layout), 0, 0);
    }
    EXPECT_EQ(geometry.forgets ? room : room + 10, there);
    EXPECT_EQ(geometry.forgets ? 0u : 10u, live::CountEntries(page.bytes, page.area()));
  }
}

// Of one transaction's keys it is the first that give way, but for those that came within
// a turn of each other: about 48 keys of a whole overflow page, less than one of a line.
// An exact guard adds a key anew whenever its row comes back. However often that happens, a
// set keeps the key once: in its line, or, where that is full, as one frozen entry. Keys that
// share a transaction whose tag is frozen in place are all kept.
TEST(LivePage, ASetKeepsAKeyOnce) {
  for (const bool fold : {false, true}) {
    for (const bool full : {false, true}) {
      Page page(Kind::kMain, kSet);
      Random random(fold * 2 + full);
      if (full) {
        for (int i = 0; i < 1000; ++i) {
          uint8_t* line = live::LineAt(page.bytes, 7);
          if (live::IsFullLine(line, kSet.layout)) break;
          live::AddToLine(line, kSet.layout, SomeRest(&random), 0, 0);
        }
      }
      const uint64_t rest = SomeRest(&random);
      const unsigned before = live::KeysInLine(live::LineAt(page.bytes, 7), kSet.layout);
      for (uint64_t xid = 10; xid < 200; ++xid) {
        ASSERT_TRUE(page.Put({xid, 0}, 7, rest));
        Verdict verdicts[live::kMaxTags + 1];
        std::fill(verdicts, verdicts + live::kMaxTags + 1, Verdict::kCommitted);
        Settled settled;
        live::Settle(page.bytes, page.bytes, kSet, verdicts, fold, &settled);
        ASSERT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
      }
      const unsigned in_line = live::KeysInLine(live::LineAt(page.bytes, 7), kSet.layout) - before;
      EXPECT_EQ(fold && !full ? 1u : 0u, in_line);
      EXPECT_EQ(fold && !full ? 0u : 1u, page.Of(7, rest).size());
    }
  }
}

TEST(LivePage, KeysOfATagThatIsFrozenInPlaceAreKept) {
  for (const bool fold : {false, true}) {
    Page page(Kind::kMain, kSet);
    Random random(3);
    for (unsigned line = 0; line < live::kLines; ++line) {
      uint8_t* bytes = live::LineAt(page.bytes, line);
      while (!live::IsFullLine(bytes, kSet.layout)) {
        live::AddToLine(bytes, kSet.layout, SomeRest(&random), 0, 0);
      }
    }
    std::vector<std::pair<unsigned, uint64_t>> keys;
    for (uint64_t xid = 10; xid < 10 + page.area().tags; ++xid) {
      for (int i = 0; i < 5; ++i) {
        const auto line = static_cast<unsigned>(random.Next() % live::kLines);
        const uint64_t rest = SomeRest(&random);
        ASSERT_TRUE(page.Put({xid, 0}, line, rest));
        if (i == 4) {
          ASSERT_TRUE(page.Put({xid, 0}, line, rest));
        }
        keys.emplace_back(line, rest);
      }
    }
    Verdict verdicts[live::kMaxTags + 1];
    std::fill(verdicts, verdicts + live::kMaxTags + 1, Verdict::kCommitted);
    Settled settled;
    live::Settle(page.bytes, page.bytes, kSet, verdicts, fold, &settled);
    ASSERT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
    for (const auto& [line, rest] : keys) {
      const bool in_line = live::LineHolds(live::LineAt(page.bytes, line), kSet.layout, rest, 0, 0);
      EXPECT_EQ(in_line && fold ? 0u : 1u, page.Of(line, rest).size());
      EXPECT_TRUE(in_line || page.Of(line, rest) == std::multiset<uint64_t>{live::kFrozen});
    }
  }
}

TEST(LivePage, FoldsInTheOrderOfArrival) {
  Random random(7);
  Page main(Kind::kMain), page(Kind::kOverflow, kWindow, 20);
  std::vector<std::pair<unsigned, uint64_t>> keys;
  for (int round = 0; round < 8; ++round) {
    for (int i = 0; i < 600; ++i) {
      keys.emplace_back(random.Next() % live::kLines, SomeRest(&random));
      ASSERT_TRUE(page.Put({10, 0}, keys.back().first, keys.back().second));
    }
    Verdict verdicts[256];
    std::fill_n(verdicts, 256, Verdict::kCommitted);
    Settled settled;
    live::Settle(main.bytes, page.bytes, kWindow, verdicts, true, &settled);
    EXPECT_EQ(600u, settled.committed);
  }
  // A line holds 31; the last 20 of each must be there, those before the last 42 not.
  std::map<unsigned, unsigned> younger;
  unsigned missed = 0, stayed = 0;
  for (size_t i = keys.size(); i-- > 0;) {
    const unsigned age = younger[keys[i].first]++;
    const bool there = fifo::Holds(live::LineAt(main.bytes, keys[i].first), kWindow.layout,
                                   fifo::FingerprintOf(keys[i].second, kWindow.layout), 0, 0);
    missed += age < 20 && !there;
    stayed += age >= 42 && there;
  }
  EXPECT_EQ(0u, missed);
  EXPECT_LE(stayed, 10u);  // false positives: 31 in 65536 of some 700
}

// The clock moves with what is folded; what has expired by then goes.
TEST(LivePage, TimeWindows) {
  Random random(8);
  Page page(Kind::kMain, kTimed);
  std::vector<std::tuple<unsigned, uint64_t, uint32_t>> keys;
  for (uint32_t generation = 100; generation < 130; ++generation) {
    for (int i = 0; i < 40; ++i) {
      const uint32_t seen = generation - static_cast<uint32_t>(random.Next() % 3);
      keys.emplace_back(random.Next() % live::kLines, SomeRest(&random), seen);
      ASSERT_TRUE(page.Put({generation, seen}, std::get<0>(keys.back()), std::get<1>(keys.back())));
    }
    Verdict verdicts[256];
    std::fill_n(verdicts, 256, Verdict::kCommitted);
    Settled settled;
    live::Settle(page.bytes, page.bytes, kTimed, verdicts, true, &settled);
    EXPECT_EQ(0u, settled.early);
  }
  const uint32_t clock = live::ClockOf(page.bytes);
  EXPECT_EQ(129u, clock);
  for (const auto& [line, rest, seen] : keys) {
    EXPECT_EQ(clock - seen <= 7,
              fifo::Holds(live::LineAt(page.bytes, line), kTimed.layout,
                          fifo::FingerprintOf(rest, kTimed.layout), clock, clock))
        << seen;
  }
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kTimed));
}

// ---- damage -------------------------------------------------------------------------

// Every kind of damage that a check is there for is found.
TEST(LivePage, DamageIsFound) {
  Random random(9);
  Page good(Kind::kMain);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(good.Put({10, 0}, random.Next() % live::kLines, SomeRest(&random)));
  }
  fifo::Insert(live::LineAt(good.bytes, 4), kWindow.layout, 77, 0, 0);
  ASSERT_EQ(nullptr, live::PageFlaw(good.bytes, Kind::kMain, 3, kWindow));
  const auto flaw = [&](size_t at, uint8_t value) {
    Page bad = good;
    bad.bytes[at] = value;
    return live::PageFlaw(bad.bytes, Kind::kMain, 3, kWindow) != nullptr;
  };
  EXPECT_TRUE(flaw(live::kMagicAt, 0));
  EXPECT_TRUE(flaw(live::kMagicAt + 2, 'K'));
  EXPECT_TRUE(flaw(live::kLevelAt, 1));
  EXPECT_TRUE(flaw(live::kVersionAt, 1));
  EXPECT_TRUE(flaw(live::kVersionAt, 2));
  EXPECT_TRUE(flaw(live::kVersionAt, 3));
  EXPECT_TRUE(flaw(live::kVersionAt, 4));
  EXPECT_TRUE(flaw(live::kKindAt, 2));
  EXPECT_TRUE(flaw(live::kEpochAt, 0));
  EXPECT_TRUE(flaw(live::kEpochAt, 16));
  EXPECT_TRUE(flaw(live::kTurnAt, 16));
  EXPECT_TRUE(flaw(live::kLayoutAt, 3));
  EXPECT_TRUE(flaw(live::kBlockAt, 4));
  EXPECT_TRUE(flaw(live::kClockAt, 1));
  EXPECT_TRUE(flaw(live::TagAt(1), 0));      // a transaction that entries still name
  EXPECT_TRUE(flaw(live::TagAt(1) + 8, 1));  // a generation
  EXPECT_TRUE(flaw(live::kLinesAt + 4 * kLineBytes + 40, 1));  // a line of two runs
  EXPECT_NE(nullptr, live::PageFlaw(good.bytes, Kind::kMain, 4, kWindow));
  EXPECT_NE(nullptr, live::PageFlaw(good.bytes, Kind::kOverflow, 3, kWindow));
  EXPECT_NE(nullptr, live::PageFlaw(good.bytes, Kind::kMain, 3, kSet));
}

// Whatever the bytes: no look at a page reads or writes outside of it.
TEST(LivePage, AnyBytesAreSafe) {
  Random random(10);
  for (int round = 0; round < 300; ++round) {
    Page main(Kind::kMain), page(Kind::kOverflow);
    for (size_t i = 64; i < live::kPageBytes; i += 8) {
      StoreU64(main.bytes + i, random.Next());
      StoreU64(page.bytes + i, random.Next());
    }
    Verdict verdicts[256];
    for (Verdict& verdict : verdicts) verdict = static_cast<Verdict>(random.Next() % 3);
    for (int i = 0; i < 20; ++i) {
      const auto line = static_cast<unsigned>(random.Next() % live::kLines);
      page.Of(line, SomeRest(&random));
      page.Put({random.Next(), 0}, line, SomeRest(&random));
    }
    live::PageFlaw(main.bytes, Kind::kMain, 3, kWindow);
    live::PageFlaw(page.bytes, Kind::kOverflow, 3, kTimed);
    Settled settled;
    live::Settle(main.bytes, page.bytes, round % 2 == 0 ? kWindow : kTimed, verdicts, true,
                 &settled);
    live::Settle(main.bytes, main.bytes, kSet, verdicts, round % 4 < 2, &settled);
  }
}

}  // namespace
// What is added to a line is there until it is taken out or expires.
TEST(LiveLine, AddsTakesAndExpires) {
  for (unsigned slot_bytes = live::kMinSlotBytes; slot_bytes <= live::kMaxSlotBytes; ++slot_bytes) {
    for (const bool timed : {false, true}) {
      if (timed && slot_bytes == live::kMinSlotBytes) continue;  // no room for generations
      const live::LineLayout layout = {slot_bytes, timed};
      uint8_t line[kLineBytes] = {};
      const uint32_t clock = 100, keys = 8;
      // Distinct in their top bits, so distinct as fingerprints of every width.
      const auto rest = [](uint64_t key) { return (key + 1) << (live::kRestBits - 4); };
      for (uint32_t key = 0; key < keys; ++key) {
        const uint32_t generation = timed ? clock - 7 + key : 0;
        EXPECT_FALSE(live::AddToLine(line, layout, rest(key), generation, timed ? clock : 0));
      }
      EXPECT_TRUE(live::IsValidLine(line, layout));
      EXPECT_EQ(keys, live::KeysInLine(line, layout));
      // In generation clock + 3 the first three are older than a window.
      EXPECT_EQ(timed ? keys - 3 : keys, live::AliveInLine(line, layout, clock, clock + 3));
      for (uint32_t key = 0; key < keys; ++key) {
        uint32_t generation = 0;
        EXPECT_TRUE(live::LineHolds(line, layout, rest(key), clock, clock));
        EXPECT_TRUE(live::TakeFromLine(line, layout, rest(key), clock, &generation));
        EXPECT_EQ(timed ? clock - 7 + key : 0, generation);
        EXPECT_FALSE(live::LineHolds(line, layout, rest(key), clock, clock));
        EXPECT_FALSE(live::TakeFromLine(line, layout, rest(key), clock, &generation));
        EXPECT_EQ(keys - 1 - key, live::KeysInLine(line, layout));
      }
    }
  }
}

// A shape that is put together from its parts is the one that was planned, but for the keys
// and the rate, which are not among the parts.
// The age of a key is its place in the order of arrival, also where the line has wrapped around.
TEST(LiveLine, TellsTheAgeOfAKey) {
  for (unsigned slot_bytes = live::kMinSlotBytes; slot_bytes <= live::kMaxSlotBytes; ++slot_bytes) {
    const live::LineLayout layout = {slot_bytes, false};
    Random random(slot_bytes);
    uint8_t line[kLineBytes] = {};
    std::vector<uint64_t> keys;
    EXPECT_LT(live::AgeInLine(line, layout, SomeRest(&random)), 0);
    for (unsigned added = 0; added < 200; ++added) {
      uint64_t rest = SomeRest(&random);
      while (live::LineHolds(line, layout, rest, 0, 0)) rest = SomeRest(&random);
      live::AddToLine(line, layout, rest, 0, 0);
      keys.push_back(rest);
      const unsigned held = live::KeysInLine(line, layout);
      for (unsigned i = 0; i < held; ++i) {
        const uint64_t key = keys[keys.size() - held + i];
        EXPECT_DOUBLE_EQ((i + 0.5) / held, live::AgeInLine(line, layout, key));
      }
    }
  }
}

TEST(LiveMethod, ShapesAreWholes) {
  for (const uint64_t ttl : {uint64_t{0}, uint64_t{700000}, uint64_t{3600000001}}) {
    for (const double fpr : {0.01, 0.0005, 0.000002}) {
      Shape prototype, planned, made;
      prototype.keys = 100000;
      prototype.fpr = fpr;
      prototype.hash = 1;
      ASSERT_EQ(PlanStatus::kOk, live::PlanLive(prototype, live::GenerationFor(ttl), 7, &planned));
      EXPECT_EQ(ttl != 0, live::LayoutOf(planned).timed);
      EXPECT_GE(live::GenerationLength(planned) * live::kWindowGenerations, ttl);
      planned.hash = prototype.hash;
      ASSERT_TRUE(live::MakeShape(live::PagesOf(planned), live::LayoutOf(planned),
                                  live::GenerationLength(planned), 7, 1, &made));
      made.keys = planned.keys;
      made.fpr = planned.fpr;
      EXPECT_TRUE(made == planned);
      EXPECT_EQ(live::LayoutByte(live::LayoutOf(planned)),
                live::LayoutByte(live::LayoutOfByte(live::LayoutByte(live::LayoutOf(planned)))));
    }
  }
}

}  // namespace dedup::test
