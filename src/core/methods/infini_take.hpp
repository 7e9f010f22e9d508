// Adds all entries of one table of the method `infini` to another table of any size and width. Used
// to merge, to grow by several steps, and to shorten the slots of states.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_TAKE_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_TAKE_HPP_

#include <bit>
#include <cstdint>
#include <cstring>

#include "infini_table.hpp"

namespace dedup::infini {

// Runs visit(prefix, p, counts) for the prefixes of p bits of the own entries of a line, as
// Table::ForPrefix() does. The line is number `place` of the lines of the two cells number `two`.
// `counts`: the entry counts as a key.
template <unsigned kSlotBytes, typename Visit>
DEDUP_ALWAYS_INLINE inline void ForOwnPrefixes(const Table<kSlotBytes>& from, uint64_t line,
                                               uint64_t two, unsigned place, Visit visit) noexcept {
  using L = Line<kSlotBytes>;
  const uint8_t* bytes = from.At(line);
  const unsigned own = L::Read(bytes).own, least = from.LeastLength(), bits = from.bits();
  // In the second of 3 lines, an entry is in the first cell if its first bit is 1.
  const uint64_t cell = (2 * two + (least == 0   ? place
                                    : place == 1 ? 1
                                                 : place / 2))
                        << (64 - bits);
  const uint64_t turn = least == 1 && place == 1 ? uint64_t{1} << (64 - bits) : 0;
  for (unsigned slot = 0; slot < own; ++slot) {
    const uint64_t entry = L::Load(bytes, slot);
    if (__builtin_expect(entry == 0, 0)) continue;
    const unsigned length = LengthOf(entry);
    if (__builtin_expect(length < least, 0)) {
      from.ForPrefix(line, entry, [&](uint64_t prefix, unsigned p) { visit(prefix, p, false); });
      continue;
    }
    const uint64_t fingerprint = entry ^ MarkerOf(entry);
    visit((cell ^ (fingerprint >> 63) * turn) | fingerprint >> bits, bits + length, length > least);
  }
}

// Runs visit(line, two, place) for the lines from .. to-1.
template <unsigned kSlotBytes, typename Visit>
DEDUP_ALWAYS_INLINE inline void ForLines(const Table<kSlotBytes>& table, uint64_t from, uint64_t to,
                                         Visit visit) noexcept {
  uint64_t two = from / table.lines_of_two();
  auto place = static_cast<unsigned>(from % table.lines_of_two());
  for (uint64_t line = from; line < to; ++line) {
    visit(line, two, place);
    if (++place == table.lines_of_two()) {
      place = 0;
      ++two;
    }
  }
}

// Pauses once in kStepsBetweenPauses steps. `more` is at most kStepsBetweenPauses.
DEDUP_ALWAYS_INLINE inline void CountSteps(uint64_t* steps, uint64_t more) noexcept {
  *steps += more;
  if (__builtin_expect(*steps < kStepsBetweenPauses, 1)) return;
  *steps = 0;
  Pause();
}

// The number of neighbouring lines that are read together if only a part of a table is read. The
// parts are from all over the table, because keys need not be spread evenly.
inline constexpr uint64_t kLinesOfGroup = 64;

// A bit for each line of a table, or for several neighbouring lines together.
class SomeLines {
 public:
  explicit SomeLines(uint64_t lines) noexcept {
    while (lines >> shift_ > kBits) ++shift_;
    std::memset(words_, 0, 8 * ((lines >> shift_) / 64 + 1));
  }
  void Add(uint64_t line) noexcept {
    const uint64_t bit = line >> shift_;
    words_[bit / 64] |= uint64_t{1} << bit % 64;
  }
  bool Has(uint64_t line) const noexcept {
    const uint64_t bit = line >> shift_;
    return (words_[bit / 64] >> bit % 64 & 1) != 0;
  }

 private:
  static constexpr uint64_t kBits = uint64_t{1} << 17;
  uint64_t words_[kBits / 64 + 1];  // enough for all lines
  unsigned shift_ = 0;
};

// Adds all prefixes of a table to another. Returns by how many keys that table grows. The prefixes
// come in order of their lines, so entries that find no room in their own line are added last.
// Otherwise they would fill the next lines, whose own entries are yet to come. These would fill the
// lines after them, and so on to the end of the table, where entries could only be joined.
template <unsigned kFrom, unsigned kTo>
inline int64_t TakeAll(const Table<kFrom>& from, Table<kTo>* to) noexcept {
  int64_t grown = 0;
  uint64_t steps = 0;
  bool left_out = false;
  SomeLines late(from.lines());
  const auto take_foreign = [&](uint64_t line) DEDUP_ALWAYS_INLINE {
    from.ForEachForeign(line, [&](uint64_t own_line, uint64_t entry) {
      from.ForPrefix(own_line, entry, [&](uint64_t prefix, unsigned p) {
        grown += to->Take(prefix, p, LengthOf(entry) > from.LeastLength());
      });
    });
  };
  ForUnits(from.lines(), 8 * kLineBytes, [&](uint64_t begin, uint64_t end) {
    ForLines(from, begin, end, [&](uint64_t line, uint64_t two, unsigned place) {
      to->OnlyWithRoom(true);
      ForOwnPrefixes(from, line, two, place,
                     [&](uint64_t prefix, unsigned p, bool counts)
                         DEDUP_ALWAYS_INLINE { grown += to->TakeFast(prefix, p, counts); });
      take_foreign(line);
      CountSteps(&steps, Line<kFrom>::kSlots);
      if (__builtin_expect(to->left_out(), 0)) {
        late.Add(line);
        left_out = true;
      }
    });
  });
  if (!left_out) return grown;
  // Prefixes that were added are held now, so adding them again changes nothing.
  to->OnlyWithRoom(false);
  ForUnits(from.lines(), 8 * kLineBytes, [&](uint64_t begin, uint64_t end) {
    ForLines(from, begin, end, [&](uint64_t line, uint64_t two, unsigned place) {
      if (!late.Has(line)) return;
      ForOwnPrefixes(from, line, two, place, [&](uint64_t prefix, unsigned p, bool counts) {
        grown += to->Take(prefix, p, counts);
      });
      take_foreign(line);
    });
  });
  return grown;
}

// Runs visit(prefix, p) for the keys of a table, in the lines of one group in `one_in`, a power of
// two. Before each piece done() returns whether to stop.
template <unsigned kSlotBytes, typename Done, typename Visit>
DEDUP_ALWAYS_INLINE inline void ForKeysOf(const Table<kSlotBytes>& table, uint64_t one_in,
                                          Done done, Visit visit) noexcept {
  uint64_t steps = 0;
  ForUnits(table.lines(), 8 * kLineBytes, [&](uint64_t begin, uint64_t end) {
    if (done()) return;
    ForLines(table, begin, end, [&](uint64_t line, uint64_t two, unsigned place) {
      if ((line / kLinesOfGroup & (one_in - 1)) != 0) return;
      ForOwnPrefixes(table, line, two, place,
                     [&](uint64_t prefix, unsigned p, bool counts) DEDUP_ALWAYS_INLINE {
                       if (counts) visit(prefix, p);
                     });
      table.ForEachForeign(line, [&](uint64_t own_line, uint64_t entry) {
        if (LengthOf(entry) > table.LeastLength()) table.ForPrefix(own_line, entry, visit);
      });
      CountSteps(&steps, Line<kSlotBytes>::kSlots);
    });
  });
}

// Returns how many keys of a table another table does not hold. Stops when there are more than
// `enough`.
template <unsigned kSlotBytes>
inline uint64_t KeysOnlyIn(const Table<kSlotBytes>& table, const Table<kSlotBytes>& other,
                           uint64_t enough) noexcept {
  uint64_t keys = 0;
  ForKeysOf(
      table, 1, [&] { return keys > enough; },
      [&](uint64_t prefix, unsigned p) DEDUP_ALWAYS_INLINE { keys += !other.HasFast(prefix, p); });
  return keys;
}

// Returns the approximate number of keys by which another table grows if it takes the keys of one
// group in `one_in`.
template <unsigned kSlotBytes, unsigned kOther>
inline uint64_t KeysTakenOf(const Table<kSlotBytes>& table, const Table<kOther>& other,
                            uint64_t one_in) noexcept {
  uint64_t keys = 0;
  ForKeysOf(
      table, one_in, [] { return false; },
      [&](uint64_t prefix, unsigned p)
          DEDUP_ALWAYS_INLINE { keys += !other.HasRelated(prefix, p); });
  return keys;
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_TAKE_HPP_
