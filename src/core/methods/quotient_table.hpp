// The table of a quotient filter: a sorted multiset of p-bit fingerprints over bytes.
//
// The high q bits of a fingerprint (its quotient) are the number of its own slot. Its other r bits
// (the remainder) are stored in that slot or in the nearest free slot behind it. The fingerprints
// of one quotient are a run, which is sorted; runs are in order of their quotients. Three bits a
// slot say where runs belong:
//   occupied      some fingerprint has this slot's number as its quotient
//   continuation  the fingerprint here is not the first of its run
//   shifted       the fingerprint here is not in its own slot
// A slot is empty when all three are 0. So the bytes depend only on the set.
//
// The table is not circular. Behind the 2^q slots there are spare ones for fingerprints that the
// last quotients push out. So the order of slots is the order of fingerprints. No fingerprint is
// more than kMaxShift slots from its own slot; a fingerprint that would push another one further
// does not fit. At a load of 0.9, a shift of d or more has probability exp(-0.207 d) (a queue with
// Poisson arrivals at 0.9 and unit service). A shift becomes too long about once in 10^14 fillings
// of the largest table, and the spare slots run out once in 10^11.
//
// Because of that bound, a table can be doubled, or merged with another, in its own bytes, by one
// pass forwards with a short queue. See quotient_rewrite.hpp.

#ifndef STREAMDEDUP_CORE_METHODS_QUOTIENT_TABLE_HPP_
#define STREAMDEDUP_CORE_METHODS_QUOTIENT_TABLE_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../packed.hpp"
#include "../pause.hpp"

namespace dedup::quotient {

inline constexpr unsigned kMetaBits = 3;
inline constexpr uint64_t kOccupied = 1;
inline constexpr uint64_t kContinuation = 2;
inline constexpr uint64_t kShifted = 4;
inline constexpr uint64_t kMeta = 7;
inline constexpr unsigned kMaxRemainder = kMaxFieldBits - kMetaBits;

inline constexpr uint64_t kMaxShift = 255;
inline constexpr uint64_t kMostSpare = 128;
inline constexpr unsigned kMaxCopies = 64;  // the most copies of one fingerprint

inline constexpr uint64_t kSlotsBetweenPauses = uint64_t{1} << 16;

inline uint64_t SlotsOf(unsigned q) noexcept {
  const uint64_t quotients = uint64_t{1} << q, half = quotients / 2;
  return quotients + (half < kMostSpare ? half : kMostSpare);
}
inline uint64_t TableBytes(unsigned q, unsigned r) noexcept {
  return (SlotsOf(q) * (r + kMetaBits) + 63) / 64 * 8;
}

// The place of a fingerprint, or the place where it would go.
struct Spot {
  uint64_t fingerprint;
  uint64_t cluster;  // all slots from this one up to `at` are used
  uint64_t run;      // the first slot of the quotient's run
  // of the first fingerprint of the run that is not less; the end of the run if there is none
  uint64_t at;
  bool occupied;  // whether the quotient has a run
  bool found;
};

class Table {
 public:
  Table(const uint8_t* bytes, unsigned q, unsigned r) noexcept
      : bytes_(const_cast<uint8_t*>(bytes)),
        size_(static_cast<size_t>(TableBytes(q, r))),
        q_(q),
        r_(r),
        width_(r + kMetaBits),
        lanes_(kMaxFieldBits / width_),
        slots_(SlotsOf(q)) {
    for (unsigned i = 0; i < lanes_; ++i) ones_ |= uint64_t{1} << i * width_;
  }

  unsigned q() const noexcept { return q_; }
  unsigned r() const noexcept { return r_; }
  unsigned width() const noexcept { return width_; }
  uint64_t quotients() const noexcept { return uint64_t{1} << q_; }
  uint64_t slots() const noexcept { return slots_; }
  size_t size() const noexcept { return size_; }
  uint64_t Slot(uint64_t i) const noexcept { return LoadField(bytes_, size_, i * width_, width_); }
  void SetSlot(uint64_t i, uint64_t value) noexcept {
    StoreField(bytes_, size_, i * width_, width_, value);
  }
  void Mark(uint64_t i, uint64_t bits) noexcept { SetSlot(i, Slot(i) | bits); }
  // Returns whether no bit is set behind the last slot.
  bool EndsClear() const noexcept {
    const uint64_t end = slots_ * width_, rest = size_ * 8 - end;
    return rest == 0 || LoadU64(bytes_ + size_ - 8) >> (64 - rest) == 0;
  }

  DEDUP_ALWAYS_INLINE void Fetch(uint64_t fingerprint) const noexcept {
    const uint8_t* at = bytes_ + (fingerprint >> r_) * width_ / 8;
    PrefetchToWrite(at);
    PrefetchToWrite(at + 2 * (width_ + 1));  // the searched slot is often some slots behind
  }

  bool Contains(uint64_t fingerprint) const noexcept {
    if ((Slot(fingerprint >> r_) & kOccupied) == 0) return false;
    return Locate(fingerprint).found;
  }

  Spot Locate(uint64_t fingerprint) const noexcept {
    const uint64_t home = fingerprint >> r_, remainder = fingerprint & LowMask(r_);
    const uint64_t here = Slot(home);
    Spot spot = {fingerprint, home, home, home, (here & kOccupied) != 0, false};
    if ((here & kMeta) == 0) return spot;
    // The number of runs of quotients up to this one that start behind `home`.
    const uint64_t behind = (here & kShifted) != 0 ? RunsBehind(home, &spot.cluster) : 0;
    if (!spot.occupied) {
      spot.run = spot.at = RunStart(home + 1, behind + 1);
      return spot;
    }
    if (behind > 0) spot.run = RunStart(home + 1, behind);
    for (spot.at = spot.run; spot.at < slots_; ++spot.at) {
      const uint64_t slot = Slot(spot.at);
      if (spot.at != spot.run && (slot & kContinuation) == 0) break;
      if (slot >> kMetaBits >= remainder) {
        spot.found = slot >> kMetaBits == remainder;
        break;
      }
    }
    return spot;
  }

  // Returns the number of copies of the fingerprint at a spot where it was found.
  unsigned CopiesAt(const Spot& spot) const noexcept {
    unsigned copies = 0;
    const uint64_t remainder = spot.fingerprint & LowMask(r_);
    for (uint64_t at = spot.at; at < slots_ && copies < kMaxCopies; ++at, ++copies) {
      const uint64_t slot = Slot(at);
      if (slot >> kMetaBits != remainder) break;
      if (at != spot.run && (slot & kContinuation) == 0) break;
    }
    return copies;
  }

  // Inserts the fingerprint at its spot. Returns false, with nothing changed, if it does not fit.
  bool Insert(const Spot& spot) noexcept;
  // Removes one copy of the fingerprint at its spot, where it was found.
  bool Remove(const Spot& spot) noexcept;

 private:
  // Returns the lowest bits of `lanes` slots.
  uint64_t Ones(unsigned lanes) const noexcept { return ones_ & LowMask(lanes * width_); }
  uint64_t Load(uint64_t slot, unsigned lanes) const noexcept {
    return LoadField(bytes_, size_, slot * width_, lanes * width_);
  }
  // Returns the lane of a slot, from the lowest bit of the slot in a word.
  uint64_t LaneOf(int bit) const noexcept { return static_cast<unsigned>(bit) / width_; }

  // Walks back to the start of `home`'s cluster. Returns the number of occupied slots on the way
  // minus the number of runs that start there.
  uint64_t RunsBehind(uint64_t home, uint64_t* cluster) const noexcept {
    int64_t behind = 0;
    uint64_t steps = 0;
    for (uint64_t end = home + 1; end > 0;) {
      PauseEvery<kProbesBetweenPauses>(&steps);
      const unsigned lanes = end < lanes_ ? static_cast<unsigned>(end) : lanes_;
      const uint64_t word = Load(end - lanes, lanes);
      uint64_t counted = Ones(lanes);
      const uint64_t in_place = ~(word >> 2) & counted;
      end -= lanes;
      *cluster = end;
      if (in_place != 0) {
        const int start = 63 - std::countl_zero(in_place);
        counted &= ~LowMask(static_cast<unsigned>(start));
        *cluster += LaneOf(start);
      }
      behind += std::popcount(word & counted) - std::popcount(~(word >> 1) & counted);
      if (in_place != 0) break;
    }
    return behind > 0 ? static_cast<uint64_t>(behind) : 0;
  }

  // Returns the n-th slot (from 1) at or behind `from` that starts a run or is empty, or slots() if
  // there is none.
  uint64_t RunStart(uint64_t from, uint64_t n) const noexcept {
    uint64_t steps = 0;
    for (uint64_t at = from; at < slots_;) {
      PauseEvery<kProbesBetweenPauses>(&steps);
      const unsigned lanes = slots_ - at < lanes_ ? static_cast<unsigned>(slots_ - at) : lanes_;
      uint64_t starts = ~(Load(at, lanes) >> 1) & Ones(lanes);
      const auto count = static_cast<unsigned>(std::popcount(starts));
      if (count >= n) {
        for (; n > 1; --n) starts &= starts - 1;
        return at + LaneOf(std::countr_zero(starts));
      }
      n -= count;
      at += lanes;
    }
    return slots_;
  }

  uint64_t FirstEmpty(uint64_t from) const noexcept {
    uint64_t steps = 0;
    for (uint64_t at = from; at < slots_;) {
      PauseEvery<kProbesBetweenPauses>(&steps);
      const unsigned lanes = slots_ - at < lanes_ ? static_cast<unsigned>(slots_ - at) : lanes_;
      const uint64_t word = Load(at, lanes);
      const uint64_t empty = ~(word | word >> 1 | word >> 2) & Ones(lanes);
      if (empty != 0) return at + LaneOf(std::countr_zero(empty));
      at += lanes;
    }
    return slots_;
  }

  // Moves the contents of slots from .. to-1 one slot on. The bit "occupied" belongs to the slot
  // and stays.
  void ShiftOn(uint64_t from, uint64_t to) noexcept {
    uint64_t steps = 0;
    while (to > from) {
      PauseEvery<kProbesBetweenPauses>(&steps);
      const unsigned lanes = to - from < lanes_ ? static_cast<unsigned>(to - from) : lanes_;
      const uint64_t ones = Ones(lanes), bit = (to - lanes + 1) * width_;
      const unsigned bits = lanes * width_;
      const uint64_t moved = (Load(to - lanes, lanes) & ~ones) | ones << 2;
      StoreField(bytes_, size_, bit, bits, moved | (LoadField(bytes_, size_, bit, bits) & ones));
      to -= lanes;
    }
  }

  bool ShiftsFit(const Spot& spot, uint64_t end) const noexcept;

  uint8_t* bytes_;
  size_t size_;
  unsigned q_;
  unsigned r_;
  unsigned width_;
  unsigned lanes_;  // number of slots that are read at a time
  uint64_t slots_;
  uint64_t ones_ = 0;
};

// Reads a table's fingerprints in order. It reads each slot once and never goes back.
class Scanner {
 public:
  // Starts at `first`, which starts a cluster.
  explicit Scanner(const Table& table, uint64_t first = 0) noexcept : table_(table), at_(first) {}

  bool done() const noexcept { return at_ >= table_.slots(); }
  uint64_t at() const noexcept { return at_; }  // the slot that is read next
  // Returns whether the bits so far are not those of a valid table.
  bool broken() const noexcept { return broken_; }
  bool pending() const noexcept { return head_ != tail_; }
  uint64_t value() const noexcept { return value_; }  // of the last slot read

  // Reads a slot. Returns false if it is empty.
  bool Step(uint64_t* fingerprint) noexcept {
    PauseEvery<kSlotsBetweenPauses>(&at_);
    const uint64_t slot = at_ - 1;
    value_ = table_.Slot(slot);
    if ((value_ & kMeta) == 0) {
      broken_ = broken_ || pending();
      return false;
    }
    if ((value_ & kOccupied) != 0) {
      if (slot < table_.quotients() && tail_ - head_ < kRoom) {
        pending_[tail_++ % kRoom] = static_cast<uint32_t>(slot);
      } else {
        broken_ = true;
      }
    }
    if ((value_ & kContinuation) == 0 && pending()) {
      quotient_ = pending_[head_++ % kRoom];
      any_ = true;
    } else if ((value_ & kContinuation) == 0 || !any_) {
      broken_ = true;
      quotient_ = slot < table_.quotients() ? slot : table_.quotients() - 1;
    }
    *fingerprint = quotient_ << table_.r() | value_ >> kMetaBits;
    return true;
  }

  // Reads on to the next fingerprint. Returns false if there is none.
  bool Next(uint64_t* fingerprint) noexcept {
    while (!done()) {
      if (Step(fingerprint)) return true;
    }
    return false;
  }

 private:
  // Holds the occupied slots whose runs are still to come: at most kMaxShift + 1.
  static constexpr unsigned kRoom = 512;

  Table table_;
  uint64_t at_;
  uint64_t value_ = 0;
  uint64_t quotient_ = 0;
  unsigned head_ = 0;
  unsigned tail_ = 0;
  bool any_ = false;
  bool broken_ = false;
  uint32_t pending_[kRoom];
};

// Computes the slots of fingerprints that are inserted in order.
class Placer {
 public:
  Placer(unsigned q, unsigned r, uint64_t first = 0) noexcept
      : slots_(SlotsOf(q)), r_(r), next_(first) {}

  // Returns false if the fingerprint does not fit.
  bool Place(uint64_t fingerprint) noexcept {
    const uint64_t quotient = fingerprint >> r_;
    const uint64_t at = quotient > next_ ? quotient : next_;
    if (at >= slots_ || at - quotient > kMaxShift) return false;
    continues_ = any_ && quotient == quotient_;
    any_ = true;
    quotient_ = quotient;
    at_ = at;
    next_ = at + 1;
    value_ = (fingerprint & LowMask(r_)) << kMetaBits | (at != quotient ? kShifted : 0) |
             (continues_ ? kContinuation : 0);
    return true;
  }

  // About the last fingerprint: its slot, the value of the slot except for "occupied", its
  // quotient, and whether that must be marked as occupied.
  uint64_t at() const noexcept { return at_; }
  uint64_t value() const noexcept { return value_; }
  uint64_t quotient() const noexcept { return quotient_; }
  bool starts_run() const noexcept { return !continues_; }

  // Writes the last fingerprint to a table whose slots up to at() are cleared, or were written in
  // this way.
  void Write(Table* table) const noexcept {
    table->Mark(at_, value_);
    if (starts_run()) table->Mark(quotient_, kOccupied);
  }

 private:
  uint64_t slots_;
  unsigned r_;
  uint64_t next_;
  uint64_t at_ = 0;
  uint64_t value_ = 0;
  uint64_t quotient_ = 0;
  bool any_ = false;
  bool continues_ = false;
};

inline bool Table::Insert(const Spot& spot) noexcept {
  const uint64_t home = spot.fingerprint >> r_;
  const uint64_t end = FirstEmpty(spot.at);
  if (end >= slots_) return false;
  // All slots from the cluster's start on are in use, so no shift is longer than this distance.
  if (end - spot.cluster > kMaxShift && !ShiftsFit(spot, end)) return false;
  ShiftOn(spot.at, end);
  const bool first = spot.at == spot.run;
  // An occupied quotient has a run, so a fingerprint has moved on. This may be false in bits that
  // are not a valid table.
  if (spot.occupied && first && spot.at < end) Mark(spot.at + 1, kContinuation);
  SetSlot(spot.at, (spot.fingerprint & LowMask(r_)) << kMetaBits |
                       (spot.at != home ? kShifted : 0) |
                       (spot.occupied && !first ? kContinuation : 0) | (Slot(spot.at) & kOccupied));
  if (!spot.occupied) Mark(home, kOccupied);
  return true;
}

// Returns whether all fingerprints up to `end` find a slot if there is one fingerprint more.
inline bool Table::ShiftsFit(const Spot& spot, uint64_t end) const noexcept {
  Scanner scanner(*this, spot.cluster);
  Placer placer(q_, r_, spot.cluster);
  bool put = false;
  uint64_t fingerprint;
  while (scanner.at() < end) {
    if (!scanner.Step(&fingerprint)) continue;
    if (!put && fingerprint >= spot.fingerprint) {
      put = true;
      if (!placer.Place(spot.fingerprint)) return false;
    }
    if (!placer.Place(fingerprint)) return false;
  }
  return put || placer.Place(spot.fingerprint);
}

// Rewrites the cluster with one fingerprint less. No fingerprint moves up, so slots are free when
// they are written.
inline bool Table::Remove(const Spot& spot) noexcept {
  Scanner scanner(*this, spot.cluster);
  Placer placer(q_, r_, spot.cluster);
  bool removed = false;
  uint64_t fingerprint;
  while (!scanner.done()) {
    const uint64_t slot = scanner.at();
    if (slot != spot.cluster && (Slot(slot) & kShifted) == 0) break;
    if (!scanner.Step(&fingerprint)) break;
    SetSlot(slot, 0);
    if (!removed && fingerprint == spot.fingerprint) {
      removed = true;
      continue;
    }
    if (!placer.Place(fingerprint) || placer.at() > slot) break;  // it is not a valid table
    placer.Write(this);
  }
  return removed;
}

}  // namespace dedup::quotient

#endif  // STREAMDEDUP_CORE_METHODS_QUOTIENT_TABLE_HPP_
