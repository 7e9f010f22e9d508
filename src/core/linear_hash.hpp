// Linear hashing: finds the page of a key in a live filter that grows.
//
// The pages are numbered from 0 on. A page of level l has the keys whose page bits end with the l
// bits of the page's number. When a page splits, it keeps the keys with bit l clear. The keys with
// bit l set go to the page whose number is 2^l higher. Both pages then have level l + 1. Pages
// split in the order of their numbers. So the number of pages says which of them have split
// already, and is enough to find the page of a key.
//
// The page bits are the bits of the rest of a key's hash (core/live_line.hpp) in reverse order.
// Each split uses up the top bit of the fingerprints.

#ifndef STREAMDEDUP_CORE_LINEAR_HASH_HPP_
#define STREAMDEDUP_CORE_LINEAR_HASH_HPP_

#include <bit>
#include <cstdint>

#include "core/bytes.hpp"
#include "core/live_line.hpp"

namespace dedup::live {

// There are no levels above this one.
inline constexpr unsigned kMostLevels = 21;
inline constexpr uint32_t kMostPages = uint32_t{1} << kMostLevels;

inline uint64_t PageBits(uint64_t rest) noexcept {
  uint64_t bits = rest << (64 - kRestBits);
  bits = (bits >> 1 & 0x5555555555555555u) | (bits & 0x5555555555555555u) << 1;
  bits = (bits >> 2 & 0x3333333333333333u) | (bits & 0x3333333333333333u) << 2;
  bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0fu) | (bits & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(bits);
}

// The address of a key in a filter that grows. Its group is the page bits.
inline Address GrowingAddressOf(uint64_t hash, unsigned lines) noexcept {
  Address address = AddressOf(hash, 1, lines);
  address.group = PageBits(address.rest);
  return address;
}

// Returns the level of a filter. It is the level of a page that splits after all pages of the level
// below have split.
inline unsigned LevelOfPages(uint32_t pages) noexcept {
  return static_cast<unsigned>(std::bit_width(pages)) - 1;
}

// Returns the level of page `page` of `pages`.
inline unsigned LevelOfPage(uint32_t page, uint32_t pages) noexcept {
  const unsigned level = LevelOfPages(pages);
  const uint32_t first = uint32_t{1} << level;
  return page < pages - first || page >= first ? level + 1 : level;
}

// Returns the page, of `pages`, that has the key with these page bits.
inline uint32_t PageOfBits(uint64_t bits, uint32_t pages) noexcept {
  const unsigned level = LevelOfPages(pages);
  const auto page = static_cast<uint32_t>(bits & LowMask(level + 1));
  return page < pages ? page : page & static_cast<uint32_t>(LowMask(level));
}

// The page that splits next, and the new page of a split.
inline uint32_t NextToSplit(uint32_t pages) noexcept { return pages - std::bit_floor(pages); }
inline uint32_t UpperOf(uint32_t page, unsigned level) noexcept {
  return page | uint32_t{1} << level;
}

// Returns the fewest pages with which page `page` has level `level`.
inline uint32_t FewestPages(uint32_t page, unsigned level) noexcept {
  if (level == 0) return 1;
  const uint32_t upper = uint32_t{1} << (level - 1);
  return (page & (upper - 1)) + upper + 1;
}

// Returns whether page `page` can have this level when there are `pages` pages or more.
inline bool CanBePage(uint32_t page, unsigned level, uint32_t pages) noexcept {
  return level <= kMostLevels && page <= LowMask(level) &&
         level >= LevelOfPage(PageOfBits(page, pages), pages);
}

// Returns whether a page of this level has the key with these page bits.
inline bool HasBits(uint32_t page, unsigned level, uint64_t bits) noexcept {
  return (bits & LowMask(level)) == page;
}

// Returns the page to search next for a key that was in `page`, if that page has since split to
// `level` and lost the key. It is the new page of the split that moved the key. This new page may
// have split, too. The page of the key's bits at this level may not exist yet.
inline uint32_t AfterSplit(uint32_t page, unsigned level, uint64_t bits) noexcept {
  const uint64_t differs = (bits ^ page) & LowMask(level);
  return page | static_cast<uint32_t>(differs & (~differs + 1));
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LINEAR_HASH_HPP_
