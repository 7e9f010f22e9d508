// cuckoo: fingerprints in two candidate buckets, moved to make room; as a filter of an
// endless stream, or (strict) as one that never forgets and can take a key back.
//
// Papers: Fan, Andersen, Kaminsky and Mitzenmacher, "Cuckoo Filter: Practically Better
// Than Bloom" (CoNEXT 2014); for streams Géraud, Lombard-Platet and Naccache, "Quotient
// Hash Tables" (SAC 2019). A fingerprint of f bits, 1 to 2^f - 1 (0 is an empty slot), is
// in bucket i or (h(fp) - i) mod N: either tells the other, for any number N of buckets.
// Buckets are `slots` fingerprints, packed without gaps; N = floor(M / (slots * bits)).
//
// Stream: a hit changes nothing; a new fingerprint takes an empty slot of either bucket,
// else the place of a random one, which goes to its other bucket, and so on; after
// `kicks` moves the one in hand is dropped. Promise: none for a single key; a full filter
// drops a random fingerprint for each new one.
// Strict: the moves are undone instead and the key is refused: no key is ever forgotten.
// Equal fingerprints of keys put in by insert() are kept as often as they came, up to the
// 2 * slots places there are for them. forget() takes one copy out. It is only for a
// key whose add was answered new, and once: any other takes a key with it that has the
// same fingerprint and buckets.
// Rate: a fingerprint is at most once in its two buckets, so 2 * slots * load / (2^f - 1).
// Cost: two lines a key, and one more a move.
// State: the buckets; Counters::count is the new keys so far (stream: it numbers the
// random draws), or the slots in use (strict).

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

// Slots in a thousand that a strict filter is sized to fill. Fan et al. reach 50, 84,
// 95 and 98 % with 1, 2, 4 and 8 slots. With 500 kicks the first key is refused at a load
// that falls as tables grow (four slots, ten bits: 97 % in 64 KiB, 95.7 in 16 MiB): these
// are what the trend leaves at 512 MiB. With one slot 1 in 150 small tables refuses sooner.
inline constexpr unsigned kLoad[kMaxSlots + 1] = {0, 400, 800, 900, 940, 945, 950, 950, 955};

// Small tables fill unevenly: as many slots fewer as this times the root of their number.
inline constexpr double kSpread = 1;

inline uint64_t Capacity(const Layout& layout) noexcept {
  const uint64_t all = layout.all_slots();
  if (!layout.strict) return all;
  const double load = kLoad[layout.slots] / 1000.0, slots = static_cast<double>(all);
  const double keys = load * slots - kSpread * std::sqrt(slots);
  return keys >= 1 ? static_cast<uint64_t>(keys) : 1;
}

// Places at which a key looks: in 1 of N cases both buckets are the same.
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
    // Of a stream filter all slots come to be in use.
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

// Runs step(place, i) for each key until it returns false; returns for how many it was true.
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

// A stream filter keeps one copy of a fingerprint, which is all that it takes to find
// the key; a strict one another copy, so that each key can be forgotten.
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

// The other's fingerprints are put in here: each tells its buckets.
//
// Strict: the union, every key of both is found, or false where they do not fit; of a
// fingerprint in both the more copies are kept. So a key of each that share a fingerprint
// and buckets share one copy, and forgetting the one forgets the other: this happens to
// a key at the rate of a false positive.
//
// Stream: the union while there is room; then a fair sample of both (by weight), as a
// reservoir: the t-th of the other's is taken with probability slots / (ours + t), each
// in place of a random one: by one move, since more would only look for room that is not
// there. Of two full filters of equal weight about half the fingerprints of each are kept.
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
  // A seed of its own: the draws must not be those that a kick makes at the same step.
  StepRandom random(shape.seed ^ kGolden, counters->count);
  uint64_t steps = 0;
  for (uint64_t bucket = 0; bucket < layout.buckets; ++bucket) {
    // A bucket's fingerprints may each move up to `kicks` others.
    PauseEvery<kKeysBetweenPauses / 4>(&steps);
    for (unsigned slot = 0; slot < layout.slots; ++slot) {
      const uint64_t fingerprint = from.Get(from.SlotAt(bucket, slot));
      if (fingerprint == 0) continue;
      const uint64_t partner = buckets.Partner(bucket, fingerprint);
      const Place place = {fingerprint, {bucket, partner}};
      if (layout.strict) {
        // This is the n-th copy there: put in if there are fewer here.
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

// Small tables drop more of the fingerprints whose two buckets are the same, which cannot
// move, so that there the buckets of each are looked at.
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

// Of n distinct keys those whose fingerprint was there already were not put in: while
// nothing was dropped, slots in use = (1 - exp(-c n)) / c with c the rate a slot in use.
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

// What a full filter drops is one of m fingerprints for each new one. With u = 1 - fpr a
// fingerprint goes at u / m a key, and one that is gone comes back with another key at
// fpr / m: a key of age a is missed with probability u (1 - exp(-a / m)). Here the mean
// over the last `keys`. A second move drops a young one more often than that, as it may
// undo what a move before did: by so much, measured.
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

// Of a strict filter: whether as many slots are in use as it counts.
inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  return !layout.strict || Buckets(shape, layout, body).SlotsInUse() == counters.count;
}

inline bool Strict(const Shape& shape) noexcept { return LayoutOf(shape).strict; }

extern const Method kMethod;

}  // namespace dedup::cuckoo

#endif  // STREAMDEDUP_CORE_METHODS_CUCKOO_HPP_
