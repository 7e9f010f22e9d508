// The fan of a live filter's long chain: leaves against a plain list of entries, as they are
// divided, and the bytes.

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "core/fanning.hpp"
#include "core/page_sum.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Entry;
using live::Geometry;
using live::Kind;
using live::SlotRange;
using live::Tag;

constexpr Geometry kSet = {10, {3, false}, false};

struct Page {
  uint8_t bytes[live::kPageBytes];

  explicit Page(Kind kind, uint32_t block) {
    std::memset(bytes, 0, sizeof bytes);
    live::InitPage(bytes, kind, block, kSet.layout, 2);
  }
};

struct Key {
  Tag tag;
  unsigned line;
  uint64_t rest;
  bool forgotten;

  auto All() const { return std::tie(tag.xid, tag.generation, tag.base, line, rest, forgotten); }
  bool operator<(const Key& other) const { return All() < other.All(); }
  bool operator==(const Key& other) const { return All() == other.All(); }
};

Key RandomKey(Random* random, unsigned transactions) {
  const bool forgotten = random->Next() % 8 == 0;
  const uint64_t xid = 100 + random->Next() % transactions;
  return {{xid, 0, forgotten && xid % 2 == 0 ? uint32_t{50} : 0},
          static_cast<unsigned>(random->Next() % live::kLines),
          random->Next() >> 24,
          forgotten};
}

// A fan and its leaves, each at its block: as fan.cpp has them.
struct Fan {
  std::vector<Page> pages;  // block 1 is the fan

  Fan() : pages(2, Page(Kind::kFan, 1)) {}
  uint8_t* fan() { return pages[1].bytes; }
  uint8_t* LeafOf(uint64_t rest) {
    const uint32_t block = live::LoadFanSlot(fan(), live::FanSlotOf(rest));
    return block == 0 ? nullptr : pages[block].bytes;
  }
  uint32_t Add(const SlotRange& slots) {
    const auto block = static_cast<uint32_t>(pages.size());
    pages.emplace_back(Kind::kOverflow, block);
    live::SetSlotsOfLeaf(pages[block].bytes, slots);
    live::StoreFanSlots(fan(), slots, block);
    return block;
  }
  void Divide(uint64_t rest) {
    const uint32_t block = live::LoadFanSlot(fan(), live::FanSlotOf(rest));
    const auto [low, high] = live::HalvesOf(live::SlotsOfLeaf(pages[block].bytes));
    const uint32_t fresh = Add(high);
    std::memcpy(pages[fresh].bytes, pages[block].bytes, live::kPageBytes);
    StoreU32(pages[fresh].bytes + live::kBlockAt, fresh);
    live::KeepHalf(pages[fresh].bytes, high);
    live::KeepHalf(pages[block].bytes, low);
  }
  // Returns false if that takes a leaf of one slot that has no room.
  bool Put(const Key& key) {
    if (LeafOf(key.rest) == nullptr) {
      Add(live::EmptySlotsAround(fan(), live::FanSlotOf(key.rest)));
    }
    while (!live::PutEntry(LeafOf(key.rest), live::kOverflowArea, key.tag, key.line, key.rest,
                           key.forgotten)) {
      if (live::SlotsOfLeaf(LeafOf(key.rest)).count == 1) return false;
      Divide(key.rest);
    }
    return true;
  }
  std::multiset<Key> All() {
    std::multiset<Key> all;
    for (unsigned slot = 0; slot < live::kFanSlots; slot += live::RunOfSlots(fan(), slot).count) {
      const uint32_t block = live::LoadFanSlot(fan(), slot);
      if (block == 0) continue;
      const uint8_t* leaf = pages[block].bytes;
      live::ForEachEntry(leaf, live::kOverflowArea, [&](unsigned, const Entry& entry) {
        all.insert({live::LoadTag(leaf, entry.tag), entry.line, entry.rest, entry.forgotten});
      });
    }
    return all;
  }
  void ExpectSound() {
    ASSERT_EQ(nullptr, live::PageFlaw(fan(), Kind::kFan, 1, kSet));
    for (unsigned slot = 0; slot < live::kFanSlots;) {
      const SlotRange run = live::RunOfSlots(fan(), slot);
      const uint32_t block = live::LoadFanSlot(fan(), slot);
      slot += run.count;
      if (block == 0) continue;
      ASSERT_EQ(nullptr, live::PageFlaw(pages[block].bytes, Kind::kOverflow, block, kSet));
      ASSERT_EQ(run.first, live::SlotsOfLeaf(pages[block].bytes).first);
      ASSERT_EQ(run.count, live::SlotsOfLeaf(pages[block].bytes).count);
    }
  }
  double Fill() {
    return static_cast<double>(All().size()) /
           (static_cast<double>(pages.size() - 2) * live::kMaxEntries);
  }
};

bool Has(const uint8_t* leaf, const Key& key) {
  return live::VisitKey(leaf, live::kOverflowArea, key.line, key.rest,
                        [&](unsigned, const Entry& entry) {
                          return live::LoadTag(leaf, entry.tag).xid == key.tag.xid &&
                                 entry.forgotten == key.forgotten;
                        });
}

// However often leaves are divided, each entry is there once, with its tag, and is found in the
// one leaf that its key says. Few transactions: places run out. Many: tags do.
TEST(Fan, KeepsAllEntries) {
  for (const unsigned transactions : {1u, 40u, 5000u}) {
    Random random(transactions);
    Fan fan;
    std::multiset<Key> twin;
    for (int i = 0; i < 20000; ++i) {
      const Key key = RandomKey(&random, transactions);
      ASSERT_TRUE(fan.Put(key));
      twin.insert(key);
      ASSERT_TRUE(Has(fan.LeafOf(key.rest), key));
    }
    ASSERT_TRUE(twin == fan.All());
    fan.ExpectSound();
    for (const Key& key : twin) ASSERT_TRUE(Has(fan.LeafOf(key.rest), key));
    // Of random keys, the leaves of one depth are all divided at about the same time.
    if (transactions <= 40) {
      EXPECT_GT(fan.Fill(), 0.45);
    }
  }
}

// Dividing a leaf does not make a search longer: entries that have left make room that ends it.
TEST(Fan, DividedLeavesEndSearches) {
  Random random(2);
  Fan fan;
  Key last = {};
  while (fan.pages.size() < 4) {
    last = {{100, 0, 0},
            static_cast<unsigned>(random.Next() % live::kLines),
            random.Next() >> 24,
            false};
    ASSERT_TRUE(fan.Put(last));
  }
  for (uint32_t block = 2; block < 4; ++block) {
    unsigned lines_with_room = 0;
    const uint8_t* leaf = fan.pages[block].bytes;
    for (unsigned line = 0; line < live::kOverflowArea.lines; ++line) {
      for (unsigned i = 0; i < live::kEntriesPerLine; ++i) {
        const unsigned place = line * live::kEntriesPerLine + i;
        if (live::EpochOf(LoadU64(leaf + live::EntryAt(live::kOverflowArea, place))) !=
            leaf[live::kEpochAt]) {
          ++lines_with_room;
          break;
        }
      }
    }
    EXPECT_GT(lines_with_room, live::kOverflowArea.lines * 3 / 4);
  }
}

// Whatever the epoch, and with all entries on one side.
TEST(Fan, DividesUnevenLeaves) {
  for (unsigned epoch = 1; epoch <= live::kLastEpoch; ++epoch) {
    for (const bool high : {false, true}) {
      Random random(epoch);
      Page page(Kind::kOverflow, 7);
      std::vector<Key> keys;
      page.bytes[live::kEpochAt] = static_cast<uint8_t>(epoch);
      live::SetSlotsOfLeaf(page.bytes, live::kAllSlots);
      for (;;) {
        const uint64_t rest = (random.Next() >> 24 & ~uint64_t{512}) | (high ? 512 : 0);
        const Key key = {{100 + random.Next() % 3, 0, 0},
                         static_cast<unsigned>(random.Next() % live::kLines),
                         rest,
                         false};
        if (!live::PutEntry(page.bytes, live::kOverflowArea, key.tag, key.line, key.rest, false)) {
          break;
        }
        keys.push_back(key);
      }
      ASSERT_GT(keys.size(), 600u);
      Page low = page, other = page;
      const auto halves = live::HalvesOf(live::kAllSlots);
      EXPECT_EQ(high ? 0 : keys.size(), live::KeepHalf(low.bytes, halves.low));
      EXPECT_EQ(high ? keys.size() : 0, live::KeepHalf(other.bytes, halves.high));
      const uint8_t* full = high ? other.bytes : low.bytes;
      const uint8_t* empty = high ? low.bytes : other.bytes;
      EXPECT_EQ(nullptr, live::PageFlaw(full, Kind::kOverflow, 7, kSet));
      EXPECT_EQ(nullptr, live::PageFlaw(empty, Kind::kOverflow, 7, kSet));
      for (const Key& key : keys) ASSERT_TRUE(Has(full, key));
      EXPECT_EQ(0u, live::CountEntries(empty, live::kOverflowArea));
      for (unsigned tag = 1; tag <= live::kOverflowArea.tags; ++tag) {
        EXPECT_EQ(live::kNoXid, live::LoadTag(empty, tag).xid);
      }
    }
  }
}

// A leaf that cannot be divided any more says so, and nothing of it is lost.
TEST(Fan, EndsAtOneSlot) {
  Fan fan;
  Random random(4);
  std::multiset<Key> twin;
  for (;;) {
    const Key key = {{100, 0, 0},
                     static_cast<unsigned>(random.Next() % live::kLines),
                     (random.Next() >> 24 & ~uint64_t{1023}) | 700,
                     false};
    if (!fan.Put(key)) break;
    twin.insert(key);
  }
  EXPECT_GT(twin.size(), 600u);
  EXPECT_TRUE(twin == fan.All());
  EXPECT_EQ(1u, live::SlotsOfLeaf(fan.LeafOf(700)).count);
  EXPECT_EQ(700u, live::SlotsOfLeaf(fan.LeafOf(700)).first);
}

TEST(Fan, EntriesMoveFromPlainPages) {
  Fan fan;
  Random random(5);
  Page plain(Kind::kOverflow, 99);
  std::multiset<Key> twin;
  fan.Add(live::kAllSlots);
  fan.Divide(0);
  for (int i = 0; i < 500; ++i) {
    const Key key = RandomKey(&random, 50);
    ASSERT_TRUE(live::PutEntry(plain.bytes, live::kOverflowArea, key.tag, key.line, key.rest,
                               key.forgotten));
    twin.insert(key);
  }
  const live::Moved low = live::MoveToLeaf(plain.bytes, fan.LeafOf(0));
  EXPECT_TRUE(low.all);
  EXPECT_EQ(500 - low.count, live::CountEntries(plain.bytes, live::kOverflowArea));
  const live::Moved high = live::MoveToLeaf(plain.bytes, fan.LeafOf(1023));
  EXPECT_TRUE(high.all);
  EXPECT_EQ(500u, low.count + high.count);
  EXPECT_EQ(0u, live::CountEntries(plain.bytes, live::kOverflowArea));
  EXPECT_TRUE(twin == fan.All());
  fan.ExpectSound();
}

TEST(Fan, EmptySlotsAreThoseAroundASlot) {
  Page fan(Kind::kFan, 1);
  EXPECT_EQ(live::kFanSlots, live::EmptySlotsAround(fan.bytes, 700).count);
  EXPECT_TRUE(live::IsEmptyFan(fan.bytes));
  live::StoreFanSlots(fan.bytes, {512, 64}, 9);
  EXPECT_FALSE(live::IsEmptyFan(fan.bytes));
  const std::map<unsigned, SlotRange> expected = {
      {0, {0, 512}},     {511, {0, 512}},   {576, {576, 64}},  {639, {576, 64}},
      {640, {640, 128}}, {700, {640, 128}}, {768, {768, 256}}, {1023, {768, 256}}};
  for (const auto& [slot, range] : expected) {
    EXPECT_EQ(range.first, live::EmptySlotsAround(fan.bytes, slot).first) << slot;
    EXPECT_EQ(range.count, live::EmptySlotsAround(fan.bytes, slot).count) << slot;
  }
  live::ReplaceInFan(fan.bytes, 9, 0);
  EXPECT_TRUE(live::IsEmptyFan(fan.bytes));
}

TEST(Fan, SlotsOfABlockAreJustThose) {
  Page fan(Kind::kFan, 1);
  live::StoreFanSlots(fan.bytes, {256, 256}, 9);
  EXPECT_TRUE(live::HasJust(fan.bytes, {256, 256}, 9));
  EXPECT_FALSE(live::HasJust(fan.bytes, {256, 128}, 9));
  EXPECT_FALSE(live::HasJust(fan.bytes, {384, 128}, 9));
  EXPECT_FALSE(live::HasJust(fan.bytes, {0, 512}, 9));
  EXPECT_FALSE(live::HasJust(fan.bytes, {512, 256}, 9));
  EXPECT_FALSE(live::HasJust(fan.bytes, {256, 256}, 8));
  live::StoreFanSlots(fan.bytes, live::kAllSlots, 9);
  EXPECT_TRUE(live::HasJust(fan.bytes, live::kAllSlots, 9));
}

// Written down from the description at the top of page.hpp.
TEST(Fan, BytesAreFrozen) {
  Page fan(Kind::kFan, 0x01020304);
  live::StoreFanSlots(fan.bytes, {512, 256}, 0x0a0b0c0d);
  const uint8_t header[40] = {'S', 'D', 'P', 0, 5, 7, 1, 3, 4, 3, 2, 1};
  uint8_t expected[live::kPageBytes] = {};
  std::memcpy(expected + 24, header, sizeof header);
  expected[56] = 2;  // the main page
  for (unsigned slot = 512; slot < 768; ++slot) {
    const uint8_t block[4] = {0x0d, 0x0c, 0x0b, 0x0a};
    std::memcpy(expected + 64 + 4 * slot, block, 4);
  }
  EXPECT_EQ(0, std::memcmp(expected, fan.bytes, sizeof expected));
  EXPECT_EQ(0x0a0b0c0du, live::LoadFanSlot(fan.bytes, live::FanSlotOf(0xfffffffe00u)));
  EXPECT_EQ(0u, live::LoadFanSlot(fan.bytes, live::FanSlotOf(0xfffffffdffu)));

  Page leaf(Kind::kOverflow, 5);
  live::SetSlotsOfLeaf(leaf.bytes, {576, 64});
  EXPECT_EQ(5, leaf.bytes[61]);  // halved four times
  EXPECT_EQ(9, leaf.bytes[62]);
  EXPECT_EQ(0, leaf.bytes[63]);
  live::SetSlotsOfLeaf(leaf.bytes, {1023, 1});
  EXPECT_EQ(11, leaf.bytes[61]);
  EXPECT_EQ(0xff, leaf.bytes[62]);
  EXPECT_EQ(3, leaf.bytes[63]);
  live::SetSlotsOfLeaf(leaf.bytes, live::kAllSlots);
  EXPECT_EQ(1, leaf.bytes[61]);
  EXPECT_EQ(0, leaf.bytes[62]);
}

TEST(Fan, FlawsAreFound) {
  Page fan(Kind::kFan, 1);
  EXPECT_EQ(nullptr, live::PageFlaw(fan.bytes, Kind::kFan, 1, kSet));
  live::StoreFanSlots(fan.bytes, {256, 512}, 9);
  EXPECT_STREQ("Its slots do not divide it evenly.",
               live::PageFlaw(fan.bytes, Kind::kFan, 1, kSet));
  live::StoreFanSlots(fan.bytes, {256, 256}, 8);
  EXPECT_EQ(nullptr, live::PageFlaw(fan.bytes, Kind::kFan, 1, kSet));
  live::SetNext(fan.bytes, 4);
  EXPECT_STREQ("A page follows a fan.", live::PageFlaw(fan.bytes, Kind::kFan, 1, kSet));

  Page leaf(Kind::kOverflow, 5);
  live::SetSlotsOfLeaf(leaf.bytes, {512, 512});
  ASSERT_TRUE(live::PutEntry(leaf.bytes, live::kOverflowArea, {100, 0, 0}, 3, 0x3ff, false));
  EXPECT_EQ(nullptr, live::PageFlaw(leaf.bytes, Kind::kOverflow, 5, kSet));
  live::SetSlotsOfLeaf(leaf.bytes, {0, 512});
  EXPECT_STREQ("An entry belongs to another part of the fan.",
               live::PageFlaw(leaf.bytes, Kind::kOverflow, 5, kSet));
  leaf.bytes[62] = 2;
  EXPECT_STREQ("It is no part of a fan.", live::PageFlaw(leaf.bytes, Kind::kOverflow, 5, kSet));
  leaf.bytes[61] = 12;
  EXPECT_STREQ("It is no part of a fan.", live::PageFlaw(leaf.bytes, Kind::kOverflow, 5, kSet));
}

// A fan is searched for nothing: it has neither tags nor entries.
TEST(Fan, HasNoArea) {
  Page fan(Kind::kFan, 1);
  live::StoreFanSlots(fan.bytes, live::kAllSlots, 0xffffffff);
  EXPECT_EQ(0u, live::AreaOf(fan.bytes).tags);
  EXPECT_EQ(0u, live::CountEntries(fan.bytes, live::AreaOf(fan.bytes)));
}

}  // namespace
}  // namespace dedup::test
