// Looks up and adds many keys at once, for the method `infini`. To look up, the lines of a group
// are first compared with its keys, which takes few instructions; the remaining candidates are
// checked one by one. Keys are added one by one, because a key may change the line of the next key.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../wide.hpp"
#include "infini_table.hpp"

namespace dedup::infini {

// The result of comparing a group of keys with their lines: for each key, a bit for each slot of
// its line that may hold the key.
struct Compared {
  uint32_t candidates[kGroup];
};

// `candidates(line, fingerprint)` is Line::Candidates(), or does the same with wider registers.
template <unsigned kSlotBytes, typename Candidates>
DEDUP_ALWAYS_INLINE inline void CompareBy(const Table<kSlotBytes>& table, const uint64_t* hashes,
                                          size_t n, Compared* out, Candidates candidates) noexcept {
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* line = table.At(table.LineOf(hashes[i]));
    const unsigned own = Line<kSlotBytes>::Read(line).own;
    out->candidates[i] =
        candidates(line, table.FingerprintOf(hashes[i])) & static_cast<uint32_t>(LowMask(own));
  }
}

template <unsigned kSlotBytes>
void Compare(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
             Compared* out) noexcept {
  CompareBy(table, hashes, n, out, Line<kSlotBytes>::Candidates);
}

#if DEDUP_HAS_WIDE
// Does Line::Candidates() with the whole line in one register. May set additional bits, of slots
// that do not exist.
DEDUP_AVX512BW inline uint32_t CandidatesWide(const uint8_t* line, uint64_t fingerprint) noexcept {
  const __m512i slots = _mm512_loadu_si512(line);
  const __m512i key = _mm512_set1_epi16(static_cast<short>(fingerprint >> 48));
  const __m512i below = _mm512_xor_si512(slots, _mm512_add_epi16(slots, _mm512_set1_epi16(-1)));
  return _mm512_cmple_epu16_mask(_mm512_xor_si512(slots, key), below);
}

// Does the same as Compare().
template <unsigned kSlotBytes>
DEDUP_AVX512BW void CompareWide(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
                                Compared* out) noexcept {
  CompareBy(table, hashes, n, out, CandidatesWide);
}

inline bool HasWide() noexcept { return __builtin_cpu_supports("avx512bw") != 0; }
#else
template <unsigned kSlotBytes>
void CompareWide(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
                 Compared* out) noexcept {
  Compare(table, hashes, n, out);
}

inline bool HasWide() noexcept { return false; }
#endif

// Runs use(first, n, compared) for the keys group by group, after the lines of the next group were
// prefetched.
template <unsigned kSlotBytes, typename Use>
DEDUP_ALWAYS_INLINE inline void ForEachGroup(const Table<kSlotBytes>& table, const uint64_t* hashes,
                                             size_t n, Use use) noexcept {
  const auto compare = HasWide() ? CompareWide<kSlotBytes> : Compare<kSlotBytes>;
  Compared compared;
  size_t end = n < kGroup ? n : kGroup;
  for (size_t i = 0; i < end; ++i) table.Fetch(hashes[i]);
  for (size_t done = 0; done < n;) {
    const size_t next = n - end < kGroup ? n : end + kGroup;
    for (size_t i = end; i < next; ++i) table.Fetch(hashes[i]);
    compare(table, hashes + done, end - done, &compared);
    use(done, end - done, compared);
    done = end;
    end = next;
  }
}

// Returns whether one of the line's candidates holds the fingerprint.
template <unsigned kSlotBytes>
DEDUP_ALWAYS_INLINE inline bool OneHolds(const uint8_t* line, uint32_t candidates,
                                         uint64_t fingerprint) noexcept {
  using L = Line<kSlotBytes>;
  if constexpr (L::kTailBytes == 0) {
    return candidates != 0;
  } else {
    return __builtin_expect(candidates != 0, 0) && L::AnyHolds(line, candidates, fingerprint);
  }
}

template <unsigned kSlotBytes>
void AskAll(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
            uint8_t* seen) noexcept {
  using L = Line<kSlotBytes>;
  ForEachGroup(table, hashes, n, [&](size_t first, size_t count, const Compared& compared) {
    // Keys whose entry may be in another line wait until that line has arrived.
    uint8_t late[kGroup];
    size_t late_count = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t hash = hashes[first + i];
      const uint8_t* line = table.At(table.LineOf(hash));
      const bool held =
          OneHolds<kSlotBytes>(line, compared.candidates[i], table.FingerprintOf(hash));
      seen[first + i] = held;
      late[late_count] = static_cast<uint8_t>(i);
      late_count += !held && L::Read(line).reach > 0;
    }
    for (size_t i = 0; i < late_count; ++i) {
      Prefetch(table.At(table.LineOf(hashes[first + late[i]]) + 1));
    }
    for (size_t i = 0; i < late_count; ++i) {
      seen[first + late[i]] = table.HeldNearby(hashes[first + late[i]]);
    }
  });
}

// Adds keys in their order and prefetches the lines of the next ones. `candidates` is that of
// CompareBy(). Returns how many keys were new.
template <unsigned kSlotBytes, typename Candidates>
DEDUP_ALWAYS_INLINE inline uint64_t AddInOrder(Table<kSlotBytes>* to, const uint64_t* hashes,
                                               size_t n, bool may_displace, uint8_t* seen,
                                               Candidates candidates) noexcept {
  using L = Line<kSlotBytes>;
  static_assert((kGroup & (kGroup - 1)) == 0);
  // a copy, so that its numbers stay in registers: the compiler knows that no line aliases them
  Table<kSlotBytes> table = *to;
  uint8_t* lines[kGroup];
  const auto fetch = [&](size_t i) DEDUP_ALWAYS_INLINE {
    lines[i % kGroup] = table.At(table.LineOf(hashes[i]));
    PrefetchToWrite(lines[i % kGroup]);
  };
  uint64_t added = 0;
  for (size_t i = 0; i < n && i < kGroup; ++i) fetch(i);
  for (size_t i = 0; i < n; ++i) {
    uint8_t* line = lines[i % kGroup];
    if (i + kGroup < n) fetch(i + kGroup);
    const uint64_t hash = hashes[i], fingerprint = table.FingerprintOf(hash);
    Numbers numbers = L::Read(line);
    const uint32_t found =
        candidates(line, fingerprint) & static_cast<uint32_t>(LowMask(numbers.own));
    bool is_new = false;
    if (!OneHolds<kSlotBytes>(line, found, fingerprint)) {
      is_new = true;
      if (__builtin_expect(numbers.reach == 0 && L::HasRoom(numbers, 1), 1)) {
        L::AppendOwn(line, &numbers, EntryOf(fingerprint, L::kMaxLength));
      } else {
        is_new = table.AddToLine(hash, numbers, may_displace);
      }
    }
    added += is_new;
    if (seen != nullptr) seen[i] = !is_new;
  }
  return added;
}

template <unsigned kSlotBytes>
uint64_t AddPlain(Table<kSlotBytes>* table, const uint64_t* hashes, size_t n, bool may_displace,
                  uint8_t* seen) noexcept {
  return AddInOrder(table, hashes, n, may_displace, seen, Line<kSlotBytes>::Candidates);
}

#if DEDUP_HAS_WIDE
template <unsigned kSlotBytes>
DEDUP_AVX512BW uint64_t AddWide(Table<kSlotBytes>* table, const uint64_t* hashes, size_t n,
                                bool may_displace, uint8_t* seen) noexcept {
  return AddInOrder(table, hashes, n, may_displace, seen, CandidatesWide);
}
#else
template <unsigned kSlotBytes>
uint64_t AddWide(Table<kSlotBytes>* table, const uint64_t* hashes, size_t n, bool may_displace,
                 uint8_t* seen) noexcept {
  return AddPlain<kSlotBytes>(table, hashes, n, may_displace, seen);
}
#endif

// Returns how many keys were new.
template <unsigned kSlotBytes>
uint64_t AddAll(Table<kSlotBytes>* table, const uint64_t* hashes, size_t n, bool may_displace,
                uint8_t* seen) noexcept {
  return HasWide() ? AddWide<kSlotBytes>(table, hashes, n, may_displace, seen)
                   : AddPlain<kSlotBytes>(table, hashes, n, may_displace, seen);
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_
