// The checksum of a live filter's page, and words that check themselves.
//
// A page's checksum is a sum with one term for each word of 8 bytes. So changing a few bytes means
// changing a few terms. Damage stays visible after later changes: a change subtracts the terms of
// the words as they are, so the difference to the words as they were written remains. The checksum
// is in the field of PostgreSQL's page header that is for pruning tuples. It covers the whole page
// except that header's LSN and data checksum. In the page of counters, which is changed without a
// lock, it covers only the headers, and the words that say whether the filter covers its table.
//
// Counters are words that check themselves: 52 bits of value, and a hash of them in 12 bits. So
// each counter can be changed by an atomic instruction, and stays valid if a crash leaves only some
// sectors of the page written. The factor was found by search: a change of one byte of a word is
// always noticed.

#ifndef STREAMDEDUP_CORE_PAGE_SUM_HPP_
#define STREAMDEDUP_CORE_PAGE_SUM_HPP_

#include "core/page.hpp"

namespace dedup::live {

inline constexpr size_t kSumAt = 20;  // u32

// The words of PostgreSQL's page header that the checksum covers: those behind the server's own
// checksum. live/store/pages.cpp checks that the server has its fields at these places.
// u16, not covered; the six bytes behind it are covered
inline constexpr size_t kServerSumAt = 8;
inline constexpr size_t kServerSpecialAt = 16;  // u32, up to kSumAt

// Returns the term of a word at a place. Terms of different places are independent.
inline constexpr uint32_t TermOf(size_t place, uint64_t word) noexcept {
  word = (word ^ word >> 32) + (place + 1) * kGolden;
  word *= 0xbf58476d1ce4e5b9u;
  word ^= word >> 29;
  word *= 0x94d049bb133111ebu;
  return static_cast<uint32_t>(word >> 32);
}

// Returns the sum of the terms of the words that the bytes from `from` to `to` are in. These are
// never bytes of PostgreSQL's header.
inline uint32_t TermsOf(const uint8_t* page, size_t from, size_t to) noexcept {
  uint32_t sum = 0;
  for (size_t place = from / 8; place < (to + 7) / 8; ++place) {
    sum += TermOf(place, LoadU64(page + place * 8));
  }
  return sum;
}

// Returns the checksum that a page should have. `seed` is the seed of the filter's keys, so that a
// page of another filter is noticed.
inline uint32_t SumOf(const uint8_t* page, uint64_t seed, uint32_t block) noexcept {
  const bool counters = page[kKindAt] == static_cast<uint8_t>(Kind::kCounters);
  return TermOf(0, seed + block * kGolden) + TermOf(1, LoadU64(page + kServerSumAt) >> 16) +
         TermOf(2, LoadU32(page + kServerSpecialAt)) +
         TermsOf(page, kMagicAt, counters ? kTagsAt : kPageBytes) +
         (counters ? TermsOf(page, kCoverAt, kCoverEnd) : 0);
}

// The sum of the terms of the words behind the header of an empty page.
inline constexpr uint32_t kTermsOfNothing = [] {
  uint32_t sum = 0;
  for (size_t place = kHeaderEnd / 8; place < kPageBytes / 8; ++place) sum += TermOf(place, 0);
  return sum;
}();

// Returns SumOf() for a page that InitPage() has just made a main page or an overflow page.
inline uint32_t SumOfEmpty(const uint8_t* page, uint64_t seed, uint32_t block) noexcept {
  return TermOf(0, seed + block * kGolden) + TermOf(1, LoadU64(page + kServerSumAt) >> 16) +
         TermOf(2, LoadU32(page + kServerSpecialAt)) + TermsOf(page, kMagicAt, kHeaderEnd) +
         kTermsOfNothing;
}

inline void Seal(uint8_t* page, uint64_t seed, uint32_t block) noexcept {
  StoreU32(page + kSumAt, SumOf(page, seed, block));
}

inline bool IsSealed(const uint8_t* page, uint64_t seed, uint32_t block) noexcept {
  return LoadU32(page + kSumAt) == SumOf(page, seed, block);
}

// ---- words that check themselves --------------------------------------------------

inline constexpr unsigned kCheckedBits = 52;

inline uint64_t ToChecked(uint64_t value) noexcept {
  value &= LowMask(kCheckedBits);
  return value | (value * 0x0c5c7fd0a6a3a451u) >> kCheckedBits << kCheckedBits;
}
inline uint64_t FromChecked(uint64_t word) noexcept { return word & LowMask(kCheckedBits); }
inline bool IsChecked(uint64_t word) noexcept { return ToChecked(word) == word; }

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_PAGE_SUM_HPP_
