// The order of hashes in a filter that a live filter that grows is saved as, for the method
// `infini`.
//
// A live filter keeps of a key its line, one of 103, and the first b bits of the rest of its hash
// (core/live_line.hpp). These are no prefix of the hash, so all bits of it change their places:
// first the b bits, then 7 bits with the line, then what is left of the rest. A prefix of b + 7
// bits is what the live filter knows of a key, no more and no less. The last bits of the rest are
// left out: hashes that differ only there are one key for this filter.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_

#include <cstdint>

#include "../bytes.hpp"

namespace dedup::infini {

inline constexpr unsigned kLiveLines = 103;
inline constexpr unsigned kLiveLineBits = 7;
inline constexpr unsigned kMinLiveBits = 12;
inline constexpr unsigned kMaxLiveBits = 37;

// By how much more hashes have a prefix with a line than one of as many bits has on average.
inline constexpr double kLiveDensity = (1 << kLiveLineBits) / double{kLiveLines};

// A hash with so many bits of the rest first.
inline uint64_t ToLiveOrder(uint64_t hash, unsigned bits) noexcept {
  const uint64_t line = FastRange(hash, kLiveLines);
  const uint64_t rest = hash * kLiveLines;
  return rest >> (64 - bits) << (64 - bits) | line << (64 - kLiveLineBits - bits) |
         rest << bits >> (bits + kLiveLineBits);
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_ORDER_HPP_
