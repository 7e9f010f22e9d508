// Settles a page of a live filter (core/page.hpp): handles the entries whose transactions have
// ended. The functions work on pages that the caller owns and has locked. Nothing here knows
// PostgreSQL, allocates or throws.

#ifndef STREAMDEDUP_CORE_SETTLING_HPP_
#define STREAMDEDUP_CORE_SETTLING_HPP_

#include "core/page.hpp"

namespace dedup::live {

// The state of a tag's transaction, as far as it is known.
enum class Verdict : uint8_t {
  kKeep,       // in progress, or not yet visible to every snapshot
  kCommitted,  // visible to every snapshot
  kAborted
};

struct Settled {
  unsigned committed = 0;  // entries that were folded or frozen
  unsigned aborted = 0;    // entries dropped
  unsigned kept = 0;       // entries that remain, frozen ones included
  unsigned early = 0;      // keys of a time window that were dropped before their time
};

// Advances the clock of the lines and drops the keys that have expired by then.
inline void MoveClock(uint8_t* main, const LineLayout& layout, uint32_t clock) noexcept {
  const uint32_t before = ClockOf(main);
  if (clock <= before) return;
  if (before != 0) {
    for (unsigned line = 0; line < kLines; ++line) {
      ExpireLine(LineAt(main, line), layout, before, clock);
    }
  }
  SetClock(main, clock);
}

// Folds a committed key into its line. Returns false if the line is full and the filter does not
// forget. A set keeps each fingerprint once, even if its key, or another key with the same
// fingerprint, was added several times: an exact guard adds a key again whenever its row comes
// back. A time window keeps the last sight of a fingerprint. A time window that grows does not drop
// a key of a full line before its time either.
inline bool Fold(uint8_t* main, const Geometry& geometry, unsigned line, uint64_t rest,
                 uint32_t generation, unsigned* early) noexcept {
  uint8_t* bytes = LineAt(main, line);
  const LineLayout layout = LayoutIn(main, geometry.layout);
  if (layout.timed) {
    MoveClock(main, layout, generation);
    if (!Alive(generation, ClockOf(main))) return true;
    if (!geometry.forgets && IsFullLine(bytes, layout) &&
        !LineHolds(bytes, layout, rest, ClockOf(main), ClockOf(main))) {
      return false;
    }
    *early += AddSightToLine(bytes, layout, rest, generation, ClockOf(main));
    return true;
  }
  if (!geometry.forgets) return AddOnceToLine(bytes, layout, rest) != Once::kFull;
  (void)AddToLine(bytes, layout, rest, generation, ClockOf(main));
  return true;
}

// Replaces all entries of the area by those in `entries`, in a new epoch. Their tags are tags of
// the page. Returns false if an entry finds no place, which can only happen if the order of entries
// changes. Then area, epoch and turn are not valid any more.
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
    StoreEntry(page, area, static_cast<unsigned>(place), entry);
  }
  return true;
}

// What Settle() works on.
struct Settling {
  uint8_t* main;
  uint8_t* page;
  const AreaShape* area;
  const Geometry* geometry;
  bool fold;
  Settled* settled;
  Entry kept[kMaxEntries];  // entries that stay in the area
  unsigned kept_count;
  unsigned left;            // number of entries that left the area
  bool used[kMaxTags + 1];  // tags of the entries that stay
};

// Sorts the tags in use by age of their transaction, the oldest first. Frozen tags come before all
// others. Returns how many tags there are.
inline unsigned OrderTags(const uint8_t* page, const AreaShape& area, unsigned* order) noexcept {
  unsigned tags = 0;
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    const uint64_t xid = LoadTag(page, tag).xid;
    if (xid == kNoXid) continue;
    unsigned at = tags++;
    for (; at > 0 && LoadTag(page, order[at - 1]).xid > xid; --at) order[at] = order[at - 1];
    order[at] = tag;
  }
  return tags;
}

// The entries of a page by tag and turn, as chains of places.
struct PlacesByTurn {
  static constexpr unsigned kTurns = kLastTurn + 1;
  static constexpr uint16_t kEnd = 0xffff;
  uint16_t next[kMaxEntries];
  uint16_t first[(kMaxTags + 1) * kTurns];

  PlacesByTurn(const uint8_t* page, const AreaShape& area) noexcept {
    std::memset(first, 0xff, sizeof(uint16_t) * kTurns * (area.tags + 1));
    ForEachEntry(page, area, [this, &area](unsigned place, const Entry& entry) {
      if (entry.tag > area.tags) return;
      uint16_t* list = first + entry.tag * kTurns + entry.turn;
      next[place] = *list;
      *list = static_cast<uint16_t>(place);
    });
  }

  // Writes the places of a tag's entries in the order of their turns. Returns how many there are.
  unsigned Of(unsigned tag, uint16_t* places) const noexcept {
    unsigned count = 0;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      for (uint16_t at = first[tag * kTurns + turn]; at != kEnd; at = next[at]) {
        places[count++] = at;
      }
    }
    return count;
  }
};

// Gives an entry the tag for committed entries. If there is no such tag, a free tag becomes it, or
// else the entry's own tag.
inline void Freeze(Settling* s, unsigned tag, uint32_t generation, TagChoice* frozen,
                   Entry* entry) noexcept {
  if (frozen->tag == 0) {
    *frozen = ChooseTag(s->page, *s->area, {kFrozen, generation});
    if (frozen->tag == 0) *frozen = {tag, false};
    if (!frozen->found) StoreTag(s->page, frozen->tag, {kFrozen, generation});
  }
  entry->tag = frozen->tag;
  entry->forgotten = false;
}

// Returns whether a page has another frozen entry of this key that is at least as young as
// `generation`. Then the entry at `place` is redundant.
inline bool HasFrozen(const uint8_t* page, const AreaShape& area, unsigned place,
                      const Entry& entry, uint32_t generation) noexcept {
  return VisitKey(page, area, entry.line, entry.rest, [&](unsigned at, const Entry& other) {
    const Tag tag = LoadTag(page, other.tag);
    return at != place && !other.forgotten && tag.xid == kFrozen && tag.generation >= generation;
  });
}

// Removes an entry from the area at once, so that HasFrozen() does not find it any more.
inline void Leave(Settling* s, unsigned place, unsigned* counter) noexcept {
  TakeBack(s->page, *s->area, place);
  ++s->left;
  ++*counter;
}

// Removes the entries at these places that have no meaning any more: those that were added and
// rolled back, and those that were forgotten and committed. Removes them from the list, too, and
// returns how many remain. Requires that no entry of the tag is frozen yet. Freezing can change the
// tag in place. Then an entry without meaning would look like the frozen entry of its key, and the
// key would be lost.
inline unsigned DropVoid(Settling* s, Verdict verdict, uint16_t* places, unsigned count) noexcept {
  unsigned remain = 0;
  if (verdict == Verdict::kKeep) return count;
  for (unsigned i = 0; i < count; ++i) {
    if ((verdict == Verdict::kCommitted) == LoadEntry(s->page, *s->area, places[i]).forgotten) {
      Leave(s, places[i], &s->settled->aborted);
    } else {
      places[remain++] = places[i];
    }
  }
  return remain;
}

// Settles one entry that DropVoid() has left: the entry leaves the area, or is added to those that
// stay.
inline void SettleEntry(Settling* s, unsigned tag, const Tag& value, Verdict verdict,
                        uint16_t place, TagChoice* frozen) noexcept {
  Entry entry = LoadEntry(s->page, *s->area, place);
  if (verdict != Verdict::kKeep && entry.line < kLines) {
    if (s->geometry->layout.timed && !s->geometry->forgets &&
        !Alive(value.generation, ClockOf(s->main))) {
      Leave(s, place, &s->settled->committed);  // and expired
      return;
    }
    if (s->fold &&
        Fold(s->main, *s->geometry, entry.line, entry.rest, value.generation, &s->settled->early)) {
      Leave(s, place, &s->settled->committed);
      return;
    }
    if (value.xid != kFrozen || entry.forgotten) {
      if (!s->geometry->forgets && HasFrozen(s->page, *s->area, place, entry, value.generation)) {
        Leave(s, place, &s->settled->committed);
        return;
      }
      Freeze(s, tag, value.generation, frozen, &entry);
      ++s->settled->committed;
      StoreEntry(s->page, *s->area, place, entry);
    }
  }
  s->used[entry.tag] = true;
  s->kept[s->kept_count++] = entry;
}

// Moves the entries of a page to where they belong once others have been taken back. A nearly full
// area may have no place for an entry in the new order. Then all stay where they are.
inline void CloseRanks(uint8_t* page, const AreaShape& area, const Entry* kept,
                       unsigned kept_count) noexcept {
  uint8_t saved[kMaxEntries * 8];
  const uint8_t epoch = page[kEpochAt], turn = page[kTurnAt];
  std::memcpy(saved, page + area.lines_at, area.lines * kLineBytes);
  if (RebuildArea(page, area, kept, kept_count)) return;
  std::memcpy(page + area.lines_at, saved, area.lines * kLineBytes);
  page[kEpochAt] = epoch;
  page[kTurnAt] = turn;
}

// Frees the tags that no entry has.
inline void DropUnusedTags(uint8_t* page) noexcept {
  const AreaShape& area = AreaOf(page);
  bool used[256] = {};
  ForEachEntry(page, area, [&](unsigned, const Entry& entry) { used[entry.tag] = true; });
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    if (!used[tag] && LoadTag(page, tag).xid != kNoXid) StoreTag(page, tag, {kNoXid, 0});
  }
}

// Moves those entries of an overflow page for which goes(entry) is true to another one, while
// that has room.
struct Moved {
  unsigned count;
  bool all;
};
template <typename Goes>
inline Moved MoveEntries(uint8_t* from, uint8_t* to, Goes goes) noexcept {
  Moved moved = {0, true};
  ForEachEntry(from, kOverflowArea, [&](unsigned place, const Entry& entry) {
    if (!goes(entry)) return;
    if (PutEntry(to, kOverflowArea, LoadTag(from, entry.tag), entry.line, entry.rest,
                 entry.forgotten)) {
      TakeBack(from, kOverflowArea, place);
      ++moved.count;
    } else {
      moved.all = false;
    }
  });
  DropUnusedTags(from);
  return moved;
}

// Settles the entries of `page`, which is the main page itself or a page of its chain. Drops the
// entries of aborted transactions. If `fold` is true, folds the committed ones into the lines of
// `main`; else only frees their tags.
inline void Settle(uint8_t* main, uint8_t* page, const Geometry& geometry, const Verdict* verdicts,
                   bool fold, Settled* settled) noexcept {
  const AreaShape& area = AreaOf(page);
  Settling s;
  s.main = main;
  s.page = page;
  s.area = &area;
  s.geometry = &geometry;
  s.fold = fold;
  s.settled = settled;
  s.kept_count = s.left = 0;
  std::memset(s.used, 0, sizeof s.used);

  unsigned order[kMaxTags];
  const unsigned tags = OrderTags(page, area, order);
  const PlacesByTurn by_turn(page, area);
  for (unsigned i = 0; i < tags; ++i) {
    const unsigned tag = order[i];
    const Tag value = LoadTag(page, tag);
    if (verdicts[tag] == Verdict::kCommitted && value.xid != kFrozen) NoteSettled(main, value.xid);
    TagChoice frozen = {0, false};
    uint16_t places[kMaxEntries];
    const unsigned count = DropVoid(&s, verdicts[tag], places, by_turn.Of(tag, places));
    for (unsigned j = 0; j < count; ++j) {
      SettleEntry(&s, tag, value, verdicts[tag], places[j], &frozen);
    }
  }
  settled->kept += s.kept_count;
  for (unsigned tag = 1; tag <= area.tags; ++tag) {
    if (!s.used[tag] && LoadTag(page, tag).xid != kNoXid) StoreTag(page, tag, {kNoXid, 0});
  }
  if (s.left > 0) CloseRanks(page, area, s.kept, s.kept_count);
}

// Gives the entries of a tag another tag. `adds`: these entries are not forgotten any more.
inline void Retag(uint8_t* page, unsigned tag, const Tag& value, bool adds) noexcept {
  const AreaShape& area = AreaOf(page);
  const TagChoice choice = ChooseTag(page, area, value);
  const unsigned to = choice.found ? choice.tag : tag;
  if (to != tag || adds) {
    ForEachEntry(page, area, [&](unsigned place, Entry entry) {
      if (entry.tag != tag) return;
      entry.tag = to;
      entry.forgotten = entry.forgotten && !adds;
      StoreEntry(page, area, place, entry);
    });
  }
  StoreTag(page, tag, to == tag ? value : Tag{kNoXid, 0});
}

// Takes back the entries of a tag. The tag becomes free.
inline void DropTag(uint8_t* page, unsigned tag) noexcept {
  const AreaShape& area = AreaOf(page);
  ForEachEntry(page, area, [&](unsigned place, const Entry& entry) {
    if (entry.tag == tag) TakeBack(page, area, place);
  });
  StoreTag(page, tag, {kNoXid, 0});
}

// The state of a transaction that a tag names, as far as it is known.
struct Standing {
  Verdict verdict;
  uint64_t heir;  // the transaction that owns its keys by now: itself, or one that encloses it
};

// The fate of a tag. It is decided before the page is settled.
struct TagFate {
  enum class What : uint8_t {
    kStays,
    kBecomes,  // is replaced by `tag`
    kAdds,     // is replaced by `tag`, and its entries are not forgotten any more
    kGoes      // is dropped with its entries
  } what;
  Tag tag;
  uint64_t settled;  // the committed base that `tag` does not name any more, or kNoXid
};

// Returns the fate of a tag without a base.
inline TagFate FateOfTag(const Tag& tag, uint64_t heir) noexcept {
  if (heir == tag.xid) return {TagFate::What::kStays, tag, kNoXid};
  return {TagFate::What::kBecomes, {heir, tag.generation}, kNoXid};
}

// Returns the fate of a tag of forgotten entries that has a base. `forgets` is the standing of the
// tag's transaction, `adds` that of the base.
inline TagFate FateOfForgotten(const Tag& tag, const Standing& adds,
                               const Standing& forgets) noexcept {
  // The keys were never added, or the same subtransaction has added and forgotten them.
  if (adds.verdict == Verdict::kAborted || forgets.heir == adds.heir) {
    return {TagFate::What::kGoes, tag, kNoXid};
  }
  if (forgets.verdict == Verdict::kAborted) {
    return {TagFate::What::kAdds, {adds.heir, tag.generation}, kNoXid};
  }
  if (adds.verdict == Verdict::kCommitted) {
    return {TagFate::What::kBecomes, {forgets.heir, tag.generation}, BaseOf(tag)};
  }
  if (forgets.heir == tag.xid && adds.heir == BaseOf(tag)) {
    return {TagFate::What::kStays, tag, kNoXid};
  }
  return {TagFate::What::kBecomes,
          {forgets.heir, tag.generation, static_cast<uint32_t>(adds.heir)},
          kNoXid};
}

// Applies the fate of a tag of a page, which is the main page itself or a page of its chain.
inline void ApplyFate(uint8_t* main, uint8_t* page, unsigned tag, const TagFate& fate) noexcept {
  switch (fate.what) {
    case TagFate::What::kStays:
      break;
    case TagFate::What::kBecomes:
    case TagFate::What::kAdds:
      Retag(page, tag, fate.tag, fate.what == TagFate::What::kAdds);
      break;
    case TagFate::What::kGoes:
      DropTag(page, tag);
      break;
  }
  if (fate.settled != kNoXid) NoteSettled(main, fate.settled);
}

// Returns the verdict by which the entries of a tag are settled. `verdict` is that on the tag's
// transaction. `loading`: a COPY has loaded the lines and may still abort.
inline Verdict VerdictOn(const Tag& tag, Verdict verdict, bool loading) noexcept {
  // The subtransaction that has forgotten the keys has aborted since the tag's fate was decided.
  // Whether they are there depends on the base, which may still abort.
  if (tag.base != 0 && verdict == Verdict::kAborted) return Verdict::kKeep;
  // If the COPY aborts, the lines are cleared. So nothing may be folded into them.
  if (loading && verdict == Verdict::kCommitted) return Verdict::kKeep;
  return verdict;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_SETTLING_HPP_
