// One cache line of fingerprints of different lengths, of which tables of the method `infini`
// consist.
//
// A line of 64 bytes has 31 slots of 16 bits, or 20 of 24, 15 of 32 or 12 of 40. A slot in use is
// an entry. From the top, it has the bits of a fingerprint, then a marker bit 1, then zeros. So an
// entry tells its own length, which is at most one bit less than the slot's. An entry without
// fingerprint bits holds every key of its line.
//
// In the line, the upper 16 bits of all slots come first, then the other bytes of each slot, so
// that a key is compared with all entries at once. The last two bytes are three numbers:
//   bits 0-4   own: the number of entries of this line, in slots 0 .. own - 1
//   bits 5-8   foreign: the number of entries of lines before this one that had no free
//              slot. They are in pairs of slots from the last one down: the entry, and in
//              front of it the distance to its own line, in lines (1 to 15)
//   bits 9-12  reach: the largest distance of entries of this line, 0 if all are here
// Bits 13-15 are 0, and so are all free slots.
//
// Entries are handled as 64-bit numbers with the fingerprint at the top, whatever the width. Let b
// be the marker, the lowest bit that is set. An entry holds the fingerprints that differ from it
// only at b or below: those f with (f ^ entry) <= 2 b - 1.
//
// Nothing here allocates, throws or knows PostgreSQL.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_LINE_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_LINE_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../bytes.hpp"

namespace dedup::infini {

inline constexpr unsigned kMinSlotBytes = 2;
inline constexpr unsigned kMaxSlotBytes = 5;
inline constexpr unsigned kMaxSlots = 31;
inline constexpr unsigned kMaxDistance = 15;
inline constexpr size_t kNumbersAt = 62;

inline constexpr unsigned SlotsOf(unsigned slot_bytes) noexcept {
  return static_cast<unsigned>(kNumbersAt) / slot_bytes;
}

// Returns the marker of an entry, which is not 0.
inline constexpr uint64_t MarkerOf(uint64_t entry) noexcept { return entry & (0 - entry); }

// Returns whether an entry holds this fingerprint. An entry of 0 would hold all.
inline constexpr bool Holds(uint64_t entry, uint64_t fingerprint) noexcept {
  return (entry ^ fingerprint) <= (entry ^ (entry - 1));
}

// Returns whether an entry holds all fingerprints that the other entry holds.
inline constexpr bool Covers(uint64_t entry, uint64_t other) noexcept {
  return MarkerOf(entry) >= MarkerOf(other) && Holds(entry, other);
}

// Returns how many bits of a fingerprint an entry has.
inline constexpr unsigned LengthOf(uint64_t entry) noexcept {
  return 63 - static_cast<unsigned>(std::countr_zero(entry));
}

// Returns the entry for the first `length` bits (0 to 63) of a fingerprint.
inline constexpr uint64_t EntryOf(uint64_t fingerprint, unsigned length) noexcept {
  const uint64_t marker = uint64_t{1} << (63 - length);
  return (fingerprint & ~(2 * marker - 1)) | marker;
}

// Returns the longest entry that holds all fingerprints that two entries hold.
inline constexpr uint64_t Common(uint64_t a, uint64_t b) noexcept {
  const auto same = static_cast<unsigned>(std::countl_zero(a ^ b));
  unsigned length = LengthOf(a) < LengthOf(b) ? LengthOf(a) : LengthOf(b);
  if (same < length) length = same;
  return EntryOf(a, length);
}

// The three numbers of a line.
struct Numbers {
  unsigned own;
  unsigned foreign;
  unsigned reach;
};

// Lines of slots of one width. Numbers that are read from a line are limited to what a line can
// have: whatever the bits are, no slot outside the line is touched.
template <unsigned kSlotBytes>
struct Line {
  static constexpr unsigned kSlots = SlotsOf(kSlotBytes);
  static constexpr unsigned kTailBytes = kSlotBytes - 2;
  static constexpr unsigned kBits = 8 * kSlotBytes;
  static constexpr unsigned kMaxLength = kBits - 1;
  // At least one slot is reserved for the line's own entries.
  static constexpr unsigned kMaxForeign = (kSlots - 1) / 2;

  // Always inlined: the loops over keys read these numbers twice a key, and take twice as long with
  // calls.
  DEDUP_ALWAYS_INLINE static Numbers Read(const uint8_t* line) noexcept {
    const unsigned bits = LoadLittle<uint16_t>(line + kNumbersAt);
    Numbers numbers = {bits & 31, bits >> 5 & 15, bits >> 9 & 15};
    if constexpr (kSlots < 31) {
      if (numbers.own > kSlots) numbers.own = kSlots;
    }
    if constexpr (kMaxForeign < 15) {
      if (numbers.foreign > kMaxForeign) numbers.foreign = kMaxForeign;
    }
    return numbers;
  }
  DEDUP_ALWAYS_INLINE static void Write(uint8_t* line, const Numbers& numbers) noexcept {
    StoreLittle<uint16_t>(
        line + kNumbersAt,
        static_cast<uint16_t>(numbers.own | numbers.foreign << 5 | numbers.reach << 9));
  }
  static bool HasRoom(const Numbers& numbers, unsigned slots) noexcept {
    return numbers.own + 2 * numbers.foreign + slots <= kSlots;
  }

  static uint64_t Load(const uint8_t* line, unsigned slot) noexcept {
    uint64_t entry = uint64_t{LoadLittle<uint16_t>(line + 2 * slot)} << 48;
    const uint8_t* tail = line + 2 * kSlots + kTailBytes * slot;
    for (unsigned i = 0; i < kTailBytes; ++i) entry |= uint64_t{tail[i]} << (40 - 8 * i);
    return entry;
  }
  DEDUP_ALWAYS_INLINE static void Store(uint8_t* line, unsigned slot, uint64_t entry) noexcept {
    StoreLittle<uint16_t>(line + 2 * slot, static_cast<uint16_t>(entry >> 48));
    uint8_t* tail = line + 2 * kSlots + kTailBytes * slot;
    for (unsigned i = 0; i < kTailBytes; ++i) tail[i] = static_cast<uint8_t>(entry >> (40 - 8 * i));
  }
  // Returns the slot of foreign entry number i.
  static unsigned ForeignSlot(unsigned i) noexcept { return kSlots - 1 - 2 * i; }
  static unsigned DistanceAt(const uint8_t* line, unsigned i) noexcept {
    return LoadLittle<uint16_t>(line + 2 * (ForeignSlot(i) - 1)) & kMaxDistance;
  }
  static void StoreForeign(uint8_t* line, unsigned i, unsigned distance, uint64_t entry) noexcept {
    Store(line, ForeignSlot(i), entry);
    Store(line, ForeignSlot(i) - 1, uint64_t{distance} << 48);
  }

  // Returns a bit for each slot for whose upper 16 bits excess() is 0.
  template <typename Excess>
  DEDUP_ALWAYS_INLINE static uint32_t EachHead(const uint8_t* line, Excess excess) noexcept {
#if defined(__SSE2__)
    const __m128i zero = _mm_setzero_si128();
    const auto at = [&](unsigned i) DEDUP_ALWAYS_INLINE {
      const auto* slots = reinterpret_cast<const __m128i*>(line + sizeof(__m128i) * i);
      return _mm_cmpeq_epi16(excess(_mm_loadu_si128(slots)), zero);
    };
    auto found = static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(at(0), at(1))));
    if constexpr (kSlots > 24) {
      found |= static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(at(2), at(3)))) << 16;
    } else if constexpr (kSlots > 16) {
      found |= static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(at(2), zero))) << 16;
    }
    return found;
#else
    uint32_t found = 0;
    for (unsigned slot = 0; slot < kSlots; ++slot) {
      found |= uint32_t{excess(LoadLittle<uint16_t>(line + 2 * slot)) == 0} << slot;
    }
    return found;
#endif
  }

  // Returns a bit for each slot whose upper 16 bits may be those of an entry that holds the
  // fingerprint. Longer entries have their marker further down, so this is a superset.
  static uint32_t Candidates(const uint8_t* line, uint64_t fingerprint) noexcept {
    const auto wanted = static_cast<uint16_t>(fingerprint >> 48);
#if defined(__SSE2__)
    const __m128i key = _mm_set1_epi16(static_cast<short>(wanted));
    return EachHead(line, [&](__m128i slots) DEDUP_ALWAYS_INLINE {
      const __m128i below = _mm_xor_si128(slots, _mm_add_epi16(slots, _mm_set1_epi16(-1)));
      return _mm_subs_epu16(_mm_xor_si128(slots, key), below);
    });
#else
    return EachHead(line, [&](unsigned slot) {
      const unsigned differ = slot ^ wanted, most = (slot ^ (slot - 1)) & 0xffff;
      return differ > most ? 1u : 0u;
    });
#endif
  }

  // Returns a bit for each slot whose upper 16 bits may be those of an entry that holds all that
  // this entry holds, or a part of it. This is a superset.
  static uint32_t Related(const uint8_t* line, uint64_t entry) noexcept {
    const auto head = static_cast<uint16_t>(entry >> 48);
    const auto marker = static_cast<uint16_t>(MarkerOf(entry) >> 48);
    const auto held = static_cast<uint16_t>(marker == 0 ? 0 : 2 * marker - 1);
#if defined(__SSE2__)
    const __m128i key = _mm_set1_epi16(static_cast<short>(head));
    const __m128i own = _mm_set1_epi16(static_cast<short>(held));
    return EachHead(line, [&](__m128i slots) DEDUP_ALWAYS_INLINE {
      const __m128i below = _mm_xor_si128(slots, _mm_add_epi16(slots, _mm_set1_epi16(-1)));
      return _mm_subs_epu16(_mm_xor_si128(slots, key), _mm_or_si128(below, own));
    });
#else
    return EachHead(line, [&](unsigned slot) {
      const unsigned differ = slot ^ head, most = (slot ^ (slot - 1)) & 0xffff;
      return differ > (most | held) ? 1u : 0u;
    });
#endif
  }

  // Returns whether one of these slots holds the fingerprint.
  static bool AnyHolds(const uint8_t* line, uint32_t slots, uint64_t fingerprint) noexcept {
    for (; slots != 0; slots &= slots - 1) {
      const uint64_t entry = Load(line, static_cast<unsigned>(std::countr_zero(slots)));
      if (entry != 0 && Holds(entry, fingerprint)) return true;
    }
    return false;
  }
  // Returns whether one of the line's own entries holds the fingerprint.
  static bool OwnHolds(const uint8_t* line, unsigned own, uint64_t fingerprint) noexcept {
    const uint32_t candidates = Candidates(line, fingerprint) & static_cast<uint32_t>(LowMask(own));
    return kTailBytes == 0 ? candidates != 0 : AnyHolds(line, candidates, fingerprint);
  }
  // Returns whether a foreign entry whose own line is `distance` lines away holds the fingerprint.
  static bool ForeignHolds(const uint8_t* line, unsigned distance, uint64_t fingerprint) noexcept {
    const unsigned foreign = Read(line).foreign;
    for (unsigned i = 0; i < foreign; ++i) {
      const uint64_t entry = Load(line, ForeignSlot(i));
      if (entry != 0 && Holds(entry, fingerprint) && DistanceAt(line, i) == distance) return true;
    }
    return false;
  }

  DEDUP_ALWAYS_INLINE static void AppendOwn(uint8_t* line, Numbers* numbers,
                                            uint64_t entry) noexcept {
    Store(line, numbers->own++, entry);
    Write(line, *numbers);
  }
  static void AppendForeign(uint8_t* line, Numbers* numbers, unsigned distance,
                            uint64_t entry) noexcept {
    StoreForeign(line, numbers->foreign++, distance, entry);
    Write(line, *numbers);
  }
  // Removes an own entry. The last own entry takes its place.
  static void RemoveOwn(uint8_t* line, Numbers* numbers, unsigned slot) noexcept {
    --numbers->own;
    Store(line, slot, Load(line, numbers->own));
    Store(line, numbers->own, 0);
    Write(line, *numbers);
  }
  static void RemoveForeign(uint8_t* line, Numbers* numbers, unsigned i) noexcept {
    const unsigned last = --numbers->foreign;
    StoreForeign(line, i, DistanceAt(line, last), Load(line, ForeignSlot(last)));
    StoreForeign(line, last, 0, 0);
    Write(line, *numbers);
  }

  // Adds an entry to a line without a free slot in it or nearby. Of the line's own entries and this
  // one, joins the two that have most in common into their common prefix. The result holds all that
  // both held, and some more.
  static void Join(uint8_t* line, unsigned own, uint64_t entry) noexcept {
    uint64_t entries[kMaxSlots + 1];
    unsigned count = 0;
    for (unsigned slot = 0; slot < own; ++slot) {
      entries[count] = Load(line, slot);
      // an entry of 0 is not valid; it held all
      if (entries[count] == 0) entries[count] = uint64_t{1} << 63;
      ++count;
    }
    entries[count++] = entry;
    if (count < 2) return;
    unsigned left = 0, right = 1;
    int64_t least = INT64_MAX;
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned j = i + 1; j < count; ++j) {
        const auto share = [](uint64_t of) { return static_cast<int64_t>(MarkerOf(of) >> 1); };
        const int64_t cost =
            share(Common(entries[i], entries[j])) - share(entries[i]) - share(entries[j]);
        if (cost < least) {
          least = cost;
          left = i;
          right = j;
        }
      }
    }
    Store(line, left, Common(entries[left], entries[right]));
    if (right < own) Store(line, right, entry);
  }
};

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_LINE_HPP_
