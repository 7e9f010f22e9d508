// Bytes and bits: little-endian loads and stores, the mixers that turn one
// 64-bit hash into as many independent numbers as a method needs, and prefetch.
//
// Everything here gives the same answer on every machine, whatever its byte
// order, because what it computes ends up in stored filters.

#ifndef STREAMDEDUP_CORE_BYTES_HPP_
#define STREAMDEDUP_CORE_BYTES_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace dedup {

inline constexpr size_t kLineBytes = 64;  // one cache line

template <typename T>
inline T LoadLittle(const uint8_t* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) {
    if constexpr (sizeof(T) == 8) value = static_cast<T>(__builtin_bswap64(value));
    if constexpr (sizeof(T) == 4) value = static_cast<T>(__builtin_bswap32(value));
    if constexpr (sizeof(T) == 2) value = static_cast<T>(__builtin_bswap16(value));
  }
  return value;
}

template <typename T>
inline void StoreLittle(uint8_t* to, T value) noexcept {
  if constexpr (std::endian::native == std::endian::big) {
    if constexpr (sizeof(T) == 8) value = static_cast<T>(__builtin_bswap64(value));
    if constexpr (sizeof(T) == 4) value = static_cast<T>(__builtin_bswap32(value));
    if constexpr (sizeof(T) == 2) value = static_cast<T>(__builtin_bswap16(value));
  }
  std::memcpy(to, &value, sizeof value);
}

inline uint64_t LoadU64(const uint8_t* from) noexcept { return LoadLittle<uint64_t>(from); }
inline uint32_t LoadU32(const uint8_t* from) noexcept { return LoadLittle<uint32_t>(from); }
inline void StoreU64(uint8_t* to, uint64_t value) noexcept { StoreLittle(to, value); }
inline void StoreU32(uint8_t* to, uint32_t value) noexcept { StoreLittle(to, value); }

// A double as the 8 bytes of its IEEE form.
inline double LoadDouble(const uint8_t* from) noexcept {
  const uint64_t bits = LoadU64(from);
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline void StoreDouble(uint8_t* to, double value) noexcept {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  StoreU64(to, bits);
}

// The high half of a 64 x 64 bit product: scales a uniform 64-bit number onto
// 0 .. n-1 without a division.
inline uint64_t FastRange(uint64_t uniform, uint64_t n) noexcept {
#ifdef __SIZEOF_INT128__
  return static_cast<uint64_t>((static_cast<unsigned __int128>(uniform) * n) >> 64);
#else
  const uint64_t a = uniform >> 32, b = uniform & 0xffffffffu, c = n >> 32, d = n & 0xffffffffu;
  const uint64_t bd = b * d, ad = a * d, bc = b * c;
  const uint64_t middle = (bd >> 32) + (ad & 0xffffffffu) + (bc & 0xffffffffu);
  return a * c + (ad >> 32) + (bc >> 32) + (middle >> 32);
#endif
}

// Returns number `index` of the SplitMix64 stream that starts at `hash`. Methods derive all their
// numbers from a key's hash with this function. So these numbers are independent of each other and
// of the hash's high bits, which choose the line.
inline constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;

inline uint64_t Derived(uint64_t hash, unsigned index) noexcept {
  uint64_t z = hash + (static_cast<uint64_t>(index) + 1) * kGolden;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Returns probe number `i` of a key over n places. The probes of a key are independent.
inline uint64_t Position(uint64_t hash, int i, uint64_t n) noexcept {
  return FastRange(Derived(hash, static_cast<unsigned>(i)), n);
}

// The first `bits` bits (0 to 64) of a word.
inline constexpr uint64_t LowMask(unsigned bits) noexcept {
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

// A compiler may drop calls of a function that only prefetches, because it has no effect. So these
// functions are always inlined, and their callers must be, too.
#define DEDUP_ALWAYS_INLINE __attribute__((always_inline))

DEDUP_ALWAYS_INLINE inline void Prefetch(const uint8_t* address) noexcept {
  __builtin_prefetch(address, 0);
}
DEDUP_ALWAYS_INLINE inline void PrefetchToWrite(const uint8_t* address) noexcept {
  __builtin_prefetch(address, 1);
}

// Stands before a short loop of constant length. clang unrolls such loops by itself.
#if defined(__GNUC__) && !defined(__clang__)
#define DEDUP_UNROLL _Pragma("GCC unroll 16")
#else
#define DEDUP_UNROLL
#endif

// Runs use(i) for i in 0 .. n-1. Runs fetch(i) before it, one group ahead. The work is done in
// groups because a prefetch that needs a page-table lookup delays the instructions after it. Many
// such prefetches in a row do their lookups in parallel; a single prefetch between the work for two
// keys does not.
inline constexpr size_t kGroup = 32;

// Batches of keys that touch many lines each prefetch fewer keys ahead.
inline constexpr size_t kKeysAhead = 8;

template <size_t kKeys = kGroup, typename Fetch, typename Use>
DEDUP_ALWAYS_INLINE inline void InGroups(size_t n, Fetch fetch, Use use) noexcept {
  size_t fetched = n < kKeys ? n : kKeys;
  for (size_t i = 0; i < fetched; ++i) fetch(i);
  for (size_t done = 0; done < n;) {
    const size_t end = fetched;
    fetched = n - fetched < kKeys ? n : fetched + kKeys;
    for (size_t i = end; i < fetched; ++i) fetch(i);
    for (; done < end; ++done) use(done);
  }
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_BYTES_HPP_
