// xxHash's 64-bit XXH3, inlined. It hashes keys, and computes filters' checksums.

#ifndef STREAMDEDUP_CORE_XXH3_HPP_
#define STREAMDEDUP_CORE_XXH3_HPP_

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pause.hpp"

namespace dedup {

inline uint64_t Xxh3(const void* bytes, size_t size, uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

// Returns the same number, with pauses.
inline uint64_t Xxh3InPieces(const uint8_t* bytes, size_t size, uint64_t seed) noexcept {
  if (size <= kPieceBytes) return Xxh3(bytes, size, seed);
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, seed);
  ForBytes(size,
           [&](size_t from, size_t to) { XXH3_64bits_update(&state, bytes + from, to - from); });
  return XXH3_64bits_digest(&state);
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_XXH3_HPP_
