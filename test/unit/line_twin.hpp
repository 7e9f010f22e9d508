// Filters of the published table that are no methods of ours, written plainly from their
// rules, in containers: bucketed lines (bl, bq) and rotating blocked Bloom filters (gen).
// They are there to test the yardstick: the streams, the truth and the table.

#ifndef STREAMDEDUP_TEST_UNIT_LINE_TWIN_HPP_
#define STREAMDEDUP_TEST_UNIT_LINE_TWIN_HPP_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/occupancy.hpp"
#include "test_support.hpp"

namespace dedup::test {

inline constexpr uint64_t kLineBits = 512;
inline constexpr uint64_t kLinesAPage = 64;

// Slots of f bits that fit 63 bytes, the last byte being the line's counter.
inline uint64_t SlotsALine(unsigned f) { return 504 / f; }

enum class LineMode {
  kFifo,          // a hit changes nothing
  kAppend,        // a hit is appended again
  kLru,           // a hit moves to the front
  kLazyExchange,  // a hit older than lazy * slots steps is exchanged with the oldest
};

// Where a key may be: one line or two, and its fingerprint, which is never 0.
struct LinePlace {
  uint64_t line[2];
  uint64_t fingerprint;
};

class LinePlaces {
 public:
  LinePlaces(uint64_t bits, unsigned f, int choices, bool page)
      : lines_(bits / kLineBits), f_(f), choices_(choices), page_(page) {}

  uint64_t lines() const { return lines_; }
  int choices() const { return choices_; }

  LinePlace Of(uint64_t hash) const {
    Random random(hash);
    LinePlace place;
    place.line[0] = random.Below(lines_);
    place.line[1] = random.Below(lines_);
    if (page_) {  // another line of the same page
      const uint64_t first = place.line[0] % kLinesAPage;
      place.line[1] = place.line[0] - first + (first + 1 + random.Below(kLinesAPage - 1)) % 64;
    }
    place.fingerprint = 1 + random.Below((uint64_t{1} << f_) - 1);
    return place;
  }

 private:
  uint64_t lines_;
  unsigned f_;
  int choices_;
  bool page_;
};

// bl: slots in order of age.
class AgedLines {
 public:
  AgedLines(uint64_t bits, unsigned f, LineMode mode, int choices = 1, bool page = false)
      : places_(bits, f, choices, page),
        slots_(SlotsALine(f)),
        mode_(mode),
        lines_(places_.lines()) {}

  bool TestAndAdd(uint64_t hash) {
    const LinePlace place = places_.Of(hash);
    for (int i = 0; i < places_.choices(); ++i) {
      Line& line = lines_[place.line[i]];
      const auto slot = std::find(line.slots.begin(), line.slots.end(), place.fingerprint);
      if (slot == line.slots.end()) continue;
      if (mode_ == LineMode::kLru) {
        line.slots.erase(slot);
        line.slots.insert(line.slots.begin(), place.fingerprint);
      }
      if (mode_ == LineMode::kAppend) Append(&line, place.fingerprint);
      return true;
    }
    Line* line = &lines_[place.line[0]];
    if (places_.choices() == 2) {
      // The one whose counter, modulo 256, is behind the other's by less than half a turn.
      Line* second = &lines_[place.line[1]];
      const int lead = (line->inserted - second->inserted + 256) % 256;
      if (lead > 0 && lead < 128) line = second;
    }
    Append(line, place.fingerprint);
    return false;
  }

 private:
  struct Line {
    std::vector<uint64_t> slots;  // youngest first
    int inserted = 0;             // modulo 256
  };
  void Append(Line* line, uint64_t fingerprint) {
    line->slots.insert(line->slots.begin(), fingerprint);
    if (line->slots.size() > slots_) line->slots.pop_back();
    line->inserted = (line->inserted + 1) % 256;
  }
  LinePlaces places_;
  uint64_t slots_;
  LineMode mode_;
  std::vector<Line> lines_;
};

// bq: a ring of slots, one choice.
class RingLines {
 public:
  RingLines(uint64_t bits, unsigned f, LineMode mode, double lazy)
      : places_(bits, f, 1, false),
        slots_(SlotsALine(f)),
        mode_(mode),
        lazy_(lazy),
        lines_(places_.lines(), Line{std::vector<uint64_t>(slots_), 0}) {}

  bool TestAndAdd(uint64_t hash) {
    const LinePlace place = places_.Of(hash);
    Line& line = lines_[place.line[0]];
    for (uint64_t age = 0; age < slots_; ++age) {  // in steps; the youngest is 0
      uint64_t& slot = line.slots[(line.next + 2 * slots_ - 1 - age) % slots_];
      if (slot != place.fingerprint) continue;
      if (mode_ == LineMode::kLazyExchange &&
          static_cast<double>(age) > lazy_ * static_cast<double>(slots_)) {
        std::swap(slot, line.slots[line.next]);
        line.next = (line.next + 1) % slots_;
      }
      return true;
    }
    line.slots[line.next] = place.fingerprint;
    line.next = (line.next + 1) % slots_;
    return false;
  }

 private:
  struct Line {
    std::vector<uint64_t> slots;  // 0: empty
    uint64_t next;                // the oldest, which is overwritten next
  };
  LinePlaces places_;
  uint64_t slots_;
  LineMode mode_;
  double lazy_;
  std::vector<Line> lines_;
};

// gen: G blocked Bloom filters, of which each has the same number of blocks. A generation
// ends when it holds as many keys as keep its own rate at e / (G - 1/2); k is what holds
// the most. A hit in an older generation is added to the current one too.
class Generations {
 public:
  Generations(uint64_t bits, int generations, double fpr)
      : blocks_(bits / kLineBits / static_cast<uint64_t>(generations)),
        set_(static_cast<size_t>(generations), std::vector<bool>(blocks_ * kLineBits)) {
    const double rate = fpr / (generations - 0.5);
    for (int k = 1; k <= 16; ++k) {
      uint64_t keys = 1;
      while (BlockedRate(static_cast<double>(keys), static_cast<double>(blocks_), kLineBits, k) <=
             rate) {
        ++keys;
      }
      if (keys - 1 > capacity_) {
        capacity_ = keys - 1;
        k_ = k;
      }
    }
  }

  uint64_t capacity() const { return capacity_; }
  int k() const { return k_; }

  bool TestAndAdd(uint64_t hash) {
    Random random(hash);
    const uint64_t block = random.Below(blocks_) * kLineBits;
    std::vector<uint64_t> positions;
    for (int i = 0; i < k_; ++i) positions.push_back(block + random.Below(kLineBits));
    const auto in = [&](const std::vector<bool>& bits) {
      return std::all_of(positions.begin(), positions.end(), [&](uint64_t p) { return bits[p]; });
    };
    const bool seen = std::any_of(set_.begin(), set_.end(), in);
    if (in(set_[current_])) return true;
    for (uint64_t position : positions) set_[current_][position] = true;
    if (++added_ == capacity_) {
      added_ = 0;
      current_ = (current_ + 1) % set_.size();
      set_[current_].assign(set_[current_].size(), false);
    }
    return seen;
  }

 private:
  uint64_t blocks_;
  std::vector<std::vector<bool>> set_;
  uint64_t capacity_ = 0, added_ = 0;
  size_t current_ = 0;
  int k_ = 0;
};

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_LINE_TWIN_HPP_
