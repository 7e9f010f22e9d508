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
//
// Inlined is what runs once a key while the set is exact; the rest is in distinct_set.cpp,
// the links with the kernels of blocked_bloom inlined.

#ifndef STREAMDEDUP_CORE_DISTINCT_SET_HPP_
#define STREAMDEDUP_CORE_DISTINCT_SET_HPP_

#include <cstddef>
#include <cstdint>

#include "bytes.hpp"
#include "method.hpp"
#include "pause.hpp"

namespace dedup {

class DistinctSet {
 public:
  static constexpr size_t kMaxBatch = 64;        // hashes in a call
  static constexpr uint64_t kFirstSlots = 1024;  // 8 kB
  static constexpr uint64_t kLeastBudget = uint64_t{64} << 10;
  static constexpr int kMaxLinks = 64;

  // `budget` in bytes, at least kLeastBudget; `fpr` at least kMinFpr * kMaxLinks.
  void Start(uint64_t budget, double fpr) noexcept;

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
  uint8_t* Give(uint8_t* bytes) noexcept;

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
  double fpr() const noexcept;

 private:
  friend class SharedSet;
  friend class SharedSetView;

  // Slots are free at 0, for which no other hash is at hand; so 0 goes with 1.
  static uint64_t NotZero(uint64_t hash) noexcept { return hash + (hash == 0); }

  uint64_t GrownSlots() const noexcept;
  void PlanLinks() noexcept;

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

  void AddLink(uint8_t* body) noexcept;

  // The hashes of the table into the first link, which holds them all (limit_).
  void Pour(const uint8_t* table) noexcept;

  bool TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept;

  // Asks the links other than the youngest. Leaves the hashes that they do not know, and their
  // places in the batch; returns how many.
  size_t AskOlderLinks(const uint64_t* hashes, size_t n, uint8_t* seen, uint64_t* left,
                       uint8_t* place) const noexcept;

  // Empties the oldest link and makes it the youngest. False: for the first time.
  bool GiveUpOldest() noexcept;

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
