// fifo: a window by first sight, as fingerprints in first-in first-out lines.
//
// The body is groups of 103 lines of 64 bytes (fifo_line.hpp). Every live filter is of this method;
// there, a group is a page. The hash chooses group, line and fingerprint. A key that is held
// changes nothing. A new key is put behind the others of its line, and if the line is full, the
// line's oldest key is evicted. (This is a FIFO set-associative table of fingerprints; Geraud et
// al. 2019 evict at random instead.)
//
// Promise: a key that was reported as new is a duplicate until at least `keys` further keys were
// added. Of the keys of exactly that age at most 0.1 % are missed, of younger keys fewer. A key
// that is found changes nothing, so a key that comes again and again is reported as new once a
// window. In a window by time, a key is held in the generation of its first sight and the 7 after
// it, if no more than 8/7 `keys` are added meanwhile.
// FPR: slots in use * (2^b + 2) / 4^b with fingerprints of b bits, at most the requested rate.
// Cost: one cache line a key; 22 bits a key of the window for rates from 0.01 on, 31 for rates down
// to 0.0005, 57 for rates down to 0.0000012. A line must have room for up to twice its mean number
// of keys; otherwise keys of a line that fills early would be evicted before the promised time.
// State: the lines. In windows by time, Counters::state is the clock: the newest generation, which
// is the present time for lookups.

#ifndef STREAMDEDUP_CORE_METHODS_FIFO_HPP_
#define STREAMDEDUP_CORE_METHODS_FIFO_HPP_

#include <cmath>
#include <cstdio>
#include <cstring>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"
#include "fifo_line.hpp"

namespace dedup::fifo {

inline constexpr uint8_t kCode = 5;
inline constexpr unsigned kGroupLines = 103;
inline constexpr uint32_t kGroupBytes = kGroupLines * static_cast<uint32_t>(kLineBytes);
inline constexpr double kMissed = 0.001;  // of the keys of age `keys`

// Shape::detail: bytes a slot (1: 12 bits), whether slots hold a generation, and how long a
// generation is.
inline constexpr unsigned kTimedBit = 8;
inline constexpr unsigned kGenerationShift = 16;
inline constexpr uint64_t kMinGenerationUs = 100000;
inline constexpr uint64_t kMaxGenerationUs = ~uint64_t{0} >> kGenerationShift;

inline LineLayout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff), (shape.detail >> kTimedBit & 1) != 0};
}
// In microseconds. 0 if keys do not expire by time.
inline uint64_t GenerationUs(const Shape& shape) noexcept {
  return shape.detail >> kGenerationShift;
}
inline uint64_t Groups(const Shape& shape) noexcept { return shape.bytes / kGroupBytes; }
inline uint64_t Lines(const Shape& shape) noexcept { return shape.bytes / kLineBytes; }

// ---- sizes ------------------------------------------------------------------

// Returns the shortest slots with which a full line keeps the rate. slot_bytes is 0 if no slots
// keep it.
inline LineLayout LayoutFor(double fpr, bool timed) noexcept {
  unsigned slot_bytes = timed ? kMinTimedSlotBytes : kMinSlotBytes;
  for (; slot_bytes <= kMaxSlotBytes; ++slot_bytes) {
    const LineLayout layout = {slot_bytes, timed};
    if (LineRate(layout, layout.usable()) <= fpr) return layout;
  }
  return {0, timed};
}

// Returns the probability that `keys` keys, added after a given key, push that key out of its line.
inline double MissedAfter(double keys, double groups, const LineLayout& layout) noexcept {
  double missed = 0;
  ForEachLoad(keys, groups * kGroupLines, [&](double load, double p) {
    if (load >= layout.usable()) missed += p;
  });
  return missed;
}

// Returns the approximate number of keys a group: the start of the search for sizes. The square
// root of a Poisson number has a standard deviation of about 1/2, and 0.1 % of the numbers are more
// than 3 deviations above the mean.
inline double KeysAGroup(const LineLayout& layout) noexcept {
  const double root = std::sqrt(static_cast<double>(layout.usable())) - 1.48;
  return kGroupLines * root * root;
}

// Returns the fewest groups that keep kMissed for this many keys. The result may be more than fit
// into kMaxBodyBytes.
inline uint64_t GroupsFor(uint64_t keys, const LineLayout& layout) noexcept {
  const double n = static_cast<double>(keys);
  return LeastWhereNear(static_cast<uint64_t>(n / KeysAGroup(layout)), 1,
                        kMaxBodyBytes / kGroupBytes, [&](uint64_t groups) {
                          return MissedAfter(n, static_cast<double>(groups), layout) <= kMissed;
                        });
}

// Returns the most keys for which this many groups keep kMissed.
inline uint64_t KeysFor(uint64_t groups, const LineLayout& layout) noexcept {
  const double g = static_cast<double>(groups);
  return LeastWhereNear(static_cast<uint64_t>(g * KeysAGroup(layout)), 1,
                        groups * kGroupLines * layout.slots(),
                        [&](uint64_t keys) {
                          return MissedAfter(static_cast<double>(keys), g, layout) > kMissed;
                        }) -
         1;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const LineLayout layout = LayoutFor(request.fpr, false);
  if (layout.slot_bytes == 0) return PlanStatus::kTooLarge;
  uint64_t groups = request.memory / kGroupBytes;
  uint64_t keys = request.keys;
  if (keys > 0) groups = GroupsFor(keys, layout);
  if (groups == 0) return PlanStatus::kMemoryTooSmall;
  if (groups > kMaxBodyBytes / kGroupBytes) return PlanStatus::kTooLarge;
  if (keys == 0) keys = KeysFor(groups, layout);
  shape->bytes = static_cast<uint32_t>(groups * kGroupBytes);
  shape->keys = keys;
  shape->fpr = request.fpr;
  shape->detail = layout.slot_bytes;
  return PlanStatus::kOk;
}

// Sizes a window by time in which `keys` keys are added in 7 generations. It is sized for a seventh
// more keys, because a key is held for up to one generation more than the window. Fills every field
// of the shape. Returns kTooLarge if a generation is outside the limits above.
inline PlanStatus PlanTimed(uint64_t keys, double fpr, uint64_t generation_us, uint64_t seed,
                            Shape* shape) noexcept {
  const LineLayout layout = LayoutFor(fpr, true);
  if (layout.slot_bytes == 0) return PlanStatus::kTooLarge;
  if (generation_us < kMinGenerationUs || generation_us > kMaxGenerationUs) {
    return PlanStatus::kTooLarge;
  }
  const uint64_t held = keys + (keys + kGenerationsKept - 1) / kGenerationsKept;
  const uint64_t groups = GroupsFor(held, layout);
  if (groups > kMaxBodyBytes / kGroupBytes) return PlanStatus::kTooLarge;
  *shape = Shape{};
  shape->method = kCode;
  shape->bytes = static_cast<uint32_t>(groups * kGroupBytes);
  shape->seed = seed;
  shape->keys = keys;
  shape->fpr = fpr;
  shape->detail = layout.slot_bytes | uint64_t{1} << kTimedBit | generation_us << kGenerationShift;
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const LineLayout layout = LayoutOf(shape);
  const uint64_t generation = GenerationUs(shape);
  return layout.slot_bytes >= (layout.timed ? kMinTimedSlotBytes : kMinSlotBytes) &&
         layout.slot_bytes <= kMaxSlotBytes && (shape.detail & 0xfe00) == 0 &&
         (layout.timed ? generation >= kMinGenerationUs : generation == 0) &&
         shape.bytes >= kGroupBytes && shape.bytes % kGroupBytes == 0 && counters.count == 0 &&
         (layout.timed || counters.state == 0);
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const LineLayout layout = LayoutOf(shape);
  const double lines = static_cast<double>(Lines(shape));
  const double usable = layout.usable();
  if (keys <= 0) return 0;
  if (keys > 8 * usable * lines) return LineRate(layout, usable);  // all lines are full
  double rate = 0;
  ForEachLoad(keys, lines, [&](double load, double p) {
    rate += p * LineRate(layout, load < usable ? load : usable);
  });
  return rate;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const LineLayout layout = LayoutOf(shape);
  const auto groups = static_cast<unsigned long long>(Groups(shape));
  const auto generation = static_cast<unsigned long long>(GenerationUs(shape));
  const bool bits = layout.slot_bytes == 1;
  const char* unit = bits ? "bits" : "bytes";
  const unsigned width = bits ? layout.slot_bits() : layout.slot_bytes;
  if (layout.timed) {
    std::snprintf(text, size, "slot_%s=%u lines_per_group=%u groups=%llu generation=%lluus", unit,
                  width, kGroupLines, groups, generation);
  } else {
    std::snprintf(text, size, "slot_%s=%u lines_per_group=%u groups=%llu", unit, width, kGroupLines,
                  groups);
  }
}

// ---- keys -------------------------------------------------------------------

struct Place {
  uint64_t line;  // its byte offset
  uint64_t fingerprint;
};

inline Place PlaceOf(uint64_t hash, uint64_t groups, const LineLayout& layout) noexcept {
  const Address address = AddressOf(hash, groups, kGroupLines);
  return {(address.group * kGroupLines + address.line) * kLineBytes,
          FingerprintOf(address.rest, layout)};
}

// Runs step(layout, place, i) for every hash, and prefetches the lines of later keys. Each place is
// computed once, and waits in a ring of two groups.
template <typename Step>
inline void ForEachPlace(const Shape& shape, const uint8_t* body, const uint64_t* hashes, size_t n,
                         Step step) noexcept {
  const LineLayout layout = LayoutOf(shape);
  const uint64_t groups = Groups(shape);
  Place places[2 * kGroup];
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        Place& place = places[i % (2 * kGroup)];
        place = PlaceOf(hashes[i], groups, layout);
        PrefetchToWrite(body + place.line);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE { step(layout, places[i % (2 * kGroup)], i); });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint32_t now = counters->state;
  ForEachPlace(shape, body, hashes, n, [&](const LineLayout& layout, const Place& place, size_t i) {
    uint8_t* line = body + place.line;
    const bool found = Holds(line, layout, place.fingerprint, now, now);
    if (!found) fifo::Insert(line, layout, place.fingerprint, now, now);
    if (seen != nullptr) seen[i] = found;
  });
  return n;
}

inline void Contains(const Shape& shape, const Counters& counters, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint32_t now = counters.state;
  ForEachPlace(shape, body, hashes, n, [&](const LineLayout& layout, const Place& place, size_t i) {
    seen[i] = Holds(body + place.line, layout, place.fingerprint, now, now);
  });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  const uint32_t now = counters->state;
  ForEachPlace(shape, body, hashes, n, [&](const LineLayout& layout, const Place& place, size_t) {
    fifo::Insert(body + place.line, layout, place.fingerprint, now, now);
  });
  return n;
}

// ---- whole filters ----------------------------------------------------------

// Keeps the youngest keys of both lines, each fingerprint once, at the younger of its two ages. Of
// two slots, the one of the later generation is the younger. Within a generation (or without time),
// it is the one with the smaller rank divided by its filter's weight; on ties, the left one. A line
// keeps its bytes if the other line adds nothing to it.
inline void MergeLine(uint8_t* line, const uint8_t* other, const LineLayout& layout, uint32_t clock,
                      const Weights& weights) noexcept {
  Slots left, right;
  ReadSlots(line, layout, &left);
  ReadSlots(other, layout, &right);
  if (right.count == 0) return;
  if (left.count == 0) {
    std::memcpy(line, other, kLineBytes);
    return;
  }
  auto age_of = [&](uint64_t slot) { return layout.timed ? AgeOf(slot, clock) : 0; };
  auto fingerprint_of = [&](uint64_t slot) {
    return layout.timed ? slot >> kGenerationBits : slot;
  };
  uint64_t youngest[kMaxSlots];
  unsigned used = 0;
  uint32_t age = 0;                        // of the generation that is being merged
  uint64_t left_rank = 0, right_rank = 0;  // the ranks in it
  while (used < layout.usable() && left.count + right.count > 0) {
    const uint32_t left_age = left.count > 0 ? age_of(left.value[left.count - 1]) : ~uint32_t{0};
    const uint32_t right_age =
        right.count > 0 ? age_of(right.value[right.count - 1]) : ~uint32_t{0};
    const uint32_t next_age = left_age < right_age ? left_age : right_age;
    if (next_age != age) left_rank = right_rank = 0;
    age = next_age;
    const bool from_left =
        left_age < right_age ||
        (left_age == right_age && left_rank * weights.right <= right_rank * weights.left);
    ++(from_left ? left_rank : right_rank);
    const uint64_t slot = from_left ? left.value[--left.count] : right.value[--right.count];
    bool there = false;
    for (unsigned i = 0; i < used; ++i) {
      there = there || fingerprint_of(youngest[i]) == fingerprint_of(slot);
    }
    if (!there) youngest[used++] = slot;
  }
  Slots merged;
  while (used > 0) merged.value[merged.count++] = youngest[--used];
  WriteSlots(line, layout, merged);
}

// Merges line by line, after both filters are moved on to the later clock. Two full filters keep
// about half of the window of each: 0.3 % of the keys of these younger halves are missed.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  const LineLayout layout = LayoutOf(shape);
  const uint32_t left_clock = counters->state, right_clock = other_counters.state;
  const uint32_t clock = left_clock > right_clock ? left_clock : right_clock;
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += kLineBytes) {
      uint8_t right[kLineBytes];
      std::memcpy(right, other + at, kLineBytes);
      if (left_clock != clock) Expire(body + at, layout, left_clock, clock);
      if (right_clock != clock) Expire(right, layout, right_clock, clock);
      MergeLine(body + at, right, layout, clock, weights);
    }
  });
  counters->state = clock;
  return true;
}

// All slots in use count: keys that have expired by the clock were removed when the clock advanced.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const LineLayout layout = LayoutOf(shape);
  uint64_t used = 0;
  ForBytes(shape.bytes, [&](size_t from, size_t to) {
    for (size_t at = from; at < to; at += kLineBytes) {
      used += layout.slots() -
              static_cast<unsigned>(std::popcount(SlotsEqual(body + at, layout, 0, 0)));
    }
  });
  Reading reading;
  reading.count = static_cast<double>(used);
  reading.fpr = LineRate(layout, reading.count / static_cast<double>(Lines(shape)));
  return reading;
}

inline constexpr OptionSpec kOptions[] = {kFprOption, kKeysOption};

extern const Method kMethod;

}  // namespace dedup::fifo

#endif  // STREAMDEDUP_CORE_METHODS_FIFO_HPP_
