// Two quotient filter tables read as one, and a table rewritten in its own bytes: how one
// is doubled, and merged with another, without room for a copy.

#ifndef STREAMDEDUP_CORE_METHODS_QUOTIENT_REWRITE_HPP_
#define STREAMDEDUP_CORE_METHODS_QUOTIENT_REWRITE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../bytes.hpp"
#include "../pause.hpp"
#include "quotient_table.hpp"

namespace dedup::quotient {

// The fingerprints of two sources in order; one that is in both is there as often as in
// the one that has more of it. The sources: bool Peek(uint64_t*), void Drop().
template <typename Left, typename Right, typename Use>
inline bool ForEachOfUnion(Left* left, Right* right, Use use) noexcept {
  while (true) {
    uint64_t a = 0, b = 0;
    const bool in_left = left->Peek(&a), in_right = right->Peek(&b);
    if (!in_left && !in_right) return true;
    const uint64_t fingerprint = !in_right || (in_left && a <= b) ? a : b;
    if (in_left && a == fingerprint) left->Drop();
    if (in_right && b == fingerprint) right->Drop();
    if (!use(fingerprint)) return false;
  }
}

// A table as a source; none is an empty one.
class TableSource {
 public:
  explicit TableSource(const Table* table) noexcept
      : scanner_(table != nullptr ? *table : Table(nullptr, 1, 1)),
        there_(table != nullptr && scanner_.Next(&fingerprint_)) {}
  bool Peek(uint64_t* fingerprint) const noexcept {
    *fingerprint = fingerprint_;
    return there_;
  }
  void Drop() noexcept { there_ = scanner_.Next(&fingerprint_); }

 private:
  Scanner scanner_;
  uint64_t fingerprint_ = 0;
  bool there_;
};

// A table that is being overwritten from its front, as a source: what is about to be
// overwritten is read before, into a queue.
class QueuedSource {
 public:
  QueuedSource(const Table& table, uint64_t first_bit) noexcept
      : scanner_(table), first_bit_(first_bit), width_(table.width()) {}
  bool Peek(uint64_t* fingerprint) noexcept {
    while (head_ == tail_ && !scanner_.done()) ReadSlot();
    *fingerprint = queue_[head_ % kRoom];
    return head_ != tail_;
  }
  void Drop() noexcept { ++head_; }
  // Reads all that is in front of a bit of the body. False: there is no room (which no table
  // comes to).
  bool ReadTo(uint64_t bit) noexcept {
    while (!scanner_.done() && first_bit_ + scanner_.at() * width_ < bit) {
      if (tail_ - head_ >= kRoom) return false;
      ReadSlot();
    }
    return true;
  }

 private:
  static constexpr unsigned kRoom = 512;

  void ReadSlot() noexcept {
    if (scanner_.Step(&queue_[tail_ % kRoom])) ++tail_;
  }

  Scanner scanner_;
  uint64_t first_bit_;
  unsigned width_;
  unsigned head_ = 0;
  unsigned tail_ = 0;
  uint64_t queue_[kRoom] = {};
};

// Rewrites the table of q = `from` at the start of `body` as one of q = `to`, at least as
// much, with the fingerprints of `other` (may be null) put in. The body has the bytes of
// the new table, and the fingerprints fit there. False: the bits were no table.
//
// The old table is moved to the end of the new one's bytes; then one pass reads old slots
// and writes new ones, both from the front. With w and v bits a slot, 2^d = 2^to / 2^from
// and T old quotients, a fingerprint of old quotient a is written in new slot
// 2^d (a+1) - 1 + kMaxShift at most, and was read from old slot a or one behind. The old
// table starts about T (2^d v - w) bits into the body, so at a = T - 1 the writer is at
// most kMaxShift + 1 slots, the old spare ones, and two words' rounding past the slot just
// read, and earlier it is past it by less: 416 slots at most, which the queue holds.
inline bool Rewrite(uint8_t* body, unsigned p, unsigned from, unsigned to,
                    const Table* other) noexcept {
  const size_t old_bytes = static_cast<size_t>(TableBytes(from, p - from));
  const size_t new_bytes = static_cast<size_t>(TableBytes(to, p - to));
  const size_t offset = new_bytes - old_bytes;
  if (offset > 0) MoveInPieces(body + offset, body, old_bytes);
  QueuedSource ours(Table(body + offset, from, p - from), uint64_t{offset} * 8);
  TableSource theirs(other);
  Table table(body, to, p - to);
  Placer placer(to, p - to);
  size_t cleared = 0;  // bytes
  const auto clear_to = [&](size_t end) {
    if (end <= cleared) return;
    ClearInPieces(body + cleared, end - cleared);
    cleared = end;
  };
  const bool fits = ForEachOfUnion(&ours, &theirs, [&](uint64_t fingerprint) {
    if (!placer.Place(fingerprint)) return false;
    const uint64_t end = ((placer.at() + 1) * table.width() + 63) / 64 * 8;
    if (!ours.ReadTo(end * 8)) return false;
    clear_to(static_cast<size_t>(end));
    placer.Write(&table);
    return true;
  });
  clear_to(new_bytes);
  return fits;
}

}  // namespace dedup::quotient

#endif  // STREAMDEDUP_CORE_METHODS_QUOTIENT_REWRITE_HPP_
