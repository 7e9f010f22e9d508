// A line of fingerprints in a page of a live filter, as the page and its users see it.
//
// The lines are those of the method `fifo` (methods/fifo_line.hpp). Live filters reach that
// method only through this header and through live_method.hpp. All functions are inline:
// the wrapping costs nothing.
//
// A key has an address: its page, its line, and the `rest` of its hash, from which its
// fingerprint is made. In a filter with a ttl a line also has a clock: the newest
// generation of its page.

#ifndef STREAMDEDUP_CORE_LIVE_LINE_HPP_
#define STREAMDEDUP_CORE_LIVE_LINE_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/bytes.hpp"
#include "core/methods/fifo_line.hpp"

namespace dedup::live {

using fifo::Address;     // group (the page), line, rest
using fifo::AddressOf;   // the address of a hash
using fifo::Alive;       // whether a generation is still in the window of another generation
using fifo::LineLayout;  // the width of a slot, and whether slots hold generations
using fifo::LineRate;    // the false-positive rate of a line with so many keys

inline constexpr unsigned kRestBits = fifo::kLongBits;
inline constexpr unsigned kMinSlotBytes = fifo::kMinSlotBytes;
inline constexpr unsigned kMaxSlotBytes = fifo::kMaxSlotBytes;

// The length of a window of time in generations.
inline constexpr uint32_t kWindowGenerations = fifo::kGenerationsKept;

// Returns whether the line holds the key in generation `now`.
inline bool LineHolds(const uint8_t* line, const LineLayout& layout, uint64_t rest, uint32_t clock,
                      uint32_t now) noexcept {
  return fifo::Holds(line, layout, fifo::FingerprintOf(rest, layout), clock, now);
}

// Adds a key. Returns whether the line dropped its oldest key for it.
inline bool AddToLine(uint8_t* line, const LineLayout& layout, uint64_t rest, uint32_t generation,
                      uint32_t clock) noexcept {
  return fifo::Insert(line, layout, fifo::FingerprintOf(rest, layout), generation, clock);
}

using fifo::Once;  // what AddOnceToLine() found

// Adds a key to a line of a set, unless the line holds the key already. A set has no time, and its
// lines drop no key.
inline Once AddOnceToLine(uint8_t* line, const LineLayout& layout, uint64_t rest) noexcept {
  return fifo::AddOnce(line, layout, fifo::FingerprintOf(rest, layout));
}

// Returns whether the line, which has time, holds the key in generation `now`. If so, sets
// `*generation` to the generation of the key's last sight.
inline bool LastSightInLine(const uint8_t* line, const LineLayout& layout, uint64_t rest,
                            uint32_t clock, uint32_t now, uint32_t* generation) noexcept {
  uint64_t slots =
      fifo::SlotsEqual(line, layout, fifo::FingerprintOf(rest, layout) << fifo::kGenerationBits,
                       LowMask(fifo::kGenerationBits));
  bool found = false;
  for (; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const uint32_t seen = fifo::GenerationOf(fifo::LoadSlot(line, slot, layout.slot_bytes), clock);
    if (!Alive(seen, now) || (found && seen <= *generation)) continue;
    *generation = seen;
    found = true;
  }
  return found;
}

// Adds a key to a line that has time. The line keeps only the last sight of the key. Returns
// whether the line dropped its oldest key for it.
inline bool AddSightToLine(uint8_t* line, const LineLayout& layout, uint64_t rest,
                           uint32_t generation, uint32_t clock) noexcept {
  uint32_t last = 0;
  if (LastSightInLine(line, layout, rest, clock, clock, &last)) {
    if (last >= generation) return false;
    (void)fifo::Remove(line, layout, fifo::FingerprintOf(rest, layout));
  }
  return AddToLine(line, layout, rest, generation, clock);
}

// Returns whether a line that has time may have dropped a key of the window of `generation` too
// early. A line drops its oldest key, and only when it is full. It stays full until one of its keys
// expires, and all of these are at least as young as the dropped key. So a line with room has
// dropped only keys that would have expired by now, and a full line only keys that are not younger
// than its oldest key.
inline bool MayHaveLost(const uint8_t* line, const LineLayout& layout, uint32_t clock,
                        uint32_t generation) noexcept {
  const fifo::Run run = fifo::RunOf(line, layout);
  if (run.length < layout.usable()) return false;
  return Alive(fifo::GenerationOf(fifo::LoadSlot(line, run.first, layout.slot_bytes), clock),
               generation);
}

// Returns the key's rank by age among the keys of a line without time: 0 is the oldest, 1 the
// youngest. Negative if the line does not hold the key.
inline double AgeInLine(const uint8_t* line, const LineLayout& layout, uint64_t rest) noexcept {
  const uint64_t slots = fifo::SlotsEqual(line, layout, fifo::FingerprintOf(rest, layout), 0);
  if (slots == 0) return -1;
  const fifo::Run run = fifo::RunOf(line, layout);
  const unsigned slot = static_cast<unsigned>(std::countr_zero(slots));
  const unsigned behind = fifo::Around(slot + layout.slots() - run.first, layout.slots());
  return (behind + 0.5) / run.length;
}

// Removes a key. Returns false if the line does not hold the key. In a line with time, removes the
// youngest key with this fingerprint, and sets `*generation` to the generation in which it was
// added.
inline bool TakeFromLine(uint8_t* line, const LineLayout& layout, uint64_t rest, uint32_t clock,
                         uint32_t* generation) noexcept {
  const uint64_t fingerprint = fifo::FingerprintOf(rest, layout);
  if (!layout.timed) return fifo::Remove(line, layout, fingerprint);
  uint64_t slots = fifo::SlotsEqual(line, layout, fingerprint << fifo::kGenerationBits,
                                    LowMask(fifo::kGenerationBits));
  uint64_t youngest = 0;
  uint32_t age = ~uint32_t{0};
  for (; slots != 0; slots &= slots - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(slots));
    const uint64_t value = fifo::LoadSlot(line, slot, layout.slot_bytes);
    if (fifo::AgeOf(value, clock) >= age) continue;
    age = fifo::AgeOf(value, clock);
    youngest = value;
  }
  if (youngest == 0) return false;
  *generation = fifo::GenerationOf(youngest, clock);
  bool found = false;
  fifo::RemoveIf(line, layout, [&](uint64_t slot) {
    if (found || slot != youngest) return false;
    return found = true;
  });
  return true;
}

// Removes the keys that have expired when the clock moves on to `new_clock`.
inline void ExpireLine(uint8_t* line, const LineLayout& layout, uint32_t clock,
                       uint32_t new_clock) noexcept {
  fifo::Expire(line, layout, clock, new_clock);
}

// Divides the keys of a line among those of two pages of the next level, by the top bit of their
// fingerprints. Both lines have the layout of the next level. `low` may be the line itself.
inline void SplitLine(const uint8_t* line, const LineLayout& layout, uint8_t* low,
                      uint8_t* high) noexcept {
  const unsigned generation_bits = layout.timed ? fifo::kGenerationBits : 0;
  const unsigned left = layout.fingerprint_bits() - 1;
  fifo::Slots all, kept, moved;
  fifo::ReadSlots(line, layout, &all);
  for (unsigned i = 0; i < all.count; ++i) {
    const uint64_t fingerprint = all.value[i] >> generation_bits;
    fifo::Slots* to = (fingerprint >> left & 1) != 0 ? &moved : &kept;
    to->value[to->count++] = fifo::Stored(fingerprint & LowMask(left)) << generation_bits |
                             (all.value[i] & LowMask(generation_bits));
  }
  fifo::WriteSlots(low, layout, kept);
  fifo::WriteSlots(high, layout, moved);
}

inline bool IsFullLine(const uint8_t* line, const LineLayout& layout) noexcept {
  return fifo::Full(line, layout);
}
inline bool IsValidLine(const uint8_t* line, const LineLayout& layout) noexcept {
  return fifo::ValidLine(line, layout);
}

// Returns the number of keys in a valid line.
inline unsigned KeysInLine(const uint8_t* line, const LineLayout& layout) noexcept {
  return fifo::RunOf(line, layout).length;
}

// Returns the number of keys that have not expired in generation `now`.
inline unsigned AliveInLine(const uint8_t* line, const LineLayout& layout, uint32_t clock,
                            uint32_t now) noexcept {
  fifo::Slots slots;
  fifo::ReadSlots(line, layout, &slots);
  if (!layout.timed) return slots.count;
  unsigned alive = 0;
  for (unsigned i = 0; i < slots.count; ++i) {
    alive += Alive(fifo::GenerationOf(slots.value[i], clock), now);
  }
  return alive;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LIVE_LINE_HPP_
