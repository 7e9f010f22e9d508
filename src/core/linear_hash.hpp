// Linear hashing: which page of a live filter that grows has a key.
//
// The pages are numbered from 0 on. A page of level l has the keys whose page bits end with
// the l bits of the page's number. When it splits it keeps those with bit l clear; those with
// bit l set go to the page whose number is 2^l higher, and both have level l + 1. Pages split in
// the order of their numbers, so the number of pages says which of them have split already, and
// nothing else has to be known to find a key.
//
// The page bits are the bits of the rest of a key's hash (core/live_line.hpp) in reverse order:
// each split uses up the top bit of what a fingerprint still has.

#ifndef STREAMDEDUP_CORE_LINEAR_HASH_HPP_
#define STREAMDEDUP_CORE_LINEAR_HASH_HPP_

#include <bit>
#include <cstdint>

#include "core/bytes.hpp"
#include "core/live_line.hpp"

namespace dedup::live {

// Levels above this one are not known.
inline constexpr unsigned kMostLevels = 21;
inline constexpr uint32_t kMostPages = uint32_t{1} << kMostLevels;

inline uint64_t PageBits(uint64_t rest) noexcept {
  uint64_t bits = rest << (64 - kRestBits);
  bits = (bits >> 1 & 0x5555555555555555u) | (bits & 0x5555555555555555u) << 1;
  bits = (bits >> 2 & 0x3333333333333333u) | (bits & 0x3333333333333333u) << 2;
  bits = (bits >> 4 & 0x0f0f0f0f0f0f0f0fu) | (bits & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(bits);
}

// The address of a key in a filter that grows: the group is the page bits.
inline Address GrowingAddressOf(uint64_t hash, unsigned lines) noexcept {
  Address address = AddressOf(hash, 1, lines);
  address.group = PageBits(address.rest);
  return address;
}

// A filter's level: that of a page that does not split before all others have.
inline unsigned LevelOfPages(uint32_t pages) noexcept {
  return static_cast<unsigned>(std::bit_width(pages)) - 1;
}

// The level of a page of so many.
inline unsigned LevelOfPage(uint32_t page, uint32_t pages) noexcept {
  const unsigned level = LevelOfPages(pages);
  const uint32_t first = uint32_t{1} << level;
  return page < pages - first || page >= first ? level + 1 : level;
}

// The page of so many that has a key.
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

// The fewest pages with which there is a page of a level.
inline uint32_t FewestPages(uint32_t page, unsigned level) noexcept {
  if (level == 0) return 1;
  const uint32_t upper = uint32_t{1} << (level - 1);
  return (page & (upper - 1)) + upper + 1;
}

// Whether there can be a page of a level when there are so many pages or more.
inline bool CanBePage(uint32_t page, unsigned level, uint32_t pages) noexcept {
  return level <= kMostLevels && page <= LowMask(level) &&
         level >= LevelOfPage(PageOfBits(page, pages), pages);
}

// Whether a page of a level has a key.
inline bool HasBits(uint32_t page, unsigned level, uint64_t bits) noexcept {
  return (bits & LowMask(level)) == page;
}

// Where to look next for a key that was in a page, which has split since to this level, and has
// it no more: in the page of the split that took it away. That one can have split, too; the page
// of the key's bits at this level need not be there yet.
inline uint32_t AfterSplit(uint32_t page, unsigned level, uint64_t bits) noexcept {
  const uint64_t differs = (bits ^ page) & LowMask(level);
  return page | static_cast<uint32_t>(differs & (~differs + 1));
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LINEAR_HASH_HPP_
