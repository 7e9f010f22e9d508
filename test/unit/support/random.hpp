// What all unit tests use: how many samples they take, random numbers, hashes of keys, and
// memory of exact size.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_RANDOM_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_RANDOM_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

namespace dedup::test {

// The quick run and the sanitizer builds divide the number of samples of a statistical
// test by kThin. The tolerance of each test follows from its number of samples.
// test/check.sh thorough runs the unit tests with kThin = 1.
#ifdef DEDUP_TEST_THIN
inline constexpr uint64_t kThin = 5;
#else
inline constexpr uint64_t kThin = 1;
#endif

// The quick run divides the number of trials of some long tests by kQuick, with and without
// the sanitizers. The thorough run has kQuick = 1, also with the sanitizers.
#ifdef DEDUP_TEST_QUICK
inline constexpr uint64_t kQuick = 5;
#else
inline constexpr uint64_t kQuick = 1;
#endif

#ifdef DEDUP_TEST_SANITIZE
inline constexpr bool kSanitize = true;
#else
inline constexpr bool kSanitize = false;
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

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_RANDOM_HPP_
