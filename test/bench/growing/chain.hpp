// A filter that grows as a chain of blocked Bloom filters. Not shipped: it is here to be measured
// beside the method that is.
//
// Paper: Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom Filters" (Information Processing
// Letters 101(6), 2007). Each filter of the chain is made for twice the keys of the one before it,
// and its rate is lower, so that the sum of all rates stays below the rate asked for. A key is
// added to the last filter unless some filter of the chain has it.

#ifndef STREAMDEDUP_TEST_BENCH_GROWING_CHAIN_HPP_
#define STREAMDEDUP_TEST_BENCH_GROWING_CHAIN_HPP_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <vector>

#include "../measure.hpp"
#include "core/image.hpp"
#include "core/method.hpp"
#include "core/registry.hpp"

namespace dedup::bench {

class Chain {
 public:
  static constexpr const char* kName = "chain";

  explicit Chain(double fpr) : fpr_(fpr) {
    next_ = Planned(0);
    Grow();
  }

  void Add(const uint64_t* hashes, size_t n, uint8_t* seen) {
    while (n > 0) {
      if (UntilGrowth() == 0 && CanGrow()) Grow();
      size_t taken = n < kBatch ? n : kBatch;
      if (CanGrow() && taken > UntilGrowth()) taken = static_cast<size_t>(UntilGrowth());
      AddBatch(hashes, taken, seen);
      hashes += taken;
      seen += taken;
      n -= taken;
    }
  }

  void Contains(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    for (size_t done = 0; done < n; done += kBatch) {
      const size_t m = n - done < kBatch ? n - done : kBatch;
      Ask(hashes + done, m, filters_.size());
      for (size_t i = 0; i < m; ++i) seen[done + i] = 1;
      for (size_t i = 0; i < pending_.n; ++i) seen[done + pending_.place[i]] = 0;
    }
  }

  uint64_t Bytes() const { return kHeaderBytes + body_bytes_; }
  // New keys that are taken before the chain grows, or, if it cannot, while the rate is kept.
  uint64_t UntilGrowth() const {
    const Filter& last = filters_.back();
    return last.shape.keys > last.keys ? last.shape.keys - last.keys : 0;
  }
  // Bytes() after it has grown. ~0: it cannot grow.
  uint64_t NextBytes() const { return CanGrow() ? Bytes() + next_.bytes : ~uint64_t{0}; }

 private:
  static constexpr uint64_t kFirstKeys = 1000;

  struct Filter {
    Shape shape;
    Counters counters;
    uint64_t keys;
    std::unique_ptr<Memory> body;
  };

  // Keys of a batch that no filter asked so far has.
  struct Pending {
    size_t n;
    uint64_t hash[kBatch];
    uint16_t place[kBatch];
  };

  // Filter i, from 0, has the rate fpr * 6 / pi^2 / (i + 1)^2. The other usual series,
  // fpr / 2^(i + 1), allows more to the first five filters and less to all later ones, which have
  // most of the keys: of 15 filters the last gets fpr / 370 by squares and fpr / 32768 by halves.
  // At 0.01, from 1,000 to 20 million keys, that is 29.9 bits a key on average and at most 4.6
  // times a blocked_bloom by squares, and 34.6 bits and 7.4 times by halves.
  Shape Planned(size_t i) const {
    const double place = static_cast<double>(i + 1);
    Request request;
    request.keys = kFirstKeys << i;
    request.fpr = fpr_ * 6 / (std::numbers::pi * std::numbers::pi * place * place);
    Shape shape;
    if (PlanFilter(blocked_bloom::kMethod, request, 0, &shape) != PlanStatus::kOk) {
      shape.bytes = kMaxBodyBytes;
    }
    return shape;
  }

  bool CanGrow() const { return body_bytes_ + next_.bytes <= kMaxBodyBytes; }

  void Grow() {
    body_bytes_ += next_.bytes;
    filters_.push_back({next_, {}, 0, std::make_unique<Memory>(next_.bytes)});
    next_ = Planned(filters_.size());
  }

  // Asks the first `filters` of the chain, the largest of them first: it has half of the keys.
  void Ask(const uint64_t* hashes, size_t n, size_t filters) const {
    pending_.n = n;
    for (size_t i = 0; i < n; ++i) {
      pending_.hash[i] = hashes[i];
      pending_.place[i] = static_cast<uint16_t>(i);
    }
    uint8_t found[kBatch];
    while (filters-- > 0 && pending_.n > 0) {
      const Filter& filter = filters_[filters];
      blocked_bloom::kMethod.contains(filter.shape, filter.counters, filter.body->data,
                                      pending_.hash, pending_.n, found);
      size_t left = 0;
      for (size_t i = 0; i < pending_.n; ++i) {
        pending_.hash[left] = pending_.hash[i];
        pending_.place[left] = pending_.place[i];
        left += found[i] == 0;
      }
      pending_.n = left;
    }
  }

  void AddBatch(const uint64_t* hashes, size_t n, uint8_t* seen) {
    Ask(hashes, n, filters_.size() - 1);
    Filter& last = filters_.back();
    uint8_t found[kBatch];
    blocked_bloom::kMethod.test_and_add(last.shape, &last.counters, last.body->data, pending_.hash,
                                        pending_.n, found);
    for (size_t i = 0; i < n; ++i) seen[i] = 1;
    for (size_t i = 0; i < pending_.n; ++i) {
      seen[pending_.place[i]] = found[i];
      last.keys += found[i] == 0;
    }
  }

  double fpr_;
  uint64_t body_bytes_ = 0;
  Shape next_;
  std::vector<Filter> filters_;
  mutable Pending pending_;
};

}  // namespace dedup::bench

#endif  // STREAMDEDUP_TEST_BENCH_GROWING_CHAIN_HPP_
