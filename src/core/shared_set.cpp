// The set that several processes share: the gate and the kernels.

#include "shared_set.hpp"

#include <sched.h>

#include <atomic>
#include <cstring>

#include "bytes.hpp"
#include "methods/blocked_bloom.hpp"

namespace dedup {
namespace {

template <typename T>
std::atomic_ref<T> Atomic(T& value) noexcept {
  return std::atomic_ref<T>(value);
}

// Returns a word of the set's bytes. Words are little-endian, as in the set of one process.
std::atomic_ref<uint64_t> Word(const uint8_t* bytes) noexcept {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(const_cast<uint8_t*>(bytes)));
}

uint64_t Little(uint64_t value) noexcept {
  return std::endian::native == std::endian::big ? __builtin_bswap64(value) : value;
}

// A lock of one byte, held for about ten instructions. A waiter yields, so that a holder that was
// descheduled can continue.
class Lock {
 public:
  explicit Lock(uint8_t& byte) noexcept : byte_(byte) {
    for (int tries = 1; Atomic(byte_).exchange(1, std::memory_order_acquire) != 0; ++tries) {
      if (tries % 64 == 0) sched_yield();
    }
  }
  ~Lock() { Atomic(byte_).store(0, std::memory_order_release); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  uint8_t& byte_;
};

template <int kK>
bool AllSet(const uint8_t* line, uint64_t hash) noexcept {
  uint64_t missing = 0;
  blocked_bloom::ForEachPosition<kK>(hash, [&](uint64_t word, uint64_t bit) {
    missing |= ~(Little(Word(line + word).load(std::memory_order_relaxed)) >> bit);
  });
  return (missing & 1) == 0;
}

template <int kK>
void AskGroup(const uint8_t* body, uint64_t lines, const uint64_t* hashes, size_t n,
              uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) Prefetch(body + FastRange(hashes[i], lines) * kLineBytes);
  for (size_t i = 0; i < n; ++i) {
    seen[i] = AllSet<kK>(body + FastRange(hashes[i], lines) * kLineBytes, hashes[i]);
  }
}

// Does the same as blocked_bloom::TestAndAdd(), while other processes add to the same body.
template <int kK>
void AddGroup(uint8_t* body, uint64_t lines, uint8_t* locks, const uint64_t* hashes, size_t n,
              uint8_t* seen) noexcept {
  for (size_t i = 0; i < n; ++i) {
    PrefetchToWrite(body + FastRange(hashes[i], lines) * kLineBytes);
  }
  for (size_t i = 0; i < n; ++i) {
    const uint64_t number = FastRange(hashes[i], lines);
    uint8_t* line = body + number * kLineBytes;
    seen[i] = 1;
    if (AllSet<kK>(line, hashes[i])) continue;
    const Lock lock(locks[number % SharedSet::kLocks]);
    if (AllSet<kK>(line, hashes[i])) continue;
    seen[i] = 0;
    blocked_bloom::ForEachPosition<kK>(hashes[i], [&](uint64_t word, uint64_t bit) {
      // Only holders of the lock write here.
      const auto at = Word(line + word);
      at.store(at.load(std::memory_order_relaxed) | Little(uint64_t{1} << bit),
               std::memory_order_relaxed);
    });
  }
}

struct Kernels {
  void (*add)(uint8_t* body, uint64_t lines, uint8_t* locks, const uint64_t* hashes, size_t n,
              uint8_t* seen);
  void (*ask)(const uint8_t* body, uint64_t lines, const uint64_t* hashes, size_t n, uint8_t* seen);
};

template <int kK>
constexpr Kernels kOf = {AddGroup<kK>, AskGroup<kK>};

// Indexed by k - 1.
constexpr Kernels kKernels[blocked_bloom::kMaxK] = {
    kOf<1>, kOf<2>,  kOf<3>,  kOf<4>,  kOf<5>,  kOf<6>,  kOf<7>,  kOf<8>,
    kOf<9>, kOf<10>, kOf<11>, kOf<12>, kOf<13>, kOf<14>, kOf<15>, kOf<16>};

}  // namespace

// ---- the shared part ----------------------------------------------------------

void SharedSet::Start(int processes, uint64_t budget, double fpr, uint64_t generation) noexcept {
  set_.Start(budget, fpr);
  processes_ = processes;
  generation_ = generation;
  closed_ = 0;
  ended_ = 0;
  room_ = 0;
  std::memset(locks_, 0, sizeof locks_);
  for (int i = 0; i < processes; ++i) *process(i) = Process{};
}

// ---- the gate -------------------------------------------------------------------

void SharedSetView::Start(SharedSet* shared, int process) noexcept {
  shared_ = shared;
  mine_ = shared->process(process);
  generation_ = 0;
  set_ = DistinctSet{};
}

// A process first sets its flag that it is inside, and then checks whether the gate is closed. A
// process that closes the gate first closes it, and then checks whether somebody is inside. So at
// least one of the two sees the other.
bool SharedSetView::Enter() noexcept {
  Atomic(mine_->inside).store(1, std::memory_order_seq_cst);
  if (!Closed()) return true;
  Leave();
  return false;
}

void SharedSetView::Leave() noexcept { Atomic(mine_->inside).store(0, std::memory_order_release); }

bool SharedSetView::Close() noexcept {
  return Atomic(shared_->closed_).exchange(1, std::memory_order_seq_cst) == 0;
}

bool SharedSetView::Closed() const noexcept {
  return Atomic(shared_->closed_).load(std::memory_order_seq_cst) != 0;
}

bool SharedSetView::Empty() const noexcept {
  for (int i = 0; i < shared_->processes_; ++i) {
    if (Atomic(shared_->process(i)->inside).load(std::memory_order_seq_cst) != 0) return false;
  }
  return true;
}

void SharedSetView::Open() noexcept {
  shared_->set_ = set_;
  shared_->set_.table_ = nullptr;
  for (uint8_t*& body : shared_->set_.bodies_) body = nullptr;
  shared_->room_ = Room();
  generation_ = ++shared_->generation_;
  Atomic(shared_->closed_).store(0, std::memory_order_release);
}

void SharedSetView::End() noexcept { Atomic(shared_->ended_).store(1, std::memory_order_relaxed); }

// ---- the set ----------------------------------------------------------------------

void SharedSetView::Refresh() noexcept {
  set_ = shared_->set_;
  generation_ = shared_->generation_;
}

void SharedSetView::Locate(int block, uint8_t* bytes) noexcept {
  (set_.links_ > 0 ? set_.bodies_[block] : set_.table_) = bytes;
}

uint64_t SharedSetView::Room() const noexcept {
  if (set_.links_ == 0) return set_.limit_ - set_.keys_;
  return set_.shapes_[set_.youngest_].keys - set_.link_keys_[set_.youngest_];
}

void SharedSetView::AddKeys(uint64_t added) noexcept {
  set_.keys_ += added;
  if (set_.links_ > 0) set_.link_keys_[set_.youngest_] += added;
}

void SharedSetView::Collect() noexcept {
  for (int i = 0; i < shared_->processes_; ++i) {
    SharedSet::Process* process = shared_->process(i);
    AddKeys(process->added);
    process->added = process->allowance = 0;
  }
}

bool SharedSetView::Fit(size_t hashes) noexcept { return Room() >= hashes || set_.GiveUpOldest(); }

void SharedSetView::Count() noexcept {
  Refresh();
  for (int i = 0; i < shared_->processes_; ++i) {
    SharedSet::Process* process = shared_->process(i);
    AddKeys(Atomic(process->added).load(std::memory_order_relaxed));
    set_.tested_ += Atomic(process->tested).load(std::memory_order_relaxed);
  }
  generation_ = 0;
}

bool SharedSetView::Reserve(size_t keys) noexcept {
  if (mine_->allowance >= keys) return true;
  const uint64_t need = keys - mine_->allowance;
  const auto room = Atomic(shared_->room_);
  uint64_t left = room.load(std::memory_order_relaxed), take;
  do {
    if (left < need) return false;
    take = left / (2 * static_cast<uint64_t>(shared_->processes_));
    if (take > DistinctSet::kMaxBatch) take = DistinctSet::kMaxBatch;
    if (take < need) take = need;
  } while (!room.compare_exchange_weak(left, left - take, std::memory_order_relaxed));
  mine_->allowance += take;
  return true;
}

bool SharedSetView::Find(uint64_t hash) const noexcept {
  hash = DistinctSet::NotZero(hash);
  const uint64_t wanted = Little(hash);
  for (uint64_t slot = FastRange(hash, set_.slots_);;) {
    const uint64_t there = Word(set_.table_ + 8 * slot).load(std::memory_order_relaxed);
    if (there == wanted || there == 0) return there != 0;
    if (++slot == set_.slots_) slot = 0;
  }
}

bool SharedSetView::FindOrPlace(uint64_t hash) noexcept {
  hash = DistinctSet::NotZero(hash);
  const uint64_t wanted = Little(hash);
  for (uint64_t slot = FastRange(hash, set_.slots_);;) {
    const auto word = Word(set_.table_ + 8 * slot);
    uint64_t there = word.load(std::memory_order_relaxed);
    if (there == wanted) return true;
    if (there == 0) {
      if (word.compare_exchange_strong(there, wanted, std::memory_order_relaxed)) return false;
      if (there == wanted) return true;
    }
    if (++slot == set_.slots_) slot = 0;
  }
}

size_t SharedSetView::TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  uint64_t left[DistinctSet::kMaxBatch];
  uint8_t place[DistinctSet::kMaxBatch], answer[DistinctSet::kMaxBatch];
  const Shape& shape = set_.shapes_[set_.youngest_];
  size_t added = 0;
  n = set_.AskOlderLinks(hashes, n, seen, left, place);
  kKernels[blocked_bloom::K(shape) - 1].add(
      set_.bodies_[set_.youngest_], blocked_bloom::Lines(shape), shared_->locks_, left, n, answer);
  for (size_t i = 0; i < n; ++i) {
    seen[place[i]] = answer[i];
    added += answer[i] == 0;
  }
  return added;
}

size_t SharedSetView::Ask(const uint64_t* hashes, size_t n, uint8_t* seen) const noexcept {
  size_t missing = 0;
  if (blocks() == 0) return n;
  if (set_.links_ > 0) {
    uint64_t left[DistinctSet::kMaxBatch];
    uint8_t place[DistinctSet::kMaxBatch], answer[DistinctSet::kMaxBatch];
    const Shape& shape = set_.shapes_[set_.youngest_];
    const size_t unknown = set_.AskOlderLinks(hashes, n, seen, left, place);
    kKernels[blocked_bloom::K(shape) - 1].ask(set_.bodies_[set_.youngest_],
                                              blocked_bloom::Lines(shape), left, unknown, answer);
    for (size_t i = 0; i < unknown; ++i) {
      seen[place[i]] = answer[i];
      missing += answer[i] == 0;
    }
    return missing;
  }
  for (size_t i = 0; i < n; ++i) {
    seen[i] = Find(hashes[i]);
    missing += seen[i] == 0;
  }
  return missing;
}

void SharedSetView::TestAndAdd(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  size_t added = 0;
  if (set_.links_ > 0) {
    added = TestLinks(hashes, n, seen);
  } else {
    for (size_t i = 0; i < n; ++i) {
      seen[i] = FindOrPlace(hashes[i]);
      added += seen[i] == 0;
    }
  }
  CountTested(n);
  if (added == 0) return;
  mine_->allowance -= added;
  Atomic(mine_->added).store(mine_->added + added, std::memory_order_relaxed);
}

}  // namespace dedup
