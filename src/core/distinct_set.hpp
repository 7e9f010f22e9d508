// The keys that one pass over a stream has let through: exact while they are few, then
// a chain of blocked Bloom filters that does not forget while it fits its budget.
//
// Exact: an open-addressing table of the 64-bit hashes, in at most half the budget. A
// hash's slot is its scaled value, so the table grows, and is poured into the first
// filter, in order of address.
// Then links of 1, 2 and 4 sevenths of the budget (beyond 512 MiB a link, as many as it
// takes). A link's share of the rate is its share of the memory, which is what holds the
// most keys; so the rates of all links sum to the rate asked for. A new key goes into
// the youngest link, which takes as many as its own rate allows.
// When the last link is full, the oldest is given up: emptied, and the youngest from
// then on. Its keys may be answered new once more; the sum of the rates still holds.
//
// The owner provides the bytes: before each batch it asks Wants(), and gives what is
// wanted to Give(). Nothing here is stored, so no bytes need be checked.

#ifndef STREAMDEDUP_CORE_DISTINCT_SET_HPP_
#define STREAMDEDUP_CORE_DISTINCT_SET_HPP_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.hpp"
#include "method.hpp"
#include "methods/blocked_bloom.hpp"
#include "pause.hpp"
#include "registry.hpp"

namespace dedup {

class DistinctSet {
 public:
  static constexpr size_t kMaxBatch = 64;        // hashes in a call
  static constexpr uint64_t kFirstSlots = 1024;  // 8 kB
  static constexpr uint64_t kLeastBudget = uint64_t{64} << 10;
  static constexpr int kMaxLinks = 64;

  // `budget` in bytes, at least kLeastBudget; `fpr` at least kMinFpr * kMaxLinks.
  void Start(uint64_t budget, double fpr) noexcept {
    *this = DistinctSet{};
    budget_ = budget;
    fpr_ = fpr;
    most_slots_ = budget / 2 / 8;
    if (most_slots_ > uint64_t{1} << 31) most_slots_ = uint64_t{1} << 31;
  }

  // Bytes that the owner has to provide before so many more hashes (at most kMaxBatch)
  // can be asked for; 0: none. They start a cache line and are zero. No more than the
  // budget is in use at a time, what Give() releases included.
  size_t Wants(size_t hashes) const noexcept {
    if (links_ == 0) {
      if (keys_ + hashes <= limit_) return 0;
      return GrownSlots() > slots_ ? 8 * GrownSlots() : shapes_[0].bytes;
    }
    if (link_keys_[youngest_] + hashes <= shapes_[youngest_].keys) return 0;
    return links_ < planned_ ? shapes_[links_].bytes : 0;
  }

  // Takes over Wants() bytes. Returns those that are not needed any more, or null.
  uint8_t* Give(uint8_t* bytes) noexcept {
    uint8_t* old = nullptr;
    if (links_ > 0) {
      AddLink(bytes);
    } else if (GrownSlots() > slots_) {
      old = table_;
      const uint64_t old_slots = slots_;
      table_ = bytes;
      slots_ = GrownSlots();
      // Sizing the links takes a while; a table of a sixteenth of the budget fits the
      // first at any rate.
      if (planned_ == 0 && 8 * slots_ > budget_ / 16) PlanLinks();
      limit_ = slots_ - slots_ / 4;
      if (planned_ > 0 && limit_ > shapes_[0].keys) limit_ = shapes_[0].keys;
      // A hash goes to the slot that its value scaled gives, so both tables are passed in order.
      ForUnits(old_slots, 64, [&](uint64_t from, uint64_t to) {
        for (uint64_t slot = from; slot < to; ++slot) {
          const uint64_t hash = LoadU64(old + 8 * slot);
          if (hash != 0) Place(hash);
        }
      });
    } else {
      old = table_;
      AddLink(bytes);
      Pour(old);
      table_ = nullptr;
      slots_ = 0;
    }
    return old;
  }

  // Starts to fetch what a hash of a later TestAndAdd() will look at.
  DEDUP_ALWAYS_INLINE void Prefetch(uint64_t hash) const noexcept {
    if (table_ != nullptr) PrefetchToWrite(table_ + 8 * FastRange(hash, slots_));
  }

  // For each hash in turn: seen[i] = 1 if it was let through before, or is taken for one
  // that was; else 0, and it is remembered. The owner has asked Wants(n). False: the
  // oldest link was given up for the first time.
  bool TestAndAdd(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
    tested_ += n;
    if (links_ == 0) {
      for (size_t i = 0; i < n; ++i) seen[i] = FindOrPlace(hashes[i]);
      return true;
    }
    return TestLinks(hashes, n, seen);
  }

  bool exact() const noexcept { return links_ == 0; }
  uint64_t slots() const noexcept { return slots_; }
  uint64_t tested() const noexcept { return tested_; }
  uint64_t keys() const noexcept { return keys_; }  // let through
  int links() const noexcept { return links_; }
  uint64_t given_up() const noexcept { return given_up_; }  // keys forgotten

  // The rate at which a key that is new is now taken for one that was seen.
  double fpr() const noexcept {
    if (exact()) return std::ldexp(static_cast<double>(keys_), -64);
    double rate = 0;
    for (int i = 0; i < links_; ++i) {
      rate += blocked_bloom::ExpectedFpr(shapes_[i], static_cast<double>(link_keys_[i]));
    }
    return rate;
  }

 private:
  // Slots are free at 0, for which no other hash is at hand; so 0 goes with 1.
  static uint64_t NotZero(uint64_t hash) noexcept { return hash + (hash == 0); }

  uint64_t GrownSlots() const noexcept {
    if (slots_ == 0) return kFirstSlots;
    if (planned_ > 0 && limit_ == shapes_[0].keys) return slots_;
    if (2 * slots_ <= most_slots_) return 2 * slots_;
    return most_slots_ - slots_ >= slots_ / 2 ? most_slots_ : slots_;
  }

  void PlanLinks() noexcept {
    uint64_t left = budget_, size = budget_ / 7;
    while (left >= kLineBytes && planned_ < kMaxLinks) {
      if (size > kMaxBodyBytes) size = kMaxBodyBytes;
      if (size > left || planned_ == kMaxLinks - 1) size = left;
      if (size > kMaxBodyBytes) size = kMaxBodyBytes;
      Request request;
      request.memory = size / kLineBytes * kLineBytes;
      request.fpr = fpr_ * static_cast<double>(size) / static_cast<double>(budget_);
      // A rest that is too small for its share of the rate is left.
      if (PlanFilter(blocked_bloom::kMethod, request, 0, &shapes_[planned_]) != PlanStatus::kOk ||
          shapes_[planned_].keys < 2 * kMaxBatch) {
        break;
      }
      ++planned_;
      left -= size;
      size *= 2;
    }
  }

  bool FindOrPlace(uint64_t hash) noexcept {
    hash = NotZero(hash);
    uint64_t slot = FastRange(hash, slots_);
    for (;;) {
      const uint64_t there = LoadU64(table_ + 8 * slot);
      if (there == hash) return true;
      if (there == 0) break;
      if (++slot == slots_) slot = 0;
    }
    StoreU64(table_ + 8 * slot, hash);
    ++keys_;
    return false;
  }

  void Place(uint64_t hash) noexcept {
    uint64_t slot = FastRange(hash, slots_), steps = 0;
    while (LoadU64(table_ + 8 * slot) != 0) {
      if (++slot == slots_) slot = 0;
      PauseEvery<kProbesBetweenPauses>(&steps);  // in runs of keys chosen for it
    }
    StoreU64(table_ + 8 * slot, hash);
  }

  void AddLink(uint8_t* body) noexcept {
    youngest_ = links_++;
    bodies_[youngest_] = body;
    link_keys_[youngest_] = 0;
  }

  // The hashes of the table into the first link, which holds them all (LimitOf).
  void Pour(const uint8_t* table) noexcept {
    uint64_t batch[kMaxBatch];
    size_t n = 0;
    Counters none;
    ForUnits(slots_, 64, [&](uint64_t from, uint64_t to) {
      for (uint64_t slot = from; slot < to; ++slot) {
        const uint64_t hash = LoadU64(table + 8 * slot);
        if (hash == 0) continue;
        batch[n++] = hash;
        if (n == kMaxBatch) {
          blocked_bloom::Insert(shapes_[0], &none, bodies_[0], batch, n);
          n = 0;
        }
      }
    });
    blocked_bloom::Insert(shapes_[0], &none, bodies_[0], batch, n);
    link_keys_[0] = keys_;
  }

  bool TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
    bool kept = true;
    if (link_keys_[youngest_] + n > shapes_[youngest_].keys) {
      kept = given_up_ > 0;
      youngest_ = youngest_ + 1 == links_ ? 0 : youngest_ + 1;  // the oldest
      given_up_ += link_keys_[youngest_];
      ClearInPieces(bodies_[youngest_], shapes_[youngest_].bytes);
      link_keys_[youngest_] = 0;
    }
    // What the other links do not know is asked of the youngest, and put there.
    uint64_t left[kMaxBatch];
    uint8_t place[kMaxBatch], answer[kMaxBatch];
    Counters none;
    for (size_t i = 0; i < n; ++i) {
      left[i] = NotZero(hashes[i]);
      place[i] = static_cast<uint8_t>(i);
      seen[i] = 1;
    }
    for (int link = 0; link < links_ && n > 0; ++link) {
      if (link == youngest_) continue;
      blocked_bloom::Contains(shapes_[link], none, bodies_[link], left, n, answer);
      size_t still = 0;
      for (size_t i = 0; i < n; ++i) {
        left[still] = left[i];
        place[still] = place[i];
        still += answer[i] == 0;
      }
      n = still;
    }
    blocked_bloom::TestAndAdd(shapes_[youngest_], &none, bodies_[youngest_], left, n, answer);
    for (size_t i = 0; i < n; ++i) {
      seen[place[i]] = answer[i];
      link_keys_[youngest_] += answer[i] == 0;
      keys_ += answer[i] == 0;
    }
    return kept;
  }

  uint64_t budget_ = 0;
  double fpr_ = 0;
  uint64_t tested_ = 0;
  uint64_t keys_ = 0;
  uint64_t given_up_ = 0;

  uint8_t* table_ = nullptr;
  uint64_t slots_ = 0;
  uint64_t most_slots_ = 0;
  uint64_t limit_ = 0;  // most keys of the table as it is

  int planned_ = 0;
  int links_ = 0;
  int youngest_ = 0;
  Shape shapes_[kMaxLinks];
  uint8_t* bodies_[kMaxLinks] = {};
  uint64_t link_keys_[kMaxLinks] = {};
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_DISTINCT_SET_HPP_
