// Streams of keys, and an exact twin of a window.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_STREAMS_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_STREAMS_HPP_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "random.hpp"

namespace dedup::test {

// The exact twin of a window by last sight: the last `size` distinct keys, for
// keys that are small numbers. O(1) a key.
class LastKeys {
 public:
  LastKeys(uint64_t size, uint64_t alphabet) : size_(size), node_(alphabet + 1) {
    node_[0] = {0, 0, false};  // the ring's start
  }

  // Notes a sight; says whether the key was among the last `size` distinct ones.
  bool See(uint64_t key) {
    const uint64_t at = key + 1;
    const bool within = node_[at].within;
    if (within) {
      Unlink(at);
    } else if (count_ == size_) {
      const uint64_t oldest = node_[0].younger;
      Unlink(oldest);
      node_[oldest].within = false;
    } else {
      ++count_;
    }
    const uint64_t before = node_[0].older;
    node_[at] = {before, 0, true};
    node_[before].younger = at;
    node_[0].older = at;
    return within;
  }

  uint64_t count() const { return count_; }

  // Runs visit(key) over the keys of the window.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (uint64_t at = node_[0].older; at != 0; at = node_[at].older) visit(at - 1);
  }

 private:
  struct Node {
    uint64_t older = 0, younger = 0;
    bool within = false;
  };
  void Unlink(uint64_t at) {
    node_[node_[at].older].younger = node_[at].younger;
    node_[node_[at].younger].older = node_[at].older;
  }
  uint64_t size_;
  uint64_t count_ = 0;
  std::vector<Node> node_;
};

// Element i (0-based) with probability proportional to 1 / (i + 1)^s.
class Zipf {
 public:
  explicit Zipf(uint64_t n, double s = 1) : sums_(n) {
    double sum = 0;
    for (uint64_t i = 0; i < n; ++i) {
      sum += s == 1 ? 1 / static_cast<double>(i + 1) : std::pow(static_cast<double>(i + 1), -s);
      sums_[i] = sum;
    }
  }
  uint64_t Next(Random* random) const {
    const double u = random->Unit() * sums_.back();
    return static_cast<uint64_t>(std::lower_bound(sums_.begin(), sums_.end(), u) - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_STREAMS_HPP_
