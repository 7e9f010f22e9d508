// Pauses: the places where long work of the core can be cancelled.
//
// Work over more than kPieceBytes is cut into pieces, and Pause() is called between two of them. By
// default a pause does nothing. The extension sets `pause_function` to a function that checks for
// interrupts. That function may leave the core by longjmp and never return. This is safe, because
// no frame of the core has a destructor, and the core owns no memory and no lock.
//
// The state after an abandoned call:
// - Inputs are unchanged. Bytes that were being written elsewhere (`out`, scratch) are not usable,
//   and their owner drops them. This applies to MakeWorking, WriteCanonical, AddTo, ForgetFrom,
//   MergeTo, ReduceTo, BodyTo, and SortEntries of a copy.
// - An image that is changed in place (TestAndAdd, AddNew, TakeOver, Defer, Settle, Align,
//   MergeInPlace; DistinctSet) may be half changed, and must not be used again. Aggregates and
//   executor nodes drop it with the statement. Expanded values defer cancelling until the call has
//   returned (value/datum.cpp).
// - Read-only functions change nothing.
//
// At most kMostBetweenPauses bytes are touched between two pauses, or between a pause and the start
// or end of a call, for images of any size and calls with any number of keys.
// test/unit/pause_test.cpp checks this for every function and every method. The kernels of one
// method call (test_and_add, insert, contains) do not pause between keys. So their callers pass at
// most kKeysBetweenPauses keys at a time.

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

// For keys that touch up to 32 lines each.
inline constexpr size_t kKeysBetweenPauses = 128;

// For steps that touch a few lines each, at places that are far apart.
inline constexpr uint64_t kStepsBetweenPauses = 128;

// For steps through neighbouring slots of a few bytes each. A run of such steps is usually short.
inline constexpr uint64_t kProbesBetweenPauses = uint64_t{1} << 14;

// The function may leave by longjmp. Null: a pause does nothing.
inline void (*pause_function)() = nullptr;

DEDUP_ALWAYS_INLINE inline void Pause() noexcept {
  if (pause_function != nullptr) pause_function();
}

// Pauses after each kEvery calls. The counter starts at 0.
template <uint64_t kEvery>
DEDUP_ALWAYS_INLINE inline void PauseEvery(uint64_t* steps) noexcept {
  static_assert((kEvery & (kEvery - 1)) == 0);
  if (__builtin_expect((++*steps & (kEvery - 1)) == 0, 0)) Pause();
}

// Runs work(from, to) over 0 .. total in pieces of `piece`, with a pause after each. Small totals
// get no pause: 128 such calls in a row are still only few pieces, and short work stays as fast as
// without pauses.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForPieces(uint64_t total, uint64_t piece, Work work) noexcept {
  for (uint64_t from = 0; from < total;) {
    const uint64_t to = total - from > piece ? from + piece : total;
    work(from, to);
    from = to;
    if (total > piece / 16) Pause();
  }
}

// Does the same over bytes. Pieces start at multiples of kPieceBytes, so also at the start of
// lines.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForBytes(uint64_t bytes, Work work) noexcept {
  ForPieces(bytes, kPieceBytes, work);
}

// Does the same over units of `unit_bits` bits each.
template <typename Work>
DEDUP_ALWAYS_INLINE inline void ForUnits(uint64_t count, uint64_t unit_bits, Work work) noexcept {
  const uint64_t piece = unit_bits > 0 ? kPieceBytes * 8 / unit_bits : count;
  ForPieces(count, piece > 0 ? piece : 1, work);
}

// Does the same over the keys of one call of a method's function.
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

// Moves bytes between spans that may overlap.
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
