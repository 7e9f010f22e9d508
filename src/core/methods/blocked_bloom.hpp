// blocked_bloom: a Bloom filter in which every key stays inside one cache line.
//
// Paper: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom
// Filters" (WEA 2007). The body is an array of 64-byte lines; the hash chooses a
// line, and k bits of it from 9k further independent bits. (Double hashing inside
// a line costs 2.2 times the rate at 0.001 and 9.8 times at 0.0001.)
//
// Promise: never forgets, so a key that was added is never answered new. At
// capacity a new key is called a duplicate at the rate asked for.
// Cost: one cache line a key; 9.9 bits a key at 0.01, 22 at 0.0001. Below that a
// plain Bloom filter is smaller.
// State: the lines. The counters stay zero, so that equal key sets have equal
// bytes whatever the order and however they were merged.

#ifndef STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_
#define STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../sizing.hpp"

namespace dedup::blocked_bloom {

inline constexpr int kLineBits = 512;
inline constexpr int kMaxK = 16;
inline constexpr unsigned kPositionBits = 9;
inline constexpr unsigned kPositionsPerWord = 64 / kPositionBits;  // 7

inline int K(const Shape& shape) noexcept { return static_cast<int>(shape.detail & 0xff); }
inline uint64_t Lines(const Shape& shape) noexcept { return shape.bytes / kLineBytes; }

inline constexpr int kKOption = 2;
inline constexpr OptionSpec kOptions[] = {
    kFprOption, kKeysOption, {"k", OptionKind::kWhole, 1, kMaxK}};

// ---- sizes ------------------------------------------------------------------

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  return BlockedRate(keys, static_cast<double>(Lines(shape)), kLineBits, K(shape));
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const KRange ks = WorthTrying(request.fpr, kMaxK, request.options, kKOption);
  const uint64_t most = kMaxBodyBytes / kLineBytes;
  uint64_t lines = request.memory / kLineBytes;
  uint64_t keys = request.keys;
  Sized sized;
  if (keys > 0) {
    const double n = static_cast<double>(keys);
    sized = FewestUnits(
        request.fpr, ks, 1, most,
        [&](int k) {
          return static_cast<uint64_t>(n * BloomBits(request.fpr, k) * 1.05 / kLineBits);
        },
        [&](uint64_t units, int k) {
          return BlockedRate(n, static_cast<double>(units), kLineBits, k);
        });
    if (sized.amount == 0) return PlanStatus::kTooLarge;
    lines = sized.amount;
  } else {
    if (lines == 0) return PlanStatus::kMemoryTooSmall;
    if (lines > most) return PlanStatus::kTooLarge;
    const double units = static_cast<double>(lines);
    sized = MostKeys(
        request.fpr, ks, lines * kLineBits,
        [&](int k) {
          return static_cast<uint64_t>(units * kLineBits / BloomBits(request.fpr, k) / 1.05);
        },
        [&](uint64_t n, int k) {
          return BlockedRate(static_cast<double>(n), units, kLineBits, k);
        });
    if (sized.amount == 0) return PlanStatus::kMemoryTooSmall;
    keys = sized.amount;
  }
  shape->bytes = static_cast<uint32_t>(lines * kLineBytes);
  shape->keys = keys;
  shape->fpr = request.fpr;
  shape->detail = static_cast<uint64_t>(sized.k);
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail >= 1 && shape.detail <= kMaxK && shape.bytes >= kLineBytes &&
         shape.bytes % kLineBytes == 0 && counters.count == 0 && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "k=%d lines=%llu", K(shape),
                static_cast<unsigned long long>(Lines(shape)));
}

// ---- keys -------------------------------------------------------------------

// Calls visit(byte offset of a word of the line, bit of it) for the k positions of a
// key.
template <int kK, typename Visit>
DEDUP_ALWAYS_INLINE inline void ForEachPosition(uint64_t hash, Visit visit) noexcept {
  uint64_t bits = 0;
  DEDUP_UNROLL
  for (int i = 0; i < kK; ++i) {
    if (i % kPositionsPerWord == 0) bits = Derived(hash, i / kPositionsPerWord);
    visit(bits / 8 % kLineBytes / 8 * 8, bits % 64);
    bits >>= kPositionBits;
  }
}

template <int kK>
DEDUP_ALWAYS_INLINE inline bool AllSet(const uint8_t* line, uint64_t hash) noexcept {
  uint64_t missing = 0;
  ForEachPosition<kK>(
      hash, [&](uint64_t word, uint64_t bit) { missing |= ~(LoadU64(line + word) >> bit); });
  return (missing & 1) == 0;
}

// Runs use(byte offset of the key's line, i) for every key, lines fetched ahead.
template <typename Use>
DEDUP_ALWAYS_INLINE inline void ForEachLine(const uint8_t* body, uint64_t lines,
                                            const uint64_t* hashes, size_t n, Use use) noexcept {
  uint32_t line[2 * kGroup];  // of the group in hand and the one ahead
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        line[i % (2 * kGroup)] = static_cast<uint32_t>(FastRange(hashes[i], lines));
        PrefetchToWrite(body + uint64_t{line[i % (2 * kGroup)]} * kLineBytes);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE { use(uint64_t{line[i % (2 * kGroup)]} * kLineBytes, i); });
}

template <int kK>
void TestAndAddLoop(uint8_t* body, uint64_t lines, const uint64_t* hashes, size_t n,
                    uint8_t* seen) noexcept {
  ForEachLine(body, lines, hashes, n, [&](size_t at, size_t i) DEDUP_ALWAYS_INLINE {
    uint8_t* line = body + at;
    // Asking first costs less than it saves: loads that follow stores to the same
    // line wait for them, and a duplicate dirties nothing.
    const bool found = AllSet<kK>(line, hashes[i]);
    if (!found) {
      ForEachPosition<kK>(hashes[i], [&](uint64_t word, uint64_t bit) {
        StoreU64(line + word, LoadU64(line + word) | uint64_t{1} << bit);
      });
    }
    if (seen != nullptr) seen[i] = found;
  });
}

template <int kK>
void ContainsLoop(const uint8_t* body, uint64_t lines, const uint64_t* hashes, size_t n,
                  uint8_t* seen) noexcept {
  ForEachLine(body, lines, hashes, n, [&](size_t at, size_t i) DEDUP_ALWAYS_INLINE {
    seen[i] = AllSet<kK>(body + at, hashes[i]);
  });
}

// One instance a k, so that the loop over positions is unrolled.
using AddLoop = void (*)(uint8_t*, uint64_t, const uint64_t*, size_t, uint8_t*);
using AskLoop = void (*)(const uint8_t*, uint64_t, const uint64_t*, size_t, uint8_t*);
inline constexpr AddLoop kAddLoops[kMaxK] = {
    TestAndAddLoop<1>,  TestAndAddLoop<2>,  TestAndAddLoop<3>,  TestAndAddLoop<4>,
    TestAndAddLoop<5>,  TestAndAddLoop<6>,  TestAndAddLoop<7>,  TestAndAddLoop<8>,
    TestAndAddLoop<9>,  TestAndAddLoop<10>, TestAndAddLoop<11>, TestAndAddLoop<12>,
    TestAndAddLoop<13>, TestAndAddLoop<14>, TestAndAddLoop<15>, TestAndAddLoop<16>};
inline constexpr AskLoop kAskLoops[kMaxK] = {
    ContainsLoop<1>,  ContainsLoop<2>,  ContainsLoop<3>,  ContainsLoop<4>,
    ContainsLoop<5>,  ContainsLoop<6>,  ContainsLoop<7>,  ContainsLoop<8>,
    ContainsLoop<9>,  ContainsLoop<10>, ContainsLoop<11>, ContainsLoop<12>,
    ContainsLoop<13>, ContainsLoop<14>, ContainsLoop<15>, ContainsLoop<16>};

inline void TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                       size_t n, uint8_t* seen) noexcept {
  kAddLoops[K(shape) - 1](body, Lines(shape), hashes, n, seen);
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  kAskLoops[K(shape) - 1](body, Lines(shape), hashes, n, seen);
}

inline void Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                   size_t n) noexcept {
  TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// The union: every key of either input is found.
inline void Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights&) noexcept {
  for (size_t i = 0; i < shape.bytes; i += 8) {
    StoreU64(body + i, LoadU64(body + i) | LoadU64(other + i));
  }
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const uint64_t lines = Lines(shape);
  const int k = K(shape);
  uint64_t histogram[kLineBits + 1] = {};  // lines by bits set
  for (uint64_t line = 0; line < lines; ++line) {
    int set = 0;
    for (size_t i = 0; i < kLineBytes; i += 8) {
      set += std::popcount(LoadU64(body + line * kLineBytes + i));
    }
    ++histogram[set];
  }
  double total = 0, rate = 0;
  for (int set = 0; set <= kLineBits; ++set) {
    const double share = static_cast<double>(histogram[set]) / static_cast<double>(lines);
    total += share * set;
    rate += share * IntPower(static_cast<double>(set) / kLineBits, k);
  }
  Reading reading;
  reading.count = KeysFromClear(1 - total / kLineBits, static_cast<double>(lines), kLineBits, k);
  reading.fpr = rate;
  return reading;
}

inline constexpr Method kMethod = {
    "blocked_bloom",
    1,
    false,
    true,
    kLineBytes,
    "never forgets: a key that was added is never answered new",
    "union: every key of both inputs, the rate rises with the number of keys",
    0,
    kOptions,
    sizeof kOptions / sizeof kOptions[0],
    Plan,
    Valid,
    [](const Shape&) noexcept { return ExactOrder::kSorted; },
    Describe,
    TestAndAdd,
    Contains,
    Insert,
    Merge,
    Read,
    ExpectedFpr,
};

}  // namespace dedup::blocked_bloom

#endif  // STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_
