// Functions that change the fan of a long chain and its leaves (core/page.hpp). The caller owns the
// pages and has locked them. Nothing here knows PostgreSQL, allocates or throws.

#ifndef STREAMDEDUP_CORE_FANNING_HPP_
#define STREAMDEDUP_CORE_FANNING_HPP_

#include <bit>

#include "core/settling.hpp"

namespace dedup::live {

inline constexpr SlotRange kAllSlots = {0, kFanSlots};

inline void StoreFanSlots(uint8_t* fan, const SlotRange& range, uint32_t block) noexcept {
  for (unsigned slot = range.first; slot < range.first + range.count; ++slot) {
    StoreU32(fan + FanSlotAt(slot), block);
  }
}

// Replaces the block `from` by the block `to` in all slots that name `from`.
inline void ReplaceInFan(uint8_t* fan, uint32_t from, uint32_t to) noexcept {
  for (unsigned slot = 0; slot < kFanSlots; ++slot) {
    if (LoadFanSlot(fan, slot) == from) StoreU32(fan + FanSlotAt(slot), to);
  }
}

// Returns whether exactly these slots of a fan name a block. Checks adjacent slots only.
inline bool HasJust(const uint8_t* fan, const SlotRange& slots, uint32_t block) noexcept {
  return LoadFanSlot(fan, slots.first) == block &&
         RunOfSlots(fan, slots.first).count == slots.count &&
         (slots.first == 0 || LoadFanSlot(fan, slots.first - 1) != block);
}

inline bool IsEmptyFan(const uint8_t* fan) noexcept {
  const SlotRange run = RunOfSlots(fan, 0);
  return run.count == kFanSlots && LoadFanSlot(fan, 0) == 0;
}

// Returns the slots for a new leaf: the largest aligned range of empty slots that contains `slot`.
// Its size is a power of two.
inline SlotRange EmptySlotsAround(const uint8_t* fan, unsigned slot) noexcept {
  SlotRange range = {slot, 1};
  while (range.count < kFanSlots) {
    const unsigned other = range.first ^ range.count;
    for (unsigned i = other; i < other + range.count; ++i) {
      if (LoadFanSlot(fan, i) != 0) return range;
    }
    range = {range.first & other, 2 * range.count};
  }
  return range;
}

// Makes an overflow page a leaf of some slots. All its entries must belong to these slots.
inline void SetSlotsOfLeaf(uint8_t* leaf, const SlotRange& range) noexcept {
  const auto bits = static_cast<unsigned>(std::countr_zero(range.count));
  const unsigned part = range.first >> bits;
  leaf[kDepthAt] = static_cast<uint8_t>(kFanBits + 1 - bits);
  leaf[kPartAt] = static_cast<uint8_t>(part);
  leaf[kPartAt + 1] = static_cast<uint8_t>(part >> 8);
}

// Reduces a leaf to one half of its slots and removes the entries that do not belong there. Entries
// of a tag keep their order. Returns the number of entries that remain.
inline unsigned KeepHalf(uint8_t* leaf, const SlotRange& half) noexcept {
  Entry kept[kMaxEntries];
  unsigned kept_count = 0, left = 0;
  unsigned order[kMaxTags];
  const unsigned tags = OrderTags(leaf, kOverflowArea, order);
  const PlacesByTurn by_turn(leaf, kOverflowArea);

  for (unsigned i = 0; i < tags; ++i) {
    uint16_t places[kMaxEntries];
    const unsigned count = by_turn.Of(order[i], places);
    for (unsigned j = 0; j < count; ++j) {
      const Entry entry = LoadEntry(leaf, kOverflowArea, places[j]);
      if (HasSlotOf(half, entry.rest)) {
        kept[kept_count++] = entry;
      } else {
        TakeBack(leaf, kOverflowArea, places[j]);
        ++left;
      }
    }
  }
  SetSlotsOfLeaf(leaf, half);
  if (left > 0) CloseRanks(leaf, kOverflowArea, kept, kept_count);
  DropUnusedTags(leaf);
  return kept_count;
}

// The two halves of the slots of a leaf that is divided.
struct LeafHalves {
  SlotRange low;
  SlotRange high;
};
inline LeafHalves HalvesOf(const SlotRange& range) noexcept {
  const unsigned half = range.count / 2;
  return {{range.first, half}, {range.first + half, half}};
}

// Moves the entries of a plain overflow page that belong to a leaf to the leaf, while it has room.
inline Moved MoveToLeaf(uint8_t* from, uint8_t* leaf) noexcept {
  const SlotRange range = SlotsOfLeaf(leaf);
  return MoveEntries(from, leaf, [&](const Entry& entry) { return HasSlotOf(range, entry.rest); });
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_FANNING_HPP_
