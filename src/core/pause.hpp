// Pauses: where long work of the core may be cancelled.
//
// Work over more than kPieceBytes is cut into pieces, and Pause() is called between two
// of them. By default a pause does nothing. The extension sets `pause_function` to one
// that checks for interrupts, so it may leave the core by longjmp and never return. That
// is sound: no frame of the core has a destructor, and the core owns no memory or lock.
//
// What an abandoned call leaves behind:
// - Inputs are as they were. Bytes that are written elsewhere (`out`, scratch) hold
//   nothing of use, and their owner drops them: MakeWorking, WriteCanonical, AddTo,
//   ForgetFrom, MergeTo, ReduceTo, BodyTo, SortEntries of a copy.
// - An image that is changed in place (TestAndAdd, AddNew, TakeOver, Defer, Settle,
//   Align, MergeInPlace; DistinctSet) may be half changed, and must not be used again. Its
//   owner drops it with the statement, as aggregates and executor nodes do, or defers
//   cancelling until the call has returned, as expanded values do (value/datum.cpp).
// - Read-only functions leave nothing.
//
// The bound: at most kMostBetweenPauses bytes are touched between two pauses, or between
// a pause and the start or end of a call, for images of any size and calls of any number
// of keys. test/unit/pause_test.cpp holds every function and every method to it. The
// kernels of one method call (test_and_add, insert, contains) do not pause between keys;
// their callers here pass at most kKeysBetweenPauses keys at a time.

#ifndef STREAMDEDUP_CORE_PAUSE_HPP_
#define STREAMDEDUP_CORE_PAUSE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.hpp"

namespace dedup {

inline constexpr size_t kMostBetweenPauses = size_t{16} << 20;

// How many bytes of each buffer a loop works on between two pauses. A loop over three buffers
// touches three times as much.
inline constexpr size_t kPieceBytes = size_t{1} << 20;

// Keys that touch up to 32 lines each.
inline constexpr size_t kKeysBetweenPauses = 128;

// Steps that touch a few lines each, at places that are far apart.
inline constexpr uint64_t kStepsBetweenPauses = 128;

// Steps through neighbouring slots of a few bytes each, which are seldom more than a few.
inline constexpr uint64_t kProbesBetweenPauses = uint64_t{1} << 14;

// May leave by longjmp. Null: nothing to do.
inline void (*pause_function)() = nullptr;

DEDUP_ALWAYS_INLINE inline void Pause() noexcept {
  if (pause_function != nullptr) pause_function();
}

// Pauses after each kEvery calls with a counter that starts at 0.
template <uint64_t kEvery>
DEDUP_ALWAYS_INLINE inline void PauseEvery(uint64_t* steps) noexcept {
  static_assert((kEvery & (kEvery - 1)) == 0);
  if (__builtin_expect((++*steps & (kEvery - 1)) == 0, 0)) Pause();
}

// Runs work(from, to) over 0 .. total in pieces of `piece`, with a pause after each. Totals
// of a small part of a piece have none: up to 128 of them, one after the other, are few
// pieces, and short work stays as fast as it was.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForPieces(uint64_t total, uint64_t piece, Work work) noexcept {
  for (uint64_t from = 0; from < total;) {
    const uint64_t to = total - from > piece ? from + piece : total;
    work(from, to);
    from = to;
    if (total > piece / 16) Pause();
  }
}

// The same over bytes: pieces start at multiples of kPieceBytes, and so of lines.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForBytes(uint64_t bytes, Work work) noexcept {
  ForPieces(bytes, kPieceBytes, work);
}

// The same over units of so many bits each.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForUnits(uint64_t count, uint64_t unit_bits, Work work) noexcept {
  const uint64_t piece = unit_bits > 0 ? kPieceBytes * 8 / unit_bits : count;
  ForPieces(count, piece > 0 ? piece : 1, work);
}

// The same over keys that a method's function takes at once.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForKeys(size_t n, Work work) noexcept {
  ForPieces(n, kKeysBetweenPauses, work);
}

// Runs visit(i) over the offsets of all 64-bit words of a span.
template <typename Visit>
DEDUP_ALWAYS_INLINE inline void ForWords(size_t bytes, Visit visit) noexcept {
  ForBytes(bytes, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; i += 8) visit(i);
  });
}

inline void OrInPieces(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  ForWords(bytes, [&](size_t i) { StoreU64(to + i, LoadU64(to + i) | LoadU64(from + i)); });
}

inline void CopyInPieces(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  ForBytes(bytes,
           [&](size_t begin, size_t end) { std::memcpy(to + begin, from + begin, end - begin); });
}

inline void ClearInPieces(uint8_t* bytes, size_t size) noexcept {
  ForBytes(size, [&](size_t begin, size_t end) { std::memset(bytes + begin, 0, end - begin); });
}

// For spans that may overlap.
inline void MoveInPieces(uint8_t* to, const uint8_t* from, size_t bytes) noexcept {
  if (to <= from) {
    ForBytes(bytes, [&](size_t begin, size_t end) {
      std::memmove(to + begin, from + begin, end - begin);
    });
    return;
  }
  ForBytes(bytes, [&](size_t begin, size_t end) {
    std::memmove(to + (bytes - end), from + (bytes - end), end - begin);
  });
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_PAUSE_HPP_
