// a2: Aging Bloom filter with two active buffers, a window by last sight.
//
// Paper: Yoon, "Aging Bloom Filter with Two Active Buffers for Dynamic Sets" (TKDE 2010). There are
// two Bloom filters, each with half of the bits, and a lookup reads both. A key that cache 1 holds
// changes nothing. Any other key, also one that cache 2 holds, is set in cache 1. When cache 1
// holds na keys and one more comes, cache 2 is emptied and the two change places.
//
// Each cache has the rate fa = 1 - sqrt(1 - fpr), so that both together have fpr: k = round(log2
// 1/fa), m is half of the bits, na = floor(-(m/k) ln(1 - fa^(1/k))).
//
// Promise: a key is always reported as a duplicate as long as no more than na other distinct keys
// were added since its last sight. The filter loses a key only after a whole cache of other keys
// has followed the cache that holds it. It remembers 2 na keys at most. The rate is half of fpr
// right after the caches changed places, and fpr just before that. It is a little higher where fpr
// is high, because a key that cache 1 reports by a false positive does not count: 0.0101 at 0.01,
// 0.104 at 0.1, 0.33 at 0.3.
//
// Cost: the bits of the two caches for one position are neighbours, so a key touches k lines and
// not 2k. 2.9 (1 + log2(1/fpr)) bits a key of the promised window: 22 at 0.01. One key in na sweeps
// the whole body to empty half of its bits: 0.03 ms a MiB.
// State: bit 2p + c is position p of buffer c. Counters::state is the buffer that is cache 1;
// Counters::count is the number of keys set in it.

#ifndef STREAMDEDUP_CORE_METHODS_A2_HPP_
#define STREAMDEDUP_CORE_METHODS_A2_HPP_

#include <cmath>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"

namespace dedup::a2 {

inline constexpr unsigned kMaxK = 32;
inline constexpr size_t kGranule = 8;
inline constexpr uint64_t kEvenBits = 0x5555555555555555u;  // the bits of buffer 0

inline unsigned K(const Shape& shape) noexcept {
  return static_cast<unsigned>(shape.detail & 0xff);
}
// Returns na, the number of keys that fill a cache.
inline uint64_t CacheKeys(const Shape& shape) noexcept { return shape.detail >> 8; }
// Returns m, the number of bits of one cache.
inline uint64_t CacheBits(const Shape& shape) noexcept { return uint64_t{shape.bytes} * 4; }

inline constexpr OptionSpec kOptions[] = {kFprOption, kKeysOption};

// ---- sizes ------------------------------------------------------------------

inline double CacheRate(const Shape& shape, double keys) noexcept {
  const double load = K(shape) * keys / static_cast<double>(CacheBits(shape));
  return IntPower(-std::expm1(-load), static_cast<int>(K(shape)));
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const double full = static_cast<double>(CacheKeys(shape));
  if (keys > 2 * full) keys = 2 * full;
  if (keys <= full) return CacheRate(shape, keys);
  return 1 - (1 - CacheRate(shape, full)) * (1 - CacheRate(shape, keys - full));
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const double rate = -std::expm1(0.5 * std::log1p(-request.fpr));
  const double k = std::round(-std::log2(rate));
  const double bits_a_key = -k / std::log1p(-std::pow(rate, 1 / k));
  return PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
    sized->keys = static_cast<uint64_t>(static_cast<double>(bytes) * 4 / bits_a_key);
    sized->detail = static_cast<uint64_t>(k) | sized->keys << 8;
    return sized->keys > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
  });
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const uint64_t full = CacheKeys(shape);
  return K(shape) >= 1 && K(shape) <= kMaxK && shape.bytes >= kGranule &&
         shape.bytes % kGranule == 0 && full >= 1 && full <= CacheBits(shape) && shape.keys >= 1 &&
         shape.keys <= full && counters.count <= full && counters.state <= 1;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "k=%u cache_bits=%llu cache_keys=%llu", K(shape),
                static_cast<unsigned long long>(CacheBits(shape)),
                static_cast<unsigned long long>(CacheKeys(shape)));
}

// ---- keys -------------------------------------------------------------------

// The place of a position's two bits: `shift` and the bit above it.
struct Place {
  size_t byte;
  unsigned shift;
};

inline Place PlaceOf(uint64_t hash, unsigned i, uint64_t cache_bits) noexcept {
  const uint64_t position = dedup::Position(hash, static_cast<int>(i), cache_bits);
  return {static_cast<size_t>(position / 4), static_cast<unsigned>(position % 4 * 2)};
}

DEDUP_ALWAYS_INLINE inline void FetchKey(const uint8_t* body, uint64_t bits, unsigned k,
                                         uint64_t hash) noexcept {
  for (unsigned i = 0; i < k; ++i) PrefetchToWrite(body + PlaceOf(hash, i, bits).byte);
}

// Empties cache 2 and makes it cache 1.
inline void SwapCaches(const Shape& shape, Counters* counters, uint8_t* body) noexcept {
  counters->state ^= 1;
  counters->count = 0;
  const uint64_t keep = kEvenBits << (counters->state ^ 1);
  ForWords(shape.bytes, [&](size_t i) { StoreU64(body + i, LoadU64(body + i) & keep); });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t bits = CacheBits(shape), full = CacheKeys(shape);
  const unsigned k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, bits, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        Place places[kMaxK];
        unsigned found = 3;  // the buffers in which all positions so far are set
        for (unsigned i = 0; i < k; ++i) {
          places[i] = PlaceOf(hashes[j], i, bits);
          found &= static_cast<unsigned>(body[places[i].byte]) >> places[i].shift;
        }
        if ((found >> counters->state & 1) == 0) {
          if (counters->count >= full) SwapCaches(shape, counters, body);
          ++counters->count;
          for (unsigned i = 0; i < k; ++i) {
            uint8_t* byte = body + places[i].byte;
            *byte = static_cast<uint8_t>(*byte | 1u << (places[i].shift + counters->state));
          }
        }
        if (seen != nullptr) seen[j] = found != 0;
      });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t bits = CacheBits(shape);
  const unsigned k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, bits, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        unsigned found = 3;
        for (unsigned i = 0; i < k && found != 0; ++i) {
          const Place place = PlaceOf(hashes[j], i, bits);
          found &= static_cast<unsigned>(body[place.byte]) >> place.shift;
        }
        seen[j] = found != 0;
      });
}

// Testing first loses no key: if cache 1 reports a key, it has all bits of the key.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

// Merges cache 1 with cache 1, cache 2 with cache 2, and takes the larger count. So no key of
// either filter is dropped, and the keys of both caches 1 stay for na more keys. If the counts
// differ, the keys of cache 2 of the input with the smaller count may be dropped earlier than they
// would have been. Until the caches were emptied twice, the rate may be as high as that of twice as
// full caches.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const bool crossed = counters->state != other_counters.state;
  ForWords(shape.bytes, [&](size_t i) {
    uint64_t word = LoadU64(other + i);
    if (crossed) word = (word & kEvenBits) << 1 | (word >> 1 & kEvenBits);
    StoreU64(body + i, LoadU64(body + i) | word);
  });
  if (other_counters.count > counters->count) counters->count = other_counters.count;
  return true;
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  uint64_t set[2] = {}, either = 0;
  ForWords(shape.bytes, [&](size_t i) {
    const uint64_t word = LoadU64(body + i);
    const uint64_t even = word & kEvenBits, odd = word >> 1 & kEvenBits;
    set[0] += static_cast<uint64_t>(std::popcount(even));
    set[1] += static_cast<uint64_t>(std::popcount(odd));
    either += static_cast<uint64_t>(std::popcount(even | odd));
  });
  const double bits = static_cast<double>(CacheBits(shape));
  const int k = static_cast<int>(K(shape));
  Reading reading;
  // A key in both caches has the same positions in both, and is counted once.
  reading.count = KeysFromClear(1 - static_cast<double>(either) / bits, 1, bits, k);
  reading.fpr = 1 - (1 - IntPower(static_cast<double>(set[0]) / bits, k)) *
                        (1 - IntPower(static_cast<double>(set[1]) / bits, k));
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::a2

#endif  // STREAMDEDUP_CORE_METHODS_A2_HPP_
