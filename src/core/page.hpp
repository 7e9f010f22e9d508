// The bytes of a live filter's pages. Functions over one page of 8192 bytes that the
// caller owns and has locked; nothing here knows PostgreSQL, allocates or throws.
//
// A main page, in lines of 64 bytes:
//   line 0        PostgreSQL's page header (24 bytes) with our checksum (page_sum.hpp),
//                 then our header (below)
//   lines 1-4     16 tags: {transaction id u64, generation u32, 0 u32}
//   lines 5-24    the area: 160 entries of 8 bytes
//   lines 25-127  103 lines of fingerprints (fifo_line.hpp)
// An overflow page, of which a main page has a chain while it needs them:
//   line 0        headers
//   lines 1-31    124 tags
//   lines 32-127  the area: 768 entries
//
// A key enters a page as an entry: in flight, with 40 bits of its hash beside its line
// and a tag that names its transaction. Once that transaction has committed, and no
// snapshot is left that does not see it, the entry may be folded into its line, as a
// short fingerprint; but only when room is needed, so that a page with few keys makes
// no false positives in practice. Until then its tag is made kFrozen.
//
// An entry, from the low bits: 8 tag (0: taken back), 4 epoch, 4 turn, 7 line, 1
// forgotten, 40 rest. It is there if its epoch is the page's: so emptying an area is one
// byte. Turns tell roughly in which order the entries of one transaction came: the page's
// turn moves on at about one key in ten (so that the byte is rarely logged). A forgotten
// entry is a committed key that its tag's transaction forgets: it is there unless that
// transaction commits.
//
// Entries are hashed to lines of the area: a key is in the first of kProbeLines lines
// from its own on that had room. A line with a free entry ends the search, so that it
// rarely takes more than one or two.
//
// Numbers are little-endian.

#ifndef STREAMDEDUP_CORE_PAGE_HPP_
#define STREAMDEDUP_CORE_PAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/bytes.hpp"
#include "core/methods/fifo_line.hpp"

namespace dedup::live {

using fifo::LineLayout;

inline constexpr size_t kPageBytes = 8192;
inline constexpr unsigned kLines = 103;  // of fingerprints, in a main page
inline constexpr size_t kLinesAt = 25 * kLineBytes;
static_assert(kLinesAt + kLines * kLineBytes == kPageBytes);

inline constexpr uint32_t kPageMagic = 0x504453;  // "SDP"
inline constexpr uint8_t kPageVersion = 3;

// How often the filter's number of pages was doubled since it was made. Only 0 is known.
inline constexpr uint8_t kLevel = 0;

enum class Kind : uint8_t { kMain = 1, kOverflow = 2, kCounters = 3, kFree = 4 };

// Added to the kind of a page in memory whose checksum was found wrong.
inline constexpr uint8_t kDamaged = 0x80;

// Our header, behind PostgreSQL's.
inline constexpr size_t kMagicAt = 24;    // u24
inline constexpr size_t kLevelAt = 27;    // u8: doublings of the number of pages; 0
inline constexpr size_t kVersionAt = 28;  // u8
inline constexpr size_t kKindAt = 29;     // u8
inline constexpr size_t kEpochAt = 30;    // u8, 1 to 15: that of valid entries
inline constexpr size_t kLayoutAt = 31;   // u8: slot bytes (1: 12 bits), +128 if timed
inline constexpr size_t kBlockAt = 32;    // u32: this page's own number
inline constexpr size_t kNextAt = 36;     // u32: next page of the chain, or 0
inline constexpr size_t kLoaderAt = 40;   // u64: whose the lines are as a whole, or 0
inline constexpr size_t kClockAt = 48;    // u32: the lines' newest generation
inline constexpr size_t kEarlyAt = 52;    // u32: keys that gave way before their time
inline constexpr size_t kOwnerAt = 56;    // u32: an overflow page's main page; in a main page
                                          // the low half of the newest id settled as committed
inline constexpr size_t kTurnAt = 60;     // u8, 0 to 15: that of the next entry
                                          // 61: u24, the rest of the newest id settled

// Ids that stand for no transaction.
inline constexpr uint64_t kNoXid = 0;
inline constexpr uint64_t kFrozen = 2;  // committed, for every snapshot

struct Geometry {
  uint32_t pages;  // main pages; the page of counters is the next one
  LineLayout layout;
  bool forgets;  // full lines give up their oldest key
};

// Where tags and entries are in a page of a kind.
struct AreaShape {
  unsigned tags;
  unsigned lines;
  size_t lines_at;
};
inline constexpr size_t kTagsAt = kLineBytes;
inline constexpr size_t kTagBytes = 16;
inline constexpr AreaShape kMainArea = {16, 20, 5 * kLineBytes};
inline constexpr AreaShape kOverflowArea = {124, 96, 32 * kLineBytes};
static_assert(kMainArea.lines_at == kTagsAt + kMainArea.tags * kTagBytes);
static_assert(kOverflowArea.lines_at == kTagsAt + kOverflowArea.tags * kTagBytes);
static_assert(kMainArea.lines_at + kMainArea.lines * kLineBytes == kLinesAt);
static_assert(kOverflowArea.lines_at + kOverflowArea.lines * kLineBytes == kPageBytes);

inline constexpr unsigned kEntriesPerLine = kLineBytes / 8;
inline constexpr unsigned kProbeLines = 20;  // all of a main page
inline constexpr uint8_t kLastEpoch = 15;
inline constexpr unsigned kLastTurn = 15;
inline constexpr unsigned kMaxTags = 124;
inline constexpr unsigned kMaxEntries = 768;

inline Kind KindOf(const uint8_t* page) noexcept { return static_cast<Kind>(page[kKindAt]); }
inline const AreaShape& AreaOf(const uint8_t* page) noexcept {
  return KindOf(page) == Kind::kOverflow ? kOverflowArea : kMainArea;
}
inline uint8_t LayoutByte(const LineLayout& layout) noexcept {
  return static_cast<uint8_t>(layout.slot_bytes | (layout.timed ? 0x80 : 0));
}
inline uint32_t BlockOf(const uint8_t* page) noexcept { return LoadU32(page + kBlockAt); }
inline uint32_t NextOf(const uint8_t* page) noexcept { return LoadU32(page + kNextAt); }

// The newest transaction whose keys in this page, or its chain, were settled as committed:
// who has an older snapshot can no longer tell them from earlier ones. 56 bits.
inline uint64_t SettledOf(const uint8_t* main) noexcept {
  return LoadU32(main + kOwnerAt) | (LoadU64(main + 56) >> 40) << 32;
}
inline void NoteSettled(uint8_t* main, uint64_t xid) noexcept {
  if (xid <= SettledOf(main)) return;
  StoreU32(main + kOwnerAt, static_cast<uint32_t>(xid));
  for (size_t i = 0; i < 3; ++i) main[61 + i] = static_cast<uint8_t>(xid >> (32 + 8 * i));
}
inline uint64_t LoaderOf(const uint8_t* page) noexcept { return LoadU64(page + kLoaderAt); }
inline uint32_t ClockOf(const uint8_t* page) noexcept { return LoadU32(page + kClockAt); }
inline uint8_t* LineAt(uint8_t* page, unsigned line) noexcept {
  return page + kLinesAt + line * kLineBytes;
}
inline const uint8_t* LineAt(const uint8_t* page, unsigned line) noexcept {
  return page + kLinesAt + line * kLineBytes;
}

// Writes everything behind PostgreSQL's page header.
inline void InitPage(uint8_t* page, Kind kind, uint32_t block, const LineLayout& layout,
                     uint32_t owner) noexcept {
  std::memset(page + kMagicAt, 0, kPageBytes - kMagicAt);
  StoreU32(page + kMagicAt, kPageMagic | uint32_t{kLevel} << 24);
  page[kVersionAt] = kPageVersion;
  page[kKindAt] = static_cast<uint8_t>(kind);
  page[kEpochAt] = 1;
  page[kLayoutAt] = LayoutByte(layout);
  StoreU32(page + kBlockAt, block);
  StoreU32(page + kOwnerAt, owner);
}

// What a look at the header finds wrong; null if nothing.
inline const char* HeaderFlaw(const uint8_t* page, Kind kind, uint32_t block,
                              const LineLayout& layout) noexcept {
  if ((LoadU32(page + kMagicAt) & 0xffffff) != kPageMagic) {
    return "It is not a page of a live filter.";
  }
  if (page[kVersionAt] != kPageVersion) return "Its format is not known to this version.";
  if (page[kLevelAt] != kLevel) return "Its level is not known to this version.";
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
  return nullptr;
}

// ---- tags ---------------------------------------------------------------------

struct Tag {
  uint64_t xid;
  uint32_t generation;
};

inline size_t TagAt(unsigned tag) noexcept { return kTagsAt + (tag - 1) * kTagBytes; }

// `tag` counts from 1.
inline Tag LoadTag(const uint8_t* page, unsigned tag) noexcept {
  return {LoadU64(page + TagAt(tag)), LoadU32(page + TagAt(tag) + 8)};
}
inline void StoreTag(uint8_t* page, unsigned tag, const Tag& value) noexcept {
  StoreU64(page + TagAt(tag), value.xid);
  StoreU32(page + TagAt(tag) + 8, value.generation);
  StoreU32(page + TagAt(tag) + 12, 0);
}

// The tag of a transaction and generation, or a free one, or 0.
struct TagChoice {
  unsigned tag;
  bool found;
};
inline TagChoice ChooseTag(const uint8_t* page, const AreaShape& area, uint64_t xid,
                           uint32_t generation) noexcept {
  unsigned free_tag = 0;
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const Tag have = LoadTag(page, tag);
    if (have.xid == xid && have.generation == generation) return {tag, true};
    if (have.xid == kNoXid && free_tag == 0) free_tag = tag;
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
inline uint8_t EpochOf(uint64_t packed) noexcept { return packed >> 8 & 0xf; }

// The page's turn behind a new entry of this key: moves on so often that an area of this
// size, as it fills, sees all of them.
inline uint8_t TurnBehind(const uint8_t* page, const AreaShape& area, uint64_t rest) noexcept {
  const uint8_t turn = page[kTurnAt];
  const unsigned keys_a_turn = area.lines * kEntriesPerLine / (kLastTurn + 1);
  return turn < kLastTurn && (rest & 0xffff) * keys_a_turn >> 16 == 0 ? turn + 1 : turn;
}

inline size_t EntryAt(const AreaShape& area, unsigned place) noexcept {
  return area.lines_at + place * size_t{8};
}

// An entry that is there: of this epoch, and not taken back.
inline bool Present(uint64_t packed, uint8_t epoch) noexcept {
  return EpochOf(packed) == epoch && (packed & 0xff) != 0;
}

inline unsigned HomeLine(const AreaShape& area, unsigned line, uint64_t rest) noexcept {
  const auto mixed = static_cast<uint32_t>((rest ^ uint64_t{line} << 21) * 0x9E3779B97F4A7C15u >> 32);
  return static_cast<unsigned>(uint64_t{mixed} * area.lines >> 32);
}

// Runs visit(place, entry) over the entries of a key; it returns whether to stop.
template <typename Visit>
inline bool VisitKey(const uint8_t* page, const AreaShape& area, unsigned line, uint64_t rest,
                     Visit visit) noexcept {
  const uint8_t epoch = page[kEpochAt];
  const uint64_t wanted = rest << 8 | line;
  unsigned at = HomeLine(area, line, rest);
  for (unsigned probe = 0; probe < kProbeLines; ++probe, at = at + 1 < area.lines ? at + 1 : 0) {
    bool has_room = false;
    for (unsigned i = 0; i < kEntriesPerLine; ++i) {
      const unsigned place = at * kEntriesPerLine + i;
      const uint64_t packed = LoadU64(page + EntryAt(area, place));
      if (EpochOf(packed) != epoch) {
        has_room = true;
      } else if (((packed >> 16) & ~uint64_t{0x80}) == wanted && (packed & 0xff) != 0) {
        if (visit(place, UnpackEntry(packed))) return true;
      }
    }
    if (has_room) break;
  }
  return false;
}

// A place for a new entry of a key, or -1.
inline int PlaceFor(const uint8_t* page, const AreaShape& area, unsigned line,
                    uint64_t rest) noexcept {
  const uint8_t epoch = page[kEpochAt];
  unsigned at = HomeLine(area, line, rest);
  for (unsigned probe = 0; probe < kProbeLines; ++probe, at = at + 1 < area.lines ? at + 1 : 0) {
    for (unsigned i = 0; i < kEntriesPerLine; ++i) {
      const unsigned place = at * kEntriesPerLine + i;
      if (!Present(LoadU64(page + EntryAt(area, place)), epoch)) return static_cast<int>(place);
    }
  }
  return -1;
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
  const TagChoice choice = ChooseTag(page, area, tag.xid, tag.generation);
  const int place = PlaceFor(page, area, line, rest);
  if (choice.tag == 0 || place < 0) return false;
  if (!choice.found) StoreTag(page, choice.tag, tag);
  StoreU64(page + EntryAt(area, static_cast<unsigned>(place)),
           PackEntry({choice.tag, page[kTurnAt], line, forgotten, rest}, page[kEpochAt]));
  page[kTurnAt] = TurnBehind(page, area, rest);
  return true;
}

// ---- settling -------------------------------------------------------------------

// What is known of a tag's transaction.
enum class Verdict : uint8_t {
  kKeep,       // in progress, or not yet seen by every snapshot
  kCommitted,  // for every snapshot
  kAborted
};

struct Settled {
  unsigned committed = 0;  // entries that were folded or frozen
  unsigned aborted = 0;    // entries dropped
  unsigned kept = 0;       // entries still there, frozen ones included
  unsigned early = 0;      // keys of a time window that gave way before their time
};

// Moves the lines' clock on and drops what has expired by then.
inline void MoveClock(uint8_t* main, const LineLayout& layout, uint32_t clock) noexcept {
  const uint32_t before = ClockOf(main);
  if (clock <= before) return;
  if (before != 0) {
    for (unsigned line = 0; line < kLines; ++line) {
      fifo::Expire(LineAt(main, line), layout, before, clock);
    }
  }
  StoreU32(main + kClockAt, clock);
}

// Folds a committed key into its line. Returns false if the line is full and the filter
// does not forget.
inline bool Fold(uint8_t* main, const Geometry& geometry, unsigned line, uint64_t rest,
                 uint32_t generation, unsigned* early) noexcept {
  uint8_t* bytes = LineAt(main, line);
  const LineLayout& layout = geometry.layout;
  const uint64_t fingerprint = fifo::FingerprintOf(rest, layout);
  if (layout.timed) {
    MoveClock(main, layout, generation);
    if (!fifo::Alive(generation, ClockOf(main))) return true;
  }
  if (!geometry.forgets && fifo::Full(bytes, layout)) return false;
  if (fifo::Insert(bytes, layout, fingerprint, generation, ClockOf(main)) && layout.timed) {
    ++*early;
  }
  return true;
}

// Gives all entries of the area a new epoch's bytes: those in `entries`, with tags as
// they are in the page. Returns false if one finds no place, which only a change of
// order can cause; area, epoch and turn are then spoilt.
inline bool RebuildArea(uint8_t* page, const AreaShape& area, const Entry* entries,
                        unsigned count) noexcept {
  if (page[kEpochAt] == kLastEpoch) {
    std::memset(page + area.lines_at, 0, area.lines * kLineBytes);
    page[kEpochAt] = 1;
  } else {
    ++page[kEpochAt];
  }
  page[kTurnAt] = 0;
  for (unsigned i = 0; i < count; ++i) {
    const int place = PlaceFor(page, area, entries[i].line, entries[i].rest);
    if (place < 0) return false;
    Entry entry = entries[i];
    entry.turn = i * (kLastTurn + 1) / (area.lines * kEntriesPerLine);
    page[kTurnAt] = static_cast<uint8_t>(entry.turn);
    StoreU64(page + EntryAt(area, static_cast<unsigned>(place)), PackEntry(entry, page[kEpochAt]));
  }
  return true;
}

// Settles the entries of `page` (the main page itself, or one of its chain): drops those
// of aborted transactions, and either folds the committed ones into the lines of `main`
// (`fold`), or only frees their tags.
inline void Settle(uint8_t* main, uint8_t* page, const Geometry& geometry, const Verdict* verdicts,
                   bool fold, Settled* settled) noexcept {
  const AreaShape& area = AreaOf(page);
  Entry kept[kMaxEntries];
  unsigned kept_count = 0;
  unsigned order[kMaxTags], tags = 0;
  bool used[kMaxTags + 1] = {};

  // By transaction, the older first; frozen ones come before all.
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const uint64_t xid = LoadTag(page, tag).xid;
    if (xid == kNoXid) continue;
    unsigned at = tags++;
    for (; at > 0 && LoadTag(page, order[at - 1]).xid > xid; --at) order[at] = order[at - 1];
    order[at] = tag;
  }
  // Entries sorted by tag and turn.
  constexpr unsigned kTurns = kLastTurn + 1;
  uint16_t next[kMaxEntries], first[256 * kTurns];
  std::memset(first, 0xff, sizeof first);
  ForEachEntry(page, area, [&](unsigned place, const Entry& entry) {
    uint16_t* list = first + entry.tag * kTurns + entry.turn;
    next[place] = *list;
    *list = static_cast<uint16_t>(place);
  });

  uint16_t left[kMaxEntries];  // places of the entries that leave the area
  unsigned left_count = 0;
  for (unsigned i = 0; i < tags; ++i) {
    const unsigned tag = order[i];
    const Tag value = LoadTag(page, tag);
    const Verdict verdict = verdicts[tag];
    if (verdict == Verdict::kCommitted && value.xid != kFrozen) NoteSettled(main, value.xid);
    TagChoice frozen = {0, false};
    uint16_t places[kMaxEntries];
    unsigned count = 0;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      for (uint16_t place = first[tag * kTurns + turn]; place != 0xffff; place = next[place]) {
        places[count++] = place;
      }
    }
    for (unsigned j = 0; j < count; ++j) {
      const uint16_t place = places[j];
      Entry entry = UnpackEntry(LoadU64(page + EntryAt(area, place)));
      if (verdict != Verdict::kKeep && (verdict == Verdict::kCommitted) == entry.forgotten) {
        ++settled->aborted;  // added and rolled back, or forgotten and committed
        left[left_count++] = place;
        continue;
      }
      if (verdict != Verdict::kKeep && entry.line < kLines) {
        const bool was_frozen = value.xid == kFrozen;
        if (fold && Fold(main, geometry, entry.line, entry.rest, value.generation,
                         &settled->early)) {
          ++settled->committed;
          left[left_count++] = place;
          continue;
        }
        if (!was_frozen || entry.forgotten) {
          if (frozen.tag == 0) {
            frozen = ChooseTag(page, area, kFrozen, value.generation);
            if (frozen.tag == 0) {  // none is free: this one becomes it
              frozen = {tag, true};
              StoreTag(page, tag, {kFrozen, value.generation});
            } else if (!frozen.found) {
              StoreTag(page, frozen.tag, {kFrozen, value.generation});
            }
          }
          entry.tag = frozen.tag;
          entry.forgotten = false;
          ++settled->committed;
          StoreU64(page + EntryAt(area, place), PackEntry(entry, page[kEpochAt]));
        }
      }
      used[entry.tag] = true;
      kept[kept_count++] = entry;
    }
  }
  settled->kept += kept_count;
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    if (!used[tag] && LoadTag(page, tag).xid != kNoXid) StoreTag(page, tag, {kNoXid, 0});
  }
  if (left_count == 0) return;

  // A nearly full area may have no place for an entry in the new order. Then all stay
  // where they are, and those that leave are taken back: else a page that stays full
  // would name a transaction for ever.
  uint8_t saved[kMaxEntries * 8];
  const uint8_t epoch = page[kEpochAt], turn = page[kTurnAt];
  std::memcpy(saved, page + area.lines_at, area.lines * kLineBytes);
  if (RebuildArea(page, area, kept, kept_count)) return;
  std::memcpy(page + area.lines_at, saved, area.lines * kLineBytes);
  page[kEpochAt] = epoch;
  page[kTurnAt] = turn;
  for (unsigned i = 0; i < left_count; ++i) page[EntryAt(area, left[i])] = 0;
}

// Gives the entries of a tag another transaction's: of a subtransaction that has ended
// that of its parent.
inline void Retag(uint8_t* page, unsigned tag, uint64_t xid) noexcept {
  const AreaShape& area = AreaOf(page);
  const Tag value = LoadTag(page, tag);
  const TagChoice choice = ChooseTag(page, area, xid, value.generation);
  if (!choice.found) {
    StoreTag(page, tag, {xid, value.generation});
    return;
  }
  ForEachEntry(page, area, [&](unsigned place, Entry entry) {
    if (entry.tag != tag) return;
    entry.tag = choice.tag;
    StoreU64(page + EntryAt(area, place), PackEntry(entry, page[kEpochAt]));
  });
  StoreTag(page, tag, {kNoXid, 0});
}

// ---- checking -------------------------------------------------------------------

// What a look at every byte finds wrong; null if nothing.
inline const char* PageFlaw(const uint8_t* page, Kind kind, uint32_t block,
                            const Geometry& geometry) noexcept {
  const char* flaw = HeaderFlaw(page, kind, block, geometry.layout);
  if (flaw != nullptr) return flaw;
  if (kind != Kind::kMain && kind != Kind::kOverflow) return nullptr;
  const AreaShape& area = AreaOf(page);
  ForEachEntry(page, area, [&](unsigned, const Entry& entry) {
    if (entry.tag > area.tags || LoadTag(page, entry.tag).xid == kNoXid) {
      flaw = "An entry has no transaction.";
    } else if (entry.line >= kLines) {
      flaw = "An entry belongs to no line.";
    } else if (!VisitKey(page, area, entry.line, entry.rest,
                         [](unsigned, const Entry&) { return true; })) {
      flaw = "An entry cannot be found where it is.";
    }
  });
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const Tag value = LoadTag(page, tag);
    if (value.xid == 1) flaw = "A transaction has an impossible number.";
    if (!geometry.layout.timed && value.generation != 0) flaw = "A generation is out of place.";
  }
  if (kind == Kind::kMain) {
    for (unsigned line = 0; line < kLines; ++line) {
      if (!fifo::ValidLine(LineAt(page, line), geometry.layout)) {
        flaw = "A line of fingerprints is not valid.";
      }
    }
    if (!geometry.layout.timed && ClockOf(page) != 0) flaw = "A clock is out of place.";
  }
  return flaw;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_PAGE_HPP_
