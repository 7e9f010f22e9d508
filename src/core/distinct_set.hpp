// The keys that one pass over a stream has let through. The set is exact while the keys are few.
// After that it is a chain of blocked Bloom filters, which forgets nothing until it needs more than
// its budget.
//
// The exact form is an open-addressing table of the 64-bit hashes, in at most half of the budget.
// The slot of a hash is its scaled value, so growing the table and copying it into the first filter
// both run in order of address. The links that follow have 1, 2 and 4 sevenths of the budget (with
// links above 512 MiB, as many links as needed). Each link gets the same share of the rate as of
// the memory, because that split holds the most keys. So the rates of all links sum to the
// requested rate. A new key goes into the youngest link, which takes as many keys as its own rate
// allows. When the last link is full, the oldest link is given up: it is emptied and becomes the
// youngest. Its keys may be reported as new once more; the sum of the rates still holds.
//
// The owner provides the bytes. Before each batch the owner calls Wants(), and passes the bytes
// that are needed to Give(). Nothing of a set is stored, so its bytes need no checks.
//
// The code that runs for each key while the set is exact is inlined here. The rest is in
// distinct_set.cpp; there, the kernels of blocked_bloom are inlined into the code of the links.

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
  static constexpr size_t kMaxBatch = 64;        // the most hashes in a call
  static constexpr uint64_t kFirstSlots = 1024;  // 8 kB
  static constexpr uint64_t kLeastBudget = uint64_t{64} << 10;
  static constexpr int kMaxLinks = 64;

  // `budget` is in bytes, at least kLeastBudget. `fpr` is at least kMinFpr * kMaxLinks.
  void Start(uint64_t budget, double fpr) noexcept;

  // Returns the number of bytes that the owner must provide before `hashes` more hashes (at most
  // kMaxBatch) can be tested, or 0 if none are needed. The bytes must start a cache line and be
  // zero. The set never uses more than its budget at a time; this includes the bytes that Give()
  // releases.
  size_t Wants(size_t hashes) const noexcept {
    if (links_ == 0) {
      if (keys_ + hashes <= limit_) return 0;
      return GrownSlots() > slots_ ? 8 * GrownSlots() : shapes_[0].bytes;
    }
    if (link_keys_[youngest_] + hashes <= shapes_[youngest_].keys) return 0;
    return links_ < planned_ ? shapes_[links_].bytes : 0;
  }

  // Takes over Wants() bytes. Returns the bytes that are not needed any more, or null.
  uint8_t* Give(uint8_t* bytes) noexcept;

  // Prefetches the slot that a later TestAndAdd() of this hash reads.
  DEDUP_ALWAYS_INLINE void Prefetch(uint64_t hash) const noexcept {
    if (table_ != nullptr) PrefetchToWrite(table_ + 8 * FastRange(hash, slots_));
  }

  // For each hash in turn: sets seen[i] to 1 if the hash was let through before, or collides with
  // one that was. Else sets seen[i] to 0 and adds the hash. The owner must have called Wants(n).
  // Returns false if the oldest link was given up for the first time.
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
  uint64_t keys() const noexcept { return keys_; }  // keys that were let through
  int links() const noexcept { return links_; }
  uint64_t given_up() const noexcept { return given_up_; }  // keys forgotten

  // Returns the rate at which a new key is reported as seen now.
  double fpr() const noexcept;

 private:
  friend class SharedSet;
  friend class SharedSetView;

  // A free slot is 0. So the hash 0 is stored as 1.
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
      // only hashes that were chosen for it make long runs
      PauseEvery<kProbesBetweenPauses>(&steps);
    }
    StoreU64(table_ + 8 * slot, hash);
  }

  void AddLink(uint8_t* body) noexcept;

  // Copies the hashes of the table into the first link, which holds all of them (limit_).
  void Pour(const uint8_t* table) noexcept;

  bool TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept;

  // Looks the hashes up in all links but the youngest. Writes the hashes that were not found to
  // `left`, and their places in the batch to `place`. Returns how many there are.
  size_t AskOlderLinks(const uint64_t* hashes, size_t n, uint8_t* seen, uint64_t* left,
                       uint8_t* place) const noexcept;

  // Empties the oldest link and makes it the youngest. Returns false the first time.
  bool GiveUpOldest() noexcept;

  uint64_t budget_ = 0;
  double fpr_ = 0;
  uint64_t tested_ = 0;
  uint64_t keys_ = 0;
  uint64_t given_up_ = 0;

  uint8_t* table_ = nullptr;
  uint64_t slots_ = 0;
  uint64_t most_slots_ = 0;
  uint64_t limit_ = 0;  // the most keys that the table holds at its current size

  int planned_ = 0;
  int links_ = 0;
  int youngest_ = 0;
  Shape shapes_[kMaxLinks];
  uint8_t* bodies_[kMaxLinks] = {};
  uint64_t link_keys_[kMaxLinks] = {};
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_DISTINCT_SET_HPP_
