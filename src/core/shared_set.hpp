// A DistinctSet that several processes use at the same time.
//
// SharedSet is the part in memory that all processes share. It holds no address, because a process
// may map the same bytes at another address. SharedSetView is one process's part: a copy of the set
// with the addresses of this process.
//
// The processes work side by side inside a gate. Inside, the set does not grow:
// - A hash is put into the exact table by compare-and-swap.
// - Bits of the youngest filter are set under a lock of one byte. There are kLocks such locks; the
//   cache line of the key determines which one is taken. A key whose bits are all set needs no
//   lock. If two processes add the same new key, one of them adds it, and the other finds it.
// To grow, to start another filter, or to give the oldest filter up, a process closes the gate,
// waits until nobody is inside, changes the set alone, and opens the gate.
//
// A process reserves room for new keys in advance, at most kMaxBatch at a time, so that a full
// table or filter is noticed before it is overfull. It reserves a small share of the room that is
// left, or what it needs. Room that was reserved and not used returns whenever the gate is closed.
// If there is no room for a whole batch, the process first counts the new keys of the batch: a
// stream of known keys needs no room, and closes no gate.
//
// Memory order. Enter() and Close() are sequentially consistent, because each writes its own word
// and then reads the other's. Leave() and Open() release the changes that were made before; the
// process that reads their words acquires these changes. So nothing that is changed while the gate
// is closed needs atomic operations. Slots, bits and counts that are changed inside the gate are
// atomic and relaxed: no process concludes anything from their order. The lock of a line acquires
// and releases.
//
// The owner waits, and provides the bytes. No function here sleeps, except for a few yields under a
// lock. Nothing between Enter() and Leave() may fail. If an owner dies while it has closed the
// gate, the gate stays closed, and the other processes must be ended too.

#ifndef STREAMDEDUP_CORE_SHARED_SET_HPP_
#define STREAMDEDUP_CORE_SHARED_SET_HPP_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "distinct_set.hpp"

namespace dedup {

class SharedSet {
 public:
  static constexpr int kLocks = 4096;

  // Returns the bytes of a SharedSet for this number of processes. They must start a cache line.
  static size_t Bytes(int processes) noexcept {
    return sizeof(SharedSet) + static_cast<size_t>(processes) * sizeof(Process);
  }

  // Starts a new set, whatever the bytes hold. No process may be inside. `generation` must differ
  // from that of every earlier Start() that a view may have seen.
  void Start(int processes, uint64_t budget, double fpr, uint64_t generation) noexcept;

  uint64_t generation() const noexcept { return generation_; }

 private:
  friend class SharedSetView;

  // Atomic words of 64 bits must be aligned to 8 bytes, even where the type itself is not.
  struct alignas(kLineBytes) Process {
    // new keys that the process may still add; only for its own use while inside
    alignas(8) uint64_t allowance;
    alignas(8) uint64_t added;   // new keys since the gate was last closed; atomic
    alignas(8) uint64_t tested;  // hashes; atomic, only written by its own process
    uint32_t inside;             // atomic
  };

  Process* process(int i) noexcept { return reinterpret_cast<Process*>(this + 1) + i; }

  // The set, without addresses. It is changed only while the gate is closed.
  DistinctSet set_;
  int processes_;
  uint64_t generation_;

  alignas(kLineBytes) uint32_t closed_;  // atomic
  uint32_t ended_;                       // atomic
  alignas(kLineBytes) uint64_t room_;    // room for new keys that no process has reserved; atomic
  alignas(kLineBytes) uint8_t locks_[kLocks];
};

class SharedSetView {
 public:
  // `process` counts from 0. Two views with the same number must not be used at the same time.
  void Start(SharedSet* shared, int process) noexcept;

  // Enters the gate. Returns false if the gate is closed. Then the owner waits until Closed() is
  // false.
  bool Enter() noexcept;
  void Leave() noexcept;

  // Closes the gate. Returns false if another process has closed it. After closing the gate, the
  // owner waits for Empty().
  bool Close() noexcept;
  bool Closed() const noexcept;
  bool Empty() const noexcept;

  // Inside, or alone while the gate is closed: returns whether the set has changed since the last
  // Refresh(). If so, the owner calls Refresh(), and Locate() for each of blocks().
  bool Stale() const noexcept { return generation_ != shared_->generation_; }
  void Refresh() noexcept;
  int blocks() const noexcept { return set_.links_ > 0 ? set_.links_ : set_.slots_ > 0; }
  void Locate(int block, uint8_t* bytes) noexcept;

  // Inside: reserves room for `keys` new keys, at most kMaxBatch. If it returns false, the owner
  // leaves, and closes the gate to make room.
  bool Reserve(size_t keys) noexcept;

  // Inside: sets seen[i] as TestAndAdd() does, without adding. Returns how many are 0.
  size_t Ask(const uint64_t* hashes, size_t n, uint8_t* seen) const noexcept;

  // Inside, with room reserved for the new hashes: for each hash in turn sets seen[i] to 1 if any
  // process let it through before, or if it collides with such a hash. Else sets seen[i] to 0 and
  // adds the hash.
  void TestAndAdd(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept;

  // Counts hashes that the owner found to be let through before, without a test.
  DEDUP_ALWAYS_INLINE void CountTested(uint64_t n) noexcept {
    std::atomic_ref<uint64_t>(mine_->tested).store(mine_->tested + n, std::memory_order_relaxed);
  }

  DEDUP_ALWAYS_INLINE void Prefetch(uint64_t hash) const noexcept { set_.Prefetch(hash); }

  // Signals that no more keys are needed. May be called at any time. Processes that check Ended()
  // stop soon.
  void End() noexcept;
  DEDUP_ALWAYS_INLINE bool Ended() const noexcept {
    return std::atomic_ref<uint32_t>(shared_->ended_).load(std::memory_order_relaxed) != 0;
  }

  // To be called in this order, alone while the gate is closed, with a view that is not stale:
  // Collect(); Wants() and Give() as for a DistinctSet, where the bytes go to block blocks() - 1
  // (as it is after Give()); Fit(); Open().
  void Collect() noexcept;
  size_t Wants(size_t hashes) const noexcept { return set_.Wants(hashes); }
  uint8_t* Give(uint8_t* bytes) noexcept { return set_.Give(bytes); }
  // Gives the oldest filter up if there is still no room. Returns false if that was the first time.
  bool Fit(size_t hashes) noexcept;
  void Open() noexcept;

  // Inside: sets set() to the state of all processes at this moment, for a report. The view is
  // stale afterwards.
  void Count() noexcept;
  const DistinctSet& set() const noexcept { return set_; }

 private:
  bool Find(uint64_t hash) const noexcept;
  bool FindOrPlace(uint64_t hash) noexcept;
  size_t TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept;
  uint64_t Room() const noexcept;
  void AddKeys(uint64_t added) noexcept;

  SharedSet* shared_ = nullptr;
  SharedSet::Process* mine_ = nullptr;
  uint64_t generation_ = 0;
  DistinctSet set_;
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_SHARED_SET_HPP_
