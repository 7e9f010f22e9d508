// The pages of live filters that grow: which page has a key, and what becomes of its keys when
// a page splits.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "core/live_method.hpp"
#include "core/splitting.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Address;
using live::Entry;
using live::Geometry;
using live::Kind;
using live::LineLayout;
using live::Tag;
using live::Verdict;

constexpr Geometry kSet = {0, {5, false, true}, false};
constexpr Geometry kTimed = {0, {5, true, true}, false};
constexpr Geometry kShort = {0, {4, true, true}, false};

// ---- linear hashing -----------------------------------------------------------------

TEST(LinearHash, PageBitsAreTheRestReversed) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t rest = random.Next() >> 24;
    uint64_t reversed = 0;
    for (unsigned bit = 0; bit < 40; ++bit) reversed |= (rest >> bit & 1) << (39 - bit);
    ASSERT_EQ(reversed, live::PageBits(rest));
  }
}

TEST(LinearHash, TheAddressIsThatOfOnePage) {
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t hash = random.Next();
    const Address one = live::AddressOf(hash, 1, live::kLines);
    const Address address = live::GrowingAddressOf(hash, live::kLines);
    ASSERT_EQ(one.line, address.line);
    ASSERT_EQ(one.rest, address.rest);
    ASSERT_EQ((hash * 103) >> 24, address.rest);
    ASSERT_EQ(live::PageBits(one.rest), address.group);
  }
}

// From one page to the next: each key is in one page, whose level says so, and only the page that
// splits loses keys, all of them to the new page.
TEST(LinearHash, PagesSplitInOrder) {
  Random random(3);
  std::vector<uint64_t> keys(500);
  for (uint64_t& bits : keys) bits = live::PageBits(random.Next() >> 24);
  std::vector<uint32_t> page_of(keys.size(), 0);
  for (uint32_t pages = 1; pages <= 1100; ++pages) {
    double all = 0;
    for (uint32_t page = 0; page < pages; ++page) {
      const unsigned level = live::LevelOfPage(page, pages);
      ASSERT_LT(page, 1u << level);
      all += std::ldexp(1, -static_cast<int>(level));
    }
    ASSERT_EQ(1.0, all);
    const uint32_t split = pages == 1 ? 0 : live::NextToSplit(pages - 1);
    for (size_t i = 0; i < keys.size(); ++i) {
      const uint32_t page = live::PageOfBits(keys[i], pages);
      ASSERT_LT(page, pages);
      ASSERT_TRUE(live::HasBits(page, live::LevelOfPage(page, pages), keys[i]));
      if (page != page_of[i]) {
        ASSERT_EQ(split, page_of[i]);
        ASSERT_EQ(pages - 1, page);
        ASSERT_EQ(page, live::UpperOf(split, live::LevelOfPages(pages - 1)));
      }
      page_of[i] = page;
    }
  }
  EXPECT_EQ(live::kMostLevels, live::LevelOfPage(0, live::kMostPages));
}

// A page that has split since says by its level where to go on.
TEST(LinearHash, AKeyIsFoundFromAnyEarlierNumberOfPages) {
  Random random(4);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = live::PageBits(random.Next() >> 24);
    const auto now = static_cast<uint32_t>(1 + random.Next() % 5000);
    const auto before = static_cast<uint32_t>(1 + random.Next() % now);
    uint32_t page = live::PageOfBits(bits, before);
    for (int steps = 0;; ++steps) {
      ASSERT_LT(steps, 22);
      const unsigned level = live::LevelOfPage(page, now);
      if (live::HasBits(page, level, bits)) break;
      page = live::AfterSplit(page, level, bits);
      ASSERT_LT(page, now);
    }
    ASSERT_EQ(live::PageOfBits(bits, now), page);
  }
}

// ---- sizes --------------------------------------------------------------------------

TEST(GrowingSizes, SlotsKeepTheRateAtABillionKeys) {
  for (const bool timed : {false, true}) {
    for (const double fpr : {0.5, 0.1, 0.01, 0.003, 0.001, 0.0001, 1e-5, 1e-7, 1e-9}) {
      const LineLayout layout = live::GrowingLayoutFor(fpr, timed);
      const uint32_t most = live::MostPages(layout, fpr);
      EXPECT_TRUE(layout.grows);
      EXPECT_GE(layout.slot_bytes, 4u);
      ASSERT_GE(most, 1u);
      ASSERT_LE(most, live::kMostPages);
      // With all pages of a level, and all lines full, the rate holds.
      LineLayout full = layout;
      full.level = live::LevelOfPages(most);
      EXPECT_LE(live::LineRate(full, full.usable()), fpr);
      if (layout.slot_bytes > 4) {
        EXPECT_GT(live::GrowingRate({4, timed, true}, 1 << 30), fpr);
      }
    }
  }
  // 2^30 / (103 * 2^37)
  EXPECT_NEAR(7.58e-5, live::GrowingRate({5, true, true}, 1 << 30), 1e-7);
}

// ---- pages --------------------------------------------------------------------------

struct Page {
  uint8_t bytes[live::kPageBytes] = {};
};

// Written down from the description at the top of page.hpp.
TEST(GrowingPage, BytesAreFrozen) {
  Page page;
  live::InitPage(page.bytes, Kind::kMain, 0x01020304, {5, true, true, 7}, 0x35);
  const uint8_t header[40] = {'S', 'D', 'P', 7, 5, 1, 1, 0xc5, 4, 3, 2, 1, 0, 0,   0,
                              0,   0,   0,   0, 0, 0, 0, 0,    0, 0, 0, 0, 0, 0x35};
  EXPECT_EQ(0, std::memcmp(page.bytes + 24, header, sizeof header));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 0x01020304, kTimed));
  EXPECT_EQ(0u, live::EarlyOf(page.bytes));
  live::SetEarly(page.bytes, 9);
  EXPECT_EQ(0x35u, live::NumberOf(page.bytes));

  Page overflow;
  live::InitOverflowPage(overflow.bytes, 17, kTimed.layout, page.bytes);
  const uint8_t chained[40] = {'S', 'D', 'P', 7, 5, 2, 1, 0xc5, 17, 0, 0, 0, 0, 0, 0, 0,   0,
                               0,   0,   0,   0, 0, 0, 0, 0,    0,  0, 0, 0, 0, 0, 0, 0x35};
  EXPECT_EQ(0, std::memcmp(overflow.bytes + 24, chained, sizeof chained));
  EXPECT_TRUE(live::IsChainedTo(overflow.bytes, page.bytes));
}

TEST(GrowingPage, ALevelOrNumberThatCannotBeIsAFlaw) {
  Page page;
  live::InitPage(page.bytes, Kind::kMain, 3, {5, false, true, 21}, 0x1fffff);
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
  live::SetLevel(page.bytes, 22);
  EXPECT_STREQ("Its level is not known to this version.",
               live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
  live::SetLevel(page.bytes, 20);
  EXPECT_STREQ("Its number is too high.", live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
  // A filter that does not grow has no levels, and other pages.
  live::InitPage(page.bytes, Kind::kMain, 3, {5, false}, 0);
  EXPECT_STREQ("Its layout is not that of the filter.",
               live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
  live::SetLevel(page.bytes, 1);
  EXPECT_STREQ("Its level is not known to this version.",
               live::PageFlaw(page.bytes, Kind::kMain, 3, {10, {5, false}, false}));
}

TEST(GrowingPage, AnEntryOfAnotherPageIsAFlaw) {
  Page page;
  live::InitPage(page.bytes, Kind::kMain, 3, {5, false, true, 1}, 1);
  ASSERT_TRUE(live::PutEntry(page.bytes, live::kMainArea, {7, 0}, 5, uint64_t{1} << 39, false));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
  ASSERT_TRUE(live::PutEntry(page.bytes, live::kMainArea, {7, 0}, 5, uint64_t{1} << 38, false));
  EXPECT_STREQ("An entry belongs to another page.",
               live::PageFlaw(page.bytes, Kind::kMain, 3, kSet));
}

// Overflow pages stay in the chain of their main page, and can follow the new one.
TEST(GrowingPage, ChainsFollowSplits) {
  for (uint32_t number = 0; number < 8; ++number) {
    for (unsigned level = 0; level < 4; ++level) {
      if (number >> level != 0) continue;
      Page main, overflow;
      live::InitPage(main.bytes, Kind::kMain, 3, {5, false, true, level}, number);
      live::InitOverflowPage(overflow.bytes, 9, kSet.layout, main.bytes);
      for (uint32_t other = 0; other < 64; ++other) {
        for (unsigned later = 0; later < 6; ++later) {
          Page page;
          if (other >> later != 0) continue;
          live::InitPage(page.bytes, Kind::kMain, 4, {5, false, true, later}, other);
          EXPECT_EQ(later >= level && other % (1u << level) == number,
                    live::IsChainedTo(overflow.bytes, page.bytes));
        }
      }
    }
  }
}

TEST(GrowingPage, AFingerprintLosesItsTopBit) {
  Random random(5);
  for (const Geometry& geometry : {kSet, kTimed, kShort}) {
    LineLayout layout = geometry.layout;
    for (int i = 0; i < 2000; ++i) {
      // Few bits set: fingerprints that are 0 come, too.
      const uint64_t rest = i % 2 != 0 ? random.Next() >> 24 : uint64_t{1} << random.Next() % 40;
      for (layout.level = 0; layout.level < live::kMostLevels; ++layout.level) {
        LineLayout next = layout;
        ++next.level;
        const uint64_t fingerprint = fifo::FingerprintOf(rest, layout);
        ASSERT_EQ(fifo::FingerprintOf(rest, next),
                  fifo::Stored(fingerprint & LowMask(layout.fingerprint_bits() - 1)));
        if (fingerprint != 1) {
          ASSERT_EQ(live::PageBits(rest) >> layout.level & 1,
                    fingerprint >> (layout.fingerprint_bits() - 1));
        }
      }
    }
  }
}

// ---- splits -------------------------------------------------------------------------

struct Key {
  unsigned line;
  uint64_t rest;
  uint32_t generation;
  bool in_line;
  Tag tag;  // of an entry
  bool forgotten;
};

// What a page says of a key: the generation in its line, if any, and the entries' tags.
std::multimap<std::tuple<uint64_t, uint32_t, uint32_t>, bool> EntriesOf(const uint8_t* page,
                                                                        const Key& key) {
  std::multimap<std::tuple<uint64_t, uint32_t, uint32_t>, bool> tags;
  live::VisitKey(page, live::kMainArea, key.line, key.rest, [&](unsigned, const Entry& entry) {
    const Tag tag = live::LoadTag(page, entry.tag);
    tags.insert({{tag.xid, tag.generation, tag.base}, entry.forgotten});
    return false;
  });
  return tags;
}

class GrowingSplit : public testing::TestWithParam<Geometry> {};

// A page of random keys, in lines and as entries of many kinds, is split level by level; each time
// the half goes on that has a given key. No half loses one of its keys or has another's entries.
TEST_P(GrowingSplit, EachHalfHasItsKeys) {
  const Geometry geometry = GetParam();
  const uint32_t clock = geometry.layout.timed ? 1000 : 0;
  for (int run = 0; run < 20; ++run) {
    Random random(100 + run);
    Page page;
    std::vector<Key> keys;
    live::InitPage(page.bytes, Kind::kMain, 2, geometry.layout, 0);
    live::SetClock(page.bytes, clock);
    live::SetLoader(page.bytes, run % 2 != 0 ? 77 : 0);
    live::NoteSettled(page.bytes, 0x123456789aULL + run);
    live::SetNext(page.bytes, 55);
    // Keys of one path, so that many levels have some.
    const uint64_t path = random.Next() >> 24;
    const auto some_rest = [&] {
      const unsigned same = random.Next() % 21;
      const uint64_t rest = random.Next() >> 24;
      return same == 0 ? rest : (path & ~LowMask(40 - same)) | (rest & LowMask(40 - same));
    };
    for (int i = 0; i < 800; ++i) {
      Key key = {
          static_cast<unsigned>(random.Next() % live::kLines), some_rest(), 0, true, {}, false};
      if (clock != 0) key.generation = clock - random.Next() % 8;
      uint8_t* line = live::LineAt(page.bytes, key.line);
      if (live::IsFullLine(line, geometry.layout)) continue;
      live::AddToLine(line, geometry.layout, key.rest, key.generation, clock);
      keys.push_back(key);
    }
    for (int i = 0; i < 150; ++i) {
      Key key = {
          static_cast<unsigned>(random.Next() % live::kLines), some_rest(), 0, false, {}, false};
      if (clock != 0) key.generation = clock - random.Next() % 2;
      key.tag = {random.Next() % 2 == 0 ? live::kFrozen : 100 + random.Next() % 3, key.generation};
      if (key.tag.xid != live::kFrozen && random.Next() % 4 == 0) {
        key.forgotten = true;
        key.tag.base = 90;
      }
      if (live::PutEntry(page.bytes, live::kMainArea, key.tag, key.line, key.rest, key.forgotten)) {
        keys.push_back(key);
      }
    }
    ASSERT_GT(keys.size(), 700u);

    for (unsigned level = 0; level < live::kMostLevels; ++level) {
      Page low, high;
      ASSERT_EQ(level, live::LevelOf(page.bytes));
      const uint32_t number = live::NumberOf(page.bytes);
      std::memcpy(low.bytes, page.bytes, sizeof low.bytes);
      live::SplitMainPage(low.bytes, geometry.layout, 7, low.bytes, high.bytes);
      for (const Page* half : {&low, &high}) {
        ASSERT_EQ(nullptr,
                  live::PageFlaw(half->bytes, Kind::kMain, half == &low ? 2 : 7, geometry));
        ASSERT_EQ(level + 1, live::LevelOf(half->bytes));
        ASSERT_EQ(half == &low ? number : number + (1u << level), live::NumberOf(half->bytes));
        ASSERT_EQ(live::LoaderOf(page.bytes), live::LoaderOf(half->bytes));
        ASSERT_EQ(clock, live::ClockOf(half->bytes));
        ASSERT_EQ(live::SettledOf(page.bytes), live::SettledOf(half->bytes));
        ASSERT_EQ(half == &low ? 55u : 0u, live::NextOf(half->bytes));
      }
      size_t in_lines = 0, entries = 0;
      std::vector<Key> left;
      const bool goes_high = (live::PageBits(path) >> level & 1) != 0;
      for (const Key& key : keys) {
        const bool is_high = (live::PageBits(key.rest) >> level & 1) != 0;
        const uint8_t* half = is_high ? high.bytes : low.bytes;
        const uint8_t* other = is_high ? low.bytes : high.bytes;
        if (key.in_line) {
          ++in_lines;
          ASSERT_TRUE(live::LineHolds(live::LineAt(half, key.line),
                                      live::LayoutIn(half, geometry.layout), key.rest, clock,
                                      key.generation == 0 ? 0 : key.generation + 7));
        } else {
          ++entries;
          const auto found = EntriesOf(half, key);
          const auto range = found.equal_range({key.tag.xid, key.tag.generation, key.tag.base});
          bool same = false;
          for (auto at = range.first; at != range.second; ++at) same |= at->second == key.forgotten;
          ASSERT_TRUE(same);
          ASSERT_TRUE(EntriesOf(other, key).empty());
        }
        if (is_high == goes_high) left.push_back(key);
      }
      size_t slots = 0;
      for (unsigned line = 0; line < live::kLines; ++line) {
        for (const Page* half : {&low, &high}) {
          slots += live::KeysInLine(live::LineAt(half->bytes, line),
                                    live::LayoutIn(half->bytes, geometry.layout));
        }
      }
      ASSERT_EQ(in_lines, slots);
      ASSERT_EQ(entries, live::CountEntries(low.bytes, live::kMainArea) +
                             live::CountEntries(high.bytes, live::kMainArea));
      if (goes_high) {
        // It is at another block, and its chain begins anew.
        dedup::StoreU32(high.bytes + live::kBlockAt, 2);
        live::SetNext(high.bytes, 55);
      }
      page = goes_high ? high : low;
      keys = left;
    }
    EXPECT_GT(keys.size(), 0u);
  }
}

// The order of the keys of a line stays what it was.
TEST_P(GrowingSplit, LinesKeepTheirOrder) {
  const Geometry geometry = GetParam();
  const uint32_t clock = geometry.layout.timed ? 1000 : 0;
  Random random(7);
  for (int run = 0; run < 2000; ++run) {
    uint8_t line[kLineBytes] = {}, low[kLineBytes] = {}, high[kLineBytes] = {};
    LineLayout next = geometry.layout;
    ++next.level;
    uint8_t expected[2][kLineBytes] = {};
    const unsigned keys = random.Next() % (geometry.layout.usable() + 1);
    for (unsigned i = 0; i < keys; ++i) {
      const uint64_t rest = random.Next() >> 24;
      const uint32_t generation = clock == 0 ? 0 : clock - (keys - 1 - i) * 7 / keys;
      live::AddToLine(line, geometry.layout, rest, generation, clock);
      live::AddToLine(expected[rest >> 39], next, rest, generation, clock);
    }
    live::SplitLine(line, geometry.layout, low, high);
    ASSERT_EQ(0, std::memcmp(expected[0], low, kLineBytes));
    ASSERT_EQ(0, std::memcmp(expected[1], high, kLineBytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, GrowingSplit, testing::Values(kSet, kTimed, kShort));

// ---- chains -------------------------------------------------------------------------

TEST(GrowingChain, UpperEntriesMove) {
  Random random(8);
  Page main, from;
  live::InitPage(main.bytes, Kind::kMain, 2, {5, false, true, 3}, 5);
  live::InitOverflowPage(from.bytes, 9, kSet.layout, main.bytes);
  std::map<std::pair<unsigned, uint64_t>, Tag> keys;
  // 5 of level 3 is 101 at the top of the rest.
  for (int i = 0; i < 700; ++i) {
    const auto line = static_cast<unsigned>(random.Next() % live::kLines);
    const uint64_t rest = uint64_t{5} << 37 | random.Next() >> 27;
    const Tag tag = {100 + random.Next() % 120, 0};
    if (live::PutEntry(from.bytes, live::kOverflowArea, tag, line, rest, false)) {
      keys[{line, rest}] = tag;
    }
  }
  ASSERT_EQ(nullptr, live::PageFlaw(from.bytes, Kind::kOverflow, 9, kSet));
  std::vector<Page> pages;
  const live::Mixture before = live::MixtureOf(from.bytes, 3);
  EXPECT_EQ(keys.size(), before.low + before.high);
  for (bool all = false; !all;) {
    ASSERT_LT(pages.size(), 3u);
    pages.emplace_back();
    live::InitOverflowPage(pages.back().bytes, 10, kSet.layout, main.bytes);
    // A page that has no tag left takes the tags that it has.
    if (pages.size() == 1) {
      for (unsigned tag = 1; tag <= 60; ++tag) {
        live::StoreTag(pages[0].bytes, tag, {1000 + tag, 0});
      }
    }
    all = live::MoveUpper(from.bytes, pages.back().bytes, 3);
    ASSERT_EQ(nullptr, live::PageFlaw(from.bytes, Kind::kOverflow, 9, kSet));
    ASSERT_EQ(nullptr, live::PageFlaw(pages.back().bytes, Kind::kOverflow, 10, kSet));
  }
  EXPECT_EQ(2u, pages.size());
  const live::Mixture after = live::MixtureOf(from.bytes, 3);
  EXPECT_EQ(before.low, after.low);
  EXPECT_EQ(0u, after.high);
  for (const auto& [key, tag] : keys) {
    unsigned found = 0;
    const auto look = [&, &key = key, &tag = tag](const Page& page, bool there) {
      live::VisitKey(page.bytes, live::kOverflowArea, key.first, key.second,
                     [&](unsigned, const Entry& entry) {
                       EXPECT_TRUE(there);
                       EXPECT_EQ(tag.xid, live::LoadTag(page.bytes, entry.tag).xid);
                       ++found;
                       return false;
                     });
    };
    const bool upper = (live::PageBits(key.second) >> 3 & 1) != 0;
    look(from, !upper);
    for (const Page& page : pages) look(page, upper);
    ASSERT_EQ(1u, found);
  }
}

// ---- windows of time ----------------------------------------------------------------

// A key of a full line stays an entry, with its generation, until another one expires.
TEST(GrowingWindow, NoKeyGivesWay) {
  Page page;
  Verdict verdicts[live::kMaxTags + 1] = {};
  live::Settled settled;
  live::InitPage(page.bytes, Kind::kMain, 2, kTimed.layout, 0);
  for (auto& verdict : verdicts) verdict = Verdict::kCommitted;
  const unsigned usable = kTimed.layout.usable();
  for (unsigned i = 0; i < usable + 3; ++i) {
    ASSERT_TRUE(live::PutEntry(page.bytes, live::kMainArea, {200, 1000 + i / 6}, 9,
                               (i + 1) * 0x3333333ULL, false));
  }
  live::Settle(page.bytes, page.bytes, kTimed, verdicts, true, &settled);
  EXPECT_EQ(usable, live::KeysInLine(live::LineAt(page.bytes, 9), kTimed.layout));
  EXPECT_EQ(3u, live::CountEntries(page.bytes, live::kMainArea));
  EXPECT_EQ(0u, settled.early);
  // Six keys of the oldest generation expire.
  live::MoveClock(page.bytes, kTimed.layout, 1008);
  live::Settle(page.bytes, page.bytes, kTimed, verdicts, true, &settled);
  EXPECT_EQ(0u, live::CountEntries(page.bytes, live::kMainArea));
  EXPECT_EQ(usable - 6 + 3, live::KeysInLine(live::LineAt(page.bytes, 9), kTimed.layout));
  EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, Kind::kMain, 2, kTimed));
}

// Frozen entries that have expired go, whether or not there is a line to fold into.
TEST(GrowingWindow, ExpiredEntriesGo) {
  Page page;
  Verdict verdicts[live::kMaxTags + 1] = {};
  live::Settled settled;
  live::InitPage(page.bytes, Kind::kMain, 2, kTimed.layout, 0);
  for (auto& verdict : verdicts) verdict = Verdict::kCommitted;
  ASSERT_TRUE(live::PutEntry(page.bytes, live::kMainArea, {live::kFrozen, 1000}, 9, 1, false));
  ASSERT_TRUE(live::PutEntry(page.bytes, live::kMainArea, {live::kFrozen, 1001}, 9, 2, false));
  live::MoveClock(page.bytes, kTimed.layout, 1008);
  live::Settle(page.bytes, page.bytes, kTimed, verdicts, false, &settled);
  EXPECT_EQ(1u, live::CountEntries(page.bytes, live::kMainArea));
}

}  // namespace
}  // namespace dedup::test
