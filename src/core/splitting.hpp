// Splits a page of a live filter that grows (core/linear_hash.hpp). Computes the bytes of two main
// pages from those of one, and first moves entries between overflow pages. The functions work on
// pages that the caller owns and has locked. Nothing here knows PostgreSQL, allocates or throws.

#ifndef STREAMDEDUP_CORE_SPLITTING_HPP_
#define STREAMDEDUP_CORE_SPLITTING_HPP_

#include "core/settling.hpp"

namespace dedup::live {

// Returns whether an entry goes to the new page when its page of this level splits.
inline bool IsUpper(const Entry& entry, unsigned level) noexcept {
  return (PageBits(entry.rest) >> level & 1) != 0;
}

// Gives the area of a page so many entries of its tags instead of those that it has. In a main
// page each of them finds a place, since any place of its area will do.
inline void ReplaceEntries(uint8_t* page, const Entry* entries, unsigned count) noexcept {
  (void)RebuildArea(page, kMainArea, entries, count);
  DropUnusedTags(page);
}

// Divides a main page whose entries and lines are valid. `low` becomes the page after the split,
// and may be the page itself. `high` becomes the new page, at `block`. `low` keeps the page's
// chain, and `high` has no chain.
inline void SplitMainPage(const uint8_t* page, const LineLayout& layout, uint32_t block,
                          uint8_t* low, uint8_t* high) noexcept {
  LineLayout before = LayoutIn(page, layout), after = before;
  Entry kept[kMainArea.lines * kEntriesPerLine], moved[kMainArea.lines * kEntriesPerLine];
  unsigned kept_count = 0, moved_count = 0;
  unsigned order[kMaxTags];
  const unsigned tags = OrderTags(page, kMainArea, order);
  const PlacesByTurn by_turn(page, kMainArea);

  ++after.level;
  for (unsigned i = 0; i < tags; ++i) {
    uint16_t places[kMaxEntries];
    const unsigned count = by_turn.Of(order[i], places);
    for (unsigned j = 0; j < count; ++j) {
      const Entry entry = LoadEntry(page, kMainArea, places[j]);
      (IsUpper(entry, before.level) ? moved[moved_count++] : kept[kept_count++]) = entry;
    }
  }
  InitPage(high, Kind::kMain, block, after, UpperOf(NumberOf(page), before.level));
  SetLoader(high, LoaderOf(page));
  SetClock(high, ClockOf(page));
  NoteSettled(high, SettledOf(page));
  std::memcpy(high + kTagsAt, page + kTagsAt, kMainArea.tags * kTagBytes);
  ReplaceEntries(high, moved, moved_count);

  if (low != page) std::memcpy(low + kMagicAt, page + kMagicAt, kPageBytes - kMagicAt);
  SetLevel(low, after.level);
  ReplaceEntries(low, kept, kept_count);
  for (unsigned line = 0; line < kLines; ++line) {
    SplitLine(LineAt(low, line), before, LineAt(low, line), LineAt(high, line));
  }
}

// The entries of an overflow page, when its chain's main page of this level is about to split.
struct Mixture {
  unsigned low;
  unsigned high;
};
inline Mixture MixtureOf(const uint8_t* overflow, unsigned level) noexcept {
  Mixture mixture = {0, 0};
  ForEachEntry(overflow, kOverflowArea, [&](unsigned, const Entry& entry) {
    ++(IsUpper(entry, level) ? mixture.high : mixture.low);
  });
  return mixture;
}

// Moves the entries that go to the new page from one overflow page to another, while that has room.
// Returns whether all of them have moved.
inline bool MoveUpper(uint8_t* from, uint8_t* to, unsigned level) noexcept {
  return MoveEntries(from, to, [&](const Entry& entry) { return IsUpper(entry, level); }).all;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_SPLITTING_HPP_
