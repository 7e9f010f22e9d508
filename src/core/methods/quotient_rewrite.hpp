// Reads two quotient filter tables as one, and rewrites a table in its own bytes. So a table can
// double, or be merged with another, without room for a copy.

#ifndef STREAMDEDUP_CORE_METHODS_QUOTIENT_REWRITE_HPP_
#define STREAMDEDUP_CORE_METHODS_QUOTIENT_REWRITE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../bytes.hpp"
#include "../pause.hpp"
#include "quotient_table.hpp"

namespace dedup::quotient {

// Runs use(fingerprint) over the fingerprints of two sources in order. A fingerprint in both is
// passed as often as in the source that has more copies of it. The sources have: bool
// Peek(uint64_t*), void Drop().
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

// A table as a source. No table is an empty source.
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

// A source that reads a table while the table is being overwritten from its front. Slots are read
// into a queue before they are overwritten.
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
  // Reads all slots in front of a bit of the body. Returns false if the queue has no room, which no
  // valid table causes.
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

// Rewrites the table of q = `from` at the start of `body` as a table of q = `to`, which is at least
// `from`. Adds the fingerprints of `other` (may be null). The body has the bytes of the new table,
// and the fingerprints fit into it. Returns false if the bits are not a valid table.
//
// The old table is moved to the end of the new table's bytes. Then one pass reads old slots and
// writes new ones, both from the front. Let w and v be the bits of a slot, 2^d = 2^to / 2^from, and
// T the number of old quotients. A fingerprint of old quotient a is written to new slot 2^d (a+1) -
// 1 + kMaxShift at most, and was read from old slot a or a later one. The old table starts about T
// (2^d v - w) bits into the body. So at a = T - 1 the writer is ahead of the slot just read by at
// most kMaxShift + 1 slots, the old spare slots, and the rounding of two words; before that it is
// ahead by less. This is at most 416 slots, which fit into the queue.
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
