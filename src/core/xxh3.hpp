// xxHash's 64-bit XXH3, inlined: the hash of keys, and of filters' checksums.

#ifndef STREAMDEDUP_CORE_XXH3_HPP_
#define STREAMDEDUP_CORE_XXH3_HPP_

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace dedup {

inline uint64_t Xxh3(const void* bytes, size_t size, uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_XXH3_HPP_
