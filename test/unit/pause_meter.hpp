// Counts the bytes that a call of the core touches between two pauses.
//
// How bytes are counted: all images lie in memory that is protected at a pause. The first
// touch of each page raises SIGSEGV, whose handler counts the page and lets it be touched.
// A page counts with all its bytes, so the counts are too high rather than too low.

#ifndef STREAMDEDUP_TEST_UNIT_PAUSE_METER_HPP_
#define STREAMDEDUP_TEST_UNIT_PAUSE_METER_HPP_

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <csetjmp>
#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/pause.hpp"
#include "pause_cases.hpp"
#include "test_support.hpp"

namespace dedup::test {

using pauses::Arena;
using pauses::Case;
using pauses::kPageBytes;

inline constexpr size_t kMostPages = kMostBetweenPauses / kPageBytes;

// Without the sanitizers, which add nothing to these but time.
inline constexpr char kSkipped[] = "bytes are counted by the builds without sanitizers";

// The bytes that run() touches in an arena between two pauses. run() is called twice: first
// to learn the pauses, told apart by the place that they are called from; then some of the
// gaps between two are measured: of each pair of places the first, the last and a few more.
class Meter {
 public:
  explicit Meter(Arena* arena) : arena_(arena) {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_);
    current_ = this;
  }
  ~Meter() {
    current_ = nullptr;
    sigaction(SIGSEGV, &before_, nullptr);
  }

  // The most pages of a gap.
  size_t Measure(const Case& measured) {
    places_.assign(1, nullptr);  // the start
    measured.prepare();
    pause_function = Learn;
    measured.run();
    places_.push_back(nullptr);  // the end
    Choose();
    measured.prepare();
    most_ = 0;
    gap_ = 0;
    pause_function = Count;
    Begin();
    measured.run();
    End();
    pause_function = nullptr;
    return most_;
  }
  size_t pauses() const { return places_.size() - 2; }

 private:
  static constexpr size_t kSamples = kQuick > 1 ? 2 : 5;

  static void Learn() { current_->places_.push_back(__builtin_return_address(0)); }
  static void Count() {
    current_->End();
    ++current_->gap_;
    current_->Begin();
  }

  // chosen_[i]: whether the gap between places i and i + 1 is measured.
  void Choose() {
    std::map<std::pair<void*, void*>, std::vector<size_t>> gaps;
    for (size_t i = 0; i + 1 < places_.size(); ++i) {
      gaps[{places_[i], places_[i + 1]}].push_back(i);
    }
    chosen_.assign(places_.size(), false);
    for (const auto& [pair, at] : gaps) {
      for (size_t i = 0; i < kSamples; ++i)
        chosen_[at[i * (at.size() - 1) / (kSamples - 1)]] = true;
    }
  }
  void Begin() {
    if (gap_ >= chosen_.size() || !chosen_[gap_]) return;
    pages_ = 0;
    for (Pass& pass : passes_) pass = {~size_t{0}, ~size_t{0}, 1};
    measuring_ = true;
    mprotect(arena_->base(), arena_->used(), PROT_NONE);
  }
  void End() {
    if (!measuring_) return;
    measuring_ = false;
    mprotect(arena_->base(), arena_->used(), PROT_READ | PROT_WRITE);
    if (pages_ > most_) most_ = pages_;
  }
  static void OnFault(int, siginfo_t* info, void*) {
    Meter* meter = current_;
    auto* at = static_cast<uint8_t*>(info->si_addr);
    if (meter == nullptr || !meter->measuring_ || at < meter->arena_->base() ||
        at >= meter->arena_->base() + meter->arena_->used()) {
      std::signal(SIGSEGV, SIG_DFL);
      return;
    }
    meter->Touch(static_cast<size_t>(at - meter->arena_->base()) / kPageBytes);
  }

  // Counts the page. A page behind one that was touched, or in front of it, is one of a
  // pass over many: they are counted together, more of them each time, as if all were
  // touched, since signals take long.
  void Touch(size_t page) {
    size_t from = page, pages = 1;
    for (Pass& pass : passes_) {
      if (page != pass.end && page + 1 != pass.begin) continue;
      const bool up = page == pass.end;
      pass.pages = pass.pages < kMostTogether ? 2 * pass.pages : kMostTogether;
      pages = pass.pages;
      const size_t all = (arena_->used() + kPageBytes - 1) / kPageBytes;
      if (up && pages > all - page) pages = all - page;
      if (!up && pages > page + 1) pages = page + 1;
      from = up ? page : page + 1 - pages;
      (up ? pass.end : pass.begin) = up ? page + pages : from;
      Open(from, pages);
      return;
    }
    passes_[next_pass_++ % kPasses] = {page, page + 1, 1};
    Open(from, pages);
  }
  void Open(size_t from, size_t pages) {
    pages_ = pages_ + pages;
    if (pages_ > 4 * kMostPages) {
      // Enough is known. The kernel has a bound on the pieces of memory of a process.
      mprotect(arena_->base(), arena_->used(), PROT_READ | PROT_WRITE);
      return;
    }
    mprotect(arena_->base() + from * kPageBytes, pages * kPageBytes, PROT_READ | PROT_WRITE);
  }

  struct Pass {
    size_t begin, end, pages;
  };
  static constexpr size_t kPasses = 8;
  static constexpr size_t kMostTogether = 32;

  static inline Meter* current_ = nullptr;
  Arena* arena_;
  struct sigaction before_;
  std::vector<void*> places_;
  std::vector<bool> chosen_;
  size_t gap_ = 0;
  volatile bool measuring_ = false;
  volatile size_t pages_ = 0;
  Pass passes_[kPasses];
  size_t next_pass_ = 0;
  size_t most_ = 0;
};

inline void ExpectPauses(Meter* meter, const Case& measured, const std::string& subject) {
  const size_t pages = meter->Measure(measured);
  EXPECT_LE(pages, kMostPages) << subject << ", " << measured.name << ": " << pages * kPageBytes
                               << " bytes, " << meter->pauses() << " pauses";
}

// ---- calls that are abandoned ---------------------------------------------------------------

inline std::jmp_buf abandon;
inline uint64_t pauses_left;

inline void AbandonAtLast() {
  if (--pauses_left == 0) std::longjmp(abandon, 1);
}

// Runs it up to the n-th pause. False: it has ended before.
inline bool RunTo(const Case& abandoned, uint64_t n) {
  pauses_left = n;
  pause_function = AbandonAtLast;
  const bool left = setjmp(abandon) != 0;
  if (!left) abandoned.run();
  pause_function = nullptr;
  return left;
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_PAUSE_METER_HPP_
