// A set that several processes share: threads stand for them, each with addresses of its own.
// To be run under ThreadSanitizer too (TSAN in CMakeLists.txt).

#include "core/shared_set.hpp"

#include <barrier>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_set>

#include "test_support.hpp"

namespace dedup::test {
namespace {

// What the processes have in common, and how they wait.
class Memory {
 public:
  Memory(int processes, uint64_t budget, double fpr)
      : processes_(processes), budget_(budget), fpr_(fpr) {
    shared_ = static_cast<SharedSet*>(
        ::operator new (SharedSet::Bytes(processes), std::align_val_t{kLineBytes}));
    shared_->Start(processes, budget, fpr, 1);
  }
  ~Memory() { ::operator delete (shared_, std::align_val_t{kLineBytes}); }

  // Another scan with the same bytes.
  void Restart() { shared_->Start(processes_, budget_, fpr_, shared_->generation() + 1); }

  SharedSet* shared() { return shared_; }
  int processes() const { return processes_; }

 private:
  friend class Process;

  SharedSet* shared_;
  int processes_;
  uint64_t budget_;
  double fpr_;
  std::mutex mutex_;
  std::condition_variable opened_;
  // Changed by the process that has closed the gate.
  std::vector<std::unique_ptr<std::vector<uint64_t>>> blocks_;
  size_t used_ = 0, most_ = 0;
  int warnings_ = 0, closings_ = 0;
};

class Process {
 public:
  Process(Memory* memory, int number) : memory_(memory) { view_.Start(memory->shared(), number); }

  void Ask(const uint64_t* hashes, size_t n, uint8_t* seen) {
    for (;;) {
      if (!view_.Enter()) {
        Wait();
        continue;
      }
      Refresh();
      if (view_.Reserve(n)) break;
      const size_t missing = view_.Ask(hashes, n, seen);
      if (missing == 0) {
        view_.CountTested(n);
        view_.Leave();
        return;
      }
      if (view_.Reserve(missing)) break;
      view_.Leave();
      MakeRoom(missing);
    }
    view_.TestAndAdd(hashes, n, seen);
    view_.Leave();
  }

  const DistinctSet& Count() {
    EXPECT_TRUE(view_.Enter());
    view_.Count();
    view_.Leave();
    return view_.set();
  }
  size_t most() const { return memory_->most_; }
  int warnings() const { return memory_->warnings_; }
  int closings() const { return memory_->closings_; }

 private:
  void Wait() {
    std::unique_lock lock(memory_->mutex_);
    memory_->opened_.wait(lock, [&] { return !view_.Closed(); });
  }

  void Refresh() {
    if (!view_.Stale()) return;
    view_.Refresh();
    for (int i = 0; i < view_.blocks(); ++i) {
      view_.Locate(i, reinterpret_cast<uint8_t*>(memory_->blocks_[static_cast<size_t>(i)]->data()));
    }
  }

  void MakeRoom(size_t n) {
    if (!view_.Close()) {
      Wait();
      return;
    }
    while (!view_.Empty()) std::this_thread::yield();
    ++memory_->closings_;
    Refresh();
    view_.Collect();
    if (view_.blocks() == 0) {
      memory_->blocks_.clear();
      memory_->used_ = 0;
    }
    while (const size_t bytes = view_.Wants(n)) {
      auto block = std::make_unique<std::vector<uint64_t>>(bytes / 8);
      memory_->used_ += bytes;
      memory_->most_ = std::max(memory_->most_, memory_->used_);
      const bool old = view_.Give(reinterpret_cast<uint8_t*>(block->data())) != nullptr;
      const auto last = static_cast<size_t>(view_.blocks() - 1);
      if (old) memory_->used_ -= 8 * memory_->blocks_[last]->size();
      memory_->blocks_.resize(last + 1);
      memory_->blocks_[last] = std::move(block);
    }
    if (!view_.Fit(n)) ++memory_->warnings_;
    {
      const std::lock_guard lock(memory_->mutex_);
      view_.Open();
    }
    memory_->opened_.notify_all();
  }

  Memory* memory_;
  SharedSetView view_;
};

struct Passed {
  std::vector<uint64_t> keys;  // of all processes, those that were let through
  uint64_t counted;            // keys of the set at the end
  uint64_t tested;
  int links;
  double fpr;
  uint64_t given_up;
  size_t most;
  int warnings;
  int closings;
};

// Each process asks for keys 0 .. keys - 1, in batches, each in an order of its own that is near
// enough to the others' that they meet.
Passed AskInAll(Memory* memory, uint64_t keys, uint64_t seed, int processes, int passes = 1) {
  std::vector<std::vector<uint64_t>> passed(static_cast<size_t>(processes));
  std::barrier start(processes);
  std::vector<std::thread> threads;
  for (int p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      Process process(memory, p);
      Random random(seed * 100 + static_cast<uint64_t>(p));
      std::vector<uint64_t>& mine = passed[static_cast<size_t>(p)];
      start.arrive_and_wait();
      for (uint64_t done = 0, left = static_cast<uint64_t>(passes); left > 0;) {
        const uint64_t n = std::min(keys - done, 1 + random.Below(DistinctSet::kMaxBatch));
        uint64_t hashes[DistinctSet::kMaxBatch], key[DistinctSet::kMaxBatch];
        uint8_t seen[DistinctSet::kMaxBatch];
        for (uint64_t i = 0; i < n; ++i) {
          key[i] = done + (p % 2 == 0 ? i : n - 1 - i);
          hashes[i] = key[i] == 0 ? 0 : HashOf(key[i], seed);
        }
        process.Ask(hashes, n, seen);
        for (uint64_t i = 0; i < n; ++i) {
          if (seen[i] == 0) mine.push_back(key[i]);
        }
        done += n;
        if (done == keys) done = 0, --left;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Passed all = {};
  for (const auto& mine : passed) all.keys.insert(all.keys.end(), mine.begin(), mine.end());
  Process last(memory, 0);
  const DistinctSet& set = last.Count();
  all.counted = set.keys();
  all.tested = set.tested();
  all.links = set.links();
  all.fpr = set.fpr();
  all.given_up = set.given_up();
  all.most = last.most();
  all.warnings = last.warnings();
  all.closings = last.closings();
  return all;
}

uint64_t Different(const std::vector<uint64_t>& keys) {
  return std::unordered_set<uint64_t>(keys.begin(), keys.end()).size();
}

TEST(SharedSet, PassesEachKeyInOneProcessWhileExact) {
  for (const int processes : {1, 2, 3, 5}) {
    const uint64_t keys = 200000 / kThin;
    Memory memory(processes, uint64_t{8} << 20, 0.001);
    const Passed passed = AskInAll(&memory, keys, 1, processes);
    EXPECT_EQ(passed.links, 0);
    EXPECT_EQ(passed.keys.size(), keys) << processes;
    EXPECT_EQ(Different(passed.keys), keys);
    EXPECT_EQ(passed.counted, keys);
    EXPECT_EQ(passed.tested, keys * static_cast<uint64_t>(processes));
    EXPECT_LE(passed.most, size_t{8} << 20);
    EXPECT_EQ(passed.warnings, 0);
  }
}

// All links of the chain, at their rates; in a small budget the room that other processes have
// taken is most of what is left.
TEST(SharedSet, PassesNoKeyTwiceAndKeepsItsRateInFilters) {
  struct Case {
    uint64_t budget;
    double fpr;
    uint64_t keys;
  };
  for (const Case& c :
       {Case{uint64_t{1} << 20, 0.001, 300000}, Case{uint64_t{1} << 20, 0.1, 500000},
        Case{uint64_t{1} << 20, 1e-8, 80000}, Case{uint64_t{64} << 10, 0.001, 20000}}) {
    for (const int processes : {1, 9}) {
      Memory memory(processes, c.budget, c.fpr);
      const Passed passed = AskInAll(&memory, c.keys, 2, processes);
      EXPECT_GT(passed.links, 1);
      EXPECT_EQ(passed.given_up, 0u);
      EXPECT_EQ(passed.warnings, 0);
      EXPECT_EQ(Different(passed.keys), passed.keys.size()) << processes;
      EXPECT_EQ(passed.counted, passed.keys.size());
      EXPECT_LE(passed.fpr, c.fpr * 1.0001);
      EXPECT_LE(passed.most, c.budget);
      const double lost = static_cast<double>(c.keys - passed.keys.size());
      const double most = c.fpr * static_cast<double>(c.keys);
      EXPECT_LE(lost, most + 5 * std::sqrt(most) + 1);
    }
  }
}

TEST(SharedSet, WarnsOnceWhenItGivesAFilterUp) {
  Memory memory(3, DistinctSet::kLeastBudget, 0.001);
  const Passed passed = AskInAll(&memory, 200000 / kThin, 3, 3);
  EXPECT_GT(passed.given_up, 0u);
  EXPECT_EQ(passed.warnings, 1);
  EXPECT_EQ(passed.counted, passed.keys.size());
}

// More processes than a small table has room for at once, in batches.
TEST(SharedSet, SharesLittleRoomAmongMany) {
  Memory memory(40, DistinctSet::kLeastBudget, 0.001);
  const Passed passed = AskInAll(&memory, 10000 / kThin, 4, 40);
  EXPECT_EQ(Different(passed.keys), passed.keys.size());
  EXPECT_GE(passed.keys.size(), 10000 / kThin - 40);
}

// New keys until the first filter is given up.
uint64_t KeysWhenFull(uint64_t budget, uint64_t seed) {
  Memory memory(1, budget, 0.001);
  Process process(&memory, 0);
  uint64_t keys = 0;
  for (uint8_t seen; process.warnings() == 0; ++keys) {
    const uint64_t hash = HashOf(keys, seed);
    process.Ask(&hash, 1, &seen);
  }
  return keys;
}

// Where a table or a filter is as good as full, and the keys are all known, nobody makes room.
TEST(SharedSet, KnownKeysCloseNoGate) {
  struct Case {
    uint64_t budget, keys;
    int links;
  };
  // The table of 1,024 slots takes 768 keys. A key more than in the last case gives a filter up.
  for (const Case& c : {Case{uint64_t{1} << 20, 668, 0}, Case{uint64_t{1} << 20, 767, 0},
                        Case{uint64_t{64} << 10, KeysWhenFull(uint64_t{64} << 10, 7) - 1, 3}}) {
    constexpr int kProcesses = 4, kPasses = 100;
    Memory memory(kProcesses, c.budget, 0.001);
    // One process adds them one by one: batches leave room for less than a batch in each filter.
    Process first(&memory, 0);
    for (uint64_t key = 0; key < c.keys; ++key) {
      const uint64_t hash = key == 0 ? 0 : HashOf(key, 7);
      uint8_t seen;
      first.Ask(&hash, 1, &seen);
    }
    const int closings = first.closings();
    const Passed passed = AskInAll(&memory, c.keys, 7, kProcesses, kPasses);
    EXPECT_EQ(passed.links, c.links);
    EXPECT_EQ(passed.given_up, 0u);
    EXPECT_EQ(passed.tested, c.keys * (kProcesses * kPasses + 1));
    EXPECT_EQ(passed.keys.size(), 0u);
    EXPECT_EQ(passed.closings, closings) << c.keys;
  }
}

// Processes that never start take no part, and a scan starts with nothing.
TEST(SharedSet, StartsAnew) {
  Memory memory(4, uint64_t{1} << 20, 0.001);
  SharedSetView leader;
  leader.Start(memory.shared(), 0);
  for (int scan = 0; scan < 3; ++scan) {
    EXPECT_FALSE(leader.Ended());
    const Passed passed = AskInAll(&memory, 5000, 5, 1 + scan);
    EXPECT_EQ(passed.keys.size(), 5000u);
    EXPECT_EQ(Different(passed.keys), 5000u);
    EXPECT_EQ(passed.counted, 5000u);
    EXPECT_EQ(passed.tested, 5000u * static_cast<uint64_t>(1 + scan));
    leader.End();
    EXPECT_TRUE(leader.Ended());
    memory.Restart();
  }
}

// In one process the same answers as a DistinctSet, in every state, until one of them gives a
// filter up: the DistinctSet does so a few keys before it is full.
TEST(SharedSet, AnswersAsASetOfOneProcess) {
  Memory memory(1, uint64_t{256} << 10, 0.01);
  Process process(&memory, 0);
  DistinctSet twin;
  twin.Start(uint64_t{256} << 10, 0.01);
  std::vector<std::unique_ptr<std::vector<uint64_t>>> bytes;
  Random random(6);
  for (int batch = 0; batch < 20000; ++batch) {
    uint64_t hashes[DistinctSet::kMaxBatch];
    uint8_t seen[DistinctSet::kMaxBatch], expected[DistinctSet::kMaxBatch];
    const size_t n = 1 + random.Below(DistinctSet::kMaxBatch);
    for (size_t i = 0; i < n; ++i) hashes[i] = HashOf(random.Below(300000));
    while (const size_t wants = twin.Wants(n)) {
      bytes.push_back(std::make_unique<std::vector<uint64_t>>(wants / 8));
      twin.Give(reinterpret_cast<uint8_t*>(bytes.back()->data()));
    }
    twin.TestAndAdd(hashes, n, expected);
    process.Ask(hashes, n, seen);
    if (twin.given_up() > 0) break;
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], expected[i]) << batch;
    const DistinctSet& set = process.Count();
    ASSERT_EQ(set.keys(), twin.keys());
    ASSERT_EQ(set.tested(), twin.tested());
    ASSERT_EQ(set.links(), twin.links());
    ASSERT_EQ(set.fpr(), twin.fpr());
  }
  EXPECT_GT(twin.given_up(), 0u);
}

}  // namespace
}  // namespace dedup::test
