// blocked_bloom: a Bloom filter that keeps every key inside one cache line.
//
// Paper: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (WEA 2007). The
// body is an array of 64-byte lines. The hash chooses a line, and 9k further independent bits
// choose k bits of the line. (Double hashing inside a line would have 2.2 times the rate at 0.001,
// and 9.8 times the rate at 0.0001.)
//
// Promise: the filter never forgets, so a key that was added is never reported as new. At capacity
// a new key is reported as a duplicate at the requested rate.
// Cost: one cache line a key; 9.9 bits a key at 0.01, 22 at 0.0001. At lower rates a plain Bloom
// filter is smaller.
// State: the lines. The counters stay zero, so that equal key sets have equal bytes, whatever the
// order of the keys and of the merges.

#ifndef STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_
#define STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"
#include "../wide.hpp"

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
  const BloomUnit unit = {kLineBytes, kLineBits, 1, request.fpr, 1.05};
  return PlanBloom(
      request, request.keys, unit, ks, shape, &shape->detail,
      [](double keys, double lines, int k) { return BlockedRate(keys, lines, kLineBits, k); });
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

// A kernel processes a group of keys whose lines are being prefetched; `lines` has the numbers of
// the lines. There is one kernel for each k, so that the loop over positions is unrolled.
// Processors with AVX2 and with AVX-512 have kernels of their own, with the same results.
using AddKernel = void (*)(uint8_t* body, const uint32_t* lines, const uint64_t* hashes, size_t n,
                           uint8_t* seen);
using AskKernel = void (*)(const uint8_t* body, const uint32_t* lines, const uint64_t* hashes,
                           size_t n, uint8_t* seen);

template <int kK>
void AddGroup(uint8_t* body, const uint32_t* lines, const uint64_t* hashes, size_t n,
              uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    uint8_t* line = body + uint64_t{lines[i]} * kLineBytes;
    // Testing first costs less than it saves: loads that follow stores to the same line wait for
    // them, and a duplicate makes no line dirty.
    const bool found = AllSet<kK>(line, hashes[i]);
    if (!found) {
      ForEachPosition<kK>(hashes[i], [&](uint64_t word, uint64_t bit) {
        StoreU64(line + word, LoadU64(line + word) | uint64_t{1} << bit);
      });
    }
    if (seen != nullptr) seen[i] = found;
  }
}

template <int kK>
void AskGroup(const uint8_t* body, const uint32_t* lines, const uint64_t* hashes, size_t n,
              uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    seen[i] = AllSet<kK>(body + uint64_t{lines[i]} * kLineBytes, hashes[i]);
  }
}

struct Kernels {
  AddKernel add;
  AskKernel ask;
};

// The instruction sets that the kernels are compiled for.
enum Path : unsigned { kPlainPath, kAvx2Path, kAvx512Path, kPaths };

template <int kK>
inline constexpr Kernels kPlain = {AddGroup<kK>, AskGroup<kK>};

#if DEDUP_HAS_WIDE
// The positions of a key, eight to a vector, in the low 9 bits of each lane.
template <int kK>
struct WidePositions {
  static constexpr int kVectors = (kK + 7) / 8;
  static constexpr uint8_t kLast = static_cast<uint8_t>((1 << (kK - 8 * (kVectors - 1))) - 1);
  __m512i lane[kVectors];

  DEDUP_AVX512 DEDUP_ALWAYS_INLINE explicit WidePositions(uint64_t hash) noexcept {
    // A word has seven positions, so the eighth lane belongs to the next word.
    __m512i words = _mm512_set1_epi64(static_cast<long long>(Derived(hash, 0)));
    if constexpr (kK > 7) {
      const auto second = static_cast<long long>(Derived(hash, 1));
      words = _mm512_mask_set1_epi64(words, 0x80, second);
      if constexpr (kK > 8) {
        __m512i more = _mm512_set1_epi64(second);
        if constexpr (kK > 14) {
          more = _mm512_mask_set1_epi64(more, 0xc0, static_cast<long long>(Derived(hash, 2)));
        }
        lane[1] = _mm512_srlv_epi64(more, _mm512_set_epi64(9, 0, 54, 45, 36, 27, 18, 9));
      }
    }
    lane[0] = _mm512_srlv_epi64(words, _mm512_set_epi64(0, 54, 45, 36, 27, 18, 9, 0));
  }

  // Returns whether all positions are set. 3 bits of a lane choose a word of the line, and the
  // other 6 bits the bit of that word, which is shifted to the front.
  DEDUP_AVX512 DEDUP_ALWAYS_INLINE bool AllSet(__m512i line) const noexcept {
    const __m512i one = _mm512_set1_epi64(1);
    unsigned missing = 0;
    for (int i = 0; i < kVectors; ++i) {
      const __m512i word = _mm512_permutexvar_epi64(_mm512_srli_epi64(lane[i], 6), line);
      missing |= _mm512_mask_testn_epi64_mask(i == kVectors - 1 ? kLast : 0xff,
                                              _mm512_rorv_epi64(word, lane[i]), one);
    }
    return missing == 0;
  }
};

// Returns the bits of a key in an otherwise empty line, as a vector of eight words. A position
// minus the position of a word's first bit is the number of the bit in that word. For a bit of
// another word it is 64 or more, or negative, which is a still larger unsigned number. A shift by
// such a number leaves 0.
template <int kK>
DEDUP_AVX512 DEDUP_ALWAYS_INLINE inline __m512i BitsWide(uint64_t hash) noexcept {
  const __m512i first = _mm512_set_epi64(448, 384, 320, 256, 192, 128, 64, 0);
  const __m512i one = _mm512_set1_epi64(1), mask = _mm512_set1_epi64(kLineBits - 1);
  __m512i bits = _mm512_setzero_si512(), positions = bits;
  DEDUP_UNROLL
  for (int i = 0; i < kK; ++i) {
    if (i % kPositionsPerWord == 0) {
      positions = _mm512_set1_epi64(static_cast<long long>(Derived(hash, i / kPositionsPerWord)));
    }
    const __m512i position = _mm512_and_si512(positions, mask);
    bits = _mm512_or_si512(bits, _mm512_sllv_epi64(one, _mm512_sub_epi64(position, first)));
    positions = _mm512_srli_epi64(positions, kPositionBits);
  }
  return bits;
}

// Does the same in two vectors of four words.
struct Halves {
  __m256i low, high;
};

template <int kK>
DEDUP_AVX2 DEDUP_ALWAYS_INLINE inline Halves BitsAvx2(uint64_t hash) noexcept {
  const __m256i low = _mm256_set_epi64x(192, 128, 64, 0);
  const __m256i high = _mm256_set_epi64x(448, 384, 320, 256);
  const __m256i one = _mm256_set1_epi64x(1), mask = _mm256_set1_epi64x(kLineBits - 1);
  __m256i positions = _mm256_setzero_si256();
  Halves bits = {positions, positions};
  DEDUP_UNROLL
  for (int i = 0; i < kK; ++i) {
    if (i % kPositionsPerWord == 0) {
      positions = _mm256_set1_epi64x(static_cast<long long>(Derived(hash, i / kPositionsPerWord)));
    }
    const __m256i position = _mm256_and_si256(positions, mask);
    bits.low = _mm256_or_si256(bits.low, _mm256_sllv_epi64(one, _mm256_sub_epi64(position, low)));
    bits.high =
        _mm256_or_si256(bits.high, _mm256_sllv_epi64(one, _mm256_sub_epi64(position, high)));
    positions = _mm256_srli_epi64(positions, kPositionBits);
  }
  return bits;
}

DEDUP_AVX2 DEDUP_ALWAYS_INLINE inline Halves LoadHalves(const uint8_t* line) noexcept {
  const auto* halves = reinterpret_cast<const __m256i*>(line);
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}

// Returns whether the line has all the bits.
DEDUP_AVX2 DEDUP_ALWAYS_INLINE inline bool HasAll(const Halves& line, const Halves& bits) noexcept {
  const __m256i missing = _mm256_or_si256(_mm256_andnot_si256(line.low, bits.low),
                                          _mm256_andnot_si256(line.high, bits.high));
  return _mm256_testz_si256(missing, missing) != 0;
}

template <int kK>
DEDUP_AVX2 void AddGroupAvx2(uint8_t* body, const uint32_t* lines, const uint64_t* hashes, size_t n,
                             uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    uint8_t* bytes = body + uint64_t{lines[i]} * kLineBytes;
    const Halves bits = BitsAvx2<kK>(hashes[i]), line = LoadHalves(bytes);
    const bool found = HasAll(line, bits);
    if (!found) {
      auto* halves = reinterpret_cast<__m256i*>(bytes);
      _mm256_storeu_si256(halves, _mm256_or_si256(line.low, bits.low));
      _mm256_storeu_si256(halves + 1, _mm256_or_si256(line.high, bits.high));
    }
    if (seen != nullptr) seen[i] = found;
  }
}

template <int kK>
DEDUP_AVX2 void AskGroupAvx2(const uint8_t* body, const uint32_t* lines, const uint64_t* hashes,
                             size_t n, uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    seen[i] = HasAll(LoadHalves(body + uint64_t{lines[i]} * kLineBytes), BitsAvx2<kK>(hashes[i]));
  }
}

template <int kK>
DEDUP_AVX512 void AddGroupWide(uint8_t* body, const uint32_t* lines, const uint64_t* hashes,
                               size_t n, uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    uint8_t* bytes = body + uint64_t{lines[i]} * kLineBytes;
    const __m512i line = _mm512_loadu_si512(bytes);
    const __m512i bits = BitsWide<kK>(hashes[i]), missing = _mm512_andnot_si512(line, bits);
    const bool found = _mm512_test_epi64_mask(missing, missing) == 0;
    if (!found) _mm512_storeu_si512(bytes, _mm512_or_si512(line, bits));
    if (seen != nullptr) seen[i] = found;
  }
}

template <int kK>
DEDUP_AVX512 void AskGroupWide(const uint8_t* body, const uint32_t* lines, const uint64_t* hashes,
                               size_t n, uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    const __m512i line = _mm512_loadu_si512(body + uint64_t{lines[i]} * kLineBytes);
    seen[i] = WidePositions<kK>(hashes[i]).AllSet(line);
  }
}

template <int kK>
inline constexpr Kernels kOf[] = {
    kPlain<kK>, {AddGroupAvx2<kK>, AskGroupAvx2<kK>}, {AddGroupWide<kK>, AskGroupWide<kK>}};

inline Path BestPath() noexcept {
  if (__builtin_cpu_supports("avx512f")) return kAvx512Path;
  return __builtin_cpu_supports("avx2") ? kAvx2Path : kPlainPath;
}
#else
template <int kK>
inline constexpr Kernels kOf[] = {kPlain<kK>, kPlain<kK>, kPlain<kK>};

inline Path BestPath() noexcept { return kPlainPath; }
#endif

// Indexed by k - 1 and the path.
inline constexpr const Kernels* kKernels[kMaxK] = {
    kOf<1>, kOf<2>,  kOf<3>,  kOf<4>,  kOf<5>,  kOf<6>,  kOf<7>,  kOf<8>,
    kOf<9>, kOf<10>, kOf<11>, kOf<12>, kOf<13>, kOf<14>, kOf<15>, kOf<16>};

inline const Kernels& KernelsFor(const Shape& shape, Path path = BestPath()) noexcept {
  return kKernels[K(shape) - 1][path];
}

// The number of lines that are prefetched at once. It is twice as many as elsewhere: the work for a
// line is so short that the lines of kGroup keys would not arrive in time.
inline constexpr size_t kLinesAhead = 2 * kGroup;

// Runs use(lines, first, n) for the keys group by group, after the lines of the next group were
// prefetched. InGroups() explains why this is done in groups.
template <typename Use>
inline void ForEachGroup(const Shape& shape, const uint8_t* body, const uint64_t* hashes, size_t n,
                         Use use) noexcept {
  const uint64_t lines = Lines(shape);
  uint32_t numbers[2][kLinesAhead];  // of this group and the next one
  auto fetch = [&](size_t from, size_t to, uint32_t* into) DEDUP_ALWAYS_INLINE {
    for (size_t i = from; i < to; ++i, ++into) {
      *into = static_cast<uint32_t>(FastRange(hashes[i], lines));
      PrefetchToWrite(body + uint64_t{*into} * kLineBytes);
    }
  };
  size_t end = n < kLinesAhead ? n : kLinesAhead;
  fetch(0, end, numbers[0]);
  unsigned turn = 0;
  for (size_t done = 0; done < n; turn ^= 1) {
    const size_t next = n - end < kLinesAhead ? n : end + kLinesAhead;
    fetch(end, next, numbers[turn ^ 1]);
    use(numbers[turn], done, end - done);
    done = end;
    end = next;
  }
}

inline size_t TestAndAddBy(const Kernels& kernels, const Shape& shape, uint8_t* body,
                           const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const AddKernel add = kernels.add;
  ForEachGroup(shape, body, hashes, n, [&](const uint32_t* lines, size_t first, size_t count) {
    add(body, lines, hashes + first, count, seen == nullptr ? nullptr : seen + first);
  });
  return n;
}

inline size_t TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
  return TestAndAddBy(KernelsFor(shape), shape, body, hashes, n, seen);
}

inline void ContainsBy(const Kernels& kernels, const Shape& shape, const uint8_t* body,
                       const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const AskKernel ask = kernels.ask;
  ForEachGroup(shape, body, hashes, n, [&](const uint32_t* lines, size_t first, size_t count) {
    ask(body, lines, hashes + first, count, seen + first);
  });
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ContainsBy(KernelsFor(shape), shape, body, hashes, n, seen);
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
  const uint64_t lines = Lines(shape);
  const int k = K(shape);
  uint64_t histogram[kLineBits + 1] = {};  // number of lines by their bits set
  ForUnits(lines, kLineBits, [&](uint64_t from, uint64_t to) {
    for (uint64_t line = from; line < to; ++line) {
      int set = 0;
      for (size_t i = 0; i < kLineBytes; i += 8) {
        set += std::popcount(LoadU64(body + line * kLineBytes + i));
      }
      ++histogram[set];
    }
  });
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

extern const Method kMethod;

}  // namespace dedup::blocked_bloom

#endif  // STREAMDEDUP_CORE_METHODS_BLOCKED_BLOOM_HPP_
