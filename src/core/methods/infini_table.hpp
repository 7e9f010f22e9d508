// The table of the method `infini`: cache lines of fingerprints of different lengths, which are
// prefixes of hashes.
//
// Nothing here allocates, throws or knows PostgreSQL.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_TABLE_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_TABLE_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"
#include "infini_line.hpp"

namespace dedup::infini {

// A test build has a smaller largest table, which few keys fill (test/check.sh largest).
#ifndef DEDUP_INFINI_TOP_BITS
#define DEDUP_INFINI_TOP_BITS 23
#endif

inline constexpr unsigned kStartBits = 5;                    // of cells: 2 kB
inline constexpr unsigned kTopBits = DEDUP_INFINI_TOP_BITS;  // 512 MB
inline constexpr unsigned kTopStep = 2 * (kTopBits - kStartBits);

static_assert((uint64_t{kLineBytes} << 23) == kMaxBodyBytes && kTopBits <= 23);

// The sizes of tables, by the number of steps that they have grown: 2 lines for two cells, then 3.
struct Size {
  unsigned bits;   // of a cell's number
  unsigned lines;  // for two cells

  uint64_t Lines() const noexcept { return uint64_t{lines} << (bits - 1); }
  uint32_t Bytes() const noexcept { return static_cast<uint32_t>(Lines() * kLineBytes); }
};

inline constexpr Size SizeAt(unsigned step) noexcept {
  return {kStartBits + step / 2, 2 + step % 2};
}
// A table of lines with slots of one width, for 2^bits cells. Two cells have 2 lines, or 3:
//
//   cells   |        0        |        1        |
//   2 lines |        0        |        1        |
//   3 lines |     0     |     1     |     2     |
//
// A fingerprint is the part of the hash behind the cell. In the second of 3 lines, fingerprints
// that start with a bit 1 belong to the first cell, and those that start with a bit 0 to the
// second. So entries have at least one bit there. An entry that extends over the end of a line is
// in both lines.
template <unsigned kSlotBytes>
class Table {
 public:
  using L = Line<kSlotBytes>;

  Table(uint8_t* body, const Size& size) noexcept
      : body_(body), bits_(size.bits), lines_of_two_(size.lines), lines_(size.Lines()) {}

  uint64_t lines() const noexcept { return lines_; }
  unsigned lines_of_two() const noexcept { return lines_of_two_; }
  unsigned bits() const noexcept { return bits_; }
  uint64_t LineOf(uint64_t hash) const noexcept {
    return (hash >> (65 - bits_)) * lines_of_two_ + FastRange(hash << (bits_ - 1), lines_of_two_);
  }
  uint64_t FingerprintOf(uint64_t hash) const noexcept { return hash << bits_; }
  // Returns the least number of bits of an entry here, or of a prefix.
  unsigned LeastLength() const noexcept { return lines_of_two_ - 2; }
  unsigned LeastBits() const noexcept { return bits_ + LeastLength(); }
  uint8_t* At(uint64_t line) const noexcept {
    return body_ + (line < lines_ ? line : line - lines_) * kLineBytes;
  }
  uint64_t Before(uint64_t line, unsigned distance) const noexcept {
    return line >= distance ? line - distance : line + lines_ - distance;
  }

  DEDUP_ALWAYS_INLINE void Fetch(uint64_t hash) const noexcept {
    PrefetchToWrite(At(LineOf(hash)));
  }

  bool Contains(uint64_t hash) const noexcept {
    const uint8_t* line = At(LineOf(hash));
    return L::OwnHolds(line, L::Read(line).own, FingerprintOf(hash)) || HeldNearby(hash);
  }
  // Returns whether an entry of the key's line that is in another line holds the key.
  bool HeldNearby(uint64_t hash) const noexcept {
    const uint64_t line = LineOf(hash);
    const unsigned reach = L::Read(At(line)).reach;
    for (unsigned distance = 1; distance <= reach; ++distance) {
      if (L::ForeignHolds(At(line + distance), distance, FingerprintOf(hash))) return true;
    }
    return false;
  }

  // Returns whether the key was new. `may_displace`: the key may go into another line.
  bool TestAndAdd(uint64_t hash, bool may_displace) noexcept {
    const uint8_t* line = At(LineOf(hash));
    const Numbers numbers = L::Read(line);
    return !L::OwnHolds(line, numbers.own, FingerprintOf(hash)) &&
           AddToLine(hash, numbers, may_displace);
  }
  // Does the same for a key that its line, which has these numbers, does not hold itself.
  bool AddToLine(uint64_t hash, Numbers numbers, bool may_displace) noexcept {
    if (__builtin_expect(numbers.reach > 0, 0) && HeldNearby(hash)) return false;
    const uint64_t line = LineOf(hash), entry = EntryOf(FingerprintOf(hash), L::kMaxLength);
    if (__builtin_expect(L::HasRoom(numbers, 1), 1)) {
      L::AppendOwn(At(line), &numbers, entry);
    } else {
      Displace(line, numbers, entry, may_displace);
    }
    return true;
  }

  // Puts an entry into its line, or nearby.
  void Put(uint64_t line, uint64_t entry) noexcept {
    uint8_t* bytes = At(line);
    Numbers numbers = L::Read(bytes);
    if (__builtin_expect(L::HasRoom(numbers, 1), 1)) {
      L::AppendOwn(bytes, &numbers, entry);
    } else {
      Displace(line, numbers, entry, true);
    }
  }

  // Runs visit(line, entry) for the entries of other lines that are in this line.
  template <typename Visit>
  void ForEachForeign(uint64_t line, Visit visit) const noexcept {
    const uint8_t* bytes = At(line);
    const unsigned foreign = L::Read(bytes).foreign;
    for (unsigned i = 0; i < foreign; ++i) {
      const uint64_t entry = L::Load(bytes, L::ForeignSlot(i));
      if (entry != 0) visit(Before(line, L::DistanceAt(bytes, i)), entry);
    }
  }
  // Runs visit(line, entry) for all entries, each with its own line.
  template <typename Visit>
  void ForEach(Visit visit) const noexcept {
    ForUnits(lines(), 8 * kLineBytes, [&](uint64_t from, uint64_t to) {
      for (uint64_t line = from; line < to; ++line) {
        const uint8_t* bytes = At(line);
        const unsigned own = L::Read(bytes).own;
        for (unsigned slot = 0; slot < own; ++slot) {
          const uint64_t entry = L::Load(bytes, slot);
          if (entry != 0) visit(line, entry);
        }
        ForEachForeign(line, visit);
      }
    });
  }

  // Returns whether an entry holds all that this entry holds.
  bool HasCovering(uint64_t line, uint64_t entry) const noexcept {
    return Search(line, entry, [&](uint64_t other) { return Covers(other, entry); });
  }
  // Does the same for a prefix of p bits.
  bool Has(uint64_t prefix, unsigned p) const noexcept {
    if (p < LeastBits()) return false;
    const unsigned length = p - bits_ < L::kMaxLength ? p - bits_ : L::kMaxLength;
    return HasCovering(LineOf(prefix), EntryOf(FingerprintOf(prefix), length));
  }
  // Removes the entries whose fingerprints are all held by `entry`. Returns how many of them had
  // bits.
  unsigned RemoveCovered(uint64_t line, uint64_t entry) noexcept {
    unsigned removed = 0;
    uint8_t* bytes = At(line);
    Numbers numbers = L::Read(bytes);
    for (unsigned slot = numbers.own; slot-- > 0;) {
      const uint64_t other = L::Load(bytes, slot);
      if (other == 0 || !Covers(entry, other)) continue;
      removed += LengthOf(other) > 0;
      L::RemoveOwn(bytes, &numbers, slot);
    }
    for (unsigned distance = 1; distance <= numbers.reach; ++distance) {
      uint8_t* nearby = At(line + distance);
      Numbers its = L::Read(nearby);
      for (unsigned i = its.foreign; i-- > 0;) {
        const uint64_t other = L::Load(nearby, L::ForeignSlot(i));
        if (other == 0 || L::DistanceAt(nearby, i) != distance || !Covers(entry, other)) continue;
        removed += LengthOf(other) > 0;
        L::RemoveForeign(nearby, &its, i);
      }
    }
    return removed;
  }

  // Runs visit(prefix, p) for the prefix of p bits, at the top of a number, that an entry of this
  // line is. An entry that was joined until no bit was left is two prefixes.
  template <typename Visit>
  void ForPrefix(uint64_t line, uint64_t entry, Visit visit) const noexcept {
    const uint64_t two = line / lines_of_two_, place = line % lines_of_two_;
    const unsigned length = LengthOf(entry);
    const auto one = [&](uint64_t bits, unsigned many) {
      const uint64_t cell = 2 * two + (lines_of_two_ == 2 ? place
                                       : place == 1       ? 1 - (bits >> 63)
                                                          : place / 2);
      visit(cell << (64 - bits_) | bits >> bits_, bits_ + many);
    };
    if (length < LeastLength()) {
      one(0, 1);
      one(uint64_t{1} << 63, 1);
    } else {
      one(entry & ~(2 * MarkerOf(entry) - 1), length);
    }
  }

  // Returns whether the range of an entry of this line starts here, and not in the line before.
  bool StartsIn(uint64_t line, uint64_t entry) const noexcept {
    bool starts = true;
    if (lines_of_two_ == 3 && LengthOf(entry) > 0) {
      ForPrefix(line, entry, [&](uint64_t prefix, unsigned) { starts = LineOf(prefix) == line; });
    }
    return starts;
  }

  // Adds a prefix of p bits of another table, cut to the length of a slot. Returns by how many keys
  // the table grows; negative if it shrinks. Keys count as one if the prefix of one holds the
  // other. A prefix of several cells belongs to an old key and is not counted.
  int64_t Take(uint64_t prefix, unsigned p, bool counts) noexcept {
    int64_t grown = 0;
    if (p >= LeastBits()) {
      const unsigned length = p - bits_ < L::kMaxLength ? p - bits_ : L::kMaxLength;
      const uint64_t entry = EntryOf(FingerprintOf(prefix), length);
      const uint64_t first = LineOf(prefix), last = LineOf(prefix | LastOf(bits_ + length));
      grown = TakeEntry(first, entry, counts);
      if (last != first) grown += TakeEntry(last, entry, false);
      return grown;
    }
    // Foreign bytes can hold many prefixes of many cells each.
    const uint64_t many = uint64_t{1} << (LeastBits() - p);
    for (uint64_t i = 0; i < many; ++i) {
      grown += Take(prefix | i << (64 - LeastBits()), LeastBits(), counts && i == 0);
    }
    return grown;
  }

  // Does the same, without calls if the line has room and all its entries, which is nearly always
  // so.
  DEDUP_ALWAYS_INLINE int64_t TakeFast(uint64_t prefix, unsigned p, bool counts) noexcept {
    if (__builtin_expect(p < LeastBits(), 0)) return Take(prefix, p, counts);
    const unsigned length = p - bits_ < L::kMaxLength ? p - bits_ : L::kMaxLength;
    const uint64_t entry = EntryOf(FingerprintOf(prefix), length), line = LineOf(prefix);
    uint8_t* bytes = At(line);
    Numbers numbers = L::Read(bytes);
    if (__builtin_expect(numbers.reach > 0 || !L::HasRoom(numbers, 1) ||
                             LineOf(prefix | LastOf(bits_ + length)) != line,
                         0)) {
      return Take(prefix, p, counts);
    }
    uint32_t related = L::Related(bytes, entry) & static_cast<uint32_t>(LowMask(numbers.own));
    int64_t removed = 0;
    if (__builtin_expect(related != 0, 0)) {
      if (AnyCovers(bytes, related, entry)) return 0;
      // From the last slot down, as in RemoveCovered().
      while (related != 0) {
        const auto slot = static_cast<unsigned>(std::bit_width(related)) - 1;
        related ^= uint32_t{1} << slot;
        const uint64_t other = L::Load(bytes, slot);
        if (other == 0 || !Covers(entry, other)) continue;
        removed += LengthOf(other) > 0;
        L::RemoveOwn(bytes, &numbers, slot);
      }
    }
    L::AppendOwn(bytes, &numbers, entry);
    return counts - removed;
  }
  // Does the same as Has(), without a call if the line has all its entries.
  DEDUP_ALWAYS_INLINE bool HasFast(uint64_t prefix, unsigned p) const noexcept {
    return HasOwn(prefix, p, [](uint64_t other, uint64_t entry) { return Covers(other, entry); });
  }
  // Returns whether Take() of a prefix would not increase the number of keys: an entry holds all
  // that the prefix holds, or would be replaced by it.
  DEDUP_ALWAYS_INLINE bool HasRelated(uint64_t prefix, unsigned p) const noexcept {
    return HasOwn(prefix, p, [](uint64_t other, uint64_t entry) {
      return Covers(other, entry) || Covers(entry, other);
    });
  }
  // Sets whether Take() leaves out entries that find no room in their own line. LeftOut() returns
  // whether it did so.
  void OnlyWithRoom(bool only) noexcept {
    only_with_room_ = only;
    left_out_ = false;
  }
  bool left_out() const noexcept { return left_out_; }
  // Returns how many entries were joined with others because no line nearby had room.
  uint64_t joined() const noexcept { return joined_; }

  // Puts an entry of a table that is one step smaller into its line.
  void PutFromSmaller(uint64_t line, uint64_t entry) noexcept {
    if (lines_of_two_ == 3) {
      // Both tables have the same cells.
      if (LengthOf(entry) == 0) {
        PutCellEntry(line, uint64_t{1} << 62);
        PutCellEntry(line, uint64_t{3} << 62);
      } else {
        PutCellEntry(line, entry);
      }
      return;
    }
    const uint64_t two = line / 3, place = line % 3;
    if (LengthOf(entry) == 0) {
      const uint64_t first = 4 * two + place;
      PutUnlessCovered(first, entry);
      PutUnlessCovered(first + 1, entry);
      return;
    }
    const uint64_t bit = entry >> 63, cell = 2 * two + (place == 1 ? 1 - bit : place / 2);
    const uint64_t to = 2 * cell + bit;
    const uint64_t start = (cell << 63 | (entry ^ MarkerOf(entry)) >> 1);
    if (__builtin_expect(FastRange(start, 3) != place, 0)) {
      PutUnlessCovered(to, entry << 1);  // it may be in the line before as well
    } else {
      Put(to, entry << 1);
    }
  }

 private:
  void Displace(uint64_t line, Numbers numbers, uint64_t entry, bool may_displace) noexcept {
    for (unsigned distance = 1; may_displace && distance <= kMaxDistance; ++distance) {
      uint8_t* nearby = At(line + distance);
      Numbers its = L::Read(nearby);
      if (its.foreign >= L::kMaxForeign || !L::HasRoom(its, 2)) continue;
      L::AppendForeign(nearby, &its, distance, entry);
      if (distance > numbers.reach) {
        numbers.reach = distance;
        L::Write(At(line), numbers);
      }
      return;
    }
    ++joined_;
    L::Join(At(line), numbers.own, entry);
  }

  // Returns the last hash whose first `bits` bits are 0.
  static uint64_t LastOf(unsigned bits) noexcept { return bits < 64 ? ~uint64_t{0} >> bits : 0; }

  // Puts an entry of a cell, which has at least one bit, into its line, or into both lines.
  void PutCellEntry(uint64_t cell, uint64_t entry) noexcept {
    const uint64_t marker = MarkerOf(entry);
    const uint64_t first = cell << 63 | (entry ^ marker) >> 1, last = first | (marker - 1);
    const uint64_t line = (cell >> 1) * 3 + FastRange(first, 3);
    const uint64_t end = (cell >> 1) * 3 + FastRange(last, 3);
    Put(line, entry);
    if (__builtin_expect(end != line, 0)) Put(end, entry);
  }

  void PutUnlessCovered(uint64_t line, uint64_t entry) noexcept {
    if (!HasCovering(line, entry)) Put(line, entry);
  }

  // Returns whether test(entry, entry of the prefix) is true for an own entry of its line, or
  // whether an entry elsewhere holds all that the prefix holds.
  template <typename Test>
  DEDUP_ALWAYS_INLINE bool HasOwn(uint64_t prefix, unsigned p, Test test) const noexcept {
    if (__builtin_expect(p < LeastBits(), 0)) return false;
    const unsigned length = p - bits_ < L::kMaxLength ? p - bits_ : L::kMaxLength;
    const uint64_t entry = EntryOf(FingerprintOf(prefix), length), line = LineOf(prefix);
    const uint8_t* bytes = At(line);
    const Numbers numbers = L::Read(bytes);
    uint32_t related = L::Related(bytes, entry) & static_cast<uint32_t>(LowMask(numbers.own));
    for (; __builtin_expect(related != 0, 0); related &= related - 1) {
      const uint64_t other = L::Load(bytes, static_cast<unsigned>(std::countr_zero(related)));
      if (other != 0 && test(other, entry)) return true;
    }
    return __builtin_expect(numbers.reach > 0, 0) && HasCovering(line, entry);
  }

  // Returns whether an entry in one of these slots holds all that this entry holds.
  static bool AnyCovers(const uint8_t* line, uint32_t slots, uint64_t entry) noexcept {
    for (; slots != 0; slots &= slots - 1) {
      const uint64_t other = L::Load(line, static_cast<unsigned>(std::countr_zero(slots)));
      if (other != 0 && Covers(other, entry)) return true;
    }
    return false;
  }

  // The lines of the entries of a small table may be anywhere in this table.
  int64_t TakeEntry(uint64_t line, uint64_t entry, bool counts) noexcept {
    PauseEvery<kStepsBetweenPauses>(&taken_);
    if (HasCovering(line, entry)) return 0;
    if (only_with_room_ && !L::HasRoom(L::Read(At(line)), 1)) {
      left_out_ = true;
      return 0;
    }
    const int64_t removed = RemoveCovered(line, entry);
    Put(line, entry);
    return counts - removed;
  }

  // Returns whether test(entry) is true for one of a line's entries.
  template <typename Test>
  bool Search(uint64_t line, uint64_t fingerprint, Test test) const noexcept {
    const uint8_t* bytes = At(line);
    const Numbers numbers = L::Read(bytes);
    uint32_t candidates =
        L::Candidates(bytes, fingerprint) & static_cast<uint32_t>(LowMask(numbers.own));
    for (; candidates != 0; candidates &= candidates - 1) {
      const uint64_t entry = L::Load(bytes, static_cast<unsigned>(std::countr_zero(candidates)));
      if (entry != 0 && test(entry)) return true;
    }
    for (unsigned distance = 1; distance <= numbers.reach; ++distance) {
      const uint8_t* nearby = At(line + distance);
      const Numbers its = L::Read(nearby);
      for (unsigned i = 0; i < its.foreign; ++i) {
        const uint64_t entry = L::Load(nearby, L::ForeignSlot(i));
        if (entry != 0 && L::DistanceAt(nearby, i) == distance && test(entry)) return true;
      }
    }
    return false;
  }

  uint8_t* body_;
  unsigned bits_;
  unsigned lines_of_two_;
  uint64_t lines_;
  bool only_with_room_ = false;
  bool left_out_ = false;
  uint64_t taken_ = 0;  // number of entries, for the pauses
  uint64_t joined_ = 0;
};

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_TABLE_HPP_
