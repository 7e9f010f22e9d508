// cuckoo: fingerprints in two candidate buckets, moved to make room. It is a filter of an endless
// stream, or (strict) a filter that never forgets and supports dedup_forget.
//
// Papers: Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter: Practically Better Than Bloom"
// (CoNEXT 2014); for streams Géraud, Lombard-Platet and Naccache, "Quotient Hash Tables" (SAC
// 2019). A fingerprint of f bits, 1 to 2^f - 1 (0 is an empty slot), is in bucket i or in bucket
// (h(fp) - i) mod N. Each of the two buckets follows from the other, for any number N of buckets.
// Buckets are `slots` fingerprints, packed without gaps; N = floor(M / (slots * bits)).
//
// Stream: a key that is found changes nothing. A new fingerprint takes an empty slot of either
// bucket. If there is none, it replaces a random fingerprint, which moves to its other bucket, and
// so on. After `kicks` moves the last replaced fingerprint is dropped.
// Promise: none for a single key. A full filter drops a random fingerprint for each new one.
// Strict: instead, the moves are undone and the key is refused: no key is ever forgotten. insert()
// keeps equal fingerprints of different keys as often as they came, up to the 2 * slots places of
// their buckets. forget() removes one copy. It must be called only for a key whose add was reported
// as new, and only once: otherwise it removes another key with the same fingerprint and buckets.
// Rate: a fingerprint is at most once in its two buckets, so 2 * slots * load / (2^f - 1).
// Cost: two lines a key, and one more a move.
// State: the buckets. Counters::count is the number of new keys so far (stream: it is the step of
// the random numbers), or the number of slots in use (strict).

#ifndef STREAMDEDUP_CORE_METHODS_CUCKOO_HPP_
#define STREAMDEDUP_CORE_METHODS_CUCKOO_HPP_

#include <cmath>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "../sizing.hpp"
#include "cuckoo_buckets.hpp"

namespace dedup::cuckoo {

inline constexpr size_t kGranule = 8;
inline constexpr unsigned kMaxSlots = 8;
inline constexpr unsigned kMinBits = 2;
inline constexpr unsigned kMaxBits = 40;
inline constexpr unsigned kStreamKicks = 20;
inline constexpr unsigned kStrictKicks = 500;  // of the paper

inline constexpr int kSlotsOption = 2;
inline constexpr int kBitsOption = 3;
inline constexpr int kKicksOption = 4;
inline constexpr int kStrictOption = 5;
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"slots", OptionKind::kWhole, 1, kMaxSlots},
                                          {"bits", OptionKind::kWhole, kMinBits, kMaxBits},
                                          {"kicks", OptionKind::kWhole, 1, kMaxKicks},
                                          {"strict", OptionKind::kOnOff, 0, 1}};

// ---- sizes ------------------------------------------------------------------

// The slots in a thousand that a strict filter fills at capacity. Fan et al. reach 50, 84, 95 and
// 98 % with 1, 2, 4 and 8 slots. With 500 kicks, the load at which the first key is refused falls
// as tables grow (four slots, ten bits: 97 % in 64 KiB, 95.7 % in 16 MiB). The numbers here are the
// trend extrapolated to 512 MiB. With one slot, 1 in 150 small tables refuses a key earlier.
inline constexpr unsigned kLoad[kMaxSlots + 1] = {0, 400, 800, 900, 940, 945, 950, 950, 955};

// Small tables fill unevenly. So their capacity is lower by this factor times the square root of
// the number of slots.
inline constexpr double kSpread = 1;

inline uint64_t Capacity(const Layout& layout) noexcept {
  const uint64_t all = layout.all_slots();
  if (!layout.strict) return all;
  const double load = kLoad[layout.slots] / 1000.0, slots = static_cast<double>(all);
  const double keys = load * slots - kSpread * std::sqrt(slots);
  return keys >= 1 ? static_cast<uint64_t>(keys) : 1;
}

// The average number of slots that a lookup reads. In 1 of N cases both buckets are the same.
inline double Looks(const Layout& layout) noexcept {
  return layout.slots * (2 - 1 / static_cast<double>(layout.buckets));
}

inline double RateAt(const Layout& layout, double slots_in_use) noexcept {
  const double rate =
      Looks(layout) * slots_in_use /
      (static_cast<double>(layout.all_slots()) * static_cast<double>(LowMask(layout.bits)));
  return rate < 1 ? rate : 1;
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  const double all = static_cast<double>(layout.all_slots());
  return RateAt(layout, keys < all ? keys : all);
}

inline unsigned BitsFor(double fpr, unsigned slots, bool strict) noexcept {
  const double load = strict ? kLoad[slots] / 1000.0 : 1;
  unsigned bits = kMinBits;
  while (bits < kMaxBits && 2 * slots * load / static_cast<double>(LowMask(bits)) > fpr) ++bits;
  return bits;
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const auto whole = [&](int option, unsigned otherwise) {
    return options.given[option] ? static_cast<unsigned>(options.value[option]) : otherwise;
  };
  const bool strict = whole(kStrictOption, 0) != 0;
  const unsigned slots = whole(kSlotsOption, 4);
  const unsigned bits = whole(kBitsOption, BitsFor(request.fpr, slots, strict));
  const unsigned kicks = whole(kKicksOption, strict ? kStrictKicks : kStreamKicks);
  shape->detail = slots | bits << 8 | uint64_t{kicks} << 16 | uint64_t{strict} << 32;
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [](uint64_t bytes, Shape* trial) {
        trial->bytes = static_cast<uint32_t>(bytes);
        const Layout layout = LayoutOf(*trial);
        trial->keys = Capacity(layout);
        return layout.buckets >= 1 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
      });
  if (status == PlanStatus::kOk && options.given[kBitsOption]) {
    // All slots of a stream filter are in use in the end.
    const Layout layout = LayoutOf(*shape);
    const uint64_t held = strict ? shape->keys : layout.all_slots();
    shape->fpr = FprFrom(RateAt(layout, static_cast<double>(held)));
  }
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return shape.detail >> 33 == 0 && layout.slots >= 1 && layout.slots <= kMaxSlots &&
         layout.bits >= kMinBits && layout.bits <= kMaxBits && layout.kicks >= 1 &&
         layout.kicks <= kMaxKicks && shape.bytes >= kGranule && shape.bytes % kGranule == 0 &&
         layout.buckets >= 1 && shape.keys <= layout.all_slots() && counters.state == 0 &&
         (!layout.strict || counters.count <= layout.all_slots());
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "slots=%u bits=%u kicks=%u strict=%s buckets=%llu", layout.slots,
                layout.bits, layout.kicks, layout.strict ? "on" : "off",
                static_cast<unsigned long long>(layout.buckets));
}

// ---- keys -------------------------------------------------------------------

// Runs step(place, i) for each key until it returns false. Returns for how many keys it was true.
template <typename Step>
inline size_t ForEachPlace(const Buckets& buckets, const uint64_t* hashes, size_t n,
                           Step step) noexcept {
  Place places[2 * kGroup];
  size_t taken = 0;
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        places[i % (2 * kGroup)] = buckets.PlaceOf(hashes[i]);
        buckets.Fetch(places[i % (2 * kGroup)]);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        if (taken == i && step(places[i % (2 * kGroup)], i)) ++taken;
      });
  return taken;
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  Buckets buckets(shape, LayoutOf(shape), body);
  return ForEachPlace(buckets, hashes, n, [&](const Place& place, size_t i) {
    const bool found = buckets.Find(place, place.fingerprint) != kNoSlot;
    if (!found && !Add(shape, counters, &buckets, place)) return false;
    if (seen != nullptr) seen[i] = found;
    return true;
  });
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Buckets buckets(shape, LayoutOf(shape), body);
  ForEachPlace(buckets, hashes, n, [&](const Place& place, size_t i) {
    seen[i] = buckets.Find(place, place.fingerprint) != kNoSlot;
    return true;
  });
}

// A stream filter keeps one copy of a fingerprint, which is enough to find the key. A strict filter
// adds another copy, so that each key can be forgotten.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  const Layout layout = LayoutOf(shape);
  if (!layout.strict) return TestAndAdd(shape, counters, body, hashes, n, nullptr);
  Buckets buckets(shape, layout, body);
  return ForEachPlace(buckets, hashes, n, [&](const Place& place, size_t) {
    return Add(shape, counters, &buckets, place);
  });
}

inline bool Forget(const Shape& shape, Counters* counters, uint8_t* body, uint64_t hash) noexcept {
  const Layout layout = LayoutOf(shape);
  if (!layout.strict) return false;
  Buckets buckets(shape, layout, body);
  const Place place = buckets.PlaceOf(hash);
  const uint64_t slot = buckets.Find(place, place.fingerprint);
  if (slot == kNoSlot) return false;
  buckets.Set(slot, 0);
  if (counters->count > 0) --counters->count;
  return true;
}

// ---- whole filters ----------------------------------------------------------

// Puts the other filter's fingerprints into this one; the buckets of each follow from the
// fingerprint and its place.
//
// Strict: the result is the union, in which every key of both is found. Returns false if the keys
// do not fit. If both have a fingerprint, the larger number of copies is kept. So two keys, one of
// each filter, with the same fingerprint and buckets share one copy, and forgetting one of them
// forgets the other. This happens to a key at the false-positive rate.
//
// Stream: the result is the union while there is room. After that it is a fair sample of both (by
// weight), as in reservoir sampling: the t-th fingerprint of the other filter is taken with
// probability slots / (ours + t), and replaces a random one. It is moved only once, because more
// moves would search for room that does not exist. Of two full filters of equal weight, about half
// of the fingerprints of each are kept.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights& weights) noexcept {
  const Layout layout = LayoutOf(shape);
  Buckets buckets(shape, layout, body);
  const Buckets from(shape, layout, other);
  Layout one_move = layout;
  one_move.kicks = 1;
  Buckets full(shape, one_move, body);
  const uint64_t room = weights.right * layout.all_slots();
  uint64_t offered = layout.strict ? 0 : weights.left * buckets.SlotsInUse();
  // It has a seed of its own, because the numbers must differ from those of a kick at the same
  // step.
  StepRandom random(shape.seed ^ kGolden, counters->count);
  uint64_t steps = 0;
  for (uint64_t bucket = 0; bucket < layout.buckets; ++bucket) {
    // Each fingerprint of a bucket may move up to `kicks` others.
    PauseEvery<kKeysBetweenPauses / 4>(&steps);
    for (unsigned slot = 0; slot < layout.slots; ++slot) {
      const uint64_t fingerprint = from.Get(from.SlotAt(bucket, slot));
      if (fingerprint == 0) continue;
      const uint64_t partner = buckets.Partner(bucket, fingerprint);
      const Place place = {fingerprint, {bucket, partner}};
      if (layout.strict) {
        // This is the n-th copy there. It is added if there are fewer here.
        unsigned nth = from.Copies(bucket, fingerprint, slot + 1);
        if (partner < bucket) nth += from.Copies(partner, fingerprint, layout.slots);
        unsigned here = buckets.Copies(bucket, fingerprint, layout.slots);
        if (partner != bucket) here += buckets.Copies(partner, fingerprint, layout.slots);
        if (here < nth && !Add(shape, counters, &buckets, place)) return false;
        continue;
      }
      if (buckets.Find(place, fingerprint) != kNoSlot) continue;
      offered += weights.right;
      if (offered > room && random.Below(offered) >= room) continue;
      Add(shape, counters, offered > room ? &full : &buckets, place);
    }
  }
  return true;
}

// In small tables, fingerprints whose two buckets are the same are dropped more often, because they
// cannot move. So for small tables the buckets of each fingerprint are checked.
inline constexpr uint64_t kSmallTable = 1024;

inline double LooksAtHeld(const Buckets& buckets) noexcept {
  const Layout& layout = buckets.layout();
  double looks = 0;
  for (uint64_t bucket = 0; bucket < layout.buckets; ++bucket) {
    for (unsigned slot = 0; slot < layout.slots; ++slot) {
      const uint64_t fingerprint = buckets.Get(buckets.SlotAt(bucket, slot));
      if (fingerprint == 0) continue;
      looks += buckets.Partner(bucket, fingerprint) == bucket ? 1 : 2;
    }
  }
  return looks;
}

// A key is not added if its fingerprint was there already. While no key was dropped, n distinct
// keys use (1 - exp(-c n)) / c slots, where c is the rate per slot in use.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const Buckets buckets(shape, layout, body);
  const double used = static_cast<double>(buckets.SlotsInUse());
  const double c = RateAt(layout, 1);
  const double share = c * used < 0.999 ? c * used : 0.999;
  Reading reading;
  reading.count = -std::log1p(-share) / c;
  reading.fpr = RateAt(layout, used);
  if (layout.buckets <= kSmallTable) {
    const double rate = LooksAtHeld(buckets) / (static_cast<double>(layout.buckets) *
                                                static_cast<double>(LowMask(layout.bits)));
    reading.fpr = rate < 1 ? rate : 1;
  }
  return reading;
}

// A full filter drops one of its m fingerprints for each new one. With u = 1 - fpr, a fingerprint
// is dropped with probability u / m per key, and a dropped one is added again by another key with
// probability fpr / m. So a key of age a is missed with probability u (1 - exp(-a / m)). This is
// the mean over the last `keys` keys. A second move drops a young fingerprint more often than that,
// because it may undo an earlier move; the constant below is the measured correction.
inline constexpr double kYoungDropped = 0.25;

inline double Missed(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  if (layout.strict) return 0;
  const double all = static_cast<double>(layout.all_slots());
  const double window = static_cast<double>(shape.keys) / all;
  if (window <= 0) return 0;
  const double uniform = (1 - RateAt(layout, all)) * (1 + std::expm1(-window) / window);
  return layout.kicks > 1 ? uniform * (1 + kYoungDropped / layout.slots) : uniform;
}

// For strict filters: returns whether the number of slots in use is the counted one.
inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  return !layout.strict || Buckets(shape, layout, body).SlotsInUse() == counters.count;
}

inline bool Strict(const Shape& shape) noexcept { return LayoutOf(shape).strict; }

extern const Method kMethod;

}  // namespace dedup::cuckoo

#endif  // STREAMDEDUP_CORE_METHODS_CUCKOO_HPP_
