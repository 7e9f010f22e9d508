// Asking and adding keys in groups, for the method `infini`: the lines of a group are compared
// with its keys first, which takes few instructions, and then what is left is done one by one.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../wide.hpp"
#include "infini_table.hpp"

namespace dedup::infini {

// What comparing a group of keys with their lines has found. For each key, `candidates` has a
// bit for each slot of its line that may hold the key, and `own` is how many entries of its own
// the line had at that time.
struct Compared {
  uint32_t candidates[kGroup];
  uint8_t own[kGroup];
};

template <unsigned kSlotBytes>
void Compare(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
             Compared* out) noexcept {
  using L = Line<kSlotBytes>;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* line = table.At(table.LineOf(hashes[i]));
    const unsigned own = L::Read(line).own;
    out->own[i] = static_cast<uint8_t>(own);
    out->candidates[i] =
        L::Candidates(line, table.FingerprintOf(hashes[i])) & static_cast<uint32_t>(LowMask(own));
  }
}

#if DEDUP_HAS_WIDE
// The same with the whole line in one register.
template <unsigned kSlotBytes>
DEDUP_AVX512BW void CompareWide(const Table<kSlotBytes>& table, const uint64_t* hashes, size_t n,
                                Compared* out) noexcept {
  using L = Line<kSlotBytes>;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* line = table.At(table.LineOf(hashes[i]));
    const unsigned own = L::Read(line).own;
    const __m512i slots = _mm512_loadu_si512(line);
    const __m512i key = _mm512_set1_epi16(static_cast<short>(table.FingerprintOf(hashes[i]) >> 48));
    const __m512i below = _mm512_xor_si512(slots, _mm512_add_epi16(slots, _mm512_set1_epi16(-1)));
    out->own[i] = static_cast<uint8_t>(own);
    out->candidates[i] = _mm512_cmple_epu16_mask(_mm512_xor_si512(slots, key), below) &
                         static_cast<uint32_t>(LowMask(own));
  }
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

// Runs use(first, n, compared) for the keys group by group, with the lines of the next group
// fetched before.
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

// Whether a candidate of the line holds the fingerprint.
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
    // Keys whose entry may be in another line wait until that is fetched.
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

// Returns how many keys were new.
template <unsigned kSlotBytes>
uint64_t AddAll(Table<kSlotBytes>* table, const uint64_t* hashes, size_t n, bool may_displace,
                uint8_t* seen) noexcept {
  using L = Line<kSlotBytes>;
  uint64_t added = 0;
  ForEachGroup(*table, hashes, n, [&](size_t first, size_t count, const Compared& compared) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t hash = hashes[first + i], fingerprint = table->FingerprintOf(hash);
      uint8_t* line = table->At(table->LineOf(hash));
      Numbers numbers = L::Read(line);
      bool is_new = false;
      if (__builtin_expect(numbers.own != compared.own[i] || table->joined(), 0)) {
        // A key before it in its group has changed the line, or may have: a join changes entries,
        // but not their number.
        is_new = table->TestAndAdd(hash, may_displace);
      } else if (!OneHolds<kSlotBytes>(line, compared.candidates[i], fingerprint)) {
        is_new = table->AddToLine(hash, numbers, may_displace);
      }
      added += is_new;
      if (seen != nullptr) seen[first + i] = !is_new;
    }
  });
  return added;
}

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_KEYS_HPP_
