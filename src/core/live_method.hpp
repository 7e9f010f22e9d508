// The method of live filters: its shape, and how large a live filter must be.
//
// Every live filter is of the method `fifo` (methods/fifo.hpp), whose groups of lines are
// the pages. live_line.hpp has what is done to a line.

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

// Microseconds.
inline constexpr uint64_t kMinGeneration = fifo::kMinGenerationUs;

inline bool IsLiveMethod(const Method& method) noexcept { return &method == &fifo::kMethod; }

inline LineLayout LayoutOf(const Shape& shape) noexcept { return fifo::LayoutOf(shape); }

// Returns the length of a generation in microseconds. Returns 0 if keys do not expire.
inline uint64_t GenerationLength(const Shape& shape) noexcept { return fifo::GenerationUs(shape); }

// The length of a generation for a ttl, rounded up: the generations of a window are never
// shorter than the ttl.
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

// Puts a shape together from its parts, without keys and rate. Returns false if no live
// filter has it.
inline bool MakeShape(uint32_t pages, const LineLayout& layout, uint64_t generation, uint64_t seed,
                      uint8_t hash, Shape* shape) noexcept {
  *shape = Shape{};
  shape->method = fifo::kCode;
  shape->hash = hash;
  shape->seed = seed;
  shape->bytes = pages * kBodyBytes;
  shape->detail = layout.slot_bytes | uint64_t{layout.timed} << fifo::kTimedBit |
                  generation << fifo::kGenerationShift;
  return fifo::Valid(*shape, Counters{});
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LIVE_METHOD_HPP_
