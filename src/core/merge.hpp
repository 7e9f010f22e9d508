// Merges two filters of equal shape. While both are exact the merge is exact. Else exact hashes are
// replayed into a body of their own, and the method merges the bodies. The inputs are settled, and
// their method can merge. Each method defines what a merge of full filters keeps. If the method
// counts, counts add up. A returned size of 0 means that the result would be full.

#ifndef STREAMDEDUP_CORE_MERGE_HPP_
#define STREAMDEDUP_CORE_MERGE_HPP_

#include <cstddef>
#include <cstdint>

#include "filter.hpp"
#include "image.hpp"

namespace dedup {

// The bytes that MergeTo needs: at most `out` for its result, and `scratch` bytes besides.
struct MergeBytes {
  size_t out;
  size_t scratch;
};

// Returns whether the keys of another filter may be added in any order. Either the order does not
// matter, or it changes the bytes but not the promises of the filter.
inline bool AnyOrder(const Header& header) noexcept {
  return header.order() == ExactOrder::kSorted || header.counted();
}

// `limit` is the most hashes of an exact result, as for NextStep().
MergeBytes MergeNeeds(const Header& a, const Header& b, uint64_t limit) noexcept;
inline MergeBytes MergeNeeds(const Header& a, const Header& b) noexcept {
  return MergeNeeds(a, b, a.exact_limit());
}

// Writes the canonical image of the merge to `out`, without its checksum (Seal sets it). Returns
// its size. The inputs have equal shapes and any form.
[[nodiscard]] size_t MergeTo(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                             uint64_t limit, uint8_t* out, uint8_t* scratch) noexcept;
[[nodiscard]] inline size_t MergeTo(const uint8_t* a, const Header& ha, const uint8_t* b,
                                    const Header& hb, uint8_t* out, uint8_t* scratch) noexcept {
  return MergeTo(a, ha, b, hb, ha.exact_limit(), out, scratch);
}

// ---- filters that differ only in their precision ------------------------------------

// Returns whether a filter of this shape can be reduced to the shape `to`.
bool Reducible(const Header& header, const Shape& to) noexcept;

// Returns the number of bytes that ReduceTo writes.
size_t ReducedBytes(const Header& header, const Shape& to) noexcept;

// Writes the canonical image of the filter, reduced to the shape `to` and sealed. It is exact if
// the filter was exact and its hashes fit.
void ReduceTo(const uint8_t* image, const Header& header, const Shape& to, uint8_t* out) noexcept;

// Stores in a working image how many filters were merged into it.
void SetParts(uint8_t* image, Header* header, uint32_t parts) noexcept;

// Returns whether two filters that grow can be merged into one of the plain shape `to` without an
// intermediate state. `b` must be a full state, and `a` a full state or a full plain filter.
bool MergesToPlain(const Header& a, const Header& b, const Shape& to) noexcept;
// Returns the approximate number of keys in both filters.
uint64_t PlainKeys(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                   const Shape& to) noexcept;
uint32_t PlainBytes(const Header& ha, const Shape& to, uint64_t keys) noexcept;
// Writes the merge to `out`, which has kHeaderBytes + `bytes` bytes, not sealed. The body has
// `bytes` bytes. Every key has as many bits as new keys have in such a body. Returns the image's
// size, or 0 if the body is too small for the keys. A body for as many keys as both filters have
// together is never too small.
[[nodiscard]] size_t MergeToPlain(const uint8_t* a, const Header& ha, const uint8_t* b,
                                  const Header& hb, const Shape& to, uint32_t bytes,
                                  uint8_t* out) noexcept;

// Merges `b` into the working full image `a`, if that needs no room: if `b` is full too, or its
// keys may be added in any order. kNoRoom: the merge needs room, and nothing has changed. kFull:
// `a` is not a valid filter any more.
[[nodiscard]] Outcome MergeInPlace(uint8_t* a, Header* ha, const uint8_t* b,
                                   const Header& hb) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_MERGE_HPP_
