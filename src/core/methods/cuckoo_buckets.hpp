// The buckets of a cuckoo filter (cuckoo.hpp): packed fingerprints over bytes, compared a word at a
// time, and the insertion of a fingerprint.

#ifndef STREAMDEDUP_CORE_METHODS_CUCKOO_BUCKETS_HPP_
#define STREAMDEDUP_CORE_METHODS_CUCKOO_BUCKETS_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../random.hpp"

namespace dedup::cuckoo {

inline constexpr unsigned kMaxKicks = 1000;

struct Layout {
  unsigned slots;
  unsigned bits;
  unsigned kicks;
  bool strict;
  uint64_t buckets;

  uint64_t all_slots() const noexcept { return buckets * slots; }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  Layout layout = {
      static_cast<unsigned>(shape.detail & 0xff), static_cast<unsigned>(shape.detail >> 8 & 0xff),
      static_cast<unsigned>(shape.detail >> 16 & 0xffff), (shape.detail >> 32 & 1) != 0, 0};
  const unsigned bucket = layout.slots * layout.bits;
  if (bucket > 0) layout.buckets = uint64_t{shape.bytes} * 8 / bucket;
  return layout;
}

inline constexpr uint64_t kNoSlot = ~uint64_t{0};

struct Place {
  uint64_t fingerprint;
  uint64_t bucket[2];
};

// The buckets over a body. Slots are named by their first bit. A bucket is compared a word at a
// time: as many slots as fit into 57 bits, which are nearly always all of them.
class Buckets {
 public:
  Buckets(const Shape& shape, const Layout& layout, const uint8_t* body) noexcept
      : body_(const_cast<uint8_t*>(body)), bytes_(shape.bytes), layout_(layout) {
    const unsigned fit = kMaxFieldBits / layout.bits;
    in_word_ = fit < layout.slots ? fit : layout.slots;
    for (unsigned i = 0; i < in_word_; ++i) ones_ |= uint64_t{1} << i * layout.bits;
    highs_ = ones_ << (layout.bits - 1);
    lows_ = highs_ - ones_;
    bucket_bits_ = layout.slots * layout.bits;
  }

  const Layout& layout() const noexcept { return layout_; }

  Place PlaceOf(uint64_t hash) const noexcept {
    Place place;
    place.fingerprint = 1 + FastRange(Derived(hash, 0), LowMask(layout_.bits));
    place.bucket[0] = FastRange(hash, layout_.buckets);
    place.bucket[1] = Partner(place.bucket[0], place.fingerprint);
    return place;
  }

  uint64_t Partner(uint64_t bucket, uint64_t fingerprint) const noexcept {
    const uint64_t sum = FastRange(Derived(fingerprint, 0), layout_.buckets);
    return sum >= bucket ? sum - bucket : sum + layout_.buckets - bucket;
  }

  DEDUP_ALWAYS_INLINE void Fetch(const Place& place) const noexcept {
    PrefetchToWrite(body_ + place.bucket[0] * bucket_bits_ / 8);
    PrefetchToWrite(body_ + place.bucket[1] * bucket_bits_ / 8);
  }

  // Returns the first slot of the bucket that holds this fingerprint (0: an empty slot), or
  // kNoSlot.
  uint64_t Find(uint64_t bucket, uint64_t fingerprint) const noexcept {
    uint64_t at = bucket * bucket_bits_;
    for (unsigned left = layout_.slots; left > 0;) {
      const unsigned lanes = left < in_word_ ? left : in_word_;
      const uint64_t equal = Equal(at, lanes, fingerprint);
      if (equal != 0) {
        return at + static_cast<unsigned>(std::countr_zero(equal)) - (layout_.bits - 1);
      }
      at += lanes * layout_.bits;
      left -= lanes;
    }
    return kNoSlot;
  }
  uint64_t Find(const Place& place, uint64_t fingerprint) const noexcept {
    const uint64_t slot = Find(place.bucket[0], fingerprint);
    return slot != kNoSlot ? slot : Find(place.bucket[1], fingerprint);
  }

  // Returns how many of the bucket's first `slots` slots hold this fingerprint.
  unsigned Copies(uint64_t bucket, uint64_t fingerprint, unsigned slots) const noexcept {
    unsigned copies = 0;
    uint64_t at = bucket * bucket_bits_;
    for (unsigned left = slots; left > 0;) {
      const unsigned lanes = left < in_word_ ? left : in_word_;
      copies += static_cast<unsigned>(std::popcount(Equal(at, lanes, fingerprint)));
      at += lanes * layout_.bits;
      left -= lanes;
    }
    return copies;
  }

  uint64_t SlotAt(uint64_t bucket, unsigned slot) const noexcept {
    return bucket * bucket_bits_ + slot * layout_.bits;
  }
  uint64_t Get(uint64_t slot) const noexcept {
    return LoadField(body_, bytes_, slot, layout_.bits);
  }
  void Set(uint64_t slot, uint64_t fingerprint) noexcept {
    StoreField(body_, bytes_, slot, layout_.bits, fingerprint);
  }

  uint64_t SlotsInUse() const noexcept {
    uint64_t used = layout_.all_slots();
    ForUnits(layout_.buckets, bucket_bits_, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) used -= Copies(i, 0, layout_.slots);
    });
    return used;
  }

 private:
  // Returns the high bits of those slots that hold the fingerprint, out of `lanes` slots from bit
  // `at` on.
  uint64_t Equal(uint64_t at, unsigned lanes, uint64_t fingerprint) const noexcept {
    const unsigned width = lanes * layout_.bits;
    const uint64_t differ = LoadField(body_, bytes_, at, width) ^ ones_ * fingerprint;
    return ~(((differ & lows_) + lows_) | differ) & highs_ & LowMask(width);
  }

  uint8_t* body_;
  size_t bytes_;
  Layout layout_;
  unsigned in_word_;  // number of slots that are compared at a time
  unsigned bucket_bits_;
  uint64_t ones_ = 0;  // the lowest bit of each of these slots, the highest bit, and all other bits
  uint64_t highs_;
  uint64_t lows_;
};

// Random slots, four from each random number.
class Choices {
 public:
  Choices(uint64_t seed, uint64_t step) noexcept : random_(seed, step) {}
  unsigned Below(unsigned n) noexcept {
    if (n == 1) return 0;
    if (left_-- == 0) {
      word_ = random_.Next();
      left_ = 3;
    }
    const auto choice = static_cast<unsigned>((word_ & 0xffff) * n >> 16);
    word_ >>= 16;
    return choice;
  }

 private:
  StepRandom random_;
  uint64_t word_ = 0;
  unsigned left_ = 0;
};

// Puts the fingerprint in. Returns false if there was no room. Then a stream filter has dropped a
// fingerprint (this one or another one), and a strict filter is unchanged.
inline bool Put(const Shape& shape, const Counters& counters, Buckets* buckets,
                const Place& place) noexcept {
  const uint64_t empty = buckets->Find(place, 0);
  if (empty != kNoSlot) {
    buckets->Set(empty, place.fingerprint);
    return true;
  }
  const Layout& layout = buckets->layout();
  if (layout.strict && counters.count >= layout.all_slots()) return false;
  Choices choices(shape.seed, counters.count);
  uint8_t trail[kMaxKicks];
  uint64_t hand = place.fingerprint, bucket = place.bucket[choices.Below(2)];
  for (unsigned kick = 0; kick < layout.kicks; ++kick) {
    const unsigned chosen = choices.Below(layout.slots);
    trail[kick] = static_cast<uint8_t>(chosen);
    const uint64_t slot = buckets->SlotAt(bucket, chosen);
    const uint64_t victim = buckets->Get(slot);
    buckets->Set(slot, hand);
    hand = victim;
    bucket = buckets->Partner(bucket, hand);
    const uint64_t room = buckets->Find(bucket, 0);
    if (room != kNoSlot) {
      buckets->Set(room, hand);
      return true;
    }
  }
  if (!layout.strict) return false;
  for (unsigned kick = layout.kicks; kick-- > 0;) {
    bucket = buckets->Partner(bucket, hand);
    const uint64_t slot = buckets->SlotAt(bucket, trail[kick]);
    const uint64_t mover = buckets->Get(slot);
    buckets->Set(slot, hand);
    hand = mover;
  }
  return false;
}

// Does the same and counts. Returns false if a strict filter is full.
inline bool Add(const Shape& shape, Counters* counters, Buckets* buckets,
                const Place& place) noexcept {
  const bool put = Put(shape, *counters, buckets, place);
  if (!put && buckets->layout().strict) return false;
  const bool at_end = buckets->layout().strict && counters->count >= buckets->layout().all_slots();
  if (!at_end) ++counters->count;
  return true;
}

}  // namespace dedup::cuckoo

#endif  // STREAMDEDUP_CORE_METHODS_CUCKOO_BUCKETS_HPP_
