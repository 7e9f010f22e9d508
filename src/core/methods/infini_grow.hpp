// Grows the table of the method `infini` by one step. All entries of a line go to two neighbouring
// lines of the larger table. For nearly all entries, one bit or one comparison decides which.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_

#include <bit>
#include <cstdint>

#include "infini_table.hpp"

namespace dedup::infini {

// Where the second of 3 lines starts in the first cell, and where the third starts in the second
// cell. These are the least fingerprints f for which FastRange() of the cell's bit and f is 1, or
// 2.
inline constexpr uint64_t kSecondLineFrom = 0xaaaaaaaaaaaaaaac;
inline constexpr uint64_t kThirdLineFrom = 0x5555555555555556;

// Two lines that are filled side by side.
template <unsigned kSlotBytes>
class TwoLines {
 public:
  using L = Line<kSlotBytes>;

  TwoLines(uint8_t* first, uint8_t* second) noexcept : line_{first, second} {
    for (int i = 0; i < 2; ++i) {
      numbers_[i] = L::Read(line_[i]);
      own_[i] = numbers_[i].own;
      room_[i] = L::kSlots - 2 * numbers_[i].foreign;
    }
  }
  // Returns false if there is no room.
  bool Append(unsigned which, uint64_t entry) noexcept {
    if (__builtin_expect(own_[which] >= room_[which], 0)) return false;
    L::Store(line_[which], own_[which]++, entry);
    return true;
  }
  void Finish() noexcept {
    for (int i = 0; i < 2; ++i) {
      numbers_[i].own = own_[i];
      L::Write(line_[i], numbers_[i]);
    }
  }

 private:
  uint8_t* line_[2];
  Numbers numbers_[2];
  unsigned own_[2];
  unsigned room_[2];
};

// Moves the own entries of a line. `place(entry, which, moved)` returns to which of two lines an
// entry goes, and its value there. It returns false for entries that need more work.
template <unsigned kSlotBytes, typename Place>
DEDUP_ALWAYS_INLINE inline void MoveLine(const uint8_t* bytes, unsigned own, uint64_t line,
                                         uint64_t first, Table<kSlotBytes>* to,
                                         Place place) noexcept {
  using L = Line<kSlotBytes>;
  uint64_t others[kMaxSlots];
  unsigned other_count = 0;
  TwoLines<kSlotBytes> two(to->At(first), to->At(first + 1));
  for (unsigned slot = 0; slot < own; ++slot) {
    const uint64_t entry = L::Load(bytes, slot);
    unsigned which;
    uint64_t moved;
    if (__builtin_expect(!place(entry, &which, &moved) || !two.Append(which, moved), 0)) {
      if (entry != 0) others[other_count++] = entry;
    }
  }
  two.Finish();
  for (unsigned i = 0; i < other_count; ++i) to->PutFromSmaller(line, others[i]);
}

#if defined(__SSE2__)
// The new places of the entries of a line of 16-bit slots, computed all at once.
struct Moves {
  uint16_t moved[32];
  uint32_t second;  // bits of the entries that go to the second line
  uint32_t others;  // bits of the entries that need more work
};

inline uint32_t MaskOf(__m128i low, __m128i high) noexcept {
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
}
// Returns the lanes that are at least `least`, compared without sign.
inline __m128i AtLeast(__m128i lanes, unsigned least) noexcept {
  const __m128i limit = _mm_set1_epi16(static_cast<short>(least));
  return _mm_cmpeq_epi16(_mm_subs_epu16(limit, lanes), _mm_setzero_si128());
}

// Runs place(slots, marker, which, slow) for each vector of a line, and collects the masks that it
// returns.
template <typename Place>
DEDUP_ALWAYS_INLINE inline void MovesOf(const uint8_t* bytes, Place place, Moves* moves) noexcept {
  __m128i which[4], slow[4];
  for (unsigned i = 0; i < 4; ++i) {
    const __m128i slots =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + sizeof(__m128i) * i));
    const __m128i marker = _mm_and_si128(slots, _mm_sub_epi16(_mm_setzero_si128(), slots));
    const __m128i moved = place(slots, marker, &which[i], &slow[i]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(moves->moved + 8 * i), moved);
  }
  moves->second = MaskOf(which[0], which[1]) | MaskOf(which[2], which[3]) << 16;
  moves->others = MaskOf(slow[0], slow[1]) | MaskOf(slow[2], slow[3]) << 16;
}

// Moves to 3 lines for two cells. `from_here` is where the second line starts.
inline void MovesToThree(const uint8_t* bytes, uint64_t from_here, Moves* moves) noexcept {
  const auto top = static_cast<unsigned>(from_here >> 48);
  MovesOf(
      bytes,
      [top](__m128i slots, __m128i marker, __m128i* which, __m128i* slow) DEDUP_ALWAYS_INLINE {
        const __m128i first = _mm_xor_si128(slots, marker);
        const __m128i last = _mm_or_si128(slots, _mm_add_epi16(marker, _mm_set1_epi16(-1)));
        *which = AtLeast(first, top + 1);
        *slow = _mm_xor_si128(*which, AtLeast(last, top));
        return slots;
      },
      moves);
}

// Moves to one line for each cell. Entries that start below `starts` may be in the line before as
// well. `turned` means that entries with a first bit of 1 come first.
inline void MovesToTwo(const uint8_t* bytes, uint64_t starts, bool turned, Moves* moves) noexcept {
  const auto top = static_cast<unsigned>(starts >> 48);
  const __m128i turn = _mm_set1_epi16(turned ? -1 : 0);
  const __m128i always = _mm_set1_epi16(starts == 0 ? -1 : 0);
  MovesOf(
      bytes,
      [&](__m128i slots, __m128i marker, __m128i* which, __m128i* slow) DEDUP_ALWAYS_INLINE {
        const __m128i bit = _mm_srai_epi16(slots, 15);
        const __m128i first = _mm_xor_si128(slots, marker);
        const __m128i here = _mm_or_si128(_mm_or_si128(AtLeast(first, top + 1), always),
                                          _mm_andnot_si128(bit, turn));
        const __m128i no_bits = _mm_cmpeq_epi16(slots, _mm_set1_epi16(INT16_MIN));
        *which = _mm_xor_si128(bit, turn);
        *slow = _mm_or_si128(_mm_andnot_si128(here, _mm_set1_epi16(-1)), no_bits);
        return _mm_slli_epi16(slots, 1);
      },
      moves);
}

// Appends the entries to two lines, if one bit decides for all of them and both lines have room
// with a slot to spare. Returns false, with nothing changed, if not.
inline bool MoveAtOnce(const Moves& moves, unsigned own, uint8_t* first, uint8_t* second) noexcept {
  using L = Line<2>;
  const auto mask = static_cast<uint32_t>(LowMask(own));
  if ((moves.others & mask) != 0) return false;
  Numbers left = L::Read(first), right = L::Read(second);
  const auto to_right = static_cast<unsigned>(std::popcount(moves.second & mask));
  const unsigned to_left = own - to_right;
  if (!L::HasRoom(left, to_left + 1) || !L::HasRoom(right, to_right + 1)) return false;
  // Each entry is written to both lines; the next entry overwrites it in the wrong one.
  uint8_t* left_at = first + 2 * left.own;
  uint8_t* right_at = second + 2 * right.own;
  uint32_t which = moves.second;
  for (unsigned slot = 0; slot < own; ++slot, which >>= 1) {
    StoreLittle(left_at, moves.moved[slot]);
    StoreLittle(right_at, moves.moved[slot]);
    const size_t step = 2 * (which & 1);
    right_at += step;
    left_at += 2 - step;
  }
  StoreLittle(left_at, uint16_t{0});
  StoreLittle(right_at, uint16_t{0});
  left.own += to_left;
  right.own += to_right;
  L::Write(first, left);
  L::Write(second, right);
  return true;
}
#endif

// Moves the own entries of a line. `place` is its place among the lines of two cells.
template <unsigned kSlotBytes>
inline void MoveOwn(const uint8_t* bytes, unsigned own, uint64_t line, uint64_t two, uint64_t place,
                    Table<kSlotBytes>* to) noexcept {
  const uint64_t first = (to->lines_of_two() == 3 ? 3 : 4) * two + place;
  if (to->lines_of_two() == 3) {
    const uint64_t from_here = place == 0 ? kSecondLineFrom : kThirdLineFrom;
#if defined(__SSE2__)
    if constexpr (kSlotBytes == 2) {
      Moves moves;
      MovesToThree(bytes, from_here, &moves);
      if (MoveAtOnce(moves, own, to->At(first), to->At(first + 1))) return;
    }
#endif
    MoveLine(bytes, own, line, first, to,
             [&](uint64_t entry, unsigned* which, uint64_t* moved) DEDUP_ALWAYS_INLINE {
               const uint64_t marker = MarkerOf(entry);
               *which = (entry ^ marker) >= from_here;
               *moved = entry;
               return ((entry | (marker - 1)) >= from_here) == (*which != 0);
             });
    return;
  }
  // Entries that start in the line before may be in both lines. In the second of 3 lines the first
  // cell's entries are those with a first bit of 1.
  const uint64_t starts = place == 0 ? 0 : place == 1 ? kSecondLineFrom : kThirdLineFrom;
  const uint64_t turned = place == 1;
#if defined(__SSE2__)
  if constexpr (kSlotBytes == 2) {
    Moves moves;
    MovesToTwo(bytes, starts, turned != 0, &moves);
    if (MoveAtOnce(moves, own, to->At(first), to->At(first + 1))) return;
  }
#endif
  MoveLine(bytes, own, line, first, to,
           [&](uint64_t entry, unsigned* which, uint64_t* moved) DEDUP_ALWAYS_INLINE {
             constexpr uint64_t kNoBits = uint64_t{1} << 63;
             const uint64_t bit = entry >> 63, start = entry ^ MarkerOf(entry);
             *which = static_cast<unsigned>(bit ^ turned);
             *moved = entry << 1;
             return entry != kNoBits && (start >= starts || bit < turned);
           });
}

// Writes all entries of a table into an empty table that is one step larger.
template <unsigned kSlotBytes>
inline void GrowByStep(const Table<kSlotBytes>& from, Table<kSlotBytes>* to) noexcept {
  ForUnits(from.lines(), 8 * kLineBytes, [&](uint64_t begin, uint64_t end) {
    uint64_t two = begin / from.lines_of_two(), place = begin % from.lines_of_two();
    for (uint64_t line = begin; line < end; ++line) {
      const uint8_t* bytes = from.At(line);
      const Numbers numbers = Line<kSlotBytes>::Read(bytes);
      MoveOwn(bytes, numbers.own, line, two, place, to);
      if (numbers.foreign > 0) {
        from.ForEachForeign(
            line, [&](uint64_t own_line, uint64_t entry) { to->PutFromSmaller(own_line, entry); });
      }
      if (++place == from.lines_of_two()) {
        place = 0;
        ++two;
      }
    }
  });
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_
