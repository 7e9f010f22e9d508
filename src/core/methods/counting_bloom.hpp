// counting_bloom: a Bloom filter of 4-bit counters instead of bits, so that a key can be forgotten.
//
// Paper: Fan, Cao, Almeida and Broder, "Summary Cache" (IEEE/ACM Transactions on Networking 2000).
// A key has k counters. Adding a new key increments them; a duplicate stores nothing. A counter
// that has reached 15 stays there, because it is no longer known how often it was incremented. Two
// of a key's counters may be the same one; it is then incremented, and decremented, twice.
//
// Promise: a key that was reported as new is remembered until it is forgotten, provided that only
// such keys are forgotten, and each only once. A key of n merged inputs that each reported it as
// new can be forgotten n times. (Inputs that were exact when they were merged count as one: their
// hashes are united, not counted.) A false positive is not stored. It is reported as new later if
// the keys that covered it are forgotten. If it is itself forgotten, other keys are reported as
// new, now or later. Counters that stay at 15 cause only false positives.
// Cost: four times the memory of `bloom` for the same rate, 5.8 log2(1/fpr) bits a key; up to k
// cache lines.
// State: the counters, two a byte, the first in the low half. Counters::count and Counters::state
// stay zero.

#ifndef STREAMDEDUP_CORE_METHODS_COUNTING_BLOOM_HPP_
#define STREAMDEDUP_CORE_METHODS_COUNTING_BLOOM_HPP_

#include <bit>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"

namespace dedup::counting_bloom {

inline constexpr int kMaxK = 32;
inline constexpr uint32_t kGranule = 8;
inline constexpr unsigned kMost = 15;  // the maximum of a counter

inline int K(const Shape& shape) noexcept { return static_cast<int>(shape.detail & 0xff); }
inline uint64_t CountersIn(uint64_t bytes) noexcept { return 2 * bytes; }

inline constexpr int kKOption = 2;
inline constexpr OptionSpec kOptions[] = {
    kFprOption, kKeysOption, {"k", OptionKind::kWhole, 1, kMaxK}};

// ---- sizes ------------------------------------------------------------------

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  return AllSetProbability(static_cast<double>(CountersIn(shape.bytes)), keys * K(shape), K(shape));
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const KRange ks = WorthTrying(request.fpr, kMaxK, request.options, kKOption);
  return PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) noexcept {
    if (bytes < kLineBytes) return PlanStatus::kMemoryTooSmall;
    const double cells = static_cast<double>(CountersIn(bytes));
    const Sized most = MostKeys(
        request.fpr, ks, CountersIn(bytes),
        [&](int k) { return static_cast<uint64_t>(cells / BloomBits(request.fpr, k)); },
        [&](uint64_t n, int k) { return AllSetProbability(cells, static_cast<double>(n) * k, k); });
    if (most.amount == 0) return PlanStatus::kMemoryTooSmall;
    sized->keys = most.amount;
    sized->detail = static_cast<uint64_t>(most.k);
    return PlanStatus::kOk;
  });
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail >= 1 && shape.detail <= kMaxK && shape.bytes >= kLineBytes &&
         shape.bytes % kGranule == 0 && counters.count == 0 && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "k=%d counters=%llu", K(shape),
                static_cast<unsigned long long>(CountersIn(shape.bytes)));
}

// ---- keys -------------------------------------------------------------------

inline unsigned Load(const uint8_t* body, uint64_t position) noexcept {
  return body[position / 2] >> (position % 2 * 4) & kMost;
}

// Adds `by`, 1 or -1, to a counter. The result must be in range.
inline void Change(uint8_t* body, uint64_t position, int by) noexcept {
  uint8_t* pair = body + position / 2;
  *pair = static_cast<uint8_t>(*pair + by * (position % 2 == 0 ? 1 : 16));
}

inline void Increment(uint8_t* body, uint64_t position) noexcept {
  if (Load(body, position) < kMost) Change(body, position, 1);
}

DEDUP_ALWAYS_INLINE inline void FetchKey(const uint8_t* body, uint64_t cells, int k,
                                         uint64_t hash) noexcept {
  for (int i = 0; i < k; ++i) Prefetch(body + Position(hash, i, cells) / 2);
}

inline size_t TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
  const uint64_t cells = CountersIn(shape.bytes);
  const int k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, cells, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        uint64_t at[kMaxK];
        bool all = true;
        for (int i = 0; i < k; ++i) {
          at[i] = Position(hashes[j], i, cells);
          all &= Load(body, at[i]) != 0;
        }
        if (!all) {
          for (int i = 0; i < k; ++i) Increment(body, at[i]);
        }
        if (seen != nullptr) seen[j] = all;
      });
  return n;
}

inline bool Ask(const uint8_t* body, uint64_t cells, int k, uint64_t hash) noexcept {
  for (int i = 0; i < k; ++i) {
    if (Load(body, Position(hash, i, cells)) == 0) return false;
  }
  return true;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t cells = CountersIn(shape.bytes);
  const int k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, cells, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE { seen[j] = Ask(body, cells, k, hashes[j]); });
}

// Increments the counters even if the key looks like a duplicate. A replayed key that other keys
// happen to cover was reported as new while the filter was exact, and may be forgotten later.
inline size_t Insert(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  const uint64_t cells = CountersIn(shape.bytes);
  const int k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, cells, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        for (int i = 0; i < k; ++i) Increment(body, Position(hashes[j], i, cells));
      });
  return n;
}

// The caller must forget a key only if its add was reported as new, and only once; a key of n
// merged inputs that each reported it as new, n times at most. This function cannot check that.
inline bool Forget(const Shape& shape, Counters*, uint8_t* body, uint64_t hash) noexcept {
  const uint64_t cells = CountersIn(shape.bytes);
  const int k = K(shape);
  if (!Ask(body, cells, k, hash)) return false;
  for (int i = 0; i < k; ++i) {
    const uint64_t at = Position(hash, i, cells);
    const unsigned count = Load(body, at);
    // The counter can be 0: for a key that was never added, and two of whose counters are the same
    // counter, which was 1.
    if (count != 0 && count != kMost) Change(body, at, -1);
  }
  return true;
}

// ---- whole filters ----------------------------------------------------------

inline constexpr uint64_t kLowHalves = 0x0f0f0f0f0f0f0f0fu;

// Adds the counters in the low halves of bytes, up to 15.
inline uint64_t AddHalves(uint64_t a, uint64_t b) noexcept {
  const uint64_t sum = a + b;  // at most 30 a byte
  const uint64_t over = sum & ~kLowHalves;
  return (sum | (over - (over >> 4))) & kLowHalves;
}

// Adds the counters: every key of either input is found, and a key that was added n times can be
// forgotten n times. The rate is that of one filter to which the keys of both were added.
inline bool Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights&) noexcept {
  ForWords(shape.bytes, [&](size_t i) {
    const uint64_t a = LoadU64(body + i), b = LoadU64(other + i);
    StoreU64(body + i, AddHalves(a & kLowHalves, b & kLowHalves) |
                           AddHalves(a >> 4 & kLowHalves, b >> 4 & kLowHalves) << 4);
  });
  return true;
}

// Estimates from the number of counters in use. Their sum would count a key twice if two merged
// inputs had it.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  uint64_t used = 0;
  ForWords(shape.bytes, [&](size_t i) {
    uint64_t word = LoadU64(body + i);
    word |= word >> 1;
    word |= word >> 2;
    used += static_cast<uint64_t>(std::popcount(word & 0x1111111111111111u));
  });
  const double cells = static_cast<double>(CountersIn(shape.bytes));
  const double share = static_cast<double>(used) / cells;
  Reading reading;
  reading.count = KeysFromClear(1 - share, 1, cells, K(shape));
  reading.fpr = IntPower(share, K(shape));
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::counting_bloom

#endif  // STREAMDEDUP_CORE_METHODS_COUNTING_BLOOM_HPP_
