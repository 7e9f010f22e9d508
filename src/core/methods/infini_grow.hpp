// Growing the table of the method `infini` by one step: all entries of a line go to two
// neighbouring lines of the larger table, nearly all of them by one bit or one comparison.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_

#include <cstdint>

#include "infini_table.hpp"

namespace dedup::infini {

// Where the second of 3 lines starts in the first cell, and the third in the second: the least
// fingerprints f for which FastRange() of the cell's bit and f is 1, or 2.
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
  // False: it has no room.
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

// Moves the own entries of a line. `place(entry, which, moved)` says to which of two lines an
// entry goes, and what it is there; or false, for those that need more than that.
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

// Writes all entries of a table into one that is a step larger, and empty.
template <unsigned kSlotBytes>
inline void GrowByStep(const Table<kSlotBytes>& from, Table<kSlotBytes>* to) noexcept {
  using L = Line<kSlotBytes>;
  const bool to_three = to->lines_of_two() == 3;
  ForUnits(from.lines(), 8 * kLineBytes, [&](uint64_t begin, uint64_t end) {
    uint64_t two = begin / from.lines_of_two(), place = begin % from.lines_of_two();
    for (uint64_t line = begin; line < end; ++line) {
      const uint8_t* bytes = from.At(line);
      const unsigned own = L::Read(bytes).own;
      if (to_three) {
        // A cell's own fingerprints, and where its second line starts.
        const uint64_t from_here = place == 0 ? kSecondLineFrom : kThirdLineFrom;
        MoveLine(bytes, own, line, 3 * two + place, to,
                 [&](uint64_t entry, unsigned* which, uint64_t* moved) DEDUP_ALWAYS_INLINE {
                   const uint64_t marker = MarkerOf(entry);
                   *which = (entry ^ marker) >= from_here;
                   *moved = entry;
                   return ((entry | (marker - 1)) >= from_here) == (*which != 0);
                 });
      } else {
        // What starts in the line before may be in both.
        const uint64_t starts = place == 0 ? 0 : place == 1 ? kSecondLineFrom : kThirdLineFrom;
        const uint64_t turned = place == 1;
        MoveLine(bytes, own, line, 4 * two + place, to,
                 [&](uint64_t entry, unsigned* which, uint64_t* moved) DEDUP_ALWAYS_INLINE {
                   constexpr uint64_t kNoBits = uint64_t{1} << 63;
                   const uint64_t bit = entry >> 63, start = entry ^ MarkerOf(entry);
                   *which = static_cast<unsigned>(bit ^ turned);
                   *moved = entry << 1;
                   return entry != kNoBits && (start >= starts || bit < turned);
                 });
      }
      from.ForEachForeign(
          line, [&](uint64_t own_line, uint64_t entry) { to->PutFromSmaller(own_line, entry); });
      if (++place == from.lines_of_two()) {
        place = 0;
        ++two;
      }
    }
  });
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_GROW_HPP_
