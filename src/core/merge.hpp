// Merging two filters of equal shape. While both are exact the merge is exact;
// else the methods merge, after exact hashes were replayed into a body of their
// own. Inputs are settled, and of a method that can merge. What a merge of full filters
// keeps is told by each method; where every sight counts, counts add up. Sizes of 0 say
// that the result would be full.

#ifndef STREAMDEDUP_CORE_MERGE_HPP_
#define STREAMDEDUP_CORE_MERGE_HPP_

#include <cstddef>
#include <cstdint>

#include "filter.hpp"
#include "image.hpp"

namespace dedup {

// Bytes that MergeTo needs: for its result, at most, and besides.
struct MergeBytes {
  size_t out;
  size_t scratch;
};

// Whether keys of another filter may be added in any order: it does not matter, or it
// matters for the bytes and not for what they promise.
inline bool AnyOrder(const Header& header) noexcept {
  return header.order() == ExactOrder::kSorted || header.counted();
}

// `limit` is the most hashes of an exact result, as for NextStep().
MergeBytes MergeNeeds(const Header& a, const Header& b, uint64_t limit) noexcept;
inline MergeBytes MergeNeeds(const Header& a, const Header& b) noexcept {
  return MergeNeeds(a, b, a.exact_limit());
}

// Writes the canonical image of the merge, without its checksum (Seal sets it),
// to `out`, and returns its size. The inputs have equal shapes; any form will do.
[[nodiscard]] size_t MergeTo(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                             uint64_t limit, uint8_t* out, uint8_t* scratch) noexcept;
[[nodiscard]] inline size_t MergeTo(const uint8_t* a, const Header& ha, const uint8_t* b,
                                    const Header& hb, uint8_t* out, uint8_t* scratch) noexcept {
  return MergeTo(a, ha, b, hb, ha.exact_limit(), out, scratch);
}

// ---- filters that differ in their precision only ------------------------------------

// Whether a filter of this shape can be reduced to one of the shape `to`.
bool Reducible(const Header& header, const Shape& to) noexcept;

// Bytes that ReduceTo writes.
size_t ReducedBytes(const Header& header, const Shape& to) noexcept;

// Writes the canonical image of the filter, reduced to that shape, sealed: exact if it was
// and its hashes fit.
void ReduceTo(const uint8_t* image, const Header& header, const Shape& to, uint8_t* out) noexcept;

// Notes in a working image how many filters were merged into it.
void SetParts(uint8_t* image, Header* header, uint32_t parts) noexcept;

// Whether two filters that grow can be merged into one of the plain shape `to`, without a state of
// both on the way: the second is a full state, the first one as well or a full plain filter.
bool MergesToPlain(const Header& a, const Header& b, const Shape& to) noexcept;
// How many keys the two have, nearly, and the bytes of a body for so many.
uint64_t PlainKeys(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                   const Shape& to) noexcept;
uint32_t PlainBytes(const Header& ha, const Shape& to, uint64_t keys) noexcept;
// Writes the merge, of a body of so many bytes, not sealed, to `out`, which has
// kHeaderBytes + bytes. Every key has as many bits as new ones have in such a body. Returns the
// image's size, or 0 if the body is too small for its keys: never if it is one for as many as both
// have together.
[[nodiscard]] size_t MergeToPlain(const uint8_t* a, const Header& ha, const uint8_t* b,
                                  const Header& hb, const Shape& to, uint32_t bytes,
                                  uint8_t* out) noexcept;

// Merges `b` into the working full image `a` where that needs no room: if `b` is
// full too, or its keys may come in any order. kNoRoom, with nothing changed, where it does;
// kFull: what `a` holds now is no filter.
[[nodiscard]] Outcome MergeInPlace(uint8_t* a, Header* ha, const uint8_t* b,
                                   const Header& hb) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_MERGE_HPP_
