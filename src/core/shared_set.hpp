// A DistinctSet that several processes use at the same time.
//
// SharedSet is the part in memory that all processes share. It holds no address, because a
// process may see the same bytes at another address. SharedSetView is one process's part: a
// copy of the set with the addresses of this process.
//
// The processes work side by side inside a gate. Inside, the set does not grow:
// - a hash is put into the exact table by compare-and-swap;
// - bits of the youngest filter are set under a lock of one byte, of which there are
//   kLocks, chosen by the cache line. A key whose bits are all set needs no lock. So of two
//   processes that bring the same new key one adds it, and the other finds it.
// To grow, to start another filter or to give the oldest up, a process closes the gate, waits
// until nobody is inside, changes the set alone, and opens the gate.
//
// A process takes room for new keys ahead, at most kMaxBatch at a time, so that a full table
// or filter is noticed before it is overfull. It takes a small share of the room that is left, or
// what it needs. The room that processes have taken and not used returns whenever the gate is
// closed. Where there is no room for a whole batch, the process first asks how many keys of the
// batch are new: a stream of known keys needs no room, and closes no gate.
//
// Memory order. Enter() and Close() are sequentially consistent, as each writes a word of its own
// and then reads the other's. Leave() and Open() release what was done before, and whoever reads
// their words acquires it. So everything that is changed behind the closed gate needs no atomic
// operation. Slots, bits and counts that are changed inside the gate are atomic and relaxed: no
// process concludes anything from their order. The lock of a line acquires and releases.
//
// The owner waits (there is no call here that sleeps, but for a few yields under a lock), and
// provides the bytes. Nothing between Enter() and Leave() may fail. An owner that dies with the
// gate closed leaves it closed: the others must be ended too.

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

  // Bytes of a SharedSet for so many processes. They start a cache line.
  static size_t Bytes(int processes) noexcept {
    return sizeof(SharedSet) + static_cast<size_t>(processes) * sizeof(Process);
  }

  // Starts anew, whatever the bytes hold. No process may be inside. `generation` differs from
  // that of every earlier Start() that a view may have seen.
  void Start(int processes, uint64_t budget, double fpr, uint64_t generation) noexcept;

  uint64_t generation() const noexcept { return generation_; }

 private:
  friend class SharedSetView;

  // Atomic words of 64 bits are aligned so where the type is not, too.
  struct alignas(kLineBytes) Process {
    alignas(8) uint64_t allowance;  // new keys that it may still add; its own while inside
    alignas(8) uint64_t added;      // new keys since the gate was last closed; atomic
    alignas(8) uint64_t tested;     // hashes; atomic, only its own process writes it
    uint32_t inside;                // atomic
  };

  Process* process(int i) noexcept { return reinterpret_cast<Process*>(this + 1) + i; }

  // The set, with no addresses. Changed only while the gate is closed.
  DistinctSet set_;
  int processes_;
  uint64_t generation_;

  alignas(kLineBytes) uint32_t closed_;  // atomic
  uint32_t ended_;                       // atomic
  alignas(kLineBytes) uint64_t room_;    // new keys that nobody has taken room for; atomic
  alignas(kLineBytes) uint8_t locks_[kLocks];
};

class SharedSetView {
 public:
  // `process` counts from 0. Two views of one number must not be used at the same time.
  void Start(SharedSet* shared, int process) noexcept;

  // Enters the gate. False: it is closed. The owner waits until Closed() is false.
  bool Enter() noexcept;
  void Leave() noexcept;

  // Closes the gate; false: another process has. The owner then waits for Empty().
  bool Close() noexcept;
  bool Closed() const noexcept;
  bool Empty() const noexcept;

  // Inside, or alone behind the closed gate: whether the set has changed since the last
  // Refresh(). The owner then calls Refresh(), and Locate() for each of blocks().
  bool Stale() const noexcept { return generation_ != shared_->generation_; }
  void Refresh() noexcept;
  int blocks() const noexcept { return set_.links_ > 0 ? set_.links_ : set_.slots_ > 0; }
  void Locate(int block, uint8_t* bytes) noexcept;

  // Inside: whether there is room for so many new keys, at most kMaxBatch. If not, the owner
  // leaves and closes the gate, to make room.
  bool Reserve(size_t keys) noexcept;

  // Inside: seen[i] as of TestAndAdd(), without adding; returns how many are 0.
  size_t Ask(const uint64_t* hashes, size_t n, uint8_t* seen) const noexcept;

  // Inside, with as much reserved as there are new hashes: for each hash in turn seen[i] = 1 if
  // any process let it through before, or it is taken for one that was; else 0, and it is
  // remembered.
  void TestAndAdd(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept;

  // Counts hashes that the owner itself knows to have been let through.
  DEDUP_ALWAYS_INLINE void CountTested(uint64_t n) noexcept {
    std::atomic_ref<uint64_t>(mine_->tested).store(mine_->tested + n, std::memory_order_relaxed);
  }

  DEDUP_ALWAYS_INLINE void Prefetch(uint64_t hash) const noexcept { set_.Prefetch(hash); }

  // Says that nobody wants more keys, at any time. Processes that ask Ended() stop soon.
  void End() noexcept;
  DEDUP_ALWAYS_INLINE bool Ended() const noexcept {
    return std::atomic_ref<uint32_t>(shared_->ended_).load(std::memory_order_relaxed) != 0;
  }

  // Alone behind the closed gate, not stale, in this order: Collect(); Wants() and Give() as of a
  // DistinctSet, the bytes going to block blocks() - 1 of after Give(); Fit(); Open().
  void Collect() noexcept;
  size_t Wants(size_t hashes) const noexcept { return set_.Wants(hashes); }
  uint8_t* Give(uint8_t* bytes) noexcept { return set_.Give(bytes); }
  // Gives the oldest filter up if there is still no room. False: for the first time.
  bool Fit(size_t hashes) noexcept;
  void Open() noexcept;

  // Inside: makes set() that of all processes at this moment, for a report. The view is stale
  // afterwards.
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
