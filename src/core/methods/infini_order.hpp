// The order of hashes in a filter of the method `infini` that was saved from a live filter that
// grows.
//
// A live filter keeps a key's line, one of 103, and the first b bits of the rest of its hash
// (core/live_line.hpp). These are not a prefix of the hash, so all bits of the hash are reordered:
// first the b bits, then 7 bits with the line, then the remaining bits of the rest. A prefix of b +
// 7 bits is exactly what the live filter knows about a key. The last bits of the rest are left out:
// hashes that differ only there are the same key for this filter.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_

#include <cstdint>

#include "../bytes.hpp"

namespace dedup::infini {

inline constexpr unsigned kLiveLines = 103;
inline constexpr unsigned kLiveLineBits = 7;
inline constexpr unsigned kMinLiveBits = 12;
inline constexpr unsigned kMaxLiveBits = 37;

// A prefix that contains a line has this many times as many hashes as the average prefix of the
// same length.
inline constexpr double kLiveDensity = (1 << kLiveLineBits) / double{kLiveLines};

// Returns the hash in that order, with `bits` bits of the rest first.
inline uint64_t ToLiveOrder(uint64_t hash, unsigned bits) noexcept {
  const uint64_t line = FastRange(hash, kLiveLines);
  const uint64_t rest = hash * kLiveLines;
  return rest >> (64 - bits) << (64 - bits) | line << (64 - kLiveLineBits - bits) |
         rest << bits >> (bits + kLiveLineBits);
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_
