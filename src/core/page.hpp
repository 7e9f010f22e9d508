// The bytes of a live filter's pages. The functions work on one page of 8192 bytes, which the
// caller owns and has locked. Nothing here knows PostgreSQL, allocates or throws.
//
// A main page, in lines of 64 bytes:
//   line 0        PostgreSQL's page header (24 bytes) with our checksum (page_sum.hpp),
//                 then our header (below)
//   lines 1-4     16 tags: {transaction id u64, generation u32, base u32}
//   lines 5-24    the area: 160 entries of 8 bytes
//   lines 25-127  103 lines of fingerprints (live_line.hpp)
// An overflow page. A main page has a chain of these while it needs them:
//   line 0        headers
//   lines 1-31    124 tags
//   lines 32-127  the area: 768 entries
// A fan, the last page of a chain that would be long otherwise:
//   line 0        headers
//   lines 1-64    1,024 slots u32: the block of an overflow page, a leaf; 0: none
// A key's slot is the last 10 bits of its rest. A leaf has one slot, or several that share it: a
// power of two of them, from a multiple of their number on.
//
// A key enters a page as an entry. The entry has 40 bits of the key's hash, the key's line, and a
// tag, which names the key's transaction. After that transaction has committed and is visible to
// every snapshot, the entry may be folded into its line, as a short fingerprint. This is done only
// when room is needed, so that a page with few keys has no false positives in practice. Until then
// the entry's tag is set to kFrozen.
//
// An entry, from the low bits: 8 tag (0: taken back), 4 epoch, 4 turn, 7 line, 1 forgotten, 40
// rest. An entry is valid if its epoch is the page's. So one byte empties an area. Turns give the
// approximate order in which the entries of one transaction came. The page's turn advances at about
// one key in ten, so that the byte is rarely logged.
//
// A forgotten entry is a key that its tag's transaction forgets: the key is present unless that
// transaction commits. The tag's base says which transaction had added the key. It is 0 for a key
// that was committed for every snapshot. Else it is the low half of the id of the transaction that
// added the key: one that encloses the forgetting transaction, or one that has committed but is not
// visible to every snapshot. So the key of a forgotten entry is present if the base has committed
// and the tag's transaction has not. A key that is added again after that gets another entry: a key
// is present if one of its entries says so. Tags of entries that are not forgotten have no base.
//
// A main page of a filter that grows has a number (core/linear_hash.hpp), which differs from its
// block, and a level. Its overflow pages store that number, and the level that the main page had
// when they joined its chain. So they need no change when the main page splits or moves. A map says
// where each main page is:
//   the root      line 0: headers; then the number of main pages u32, and the blocks of up to
//                 2,031 map pages, u32 each
//   a map page    line 0: headers; then the blocks of 2,032 main pages, u32 each; 0: none yet
//
// Entries are hashed to lines of the area. A key is in its own line, or in one of the kProbeLines -
// 1 lines after it: the first that had room. A line with a free entry ends the search, so that a
// search rarely reads more than one or two lines.
//
// Numbers are little-endian.

#ifndef STREAMDEDUP_CORE_PAGE_HPP_
#define STREAMDEDUP_CORE_PAGE_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/bytes.hpp"
#include "core/linear_hash.hpp"
#include "core/live_line.hpp"

namespace dedup::live {

inline constexpr size_t kPageBytes = 8192;
inline constexpr unsigned kLines = 103;  // of fingerprints, in a main page
inline constexpr size_t kLinesAt = 25 * kLineBytes;
static_assert(kLinesAt + kLines * kLineBytes == kPageBytes);

inline constexpr uint32_t kPageMagic = 0x504453;  // "SDP"
inline constexpr uint8_t kPageVersion = 5;

enum class Kind : uint8_t {
  kMain = 1,
  kOverflow = 2,
  kCounters = 3,
  kFree = 4,
  kRoot = 5,  // of filters that grow
  kMap = 6,   // the same
  kFan = 7    // of a chain
};

// Added to the kind of a page in memory whose checksum is wrong.
inline constexpr uint8_t kDamaged = 0x80;

// Where each field of our header is; it follows PostgreSQL's header. Only this file, and the files
// that log a change of single bytes (live/store), use these places. All other files use the
// functions below.
inline constexpr size_t kMagicAt = 24;    // u24
inline constexpr size_t kLevelAt = 27;    // u8: the page's level; 0 in filters that do not grow
inline constexpr size_t kVersionAt = 28;  // u8
inline constexpr size_t kKindAt = 29;     // u8
inline constexpr size_t kEpochAt = 30;    // u8, 1 to 15: the epoch of valid entries
inline constexpr size_t kLayoutAt = 31;   // u8: slot bytes (1: 12 bits), +128 timed, +64 grows
inline constexpr size_t kBlockAt = 32;    // u32: the block number of this page
inline constexpr size_t kNextAt = 36;     // u32: next page of the chain, or 0
// u64: the transaction that loaded the lines as a whole, or 0
inline constexpr size_t kLoaderAt = 40;
inline constexpr size_t kClockAt = 48;  // u32: the newest generation of the lines
inline constexpr size_t kEarlyAt = 52;  // u32: keys that were dropped before their time
// u32; main pages of filters that grow, and map pages: the page's number
inline constexpr size_t kNumberAt = 52;
inline constexpr size_t kTurnAt = 60;  // u8, 0 to 15: the turn of the next entry

// The seven bytes around kTurnAt have one meaning in a main page and in the page of counters,
// another in an overflow page. They are 0 in pages of the other kinds.
inline constexpr size_t kSettledLowAt =
    56;  // main, counters, u32: low part of the newest id settled
inline constexpr size_t kSettledHighAt = 61;  // main, counters, u24: its high part
inline constexpr size_t kOwnerAt = 56;        // overflow, fan, u32: block of the chain's main page,
                                              // or its number if the filter grows
inline constexpr size_t kDepthAt = 61;  // overflow, u8: 0, or, of a leaf, how often its part of a
                                        // fan was halved, plus 1
inline constexpr size_t kPartAt = 62;   // overflow, u16: which one of so many parts that is
inline constexpr size_t kHeaderEnd = 64;
static_assert(kSettledLowAt + 4 == kTurnAt && kSettledHighAt == kTurnAt + 1);
static_assert(kSettledHighAt + 3 == kHeaderEnd && kHeaderEnd == kLineBytes);
static_assert(kDepthAt == kTurnAt + 1 && kPartAt + 2 == kHeaderEnd);

// Ids that are not those of a transaction.
inline constexpr uint64_t kNoXid = 0;
inline constexpr uint64_t kFrozen = 2;  // committed, and visible to every snapshot

struct Geometry {
  uint32_t pages;  // number of main pages; the page of counters follows them. 0: the filter grows
  LineLayout layout;
  bool forgets;  // full lines drop their oldest key
};

// The places of tags and entries in a page of this kind.
struct AreaShape {
  unsigned tags;
  unsigned lines;
  size_t lines_at;
};
inline constexpr size_t kTagsAt = kLineBytes;
inline constexpr size_t kTagBytes = 16;
inline constexpr AreaShape kMainArea = {16, 20, 5 * kLineBytes};
inline constexpr AreaShape kOverflowArea = {124, 96, 32 * kLineBytes};
inline constexpr AreaShape kNoArea = {0, 0, kPageBytes};  // of a fan
static_assert(kMainArea.lines_at == kTagsAt + kMainArea.tags * kTagBytes);
static_assert(kOverflowArea.lines_at == kTagsAt + kOverflowArea.tags * kTagBytes);
static_assert(kMainArea.lines_at + kMainArea.lines * kLineBytes == kLinesAt);
static_assert(kOverflowArea.lines_at + kOverflowArea.lines * kLineBytes == kPageBytes);

// In the page of counters: the transactions that stated whether the filter covers its table
// (live/cover.cpp), u64 each, and the generation from which on it does, u32, then u32 0. The rest
// of that page, behind the header, is changed without a lock.
inline constexpr size_t kCoverAt = 192;
inline constexpr unsigned kCoverWords = 4;
inline constexpr size_t kCoverFromAt = kCoverAt + 8 * kCoverWords;
inline constexpr size_t kCoverEnd = kCoverFromAt + 8;

inline constexpr unsigned kEntriesPerLine = kLineBytes / 8;
inline constexpr unsigned kProbeLines = 20;  // all lines of a main page's area
inline constexpr uint8_t kLastEpoch = 15;
inline constexpr unsigned kLastTurn = 15;
inline constexpr unsigned kMaxTags = 124;
inline constexpr unsigned kMaxEntries = 768;

inline Kind KindOf(const uint8_t* page) noexcept { return static_cast<Kind>(page[kKindAt]); }
inline bool IsFan(const uint8_t* page) noexcept { return KindOf(page) == Kind::kFan; }
inline const AreaShape& AreaOf(const uint8_t* page) noexcept {
  return KindOf(page) == Kind::kOverflow ? kOverflowArea : IsFan(page) ? kNoArea : kMainArea;
}
// Returns the layout in one byte, as stored in pages and in dumps.
inline constexpr uint8_t kTimed = 0x80;
inline constexpr uint8_t kGrows = 0x40;
inline uint8_t LayoutByte(const LineLayout& layout) noexcept {
  return static_cast<uint8_t>(layout.slot_bytes | (layout.timed ? kTimed : 0) |
                              (layout.grows ? kGrows : 0));
}
inline LineLayout LayoutOfByte(uint8_t byte) noexcept {
  return {static_cast<unsigned>(byte & ~(kTimed | kGrows)), (byte & kTimed) != 0,
          (byte & kGrows) != 0};
}
inline uint32_t BlockOf(const uint8_t* page) noexcept { return LoadU32(page + kBlockAt); }
inline bool IsOfGrowing(const uint8_t* page) noexcept { return (page[kLayoutAt] & kGrows) != 0; }
inline unsigned LevelOf(const uint8_t* page) noexcept { return page[kLevelAt]; }
inline void SetLevel(uint8_t* page, unsigned level) noexcept {
  page[kLevelAt] = static_cast<uint8_t>(level);
}

// Returns the layout of the lines of one main page.
inline LineLayout LayoutIn(const uint8_t* main, LineLayout layout) noexcept {
  layout.level = LevelOf(main);
  return layout;
}

// Returns the number of a main page.
inline uint32_t NumberOf(const uint8_t* main) noexcept {
  return IsOfGrowing(main) ? LoadU32(main + kNumberAt) : BlockOf(main);
}
inline uint32_t NextOf(const uint8_t* page) noexcept { return LoadU32(page + kNextAt); }
inline constexpr size_t kNextBytes = 4;
inline void SetNext(uint8_t* page, uint32_t block) noexcept { StoreU32(page + kNextAt, block); }

// Returns the newest transaction whose keys in this main page or its chain were settled as
// committed. For a snapshot that is older than this transaction, its keys look the same as earlier
// ones. 56 bits.
inline uint64_t SettledOf(const uint8_t* main) noexcept {
  const auto high = [main](size_t i) { return uint64_t{main[kSettledHighAt + i]} << 8 * i; };
  return LoadU32(main + kSettledLowAt) | (high(0) | high(1) | high(2)) << 32;
}
// Writes the bytes from kSettledLowAt to the header's end, which hold that transaction and the
// page's turn.
inline void PackSettled(uint8_t* bytes, uint64_t xid, uint8_t turn) noexcept {
  StoreU32(bytes, static_cast<uint32_t>(xid));
  bytes[kTurnAt - kSettledLowAt] = turn;
  for (size_t i = 0; i < 3; ++i) {
    bytes[kSettledHighAt - kSettledLowAt + i] = static_cast<uint8_t>(xid >> (32 + 8 * i));
  }
}
inline void NoteSettled(uint8_t* main, uint64_t xid) noexcept {
  if (xid > SettledOf(main)) PackSettled(main + kSettledLowAt, xid, main[kTurnAt]);
}

// The main page of the chain of an overflow page or a fan: its block, or, if the filter grows, the
// number that it had when the page joined the chain.
inline uint32_t OwnerOf(const uint8_t* overflow) noexcept { return LoadU32(overflow + kOwnerAt); }

// Whether an overflow page or a fan can be in the chain of a main page.
inline bool IsChainedTo(const uint8_t* overflow, const uint8_t* main) noexcept {
  return LevelOf(overflow) <= LevelOf(main) &&
         (IsOfGrowing(main) ? NumberOf(main) & LowMask(LevelOf(overflow)) : BlockOf(main)) ==
             OwnerOf(overflow);
}

// Returns the transaction that loaded the lines of a main page and may still be in progress.
inline uint64_t LoaderOf(const uint8_t* main) noexcept { return LoadU64(main + kLoaderAt); }
inline void SetLoader(uint8_t* main, uint64_t xid) noexcept { StoreU64(main + kLoaderAt, xid); }

inline uint32_t ClockOf(const uint8_t* main) noexcept { return LoadU32(main + kClockAt); }
inline void SetClock(uint8_t* main, uint32_t clock) noexcept { StoreU32(main + kClockAt, clock); }

// Returns the number of keys of a time window that were dropped before their time. A filter that
// grows drops none.
inline uint32_t EarlyOf(const uint8_t* main) noexcept {
  return IsOfGrowing(main) ? 0 : LoadU32(main + kEarlyAt);
}
inline void SetEarly(uint8_t* main, uint32_t early) noexcept {
  if (!IsOfGrowing(main)) StoreU32(main + kEarlyAt, early);
}

// Turns an overflow page that has left its chain into a free page.
inline void FreePage(uint8_t* overflow) noexcept {
  overflow[kKindAt] = static_cast<uint8_t>(Kind::kFree);
  SetNext(overflow, 0);
}
inline uint8_t* LineAt(uint8_t* page, unsigned line) noexcept {
  return page + kLinesAt + line * kLineBytes;
}
inline const uint8_t* LineAt(const uint8_t* page, unsigned line) noexcept {
  return page + kLinesAt + line * kLineBytes;
}

// Writes everything behind PostgreSQL's page header. `number` is, of an overflow page or a fan, the
// main page of its chain (OwnerOf()); of a main page or a map page of a filter that grows, its
// number; 0 for all others.
inline void InitPage(uint8_t* page, Kind kind, uint32_t block, const LineLayout& layout,
                     uint32_t number) noexcept {
  std::memset(page + kMagicAt, 0, kPageBytes - kMagicAt);
  StoreU32(page + kMagicAt, kPageMagic | uint32_t{layout.level} << 24);
  page[kVersionAt] = kPageVersion;
  page[kKindAt] = static_cast<uint8_t>(kind);
  page[kEpochAt] = 1;
  page[kLayoutAt] = LayoutByte(layout);
  StoreU32(page + kBlockAt, block);
  const bool is_chained = kind == Kind::kOverflow || kind == Kind::kFan;
  StoreU32(page + (is_chained ? kOwnerAt : kNumberAt), number);
}

// What an overflow page, or a fan, for the chain of a main page is made with.
inline void InitChainPage(uint8_t* page, Kind kind, uint32_t block, const LineLayout& layout,
                          const uint8_t* main) noexcept {
  InitPage(page, kind, block, LayoutIn(main, layout), NumberOf(main));
}
inline void InitOverflowPage(uint8_t* page, uint32_t block, const LineLayout& layout,
                             const uint8_t* main) noexcept {
  InitChainPage(page, Kind::kOverflow, block, layout, main);
}

// Checks the header. Returns what is wrong with it, or null.
inline const char* HeaderFlaw(const uint8_t* page, Kind kind, uint32_t block,
                              const LineLayout& layout) noexcept {
  if ((LoadU32(page + kMagicAt) & 0xffffff) != kPageMagic) {
    return "It is not a page of a live filter.";
  }
  if (page[kVersionAt] != kPageVersion) return "Its format is not known to this version.";
  if (page[kLevelAt] > (layout.grows ? kMostLevels : 0)) {
    return "Its level is not known to this version.";
  }
  if (page[kKindAt] != static_cast<uint8_t>(kind)) {
    return page[kKindAt] == (static_cast<uint8_t>(kind) | kDamaged)
               ? "Its checksum does not match its contents."
               : "It is of the wrong kind.";
  }
  if (page[kLayoutAt] != LayoutByte(layout)) return "Its layout is not that of the filter.";
  if (LoadU32(page + kBlockAt) != block) return "It is at the wrong place.";
  if (page[kEpochAt] == 0 || page[kEpochAt] > kLastEpoch || page[kTurnAt] > kLastTurn) {
    return "Its epoch is not valid.";
  }
  if (layout.grows && kind == Kind::kMain && NumberOf(page) > LowMask(LevelOf(page))) {
    return "Its number is too high.";
  }
  return nullptr;
}

// ---- the map of a filter that grows ------------------------------------------------

inline constexpr size_t kPagesAt = kHeaderEnd;     // in the root: the number of main pages
inline constexpr size_t kMapsAt = kHeaderEnd + 4;  // in the root: the blocks of map pages
inline constexpr unsigned kPagesAMap = (kPageBytes - kHeaderEnd) / 4;
inline constexpr unsigned kMostMaps = (kPageBytes - kMapsAt) / 4;
static_assert(uint64_t{kMostMaps} * kPagesAMap >= kMostPages);

inline uint32_t PagesInRoot(const uint8_t* root) noexcept { return LoadU32(root + kPagesAt); }
inline size_t MapAt(uint32_t map) noexcept { return kMapsAt + size_t{4} * map; }
inline size_t MappedAt(uint32_t page) noexcept {
  return kHeaderEnd + size_t{4} * (page % kPagesAMap);
}

// ---- the fan of a chain ------------------------------------------------------------

inline constexpr unsigned kFanBits = 10;
inline constexpr unsigned kFanSlots = 1u << kFanBits;
static_assert(kHeaderEnd + 4 * kFanSlots <= kPageBytes);
// They say nothing of the page of a key.
static_assert(kMostLevels + kFanBits <= kRestBits);

// Slots of a fan that follow each other.
struct SlotRange {
  unsigned first;
  unsigned count;
};

inline unsigned FanSlotOf(uint64_t rest) noexcept {
  return static_cast<unsigned>(rest & LowMask(kFanBits));
}
inline bool HasSlotOf(const SlotRange& range, uint64_t rest) noexcept {
  return FanSlotOf(rest) - range.first < range.count;
}
inline size_t FanSlotAt(unsigned slot) noexcept { return kHeaderEnd + size_t{4} * slot; }
inline uint32_t LoadFanSlot(const uint8_t* fan, unsigned slot) noexcept {
  return LoadU32(fan + FanSlotAt(slot));
}

// From a slot on, those with the same contents.
inline SlotRange RunOfSlots(const uint8_t* fan, unsigned slot) noexcept {
  const uint32_t block = LoadFanSlot(fan, slot);
  unsigned end = slot + 1;
  while (end < kFanSlots && LoadFanSlot(fan, end) == block) ++end;
  return {slot, end - slot};
}

// Whether an overflow page is the leaf of a fan, and its slots if so.
inline bool IsLeaf(const uint8_t* overflow) noexcept { return overflow[kDepthAt] != 0; }
inline SlotRange SlotsOfLeaf(const uint8_t* leaf) noexcept {
  const unsigned bits = kFanBits + 1 - leaf[kDepthAt];
  return {(leaf[kPartAt] | unsigned{leaf[kPartAt + 1]} << 8) << bits, 1u << bits};
}

// Whether a leaf's depth and part are ones that there are.
inline bool IsValidLeaf(const uint8_t* leaf) noexcept {
  const unsigned part = leaf[kPartAt] | unsigned{leaf[kPartAt + 1]} << 8;
  return leaf[kDepthAt] <= kFanBits + 1 && part <= LowMask(leaf[kDepthAt] - 1u);
}

// What is wrong with the slots of a fan; null if nothing.
inline const char* FanFlaw(const uint8_t* fan) noexcept {
  for (unsigned slot = 0; slot < kFanSlots;) {
    const SlotRange run = RunOfSlots(fan, slot);
    if (LoadFanSlot(fan, slot) != 0 &&
        (!std::has_single_bit(run.count) || run.first % run.count != 0)) {
      return "Its slots do not divide it evenly.";
    }
    slot += run.count;
  }
  return NextOf(fan) == 0 ? nullptr : "A page follows a fan.";
}

// ---- tags ---------------------------------------------------------------------

struct Tag {
  uint64_t xid;
  uint32_t generation;
  uint32_t base = 0;  // only for forgotten entries
};

// Returns a transaction id from its low half and another id of about the same age.
inline uint64_t WidenXid(uint32_t low, uint64_t near) noexcept {
  return near +
         static_cast<uint64_t>(int64_t{static_cast<int32_t>(low - static_cast<uint32_t>(near))});
}

// Returns the id of a tag's base, or kNoXid.
inline uint64_t BaseOf(const Tag& tag) noexcept {
  return tag.base == 0 ? kNoXid : WidenXid(tag.base, tag.xid);
}

inline size_t TagAt(unsigned tag) noexcept { return kTagsAt + (tag - 1) * kTagBytes; }

// `tag` counts from 1.
inline Tag LoadTag(const uint8_t* page, unsigned tag) noexcept {
  const uint8_t* at = page + TagAt(tag);
  return {LoadU64(at), LoadU32(at + 8), LoadU32(at + 12)};
}
// Writes the bytes of a tag.
inline void PackTag(uint8_t* bytes, const Tag& tag) noexcept {
  StoreU64(bytes, tag.xid);
  StoreU32(bytes + 8, tag.generation);
  StoreU32(bytes + 12, tag.base);
}
inline void StoreTag(uint8_t* page, unsigned tag, const Tag& value) noexcept {
  PackTag(page + TagAt(tag), value);
}

// `tag` is the tag with the wanted contents, or a free one, or 0. `found` is false if no tag has
// these contents.
struct TagChoice {
  unsigned tag;
  bool found;
};
inline TagChoice ChooseTag(const uint8_t* page, const AreaShape& area, const Tag& wanted,
                           bool is_new = false) noexcept {
  unsigned free_tag = 0;
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const uint64_t xid = LoadU64(page + TagAt(tag));
    if (xid == kNoXid) {
      if (free_tag == 0) free_tag = tag;
      if (is_new) break;
    } else if (xid == wanted.xid) {
      const Tag have = LoadTag(page, tag);
      if (have.generation == wanted.generation && have.base == wanted.base) return {tag, true};
    }
  }
  return {free_tag, false};
}

// ---- entries --------------------------------------------------------------------

struct Entry {
  unsigned tag;
  unsigned turn;
  unsigned line;
  bool forgotten;
  uint64_t rest;
};

inline uint64_t PackEntry(const Entry& entry, uint8_t epoch) noexcept {
  return uint64_t{entry.tag} | uint64_t{epoch} << 8 | uint64_t{entry.turn} << 12 |
         uint64_t{entry.line} << 16 | uint64_t{entry.forgotten} << 23 | entry.rest << 24;
}
inline Entry UnpackEntry(uint64_t packed) noexcept {
  return {static_cast<unsigned>(packed & 0xff), static_cast<unsigned>(packed >> 12 & 0xf),
          static_cast<unsigned>(packed >> 16 & 0x7f), (packed >> 23 & 1) != 0, packed >> 24};
}
inline unsigned TagOf(uint64_t packed) noexcept { return packed & 0xff; }
inline uint8_t EpochOf(uint64_t packed) noexcept { return packed >> 8 & 0xf; }

// Returns the bits that are the same in all entries of a key: line and rest.
inline uint64_t KeyOf(uint64_t packed) noexcept { return packed >> 16 & ~uint64_t{0x80}; }
inline uint64_t KeyOf(unsigned line, uint64_t rest) noexcept { return rest << 8 | line; }

// Returns the page's turn after a new entry of this key. `turn` is the turn before. It advances
// often enough that an area of this size goes through all turns while it fills.
inline uint8_t TurnBehind(uint8_t turn, const AreaShape& area, uint64_t rest) noexcept {
  const unsigned keys_a_turn = area.lines * kEntriesPerLine / (kLastTurn + 1);
  return turn < kLastTurn && (rest & 0xffff) * keys_a_turn >> 16 == 0 ? turn + 1 : turn;
}

inline size_t EntryAt(const AreaShape& area, unsigned place) noexcept {
  return area.lines_at + place * size_t{8};
}

// The tag of an entry that is taken back. The low byte of the entry is set to it.
inline constexpr uint8_t kTakenBack = 0;

inline Entry LoadEntry(const uint8_t* page, const AreaShape& area, unsigned place) noexcept {
  return UnpackEntry(LoadU64(page + EntryAt(area, place)));
}
inline void StoreEntry(uint8_t* page, const AreaShape& area, unsigned place,
                       const Entry& entry) noexcept {
  StoreU64(page + EntryAt(area, place), PackEntry(entry, page[kEpochAt]));
}
inline void TakeBack(uint8_t* page, const AreaShape& area, unsigned place) noexcept {
  page[EntryAt(area, place)] = kTakenBack;
}

// Returns whether an entry is valid: it has this epoch, and is not taken back.
inline bool Present(uint64_t packed, uint8_t epoch) noexcept {
  return EpochOf(packed) == epoch && TagOf(packed) != kTakenBack;
}

inline unsigned HomeLine(const AreaShape& area, unsigned line, uint64_t rest) noexcept {
  const auto mixed =
      static_cast<uint32_t>((rest ^ uint64_t{line} << 21) * 0x9E3779B97F4A7C15u >> 32);
  return static_cast<unsigned>(uint64_t{mixed} * area.lines >> 32);
}

// Runs visit(place, entry) over the entries of a key, until visit returns true.
template <typename Visit>
inline bool VisitKey(const uint8_t* page, const AreaShape& area, unsigned line, uint64_t rest,
                     Visit visit) noexcept {
  const uint8_t epoch = page[kEpochAt];
  const uint64_t wanted = KeyOf(line, rest);
  unsigned at = HomeLine(area, line, rest);
  for (unsigned probe = 0; probe < kProbeLines; ++probe, at = at + 1 < area.lines ? at + 1 : 0) {
    bool has_room = false;
    for (unsigned i = 0; i < kEntriesPerLine; ++i) {
      const unsigned place = at * kEntriesPerLine + i;
      const uint64_t packed = LoadU64(page + EntryAt(area, place));
      if (EpochOf(packed) != epoch) {
        has_room = true;
      } else if (KeyOf(packed) == wanted && TagOf(packed) != kTakenBack) {
        if (visit(place, UnpackEntry(packed))) return true;
      }
    }
    if (has_room) break;
  }
  return false;
}

// Returns a place for a new entry of a key for which is_free(place) returns true, or -1.
template <typename IsFree>
inline int PlaceWhere(const uint8_t* page, const AreaShape& area, unsigned line, uint64_t rest,
                      IsFree is_free) noexcept {
  const uint8_t epoch = page[kEpochAt];
  unsigned at = HomeLine(area, line, rest);
  for (unsigned probe = 0; probe < kProbeLines; ++probe, at = at + 1 < area.lines ? at + 1 : 0) {
    for (unsigned i = 0; i < kEntriesPerLine; ++i) {
      const unsigned place = at * kEntriesPerLine + i;
      if (!Present(LoadU64(page + EntryAt(area, place)), epoch) && is_free(place)) {
        return static_cast<int>(place);
      }
    }
  }
  return -1;
}

// Returns a place for a new entry of a key, or -1.
inline int PlaceFor(const uint8_t* page, const AreaShape& area, unsigned line,
                    uint64_t rest) noexcept {
  return PlaceWhere(page, area, line, rest, [](unsigned) { return true; });
}

// Runs visit(place, entry) over all entries of a page.
template <typename Visit>
inline void ForEachEntry(const uint8_t* page, const AreaShape& area, Visit visit) noexcept {
  const uint8_t epoch = page[kEpochAt];
  for (unsigned place = 0; place < area.lines * kEntriesPerLine; ++place) {
    const uint64_t packed = LoadU64(page + EntryAt(area, place));
    if (Present(packed, epoch)) visit(place, UnpackEntry(packed));
  }
}

inline unsigned CountEntries(const uint8_t* page, const AreaShape& area) noexcept {
  unsigned count = 0;
  ForEachEntry(page, area, [&](unsigned, const Entry&) { ++count; });
  return count;
}

// Puts an entry and its tag into a page. Returns false, and changes nothing, if there
// is no room for one of them.
inline bool PutEntry(uint8_t* page, const AreaShape& area, const Tag& tag, unsigned line,
                     uint64_t rest, bool forgotten) noexcept {
  const TagChoice choice = ChooseTag(page, area, tag);
  const int place = PlaceFor(page, area, line, rest);
  if (choice.tag == 0 || place < 0) return false;
  if (!choice.found) StoreTag(page, choice.tag, tag);
  StoreEntry(page, area, static_cast<unsigned>(place),
             {choice.tag, page[kTurnAt], line, forgotten, rest});
  page[kTurnAt] = TurnBehind(page[kTurnAt], area, rest);
  return true;
}

// ---- checking -------------------------------------------------------------------

// Checks every byte. Returns what is wrong, or null.
inline const char* PageFlaw(const uint8_t* page, Kind kind, uint32_t block,
                            const Geometry& geometry) noexcept {
  const char* flaw = HeaderFlaw(page, kind, block, geometry.layout);
  if (flaw != nullptr) return flaw;
  if (kind != Kind::kMain && kind != Kind::kOverflow && kind != Kind::kFan) return nullptr;
  const AreaShape& area = AreaOf(page);
  const uint32_t number = kind == Kind::kMain ? NumberOf(page) : OwnerOf(page);
  if (geometry.layout.grows && number > LowMask(LevelOf(page))) return "Its owner is no page.";
  if (kind == Kind::kFan) return FanFlaw(page);
  const bool is_leaf = kind == Kind::kOverflow && IsLeaf(page);
  if (is_leaf && !IsValidLeaf(page)) return "It is no part of a fan.";
  ForEachEntry(page, area, [&](unsigned, const Entry& entry) {
    if (entry.tag > area.tags || LoadTag(page, entry.tag).xid == kNoXid) {
      flaw = "An entry has no transaction.";
    } else if (entry.line >= kLines) {
      flaw = "An entry belongs to no line.";
    } else if (!entry.forgotten && LoadTag(page, entry.tag).base != 0) {
      flaw = "An entry that is not forgotten has a base.";
    } else if (geometry.layout.grows && !HasBits(number, LevelOf(page), PageBits(entry.rest))) {
      flaw = "An entry belongs to another page.";
    } else if (is_leaf && !HasSlotOf(SlotsOfLeaf(page), entry.rest)) {
      flaw = "An entry belongs to another part of the fan.";
    } else if (!VisitKey(page, area, entry.line, entry.rest,
                         [](unsigned, const Entry&) { return true; })) {
      flaw = "An entry cannot be found where it is.";
    }
  });
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const Tag value = LoadTag(page, tag);
    if (value.xid == 1) flaw = "A transaction has an impossible number.";
    if (value.base != 0 && (value.base <= kFrozen || value.xid <= kFrozen)) {
      flaw = "A base is out of place.";
    }
    if (!geometry.layout.timed && value.generation != 0) flaw = "A generation is out of place.";
  }
  if (kind == Kind::kMain) {
    for (unsigned line = 0; line < kLines; ++line) {
      if (!IsValidLine(LineAt(page, line), LayoutIn(page, geometry.layout))) {
        flaw = "A line of fingerprints is not valid.";
      }
    }
    if (!geometry.layout.timed && ClockOf(page) != 0) flaw = "A clock is out of place.";
  }
  return flaw;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_PAGE_HPP_
