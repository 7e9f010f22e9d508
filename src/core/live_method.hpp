// The method of live filters: its shape, and the size that a live filter needs.
//
// Every live filter is of the method `fifo` (methods/fifo.hpp), whose groups of lines are the
// pages. live_line.hpp has the functions for one line.

#ifndef STREAMDEDUP_CORE_LIVE_METHOD_HPP_
#define STREAMDEDUP_CORE_LIVE_METHOD_HPP_

#include <cstdint>

#include "core/methods/fifo.hpp"
#include "core/page.hpp"
#include "core/registry.hpp"
#include "core/settling.hpp"

namespace dedup::live {

inline constexpr uint32_t kBodyBytes = kLines * static_cast<uint32_t>(kLineBytes);  // of a page
static_assert(kBodyBytes == fifo::kGroupBytes);

inline constexpr uint32_t kMaxPages = kMaxBodyBytes / kBodyBytes;

// In microseconds.
inline constexpr uint64_t kMinGeneration = fifo::kMinGenerationUs;

inline bool IsLiveMethod(const Method& method) noexcept { return &method == &fifo::kMethod; }

inline LineLayout LayoutOf(const Shape& shape) noexcept { return fifo::LayoutOf(shape); }

// Returns the length of a generation in microseconds. Returns 0 if keys do not expire.
inline uint64_t GenerationLength(const Shape& shape) noexcept { return fifo::GenerationUs(shape); }

// Returns the length of a generation for a ttl, rounded up, so that the generations of a window are
// never shorter than the ttl.
inline constexpr uint64_t GenerationFor(uint64_t ttl) noexcept {
  return (ttl + kWindowGenerations - 1) / kWindowGenerations;
}

inline uint32_t PagesOf(const Shape& shape) noexcept { return shape.bytes / kBodyBytes; }

// Sizes a live filter for the keys and the rate of a prototype. `generation` is 0 without
// a ttl. Fills all of the shape, except that the caller sets the hash of the keys.
inline PlanStatus PlanLive(const Shape& prototype, uint64_t generation, uint64_t seed,
                           Shape* shape) noexcept {
  if (generation != 0) {
    return fifo::PlanTimed(prototype.keys, prototype.fpr, generation, seed, shape);
  }
  if (prototype.method == fifo::kCode) {
    *shape = prototype;
    shape->seed = seed;
    return PlanStatus::kOk;
  }
  Request request;
  request.keys = prototype.keys;
  request.fpr = prototype.fpr;
  return PlanFilter(fifo::kMethod, request, seed, shape);
}

// Makes a shape from its parts, without keys and rate. Returns false if no live filter has this
// shape. The shape of a filter that grows has no bytes.
inline bool MakeShape(uint32_t pages, const LineLayout& layout, uint64_t generation, uint64_t seed,
                      uint8_t hash, Shape* shape) noexcept {
  *shape = Shape{};
  shape->method = fifo::kCode;
  shape->hash = hash;
  shape->seed = seed;
  shape->bytes = (layout.grows ? 1 : pages) * kBodyBytes;
  shape->detail = layout.slot_bytes | uint64_t{layout.timed} << fifo::kTimedBit |
                  generation << fifo::kGenerationShift;
  const bool valid = fifo::Valid(*shape, Counters{});
  if (layout.grows) shape->bytes = 0;
  return valid && layout.grows == (pages == 0);
}

// ---- filters that grow ---------------------------------------------------------------

// A filter that grows keeps its rate up to at least this many keys. It stops splitting a few pages
// before.
inline constexpr double kGrowsTo = 1 << 30;
inline constexpr unsigned kMinGrowingSlotBytes = 4;

// Returns the average number of keys a page. A page has between this many and twice as many keys
// before it splits. Its lines then have room for most of them.
inline constexpr uint32_t KeysAPage(const LineLayout& layout) noexcept {
  return kLines * layout.usable() * 59 / 100;
}

// Returns the rate of a filter that holds this many keys, all in lines. The rate does not depend on
// the number of pages: a page of the next level has half as many keys, and fingerprints with one
// bit less.
inline double GrowingRate(const LineLayout& layout, double keys) noexcept {
  return LineRate(layout, keys / kLines);
}

// The shortest slots with which a filter that grows keeps a rate.
inline LineLayout GrowingLayoutFor(double fpr, bool timed) noexcept {
  LineLayout layout = {kMinGrowingSlotBytes, timed, true};
  while (layout.slot_bytes < kMaxSlotBytes && GrowingRate(layout, kGrowsTo) > fpr) {
    ++layout.slot_bytes;
  }
  return layout;
}

// Returns the most pages with which a filter keeps a rate when all its lines are full, or 0 if no
// number of pages keeps it.
inline uint32_t MostPages(const LineLayout& layout, double fpr) noexcept {
  const double pages = fpr / LineRate(layout, layout.usable());
  return pages < kMostPages ? static_cast<uint32_t>(pages) : kMostPages;
}

// Fills the shape of a filter that grows. `generation` is 0 without a ttl.
inline PlanStatus PlanGrowing(double fpr, uint64_t generation, uint64_t seed, uint8_t hash,
                              Shape* shape) noexcept {
  const LineLayout layout = GrowingLayoutFor(fpr, generation != 0);
  if (MostPages(layout, fpr) == 0) return PlanStatus::kTooLarge;
  if (!MakeShape(0, layout, generation, seed, hash, shape)) return PlanStatus::kTooLarge;
  shape->fpr = fpr;
  return PlanStatus::kOk;
}

// Returns the number of pages for this many keys.
inline uint32_t PagesFor(uint64_t keys, const LineLayout& layout, double fpr) noexcept {
  const uint64_t pages = keys / KeysAPage(layout) + 1;
  const uint32_t most = MostPages(layout, fpr);
  return pages < most ? static_cast<uint32_t>(pages) : most;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LIVE_METHOD_HPP_
