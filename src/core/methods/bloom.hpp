// bloom: the classic Bloom filter, with k probes over the whole array.
//
// Paper: Bloom, "Space/Time Trade-offs in Hash Coding with Allowable Errors" (CACM 1970). Every
// probe is an independent 64-bit number that is scaled onto the bits, at every size. Double hashing
// would have 14 times the rate in a filter of ten keys at 0.0001, and more than that in larger
// filters at lower rates.
//
// Promise: the filter never forgets. At capacity a new key is reported as a duplicate at the
// requested rate.
// Cost: 1.44 log2(1/fpr) bits a key and up to k cache lines.
// State: the bits. The counters stay zero.

#ifndef STREAMDEDUP_CORE_METHODS_BLOOM_HPP_
#define STREAMDEDUP_CORE_METHODS_BLOOM_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"

namespace dedup::bloom {

inline constexpr int kMaxK = 32;
inline constexpr size_t kGranule = 8;

inline int K(const Shape& shape) noexcept { return static_cast<int>(shape.detail & 0xff); }
inline uint64_t Bits(const Shape& shape) noexcept { return uint64_t{shape.bytes} * 8; }

inline constexpr int kKOption = 2;
inline constexpr OptionSpec kOptions[] = {
    kFprOption, kKeysOption, {"k", OptionKind::kWhole, 1, kMaxK}};

// ---- sizes ------------------------------------------------------------------

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  return AllSetProbability(static_cast<double>(Bits(shape)), keys * K(shape), K(shape));
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const KRange ks = WorthTrying(request.fpr, kMaxK, request.options, kKOption);
  const BloomUnit unit = {kGranule, kGranule * 8, kLineBytes / kGranule, request.fpr, 1};
  return PlanBloom(request, request.keys, unit, ks, shape, &shape->detail,
                   [&](double keys, double units, int k) {
                     return AllSetProbability(units * (kGranule * 8), keys * k, k);
                   });
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail >= 1 && shape.detail <= kMaxK && shape.bytes >= kLineBytes &&
         shape.bytes % kGranule == 0 && counters.count == 0 && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "k=%d bits=%llu", K(shape),
                static_cast<unsigned long long>(Bits(shape)));
}

// ---- keys -------------------------------------------------------------------

DEDUP_ALWAYS_INLINE inline void FetchKey(const uint8_t* body, uint64_t bits, int k,
                                         uint64_t hash) noexcept {
  for (int i = 0; i < k; ++i) Prefetch(body + Position(hash, i, bits) / 8);
}

inline size_t TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
  const uint64_t bits = Bits(shape);
  const int k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, bits, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        unsigned missing = 0;
        for (int i = 0; i < k; ++i) {
          const uint64_t position = Position(hashes[j], i, bits);
          uint8_t* byte = body + position / 8;
          const auto bit = static_cast<uint8_t>(1u << (position % 8));
          missing |= bit & ~unsigned{*byte};
          *byte |= bit;
        }
        if (seen != nullptr) seen[j] = missing == 0;
      });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t bits = Bits(shape);
  const int k = K(shape);
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey(body, bits, k, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        bool all = true;
        for (int i = 0; i < k && all; ++i) {
          const uint64_t position = Position(hashes[j], i, bits);
          all = (body[position / 8] >> (position % 8)) & 1;
        }
        seen[j] = all;
      });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  TestAndAdd(shape, counters, body, hashes, n, nullptr);
  return n;
}

// The result is the union: every key of either input is found.
inline bool Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights&) noexcept {
  OrInPieces(body, other, shape.bytes);
  return true;
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  uint64_t set = 0;
  ForWords(shape.bytes,
           [&](size_t i) { set += static_cast<uint64_t>(std::popcount(LoadU64(body + i))); });
  const double bits = static_cast<double>(Bits(shape));
  Reading reading;
  reading.count = KeysFromClear(1 - static_cast<double>(set) / bits, 1, bits, K(shape));
  reading.fpr = IntPower(static_cast<double>(set) / bits, K(shape));
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::bloom

#endif  // STREAMDEDUP_CORE_METHODS_BLOOM_HPP_
