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
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/merge.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"

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

// A request for so many keys, or so much memory. Methods whose filters grow are given neither.
inline Request RequestOf(const Method& method, uint64_t keys, uint64_t memory, double fpr,
                         const std::string& options) {
  Request request;
  if (method.growth == nullptr) {
    request.keys = keys;
    request.memory = memory;
  }
  request.fpr = fpr;
  request.options = OptionsFrom(method, options);
  return request;
}

// Of methods that only count: of so many bytes, which the exact hashes of an eighth of the
// keys fill. Of others without a rate: of the least memory whose exact form holds so many.
inline Shape PlanKeys(const Method& method, uint64_t keys, double fpr,
                      const std::string& options = "", uint64_t seed = 0) {
  Request request;
  request.options = OptionsFrom(method, options);
  Shape shape;
  if (method.counts()) {
    const uint64_t entry = EntryBytes(method.counts());
    request.memory = entry * keys;
    while (PlanFilter(method, request, seed, &shape) != PlanStatus::kOk ||
           shape.bytes < entry * keys) {
      ++request.memory;
    }
    return shape;
  }
  request = method.has_rate()
                ? RequestOf(method, keys, 0, fpr, options)
                : RequestOf(method, 0, std::max<uint64_t>(keys, method.granule), fpr, options);
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " keys=" << keys << " fpr=" << fpr << " " << options;
  return shape;
}

inline Shape PlanMemory(const Method& method, uint64_t memory, double fpr,
                        const std::string& options = "", uint64_t seed = 0) {
  const Request request = RequestOf(method, 0, memory, fpr, options);
  Shape shape;
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " memory=" << memory << " fpr=" << fpr << " " << options;
  return shape;
}

// ---- all methods ---------------------------------------------------------------
//
// Tests that are about every method go over these, and what they ask of one depends
// on what it says of itself, never on its name.

// A method with options. `name` is one for a test.
struct Variant {
  const Method* method;
  std::string options;
  std::string name;
};
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

// Every method with every choice of its switches, words and numbers of eight, as far as
// they go together. Other numbers follow from the rate.
inline std::vector<Variant> AllVariants() {
  std::vector<Variant> all;
  for (const Method* method : kMethods) {
    std::vector<Variant> variants = {{method, "", method->name}};
    for (int i = method->own_options(); i < method->option_count; ++i) {
      const OptionSpec& spec = method->options[i];
      std::vector<std::string> values;
      if (spec.kind == OptionKind::kOnOff) {
        values = {"on"};
      } else if (spec.kind == OptionKind::kMultipleOf8) {
        values = {std::to_string(static_cast<int>(spec.max))};
      } else if (spec.kind == OptionKind::kWord) {
        std::string word;
        for (const char* c = spec.words;; ++c) {
          if (*c != '|' && *c != '\0') {
            word += *c;
            continue;
          }
          values.push_back(word);
          word.clear();
          if (*c == '\0') break;
        }
      }
      const size_t others = variants.size();
      for (const std::string& value : values) {
        for (size_t other = 0; other < others; ++other) {
          Variant variant = variants[other];
          if (!variant.options.empty()) variant.options += ' ';
          variant.options.append(spec.name).append("=").append(value);
          variant.name.append("_").append(spec.name).append("_").append(value);
          variants.push_back(variant);
        }
      }
    }
    for (const Variant& variant : variants) {
      const Request request = RequestOf(*method, 0, 1 << 20, 0.01, variant.options);
      Shape shape;
      if (PlanFilter(*method, request, 0, &shape) != PlanStatus::kConflict) all.push_back(variant);
    }
  }
  return all;
}

// Those that tell of membership, at a rate and up to a number of keys.
inline std::vector<Variant> MembershipVariants() {
  std::vector<Variant> all = AllVariants();
  std::erase_if(all, [](const Variant& variant) { return !variant.method->has_rate(); });
  return all;
}
inline std::vector<const Method*> MembershipMethods() {
  std::vector<const Method*> all(kMethods, kMethods + kMethodCount);
  std::erase_if(all, [](const Method* method) { return !method->has_rate(); });
  return all;
}

// Those of which the filters have a size, by keys or by memory.
inline std::vector<Variant> SizedVariants() {
  std::vector<Variant> all = MembershipVariants();
  std::erase_if(all, [](const Variant& variant) { return variant.method->growth != nullptr; });
  return all;
}

// Names for parametrised tests: ::testing::ValuesIn(AllVariants()), VariantName.
inline std::string VariantName(const ::testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

// The shape for so much memory, or none.
inline std::optional<Shape> TryMemory(const Method& method, uint64_t memory, double fpr,
                                      const std::string& options = "", uint64_t seed = 0) {
  const Request request = RequestOf(method, 0, memory, fpr, options);
  Shape shape;
  if (PlanFilter(method, request, seed, &shape) != PlanStatus::kOk) return std::nullopt;
  return shape;
}

// The shape for so much memory, or for twice that where its body would else be smaller.
inline Shape PlanBody(const Method& method, uint64_t bytes, double fpr,
                      const std::string& options = "") {
  const Shape shape = PlanMemory(method, bytes, fpr, options);
  return shape.bytes >= bytes - method.granule ? shape
                                               : PlanMemory(method, 2 * bytes, fpr, options);
}

// Whether filters of this method can have this rate: not all cells, or counters, or
// numbers of rows can do all. Those that can, can at every size (PlanKeys()).
inline bool HasRate(const Variant& variant, double fpr) {
  return TryMemory(*variant.method, 64 << 20, fpr, variant.options).has_value();
}

// The least and the most memory by which a filter can be sized: these are its body's
// bytes, but where the method's papers do not count all that it keeps.
inline uint64_t LeastMemory(const Method& method, double fpr, const std::string& options = "") {
  uint64_t low = 0, high = 64 << 20;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (TryMemory(method, middle, fpr, options).has_value() ? high : low) = middle;
  }
  return high;
}
inline uint64_t MostMemory(const Method& method, double fpr, const std::string& options = "") {
  uint64_t low = 1 << 20, high = kMaxBodyBytes + 1;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (TryMemory(method, middle, fpr, options).has_value() ? low : high) = middle;
  }
  return low;
}

// Whether the method's bytes are the memory that was asked for, all of it.
inline bool CountsAllBytes(const Method& method) {
  return TryMemory(method, 1 << 20, 0.01)->bytes <= 1 << 20;
}

inline bool IsWindow(const Method& method, const Shape& shape) {
  const Remembers remembers = method.remembers(shape);
  return remembers == Remembers::kLastSeen || remembers == Remembers::kFirstSeen;
}

// Whether the rate is kept however many keys come: not by all that evict by chance, of which
// some have a rate of their own that their parameters only come near to.
inline bool KeepsItsRate(const Method& method, const Shape& shape) {
  return method.remembers(shape) != Remembers::kByChance ||
         method.expected_fpr(shape, 100 * static_cast<double>(shape.keys)) <=
             shape.fpr * (1 + 1e-9);
}

// Whether a key that was just added is surely there: random choices may have given up
// even that one.
inline bool HoldsTheLast(const Method& method, const Shape& shape) {
  return method.remembers(shape) != Remembers::kByChance;
}

// The least memory with which a filter of this method defers keys.
inline uint64_t DeferringMemory(const Method& method) {
  uint64_t memory = (kDeferFromBytes + method.granule - 1) / method.granule * method.granule;
  // Not all bodies take all of the memory.
  while (TryMemory(method, memory, 0.01)->bytes < kDeferFromBytes) {
    memory += method.counts() ? method.granule : memory;
  }
  return memory;
}

// The rule of the exact form, written out: as many hashes of 8 bytes, each with 8 bytes of
// a count where every sight counts, as the body has bytes for, and of a buffer of hashes no
// more than it has entries. A filter that grows says how many.
inline uint64_t MostExact(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  if (growth != nullptr) return growth->exact_hashes;
  const uint64_t fits = shape.bytes / (MethodByCode(shape.method)->counts() ? 16 : 8);
  return MethodByCode(shape.method)->exact_to_keys ? std::min(fits, shape.keys) : fits;
}

// No fewer hashes than an exact filter has: one more makes a full one of it.
inline uint64_t HashesInBody(const Shape& shape) {
  return MethodByCode(shape.method)->growth != nullptr ? MostExact(shape) : shape.bytes / 8;
}

// The same where a full one is to be so large that it defers keys, which one that grows is
// later.
inline uint64_t HashesToDefer(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  uint64_t keys = HashesInBody(shape);
  while (growth != nullptr && growth->bytes_for(shape, keys) < kDeferFromBytes) keys += keys / 8;
  return keys;
}

// The bytes of a body, all of them.
inline uint32_t BodyBytesOf(const Shape& shape, const Counters& counters) {
  const Method& method = *MethodByCode(shape.method);
  return method.growth != nullptr ? method.used_bytes(shape, counters) : shape.bytes;
}
// The counters of an empty body that is so large that it defers keys.
inline Counters DeferringCounters(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  if (growth == nullptr) return {};
  return growth->start(growth->bytes_for(shape, HashesToDefer(shape)));
}

// What the first body of a filter has.
inline uint32_t FirstBytes(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  return growth != nullptr ? growth->bytes_for(shape, growth->exact_hashes + 1) : shape.bytes;
}
inline Counters FirstCounters(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  return growth != nullptr ? growth->start(FirstBytes(shape)) : Counters{};
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
        return Refuse();
    }
    if (!Grow(hash)) Refuse();
    return false;
  }

  // How many keys found no room. Only filters that say "all" of what they remember
  // refuse keys.
  uint64_t refused() const { return refused_; }

  // The same where nobody waits for the answer: large filters take such keys in
  // batches, and every other call here puts them where they belong first.
  void AddDeferred(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    const Outcome outcome = Defer(image_.data(), &header_, hash);
    if (outcome == Outcome::kNoRoom) Add(hash);
    if (outcome == Outcome::kFull) Refuse();
  }
  void Settle() {
    if (!dedup::Settle(image_.data(), &header_)) Refuse();
  }

  // One key into a value: the whole image is written anew.
  void AddValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(AddToBytes(header_));
    const size_t size = AddTo(image_.data(), header_, hash, out.data());
    ASSERT_LE(size, out.size());
    if (size == 0) {
      Refuse();
      return;
    }
    Seal(out.data(), size);
    image_ = out.Prefix(size);
    Revalidate();
  }

  // One key out of a value. False: it is not there.
  bool ForgetValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(ForgetBytes(header_));
    const size_t size = ForgetFrom(image_.data(), header_, hash, out.data());
    EXPECT_LE(size, out.size());
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

  // The merge with another, as a new canonical filter; none if it would be full.
  std::optional<Filter> TryMerge(const Filter& other) const {
    const uint64_t limit = header_.exact_limit();
    const MergeBytes needs = MergeNeeds(header_, other.header_, limit);
    Bytes out(needs.out), scratch(needs.scratch);
    const size_t size = MergeTo(image_.data(), header_, other.image_.data(), other.header_, limit,
                                out.data(), scratch.data());
    EXPECT_LE(size, out.size());
    if (size == 0) {
      EXPECT_FALSE(header_.method->forgets(header_.shape)) << NameOf(header_.shape);
      return std::nullopt;
    }
    Seal(out.data(), size);
    return Filter(out.Prefix(size));
  }
  Filter MergedWith(const Filter& other) const {
    std::optional<Filter> merged = TryMerge(other);
    EXPECT_TRUE(merged.has_value()) << "full: " << NameOf(header_.shape);
    return merged.has_value() ? *merged : *this;
  }

  // Adds a key of another filter, as a merge does that takes keys one by one; where every
  // sight counts, so many sights of it.
  void AddTakenOver(uint64_t hash, uint64_t count = 1) {
    if (header_.canonical()) MakeRoom();
    Settle();
    const Outcome outcome = TakeOver(image_.data(), &header_, hash, count);
    if (outcome == Outcome::kFull) Refuse();
    if (outcome == Outcome::kNoRoom && !Grow(hash, count)) Refuse();
  }

  // Notes how many filters were merged into this one, which must be a working form.
  void SetParts(uint32_t parts) { dedup::SetParts(image_.data(), &header_, parts); }

  // Merges in place where that is possible.
  bool MergeInPlaceWith(const Filter& other) { return TryMergeInPlace(other) == Outcome::kNew; }
  Outcome TryMergeInPlace(const Filter& other) {
    return MergeInPlace(image_.data(), &header_, other.image_.data(), other.header_);
  }

 private:
  bool Refuse() {
    EXPECT_FALSE(header_.method->forgets(header_.shape)) << "full: " << NameOf(header_.shape);
    ++refused_;
    return false;
  }
  void MakeRoom() { EXPECT_TRUE(Grow()) << "full: " << NameOf(header_.shape); }
  // To the next working form, with one more key if one is given. False, with nothing
  // changed: the method cannot hold it.
  bool Grow(std::optional<uint64_t> hash = std::nullopt, uint64_t count = 1) {
    const uint64_t limit = limit_ == 0 ? header_.exact_limit() : limit_;
    const Step step = header_.canonical() ? FirstStep(header_, limit) : NextStep(header_, limit);
    Bytes grown(StepBytes(header_, step));
    if (!MakeWorking(image_.data(), header_, step, grown.data())) return false;
    Header header = {};
    EXPECT_EQ(dedup::Check(grown.data(), grown.size(), &header), Flaw::kNone);
    if (hash.has_value() && !AddNew(grown.data(), &header, *hash, count)) return false;
    image_ = std::move(grown);
    Recheck();
    return true;
  }
  void Recheck() { ASSERT_EQ(dedup::Check(image_.data(), image_.size(), &header_), Flaw::kNone); }
  void Revalidate() {
    ASSERT_EQ(dedup::Validate(image_.data(), image_.size(), &header_), Flaw::kNone);
  }

  Bytes image_;
  Header header_ = {};
  uint64_t limit_ = 0;
  uint64_t refused_ = 0;
};

// Whether two filters that took the same keys are the same. Of those that grow the bytes depend
// on the order in which exact hashes were replayed, but not what they hold.
inline bool Same(const Filter& a, const Filter& b) {
  if (a.header().method->growth == nullptr || a.exact() || b.exact()) {
    return a.Canonical() == b.Canonical();
  }
  return a.header().counters.count == b.header().counters.count &&
         a.header().counters.state == b.header().counters.state && a.Read().fpr == b.Read().fpr;
}

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
