// Streams of keys whose duplicates are known exactly, and the replay of a filter over
// one: what the programs that measure error rates share.

#ifndef STREAMDEDUP_TEST_BENCH_STREAMS_HPP_
#define STREAMDEDUP_TEST_BENCH_STREAMS_HPP_

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"
#include "core/xxh3.hpp"

namespace dedup::bench {

// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  uint64_t Below(uint64_t n) { return FastRange(Next(), n); }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// 1 .. n with probability proportional to 1 / i, for any n, by rejection-inversion
// (Hoermann and Derflinger, "Rejection-inversion to generate variates from monotone
// discrete distributions", TOMACS 1996).
class Zipf {
 public:
  explicit Zipf(double n)
      : n_(n),
        low_(std::log(1.5) - 1),
        high_(std::log(n + 0.5)),
        always_(2 - std::exp(std::log(2.5) - 0.5)) {}

  uint64_t Next(Random* random) const {
    while (true) {
      const double u = low_ + random->Unit() * (high_ - low_);
      const double x = std::exp(u);
      double k = std::floor(x + 0.5);
      if (k < 1) k = 1;
      if (k > n_) k = n_;
      if (k - x <= always_ || u >= std::log(k + 0.5) - 1 / k) return static_cast<uint64_t>(k);
    }
  }

 private:
  double n_, low_, high_, always_;
};

// Distinct values to expect of `draws` from a Zipf(1) distribution over 1 .. n.
inline double ZipfDistinct(double draws, double n) {
  const double norm = std::log(n) + 0.57721566490153286 + 0.5 / n;
  const auto drawn = [&](double i) { return -std::expm1(draws * std::log1p(-1 / (norm * i))); };
  double sum = 0;
  double i = 1;
  for (; i <= n && i < 1000; ++i) sum += drawn(i);
  // The rest by the midpoint rule over steps of a thousandth.
  while (i <= n) {
    double to = std::floor(i * 1.001) + 1;
    if (to > n + 1) to = n + 1;
    sum += (to - i) * drawn((i + to - 1) / 2);
    i = to;
  }
  return sum;
}

// The alphabet of which `draws` draws have the share `distinct` of different values.
template <typename Expected>
inline double AlphabetFor(double draws, double distinct, Expected expected) {
  double low = std::log(draws * distinct), high = std::log(1e18);
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    if (expected(std::exp(middle)) < distinct * draws) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return std::floor(std::exp(low));
}

inline double UniformAlphabet(double draws, double distinct) {
  return AlphabetFor(draws, distinct, [&](double n) { return -n * std::expm1(-draws / n); });
}
inline double ZipfAlphabet(double draws, double distinct) {
  return AlphabetFor(draws, distinct, [&](double n) { return ZipfDistinct(draws, n); });
}

// A set of 64-bit keys: which were seen.
class Seen {
 public:
  // Says whether the key was there, and puts it there.
  bool Add(uint64_t key) {
    if (2 * (count_ + 1) > slots_.size()) Grow();
    if (key == 0) {
      const bool was = zero_;
      zero_ = true;
      return was;
    }
    uint64_t slot = FastRange(Derived(key, 0), slots_.size());
    while (slots_[slot] != 0) {
      if (slots_[slot] == key) return true;
      if (++slot == slots_.size()) slot = 0;
    }
    slots_[slot] = key;
    ++count_;
    return false;
  }

 private:
  void Grow() {
    std::vector<uint64_t> old(slots_.empty() ? 1024 : 2 * slots_.size());
    old.swap(slots_);
    for (uint64_t key : old) {
      if (key == 0) continue;
      uint64_t slot = FastRange(Derived(key, 0), slots_.size());
      while (slots_[slot] != 0) {
        if (++slot == slots_.size()) slot = 0;
      }
      slots_[slot] = key;
    }
  }
  std::vector<uint64_t> slots_;
  uint64_t count_ = 0;
  bool zero_ = false;
};

// A filter's memory, and its method's functions over it.
class Filter {
 public:
  Filter(const Shape& shape)
      : method_(MethodByCode(shape.method)),
        shape_(shape),
        bytes_(static_cast<uint8_t*>(std::aligned_alloc(4096, (shape.bytes + 4095) / 4096 * 4096)),
               std::free) {
    std::memset(bytes_.get(), 0, shape.bytes);
  }
  const Shape& shape() const { return shape_; }
  const Method& method() const { return *method_; }
  // False: it is full.
  bool Add(const uint64_t* hashes, size_t n, uint8_t* seen) {
    return method_->test_and_add(shape_, &counters_, bytes_.get(), hashes, n, seen) == n;
  }
  void Ask(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    method_->contains(shape_, counters_, bytes_.get(), hashes, n, seen);
  }
  uint64_t Frequency(uint64_t hash) const {
    return method_->frequency(shape_, counters_, bytes_.get(), hash).count;
  }
  // False: the result would be full.
  bool Merge(const Filter& other) {
    return method_->merge(shape_, &counters_, bytes_.get(), other.counters_, other.bytes_.get(),
                          Weights{});
  }
  std::string Parameters() const {
    char text[128];
    method_->describe(shape_, text, sizeof text);
    return text;
  }

 private:
  const Method* method_;
  Shape shape_;
  Counters counters_;
  std::unique_ptr<uint8_t, void (*)(void*)> bytes_;
};

// A filter of a named method, of `memory` bytes, or, if that is 0, of `keys` keys.
// Ends the program where there is none.
inline bool TryPlan(const std::string& name, uint64_t memory, uint64_t keys, double fpr,
                    const std::string& options, uint64_t seed, Shape* shape) {
  const Method* method = MethodByName(name.data(), name.size());
  if (method == nullptr) {
    std::fprintf(stderr, "there is no method %s\n", name.c_str());
    std::exit(2);
  }
  Request request;
  request.memory = memory;
  request.keys = keys;
  request.fpr = fpr;
  if (ParseOptions(*method, options.data(), options.size(), &request.options).status !=
      OptionStatus::kOk) {
    std::fprintf(stderr, "method %s does not take \"%s\"\n", name.c_str(), options.c_str());
    std::exit(2);
  }
  if (method->has_rate() && request.options.given[kFpr]) request.fpr = request.options.value[kFpr];
  return PlanFilter(*method, request, seed, shape) == PlanStatus::kOk;
}

inline uint64_t HashKey(uint64_t key, uint64_t seed) { return Xxh3(&key, sizeof key, seed); }

// What a filter made of a stream.
struct Rates {
  uint64_t fresh = 0, repeated = 0;  // elements truly new, and truly not
  uint64_t false_positive = 0, false_negative = 0;
  bool full = false;  // refused a key, and was given no more

  double Fpr() const { return 100.0 * static_cast<double>(false_positive) / Per(fresh); }
  double Fnr() const { return 100.0 * static_cast<double>(false_negative) / Per(repeated); }
  static double Per(uint64_t n) { return n > 0 ? static_cast<double>(n) : 1; }
};

// Replays `n` elements: next(&key) gives one and says whether it came before.
template <typename Next>
inline Rates Replay(Filter* filter, uint64_t n, Next next) {
  constexpr size_t kBatch = 256;
  uint64_t hashes[kBatch];
  uint8_t truth[kBatch], seen[kBatch];
  Rates rates;
  for (uint64_t done = 0; done < n;) {
    const size_t batch = n - done < kBatch ? static_cast<size_t>(n - done) : kBatch;
    for (size_t i = 0; i < batch; ++i) {
      uint64_t key;
      truth[i] = next(&key);
      hashes[i] = HashKey(key, filter->shape().seed);
    }
    if (!filter->Add(hashes, batch, seen)) {
      rates.full = true;
      break;
    }
    for (size_t i = 0; i < batch; ++i) {
      if (truth[i] != 0) {
        ++rates.repeated;
        rates.false_negative += seen[i] == 0;
      } else {
        ++rates.fresh;
        rates.false_positive += seen[i] != 0;
      }
    }
    done += batch;
  }
  return rates;
}

}  // namespace dedup::bench

#endif  // STREAMDEDUP_TEST_BENCH_STREAMS_HPP_
