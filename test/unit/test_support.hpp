// What the unit tests share: random numbers, exactly sized memory, filters that
// are filled the way filter.hpp says, and an exact twin of a window.

#ifndef STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_
#define STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/merge.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"

namespace dedup::test {

// In sanitizer builds the statistics run with fewer keys: the promises are
// tested all the same, with wider error bars.
#ifdef DEDUP_TEST_THIN
inline constexpr uint64_t kThin = 5;
#else
inline constexpr uint64_t kThin = 1;
#endif

// SplitMix64, as the expected values in recent_test.cpp define it.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return Mix(state_);
  }
  uint64_t Below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * n) >> 64);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  static uint64_t Mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

 private:
  uint64_t state_;
};

// A key's hash: a bijection for each seed, so distinct keys have distinct hashes.
inline uint64_t HashOf(uint64_t key, uint64_t seed = 0) {
  return Random::Mix(Random::Mix(key ^ 0x2545f4914f6cdd1du) + Random::Mix(seed + 77));
}

// A heap block of exactly so many bytes: the address sanitizer sees the first
// byte that is read or written beyond it.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(size_t size) : data_(new uint8_t[size]()), size_(size) {}
  Bytes(const uint8_t* from, size_t size) : Bytes(size) {
    if (size > 0) std::memcpy(data_.get(), from, size);
  }
  Bytes(const Bytes& other) : Bytes(other.data(), other.size()) {}
  Bytes(Bytes&&) = default;
  Bytes& operator=(Bytes other) {
    data_ = std::move(other.data_);
    size_ = other.size_;
    return *this;
  }
  uint8_t* data() { return data_.get(); }
  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }
  uint8_t& operator[](size_t i) { return data_[i]; }
  uint8_t operator[](size_t i) const { return data_[i]; }
  bool operator==(const Bytes& other) const {
    return size_ == other.size_ && (size_ == 0 || std::memcmp(data(), other.data(), size_) == 0);
  }
  Bytes Prefix(size_t size) const { return Bytes(data(), size); }

 private:
  std::unique_ptr<uint8_t[]> data_;
  size_t size_ = 0;
};

inline const Method& Named(const std::string& name) {
  const Method* method = MethodByName(name.data(), name.size());
  if (method == nullptr) {
    ADD_FAILURE() << "no method " << name;
    return *kMethods[0];
  }
  return *method;
}

// The option text of a request; tests that are about options do not use it.
inline Options OptionsFrom(const Method& method, const std::string& text) {
  Options options;
  const OptionError error = ParseOptions(method, text.data(), text.size(), &options);
  EXPECT_EQ(error.status, OptionStatus::kOk) << text;
  return options;
}

inline Shape PlanKeys(const Method& method, uint64_t keys, double fpr,
                      const std::string& options = "", uint64_t seed = 0) {
  Request request;
  request.keys = keys;
  request.fpr = fpr;
  request.options = OptionsFrom(method, options);
  Shape shape;
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " keys=" << keys << " fpr=" << fpr << " " << options;
  return shape;
}

inline Shape PlanMemory(const Method& method, uint64_t memory, double fpr,
                        const std::string& options = "", uint64_t seed = 0) {
  Request request;
  request.memory = memory;
  request.fpr = fpr;
  request.options = OptionsFrom(method, options);
  Shape shape;
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " memory=" << memory << " fpr=" << fpr << " " << options;
  return shape;
}

// The least memory with which a filter of this method defers keys.
inline uint64_t DeferringMemory(const Method& method) {
  return (kDeferFromBytes + method.granule - 1) / method.granule * method.granule;
}

inline std::string NameOf(const Shape& shape) {
  const Method& method = *MethodByCode(shape.method);
  char sized[100], text[200];
  std::snprintf(sized, sizeof sized, " keys=%llu fpr=%g ",
                static_cast<unsigned long long>(shape.keys), shape.fpr);
  method.describe(shape, text, sizeof text);
  return std::string(method.name) + sized + text;
}

// A method's body on its own, from its first key on: what a filter is after the
// exact form, even where the exact form would still hold.
class Body {
 public:
  explicit Body(const Shape& shape)
      : method_(MethodByCode(shape.method)), shape_(shape), bytes_(shape.bytes) {}

  const Shape& shape() const { return shape_; }
  const Counters& counters() const { return counters_; }
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
    return method_->test_and_add(shape_, &counters_, bytes_.data(), hashes, n, seen);
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
  void Insert(const uint64_t* hashes, size_t n) {
    EXPECT_EQ(method_->insert(shape_, &counters_, bytes_.data(), hashes, n), n);
  }
  void Merge(const Body& other, const Weights& weights = {}) {
    EXPECT_TRUE(method_->merge(shape_, &counters_, bytes_.data(), other.counters_,
                               other.bytes_.data(), weights));
  }
  bool Forget(uint64_t hash) { return method_->forget(shape_, &counters_, bytes_.data(), hash); }
  Reading Read() const { return method_->read(shape_, counters_, bytes_.data()); }
  void Clear() {
    counters_ = Counters{};
    std::memset(bytes_.data(), 0, bytes_.size());
  }

 private:
  const Method* method_;
  Shape shape_;
  Counters counters_;
  Bytes bytes_;
};

// A filter in memory: an image in any form, and its header.
class Filter {
 public:
  explicit Filter(const Shape& shape) : image_(kHeaderBytes) {
    WriteEmpty(shape, image_.data());
    Recheck();
  }
  // From stored bytes, which must be accepted.
  explicit Filter(Bytes stored) : image_(std::move(stored)) {
    EXPECT_EQ(dedup::Validate(image_.data(), image_.size(), &header_), Flaw::kNone);
  }

  const Header& header() const { return header_; }
  const Bytes& image() const { return image_; }
  bool exact() const { return header_.exact(); }

  // Ends the exact form at other than its usual number of hashes.
  void SetLimit(uint64_t limit) { limit_ = limit; }

  // Test-and-add through the working forms; says whether the key was seen.
  bool Add(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    Settle();
    switch (TestAndAdd(image_.data(), &header_, hash)) {
      case Outcome::kNew:
        return false;
      case Outcome::kSeen:
        return true;
      case Outcome::kNoRoom:
        break;
      case Outcome::kFull:
        ADD_FAILURE() << "full: " << NameOf(header_.shape);
        return false;
    }
    MakeRoom();
    EXPECT_TRUE(AddNew(image_.data(), &header_, hash));
    return false;
  }

  // The same where nobody waits for the answer: large filters take such keys in
  // batches, and every other call here puts them where they belong first.
  void AddDeferred(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    if (Defer(image_.data(), &header_, hash) == Outcome::kNoRoom) Add(hash);
  }
  void Settle() { EXPECT_TRUE(dedup::Settle(image_.data(), &header_)); }

  // One key into a value: the whole image is written anew.
  void AddValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(AddToBytes(header_));
    const size_t size = AddTo(image_.data(), header_, hash, out.data());
    ASSERT_LE(size, out.size());
    ASSERT_GT(size, 0u);
    Seal(out.data(), size);
    image_ = out.Prefix(size);
    Revalidate();
  }

  // One key out of a value. False: it is not there.
  bool ForgetValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(ForgetBytes(header_));
    const size_t size = ForgetFrom(image_.data(), header_, hash, out.data());
    if (size == 0) return false;
    Seal(out.data(), size);
    image_ = out.Prefix(size);
    Revalidate();
    return true;
  }

  bool Contains(uint64_t hash) const { return dedup::Contains(image_.data(), header_, hash); }
  Reading Read() const { return dedup::Read(image_.data(), header_); }

  Bytes Canonical() const {
    Bytes out(CanonicalBytes(header_));
    WriteCanonical(image_.data(), header_, out.data());
    return out;
  }

  void MakeCanonical() {
    if (header_.canonical()) return;
    image_ = Canonical();
    Revalidate();
  }

  // To the working form that holds what the filter holds.
  void MakeWorkingForm() {
    if (header_.canonical()) MakeRoom();
  }

  // The merge with another, as a new canonical filter.
  Filter MergedWith(const Filter& other) const {
    const uint64_t limit = header_.exact_limit();
    const MergeBytes needs = MergeNeeds(header_, other.header_, limit);
    Bytes out(needs.out), scratch(needs.scratch);
    const size_t size = MergeTo(image_.data(), header_, other.image_.data(), other.header_, limit,
                                out.data(), scratch.data());
    EXPECT_LE(size, out.size());
    Seal(out.data(), size);
    return Filter(out.Prefix(size));
  }

  // Adds a key of another filter, as a merge does that takes keys one by one.
  void AddTakenOver(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    Settle();
    if (TakeOver(image_.data(), &header_, hash) != Outcome::kNoRoom) return;
    MakeRoom();
    EXPECT_TRUE(AddNew(image_.data(), &header_, hash));
  }

  // Notes how many filters were merged into this one, which must be a working form.
  void SetParts(uint32_t parts) { dedup::SetParts(image_.data(), &header_, parts); }

  // Merges in place where that is possible.
  bool MergeInPlaceWith(const Filter& other) {
    return MergeInPlace(image_.data(), &header_, other.image_.data(), other.header_) ==
           Outcome::kNew;
  }

 private:
  void MakeRoom() {
    const uint64_t limit = limit_ == 0 ? header_.exact_limit() : limit_;
    const Step step = header_.canonical() ? FirstStep(header_, limit) : NextStep(header_, limit);
    Bytes grown(StepBytes(header_, step));
    EXPECT_TRUE(MakeWorking(image_.data(), header_, step, grown.data()));
    image_ = std::move(grown);
    Recheck();
  }
  void Recheck() { ASSERT_EQ(dedup::Check(image_.data(), image_.size(), &header_), Flaw::kNone); }
  void Revalidate() {
    ASSERT_EQ(dedup::Validate(image_.data(), image_.size(), &header_), Flaw::kNone);
  }

  Bytes image_;
  Header header_ = {};
  uint64_t limit_ = 0;
};

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

#endif  // STREAMDEDUP_TEST_UNIT_TEST_SUPPORT_HPP_
