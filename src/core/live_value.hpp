// Converts live filters that grow to values of the method `infini` and back. The hashes of such a
// value are in the order of live filters (methods/infini_order.hpp). Nothing here knows PostgreSQL,
// allocates or throws.

#ifndef STREAMDEDUP_CORE_LIVE_VALUE_HPP_
#define STREAMDEDUP_CORE_LIVE_VALUE_HPP_

#include "core/linear_hash.hpp"
#include "core/live_line.hpp"
#include "core/methods/infini.hpp"

namespace dedup::live {

// The line of a key, and the first bits of its rest: as many as a fingerprint of level 0 has.
struct LongFingerprint {
  uint64_t bits;
  unsigned line;
};

// Runs visit(bits, generation) for the keys of a line. The line is in the page with this number;
// the level of the page is the layout's. The fingerprint 0 is stored as 1, so a stored 1 is visited
// as both.
template <typename Visit>
inline void ForEachInLine(const uint8_t* line, const LineLayout& layout, uint32_t page,
                          uint32_t clock, Visit visit) noexcept {
  const unsigned bits = layout.widest_fingerprint_bits();
  const uint64_t above = PageBits(page) >> (kRestBits - bits);
  const unsigned generation_bits = layout.timed ? fifo::kGenerationBits : 0;
  fifo::Slots slots;
  fifo::ReadSlots(line, layout, &slots);
  for (unsigned i = 0; i < slots.count; ++i) {
    const uint64_t fingerprint = slots.value[i] >> generation_bits;
    const uint32_t generation = layout.timed ? fifo::GenerationOf(slots.value[i], clock) : 0;
    visit(above | fingerprint, generation);
    if (fingerprint == 1) visit(above, generation);
  }
}

// Returns the shape of a value for the keys of a live filter whose fingerprints have `bits` bits.
// Its slots are wide enough to keep them.
inline Shape ValueShape(const Shape& live, unsigned bits) noexcept {
  unsigned slot_bytes = infini::kMinSlotBytes;
  while (slot_bytes < infini::kMaxSlotBytes &&
         8 * slot_bytes - 1 + infini::kStartBits < bits + infini::kLiveLineBits) {
    ++slot_bytes;
  }
  Shape shape;
  shape.method = infini::kMethod.code;
  shape.hash = live.hash;
  shape.seed = live.seed;
  shape.bytes = static_cast<uint32_t>(kMaxBodyBytes);
  shape.fpr = live.fpr;
  shape.detail = slot_bytes | infini::kLiveOrder | uint64_t{bits} << infini::kLiveBitsShift;
  return shape;
}

inline uint64_t MostKeysOfValue(const Shape& shape) noexcept {
  return infini::Limit(infini::SlotBytes(shape), infini::kTopStep);
}

// Returns the counters of an empty value with room for this many keys, and sets `*bytes` to the
// size of its body.
inline Counters EmptyValue(const Shape& shape, uint64_t keys, uint32_t* bytes) noexcept {
  *bytes = infini::BytesFor(shape, keys);
  return {0, infini::StateOf(*bytes)};
}

// Adds a key to a value.
inline void AddToValue(const Shape& shape, Counters* counters, uint8_t* body,
                       const LongFingerprint& key) noexcept {
  const unsigned bits = infini::LiveBits(shape);
  const uint64_t prefix = key.bits << (64 - bits) | uint64_t{key.line}
                                                        << (64 - infini::kLiveLineBits - bits);
  infini::WithWidth(shape, [&](auto width) {
    infini::Table<width> table(body, infini::SizeOf(*counters));
    const int64_t grown = table.Take(prefix, bits + infini::kLiveLineBits, true);
    const uint64_t limit = infini::LimitOf(shape, *counters);
    if (grown > 0 && counters->count < limit) ++counters->count;
  });
}

// Returns whether a value can be loaded into a live filter that grows, if its keys have enough
// bits.
inline bool CanBeLoaded(const Method& method) noexcept { return &method == &infini::kMethod; }

// Returns how many bits of each key a value must have to be loaded.
inline unsigned NeededBits(const Shape& shape, unsigned bits) noexcept {
  const unsigned have = infini::InLiveOrder(shape) ? infini::LiveBits(shape) : bits;
  return (have > bits ? have : bits) + infini::kLiveLineBits;
}

// Runs visit(p, prefix) for each prefix of a value; `p` is the number of its bits.
template <typename Visit>
inline void ForEachPrefix(const Shape& shape, const Counters& counters, const uint8_t* body,
                          Visit visit) noexcept {
  infini::WithWidth(shape, [&](auto width) {
    const auto table = infini::TableOf<width>(counters, body);
    table.ForEach([&](uint64_t line, uint64_t entry) {
      table.ForPrefix(line, entry, [&](uint64_t prefix, unsigned p) { visit(p, prefix); });
    });
  });
}

// Runs visit(fingerprint) for the fingerprints that a prefix of at least NeededBits() bits has in a
// live filter whose fingerprints have `bits` bits. There are one or two neighbouring ones. Returns
// false if no key can have this prefix.
template <typename Visit>
inline bool FromPrefix(const Shape& shape, unsigned bits, unsigned p, uint64_t prefix,
                       Visit visit) noexcept {
  if (infini::InLiveOrder(shape)) {
    const unsigned have = infini::LiveBits(shape);
    const auto line = static_cast<unsigned>(prefix >> (64 - infini::kLiveLineBits - have) &
                                            LowMask(infini::kLiveLineBits));
    if (line >= infini::kLiveLines) return false;
    visit(LongFingerprint{prefix >> (64 - bits), line});
    return true;
  }
  const auto place = [bits](uint64_t hash) {
    return FastRange(hash, infini::kLiveLines) << bits | hash * infini::kLiveLines >> (64 - bits);
  };
  const uint64_t last = place(p < 64 ? prefix | ~uint64_t{0} >> p : prefix);
  for (uint64_t at = place(prefix); at <= last; ++at) {
    visit(LongFingerprint{at & LowMask(bits), static_cast<unsigned>(at >> bits)});
  }
  return true;
}

}  // namespace dedup::live

#endif  // STREAMDEDUP_CORE_LIVE_VALUE_HPP_
