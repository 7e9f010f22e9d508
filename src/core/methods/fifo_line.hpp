// One cache line of fingerprints in the order of their arrival. The method `fifo` and the pages of
// live filters consist of such lines.
//
// A line of 64 bytes is a circle of slots of 2 to 5 bytes, or of 42 slots of 12 bits. A slot is 0,
// which is free, or holds a fingerprint. If keys expire by time, 3 bits below the fingerprint hold
// the generation of its first sight. The slots in use are one run of the circle, the oldest first,
// and at least one slot is free. So the end of the run is found without a pointer. Adding a key
// changes the new slot and, if the line was full, the slot of the oldest key, which becomes free.
// (This is a FIFO set-associative table of fingerprints; Geraud et al. 2019 evict at random
// instead.)
//
// Slots of 12 bits: 42 bytes with the low 8 bits of each slot, 21 bytes with the high 4 bits of two
// slots each (the even slot's below the odd one's), and a byte 0. Two slots stay free, because a
// line of 41 keys would have a rate of more than 0.01. These slots have no time, because only 9
// bits would be left for the fingerprint.
//
// Nothing here allocates, throws or knows PostgreSQL.

#ifndef STREAMDEDUP_CORE_METHODS_FIFO_LINE_HPP_
#define STREAMDEDUP_CORE_METHODS_FIFO_LINE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../bytes.hpp"

namespace dedup::fifo {

// A width of 1 means slots of 12 bits.
inline constexpr unsigned kMinSlotBytes = 1;
inline constexpr unsigned kMinTimedSlotBytes = 2;
inline constexpr unsigned kMaxSlotBytes = 5;
inline constexpr unsigned kMaxSlots = 42;
inline constexpr size_t kHighBitsAt = 42;  // in a line of slots of 12 bits

// A window by time is divided into generations. A key is kept in the generation of its first sight
// and the 7 after it: for at least 7 and at most 8 generations.
inline constexpr unsigned kGenerationBits = 3;
inline constexpr uint32_t kGenerationsKept = 7;

// The bits that are kept of a key's hash beside its line. They are enough for every fingerprint.
inline constexpr unsigned kLongBits = 40;
inline constexpr unsigned kMaxFingerprintBits = 37;

struct LineLayout {
  unsigned slot_bytes;  // kMinSlotBytes to kMaxSlotBytes; 1: 12 bits
  bool timed;           // slots hold a generation
  bool grows = false;   // of a live filter that grows, whose pages have levels
  unsigned level = 0;   // the number of top bits of the rest that follow from the line's page

  constexpr unsigned slot_bits() const noexcept { return slot_bytes == 1 ? 12 : 8 * slot_bytes; }
  constexpr unsigned slots() const noexcept { return unsigned{8 * kLineBytes} / slot_bits(); }
  constexpr unsigned usable() const noexcept { return slots() - (slot_bytes == 1 ? 2 : 1); }
  // Returns the bits of a fingerprint in a line of level 0, and in a line of this level. Each level
  // takes one bit away.
  constexpr unsigned widest_fingerprint_bits() const noexcept {
    const unsigned bits = slot_bits() - (timed ? kGenerationBits : 0);
    return bits < kMaxFingerprintBits ? bits : kMaxFingerprintBits;
  }
  constexpr unsigned fingerprint_bits() const noexcept { return widest_fingerprint_bits() - level; }
};

static_assert(LineLayout{kMinSlotBytes, false}.slots() == kMaxSlots);

// The place of a key: one of `groups` groups of `lines` lines, and the rest of its hash. In a live
// filter a group is a page.
struct Address {
  uint64_t group;
  unsigned line;
  uint64_t rest;  // kLongBits bits
};

inline Address AddressOf(uint64_t hash, uint64_t groups, unsigned lines) noexcept {
  // the part of the hash that the group's number does not use
  const uint64_t in_group = hash * groups;
  return {FastRange(hash, groups), static_cast<unsigned>(FastRange(in_group, lines)),
          in_group * lines >> (64 - kLongBits)};
}

// Returns the value that is stored for some bits of the hash: 0 becomes 1, because 0 is a free
// slot.
inline uint64_t Stored(uint64_t bits) noexcept { return bits == 0 ? 1 : bits; }

// Returns the top bits of the rest, as many as a fingerprint has at level 0, without those that
// follow from the page's level. These are plain bits, so a fingerprint without its top bit is the
// fingerprint of the next level: Stored(fingerprint & LowMask(bits - 1)).
inline uint64_t FingerprintOf(uint64_t rest, const LineLayout& layout) noexcept {
  return Stored(rest >> (kLongBits - layout.widest_fingerprint_bits()) &
                LowMask(layout.fingerprint_bits()));
}

inline uint64_t SlotOf(uint64_t fingerprint, uint32_t generation,
                       const LineLayout& layout) noexcept {
  if (!layout.timed) return fingerprint;
  return fingerprint << kGenerationBits | (generation & LowMask(kGenerationBits));
}

// The last slot of 3 or 5 bytes ends early enough that the wider load ends inside the line.
inline uint64_t LoadSlot(const uint8_t* line, unsigned slot, unsigned slot_bytes) noexcept {
  if (slot_bytes == 1) {
    const unsigned high = line[kHighBitsAt + slot / 2] >> slot % 2 * 4 & 0xf;
    return high << 8 | line[slot];
  }
  const uint8_t* at = line + slot * slot_bytes;
  if (slot_bytes == 2) return LoadLittle<uint16_t>(at);
  if (slot_bytes <= 4) return LoadU32(at) & LowMask(8 * slot_bytes);
  return LoadU64(at) & LowMask(8 * slot_bytes);
}

inline void StoreSlot(uint8_t* line, unsigned slot, unsigned slot_bytes, uint64_t value) noexcept {
  if (slot_bytes == 1) {
    const unsigned shift = slot % 2 * 4;
    uint8_t& pair = line[kHighBitsAt + slot / 2];
    line[slot] = static_cast<uint8_t>(value);
    pair = static_cast<uint8_t>((pair & ~(0xfu << shift)) | (value >> 8 & 0xf) << shift);
    return;
  }
  uint8_t* at = line + slot * slot_bytes;
  for (unsigned i = 0; i < slot_bytes; ++i) at[i] = static_cast<uint8_t>(value >> 8 * i);
}

// Does SlotsEqual() slot by slot, with a loop of constant length.
template <unsigned kSlotBytes>
DEDUP_ALWAYS_INLINE inline uint64_t EqualSlots(const uint8_t* line, uint64_t value,
                                               uint64_t ignored) noexcept {
  constexpr unsigned kSlots = LineLayout{kSlotBytes, false}.slots();
  uint64_t equal = 0;
  DEDUP_UNROLL
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const bool same = (LoadSlot(line, slot, kSlotBytes) & ~ignored) == value;
    equal |= static_cast<uint64_t>(same) << slot;
  }
  return equal;
}

#if defined(__SSE2__)
inline uint64_t MaskOf(__m128i bytes) noexcept {
  return static_cast<uint32_t>(_mm_movemask_epi8(bytes));
}

// Does SlotsEqual() for slots of 12 bits: low bytes and high halves of 16 slots at a time.
DEDUP_ALWAYS_INLINE inline uint64_t EqualSlotsOf12(const uint8_t* line, uint64_t value,
                                                   uint64_t ignored) noexcept {
  const auto byte = [](uint64_t bits) { return _mm_set1_epi8(static_cast<char>(bits)); };
  const auto load = [&](size_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(line + at));
  };
  const __m128i low = byte(value), low_mask = byte(~ignored);
  const __m128i high = byte(value >> 8), high_mask = byte(~ignored >> 8 & 0xf);
  const auto equal = [&](__m128i lows, __m128i highs) {
    return MaskOf(_mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(lows, low_mask), low),
                                _mm_cmpeq_epi8(_mm_and_si128(highs, high_mask), high)));
  };
  const __m128i even = load(kHighBitsAt), odd = _mm_srli_epi16(even, 4);
  const __m128i even_end = _mm_srli_si128(load(kLineBytes - 16), 10);  // from slot 32 on
  const __m128i odd_end = _mm_srli_epi16(even_end, 4);
  return (equal(load(0), _mm_unpacklo_epi8(even, odd)) |
          equal(load(16), _mm_unpackhi_epi8(even, odd)) << 16 |
          equal(load(32), _mm_unpacklo_epi8(even_end, odd_end)) << 32) &
         LowMask(kMaxSlots);
}

// Does SlotsEqual() for slots of 2 bytes.
DEDUP_ALWAYS_INLINE inline uint64_t EqualSlotsOf16(const uint8_t* line, uint64_t value,
                                                   uint64_t ignored) noexcept {
  const __m128i wanted = _mm_set1_epi16(static_cast<short>(value));
  const __m128i mask = _mm_set1_epi16(static_cast<short>(~ignored));
  uint64_t equal = 0;
  for (unsigned half = 0; half < 2; ++half) {
    const auto* at = reinterpret_cast<const __m128i*>(line + 32 * half);
    const __m128i low = _mm_and_si128(_mm_loadu_si128(at), mask);
    const __m128i high = _mm_and_si128(_mm_loadu_si128(at + 1), mask);
    const __m128i both =
        _mm_packs_epi16(_mm_cmpeq_epi16(low, wanted), _mm_cmpeq_epi16(high, wanted));
    equal |= MaskOf(both) << 16 * half;
  }
  return equal;
}
#endif

// Does SlotsEqual() for a width that is known at compile time.
template <unsigned kSlotBytes>
DEDUP_ALWAYS_INLINE inline uint64_t SlotsEqualOf(const uint8_t* line, uint64_t value,
                                                 uint64_t ignored) noexcept {
#if defined(__SSE2__)
  if constexpr (kSlotBytes == 1) return EqualSlotsOf12(line, value, ignored);
  if constexpr (kSlotBytes == 2) return EqualSlotsOf16(line, value, ignored);
#endif
  return EqualSlots<kSlotBytes>(line, value, ignored);
}

// Runs use.template operator()<width>() for the width of a layout.
template <typename Use>
inline auto ForWidth(const LineLayout& layout, Use use) noexcept {
  switch (layout.slot_bytes) {
    case 1:
      return use.template operator()<1>();
    case 2:
      return use.template operator()<2>();
    case 3:
      return use.template operator()<3>();
    case 4:
      return use.template operator()<4>();
    default:
      return use.template operator()<5>();
  }
}

// Returns, as bits, the slots whose value is `value` after the `ignored` bits are cleared.
inline uint64_t SlotsEqual(const uint8_t* line, const LineLayout& layout, uint64_t value,
                           uint64_t ignored) noexcept {
  return ForWidth(layout, [&]<unsigned kSlotBytes>() {
    return SlotsEqualOf<kSlotBytes>(line, value, ignored);
  });
}

// Returns how many generations before the line's newest one, `clock`, a slot was seen.
inline uint32_t AgeOf(uint64_t slot, uint32_t clock) noexcept {
  return (clock - static_cast<uint32_t>(slot)) & static_cast<uint32_t>(LowMask(kGenerationBits));
}

// Returns the generation in which a slot was seen, in a line whose newest generation is `clock`.
inline uint32_t GenerationOf(uint64_t slot, uint32_t clock) noexcept {
  return clock - AgeOf(slot, clock);
}

// Returns whether a key seen in generation `seen` is still in the window in generation `now`. If it
// is newer than `now`, it is: the event of the query is late.
inline bool Alive(uint32_t seen, uint32_t now) noexcept {
  return now <= seen || now - seen <= kGenerationsKept;
}

// Returns whether the line holds the fingerprint. `clock` is the line's newest generation, `now`
// the generation of the query. Both are ignored in lines without time.
inline bool Holds(const uint8_t* line, const LineLayout& layout, uint64_t fingerprint,
                  uint32_t clock, uint32_t now) noexcept {
  if (!layout.timed) return SlotsEqual(line, layout, fingerprint, 0) != 0;
  uint64_t found =
      SlotsEqual(line, layout, fingerprint << kGenerationBits, LowMask(kGenerationBits));
  for (; found != 0; found &= found - 1) {
    const auto slot = static_cast<unsigned>(std::countr_zero(found));
    if (Alive(GenerationOf(LoadSlot(line, slot, layout.slot_bytes), clock), now)) return true;
  }
  return false;
}

// Returns a slot's number on the circle, from a number below twice the slots.
inline unsigned Around(unsigned slot, unsigned slots) noexcept {
  return slot < slots ? slot : slot - slots;
}

// The run of slots in use: its first slot, which is the oldest, and its length.
struct Run {
  unsigned first;
  unsigned length;
};

inline Run RunOf(const uint8_t* line, const LineLayout& layout) noexcept {
  const unsigned slots = layout.slots();
  const uint64_t all = LowMask(slots);
  const uint64_t used = ~SlotsEqual(line, layout, 0, 0) & all;
  if (used == 0) return {0, 0};
  const uint64_t before = (used << 1 | used >> (slots - 1)) & all;  // slots behind a used slot
  const uint64_t firsts = used & ~before;
  if (firsts == 0) return {0, slots};  // there is no free slot, so the line is not valid
  return {static_cast<unsigned>(std::countr_zero(firsts)),
          static_cast<unsigned>(std::popcount(used))};
}

// Returns whether the slots in use are one run of an allowed length, and have values that this code
// writes.
inline bool ValidLine(const uint8_t* line, const LineLayout& layout) noexcept {
  const unsigned slots = layout.slots();
  const Run run = RunOf(line, layout);
  if (run.length > layout.usable()) return false;
  const uint64_t most = LowMask(layout.fingerprint_bits());
  for (unsigned i = 0; i < slots; ++i) {
    const uint64_t slot = LoadSlot(line, Around(run.first + i, slots), layout.slot_bytes);
    if ((slot != 0) != (i < run.length)) return false;
    const uint64_t fingerprint = layout.timed ? slot >> kGenerationBits : slot;
    if (slot != 0 && (fingerprint == 0 || fingerprint > most)) return false;
  }
  for (size_t i = slots * layout.slot_bits() / 8; i < kLineBytes; ++i) {
    if (line[i] != 0) return false;
  }
  return true;
}

inline bool Full(const uint8_t* line, const LineLayout& layout) noexcept {
  return RunOf(line, layout).length >= layout.usable();
}

// All slots of a line, oldest first, with room for one more.
struct Slots {
  uint64_t value[kMaxSlots + 1];
  unsigned count = 0;
};

inline void ReadSlots(const uint8_t* line, const LineLayout& layout, Slots* slots) noexcept {
  const Run run = RunOf(line, layout);
  slots->count = run.length;
  for (unsigned i = 0; i < run.length; ++i) {
    slots->value[i] = LoadSlot(line, Around(run.first + i, layout.slots()), layout.slot_bytes);
  }
}

// Writes the slots back from slot 0 on. If there are too many, writes only the newest.
inline void WriteSlots(uint8_t* line, const LineLayout& layout, const Slots& slots) noexcept {
  std::memset(line, 0, kLineBytes);
  const unsigned count = slots.count < layout.usable() ? slots.count : layout.usable();
  for (unsigned i = 0; i < count; ++i) {
    StoreSlot(line, i, layout.slot_bytes, slots.value[slots.count - count + i]);
  }
}

// Adds a fingerprint as the youngest. In lines with time, puts it in its place by generation:
// `clock` is the line's newest generation, at least `generation`, which must still be in the window
// then. Returns whether a key was evicted: the oldest one, which may be the new one itself.
inline bool Insert(uint8_t* line, const LineLayout& layout, uint64_t fingerprint,
                   uint32_t generation, uint32_t clock) noexcept {
  const unsigned slots = layout.slots();
  const Run run = RunOf(line, layout);
  const uint64_t slot = SlotOf(fingerprint, generation, layout);
  const unsigned next = Around(run.first + run.length, slots);
  // Compares ages, because a generation before 0, which foreign bits may contain, would wrap.
  const uint32_t age = clock - generation;
  auto younger = [&](uint64_t other) { return layout.timed && AgeOf(other, clock) < age; };
  bool in_order = run.length < slots;
  if (run.length > 0 && in_order) {
    const unsigned last = Around(next + slots - 1, slots);
    in_order = !younger(LoadSlot(line, last, layout.slot_bytes));
  }
  if (in_order) {
    const bool evicts = run.length >= layout.usable();
    const unsigned gap = evicts ? run.first : Around(next + 1, slots);
    StoreSlot(line, next, layout.slot_bytes, slot);
    StoreSlot(line, gap, layout.slot_bytes, 0);
    return evicts;
  }
  Slots all;
  ReadSlots(line, layout, &all);
  unsigned at = all.count;
  while (at > 0 && younger(all.value[at - 1])) --at;
  std::memmove(all.value + at + 1, all.value + at, (all.count - at) * sizeof all.value[0]);
  all.value[at] = slot;
  ++all.count;
  WriteSlots(line, layout, all);
  return all.count > layout.usable();
}

// The results of AddOnce().
enum class Once {
  kHeld,  // the line holds the fingerprint already
  kFull,  // there is no room: nothing changes
  kAdded
};

// Adds a fingerprint as the youngest to a line without time that holds each fingerprint once and
// evicts none. Reads the line once, where Holds(), Full() and Insert() read it three times.
inline Once AddOnce(uint8_t* line, const LineLayout& of, uint64_t fingerprint) noexcept {
  return ForWidth(of, [=]<unsigned kSlotBytes>() {
    constexpr LineLayout layout = {kSlotBytes, false};
    constexpr unsigned slots = layout.slots();
    if (SlotsEqualOf<kSlotBytes>(line, fingerprint, 0) != 0) return Once::kHeld;
    const uint64_t free = SlotsEqualOf<kSlotBytes>(line, 0, 0);
    // The line is full if no slots are free except those that always stay free.
    uint64_t room = free;
    for (unsigned i = layout.usable(); i < slots; ++i) room &= room - 1;
    if (room == 0) return Once::kFull;
    // The run ends at a free slot behind a used one. In an empty line it starts at slot 0.
    const uint64_t used = ~free & LowMask(slots);
    const uint64_t ends = (used << 1 | used >> (slots - 1)) & free;
    StoreSlot(line, used == 0 ? 0 : static_cast<unsigned>(std::countr_zero(ends)), kSlotBytes,
              fingerprint);
    return Once::kAdded;
  });
}

// Removes every slot for which `drop(slot)` returns true. Returns how many.
template <typename Drop>
inline unsigned RemoveIf(uint8_t* line, const LineLayout& layout, Drop drop) noexcept {
  Slots all, kept;
  ReadSlots(line, layout, &all);
  for (unsigned i = 0; i < all.count; ++i) {
    if (!drop(all.value[i])) kept.value[kept.count++] = all.value[i];
  }
  if (kept.count < all.count) WriteSlots(line, layout, kept);
  return all.count - kept.count;
}

// Removes one fingerprint, the oldest if there are several copies. Returns whether the line had it.
inline bool Remove(uint8_t* line, const LineLayout& layout, uint64_t fingerprint) noexcept {
  bool found = false;
  RemoveIf(line, layout, [&](uint64_t slot) {
    if (found || (layout.timed ? slot >> kGenerationBits : slot) != fingerprint) return false;
    return found = true;
  });
  return found;
}

// Advances the line's clock. Removes the keys that have expired by then, so that the 3 bits of
// every remaining slot stay unambiguous.
inline unsigned Expire(uint8_t* line, const LineLayout& layout, uint32_t clock,
                       uint32_t new_clock) noexcept {
  return RemoveIf(line, layout,
                  [&](uint64_t slot) { return !Alive(GenerationOf(slot, clock), new_clock); });
}

// Returns the rate at which a key that was never added is found in a line with `used` slots in use.
// Two keys have the same fingerprint of b bits with probability (2^b + 2) / 4^b: the sum of the
// squares of 2 / 2^b for fingerprint 1 and 1 / 2^b for the 2^b - 2 others.
inline double LineRate(const LineLayout& layout, double used) noexcept {
  const double values = static_cast<double>(uint64_t{1} << layout.fingerprint_bits());
  return used * (values + 2) / (values * values);
}

}  // namespace dedup::fifo

#endif  // STREAMDEDUP_CORE_METHODS_FIFO_LINE_HPP_
