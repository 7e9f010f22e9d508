// Fields of any width up to 57 bits, packed without gaps into a span of bytes. So methods keep
// cells and fingerprints in exactly the bits that their papers count.
//
// Bit i of the span is bit i % 8 of byte i / 8. The lowest bit of a field comes first.

#ifndef STREAMDEDUP_CORE_PACKED_HPP_
#define STREAMDEDUP_CORE_PACKED_HPP_

#include <cstddef>
#include <cstdint>

#include "bytes.hpp"

namespace dedup {

inline constexpr unsigned kMaxFieldBits = 57;  // any field of this width lies within 8 bytes

// Returns where the word that holds a field starts. It is the word from the field's first byte on,
// or, near the end, the last word of the span. The span has at least 8 bytes.
inline size_t WordAt(size_t bytes, uint64_t bit) noexcept {
  const size_t byte = static_cast<size_t>(bit / 8);
  return byte < bytes - 8 ? byte : bytes - 8;
}

// Returns `width` bits (0 to 57) from bit `bit` on. The span has `bytes` bytes (8 or more), and
// contains these bits.
inline uint64_t LoadField(const uint8_t* span, size_t bytes, uint64_t bit,
                          unsigned width) noexcept {
  const size_t at = WordAt(bytes, bit);
  return LoadU64(span + at) >> (bit - 8 * uint64_t{at}) & LowMask(width);
}

inline void StoreField(uint8_t* span, size_t bytes, uint64_t bit, unsigned width,
                       uint64_t value) noexcept {
  const size_t at = WordAt(bytes, bit);
  const unsigned shift = static_cast<unsigned>(bit - 8 * uint64_t{at});
  const uint64_t mask = LowMask(width) << shift;
  StoreU64(span + at, (LoadU64(span + at) & ~mask) | (value << shift & mask));
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_PACKED_HPP_
