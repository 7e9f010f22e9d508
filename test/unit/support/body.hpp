// A method's body on its own, and its rates.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_BODY_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_BODY_HPP_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/registry.hpp"
#include "methods.hpp"
#include "random.hpp"

namespace dedup::test {

// A method's body on its own, from its first key on: what a filter is after the
// exact form, even where the exact form would still hold. It grows as a filter does.
class Body {
 public:
  explicit Body(const Shape& shape)
      : method_(MethodByCode(shape.method)),
        shape_(shape),
        counters_(FirstCounters(shape)),
        bytes_(FirstBytes(shape)) {}

  const Shape& shape() const { return shape_; }
  const Counters& counters() const { return counters_; }
  Counters& counters() { return counters_; }
  const Bytes& bytes() const { return bytes_; }
  Bytes& bytes() { return bytes_; }

  bool TestAndAdd(uint64_t hash) {
    uint8_t seen = 2;
    EXPECT_EQ(method_->test_and_add(shape_, &counters_, bytes_.data(), &hash, 1, &seen), 1u);
    EXPECT_LE(seen, 1);
    return seen != 0;
  }
  // How many were taken: where a filter can be full.
  size_t Try(const uint64_t* hashes, size_t n, uint8_t* seen) {
    for (size_t done = 0; done < n;) {
      if (Room() == 0 && !Contains(hashes[done])) GrowFor(counters_.count + 1);
      const size_t some = std::min<uint64_t>(n - done, std::max<uint64_t>(Room(), 1));
      const size_t taken = method_->test_and_add(shape_, &counters_, bytes_.data(), hashes + done,
                                                 some, seen == nullptr ? nullptr : seen + done);
      done += taken;
      if (taken < some) return done;
    }
    return n;
  }
  size_t TryInsert(const uint64_t* hashes, size_t n) {
    for (size_t done = 0; done < n;) {
      if (Room() == 0) GrowFor(counters_.count + 1);
      const size_t some = std::min<uint64_t>(n - done, Room());
      const size_t taken = method_->insert(shape_, &counters_, bytes_.data(), hashes + done, some);
      done += taken;
      if (taken < some) return done;
    }
    return n;
  }
  void TestAndAdd(const uint64_t* hashes, size_t n, uint8_t* seen) {
    EXPECT_EQ(Try(hashes, n, seen), n);
  }
  bool Contains(uint64_t hash) const {
    uint8_t seen = 2;
    method_->contains(shape_, counters_, bytes_.data(), &hash, 1, &seen);
    EXPECT_LE(seen, 1);
    return seen != 0;
  }
  void Contains(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    method_->contains(shape_, counters_, bytes_.data(), hashes, n, seen);
  }
  void Insert(uint64_t hash) { Insert(&hash, 1); }
  void Insert(const uint64_t* hashes, size_t n) { EXPECT_EQ(TryInsert(hashes, n), n); }
  void Merge(const Body& other, const Weights& weights = {}) {
    if (method_->growth != nullptr) {
      // The smaller one into the larger one.
      Body smaller(other);
      if (smaller.bytes().size() > bytes_.size()) std::swap(*this, smaller);
      GrowFor(method_->growth->union_keys(shape_, counters_, bytes_.data(), smaller.counters_,
                                          smaller.bytes_.data()));
      EXPECT_TRUE(method_->merge(shape_, &counters_, bytes_.data(), smaller.counters_,
                                 smaller.bytes_.data(), weights));
      return;
    }
    EXPECT_TRUE(method_->merge(shape_, &counters_, bytes_.data(), other.counters_,
                               other.bytes_.data(), weights));
  }
  bool Forget(uint64_t hash) { return method_->forget(shape_, &counters_, bytes_.data(), hash); }
  Reading Read() const { return method_->read(shape_, counters_, bytes_.data()); }
  void Clear() {
    counters_ = FirstCounters(shape_);
    if (bytes_.size() != FirstBytes(shape_)) bytes_ = Bytes(FirstBytes(shape_));
    std::memset(bytes_.data(), 0, bytes_.size());
  }
  // Of one that grows: to the size for so many keys, if that is more.
  void GrowFor(uint64_t keys) {
    const uint32_t bytes = method_->growth->bytes_for(shape_, keys);
    if (bytes <= bytes_.size()) return;
    Bytes grown(bytes);
    std::memset(grown.data(), 0xa5, bytes);
    Counters counters;
    method_->growth->grow(shape_, counters_, bytes_.data(), bytes, &counters, grown.data());
    counters_ = counters;
    bytes_ = std::move(grown);
  }

 private:
  // How many keys it takes before it has to grow.
  uint64_t Room() const {
    if (method_->growth == nullptr) return ~uint64_t{0};
    const uint64_t limit = method_->growth->limit(shape_, counters_);
    return limit > counters_.count ? limit - counters_.count : 0;
  }

  const Method* method_;
  Shape shape_;
  Counters counters_;
  Bytes bytes_;
};

// Whether a key never seen may be called a duplicate by a throw of the dice, though asking
// for it says no: not even the first key is safe from that.
inline bool AnswersAtRandom(const Variant& variant) {
  const Shape shape = PlanMemory(*variant.method, 1 << 20, 0.3, variant.options);
  Body body(shape);
  uint64_t seen = 0;
  for (uint64_t key = 0; key < 100; ++key) {
    const uint64_t hash = HashOf(key);
    const bool before = body.Contains(hash);
    seen += body.TestAndAdd(hash) && !before;
  }
  return seen > 0;
}

// Share of `probes` keys that never came, of that many hashes, which are found.
inline double FreshRate(const Body& body, uint64_t probes, uint64_t seed) {
  std::vector<uint64_t> hashes(probes);
  for (uint64_t i = 0; i < probes; ++i) hashes[i] = HashOf((uint64_t{1} << 40) + i, seed);
  std::vector<uint8_t> seen(probes);
  body.Contains(hashes.data(), probes, seen.data());
  uint64_t found = 0;
  for (uint8_t each : seen) found += each;
  return static_cast<double>(found) / static_cast<double>(probes);
}

// Standard error of a rate measured with so many probes.
inline double StandardError(double rate, uint64_t probes) {
  return std::sqrt(rate * (1 - rate) / static_cast<double>(probes));
}

// For methods whose insert is their test-and-add: 20 windows of keys out of `alphabet`
// different ones, in batches of all sizes, with and without answers, leave and answer what
// the keys one by one do.
inline void ExpectBatchesAreSingles(const Shape& shape, uint64_t alphabet, uint64_t seed) {
  Random random(seed);
  std::vector<uint64_t> hashes(20 * shape.keys);
  for (uint64_t& hash : hashes) hash = HashOf(random.Below(alphabet));
  Body one(shape), many(shape), inserted(shape);
  std::vector<uint8_t> expected, seen(hashes.size());
  for (uint64_t hash : hashes) expected.push_back(one.TestAndAdd(hash));
  for (size_t i = 0; i < hashes.size();) {
    const size_t n = std::min<size_t>(hashes.size() - i, 1 + random.Below(100));
    many.TestAndAdd(&hashes[i], n, &seen[i]);
    i += n;
  }
  inserted.Insert(hashes.data(), hashes.size());
  EXPECT_EQ(seen, expected);
  for (const Body* other : {&many, &inserted}) {
    EXPECT_EQ(other->bytes(), one.bytes());
    EXPECT_EQ(other->counters().count, one.counters().count);
    EXPECT_EQ(other->counters().state, one.counters().state);
  }
  many.Contains(hashes.data(), hashes.size(), seen.data());
  for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(seen[i], one.Contains(hashes[i]));
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_BODY_HPP_
