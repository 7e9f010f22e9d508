// Computes a key's 64-bit hash from its canonical bytes, with the hash function of the filter.

#ifndef STREAMDEDUP_CORE_KEY_HASH_HPP_
#define STREAMDEDUP_CORE_KEY_HASH_HPP_

#include <cstddef>
#include <cstdint>

#include "method.hpp"
#include "siphash.hpp"
#include "xxh3.hpp"

namespace dedup {

// Two filters with the same seed and hash function hash a key to the same value.
struct KeySeed {
  uint64_t seed = 0;
  uint8_t hash = kXxh3Hash;

  bool operator==(const KeySeed&) const = default;

  // Returns another seed of the same hash function, for hashes that must not be those of keys.
  KeySeed Other() const noexcept { return {~seed, hash}; }
};

inline KeySeed KeySeedOf(const Shape& shape) noexcept { return {shape.seed, shape.hash}; }

// Not inlined, so that the callers of HashBytes() stay as small as with XXH3 alone.
__attribute__((noinline)) inline uint64_t SipHashBytes(const void* bytes, size_t size,
                                                       uint64_t seed) noexcept {
  return SipHash24(bytes, size, SipKeyOf(seed));
}

inline uint64_t HashBytes(const void* bytes, size_t size, const KeySeed& seed) noexcept {
  if (__builtin_expect(seed.hash == kSipHash, 0)) return SipHashBytes(bytes, size, seed.seed);
  return Xxh3(bytes, size, seed.seed);
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_KEY_HASH_HPP_
