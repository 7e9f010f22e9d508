// The interface of a method: functions over a parameter block and a span of bytes. registry.hpp
// lists the methods; no other file lists them.
//
// A method owns no memory. Its state is its body of `Shape::bytes` bytes, which the caller owns,
// and two scalars (Counters), which are in the filter's header. A zeroed body with zeroed counters
// is an empty filter. Every function must be memory-safe for any bytes in the body, and for
// counters that Valid() accepts.

#ifndef STREAMDEDUP_CORE_METHOD_HPP_
#define STREAMDEDUP_CORE_METHOD_HPP_

#include <cstddef>
#include <cstdint>

namespace dedup {

inline constexpr uint64_t kMaxBodyBytes = uint64_t{512} << 20;  // 512 MiB
inline constexpr double kMinFpr = 1e-9;
inline constexpr double kMaxFpr = 0.5;
inline constexpr uint64_t kMaxKeys = uint64_t{1} << 40;

// The numbers of the key hash functions in stored filters. Numbers are never reused.
inline constexpr uint8_t kXxh3Hash = 0;  // XXH3 with a seed: the fastest
inline constexpr uint8_t kSipHash = 1;   // SipHash-2-4: for keys that an attacker may choose
inline constexpr uint8_t kHashCount = 2;
inline constexpr const char* kHashNames[kHashCount] = {"xxh3", "sip"};

// A filter's parameters, fixed when the filter is made. Two filters of equal shape can be merged if
// the method can merge.
struct Shape {
  uint8_t method = 0;  // Method::code
  uint32_t bytes = 0;  // size of the body, at most kMaxBodyBytes
  uint64_t seed = 0;   // of the key hash
  uint64_t keys = 0;   // capacity or window, in distinct keys; 0 for methods without a rate
  // the requested false-positive rate at `keys` keys; 0 for methods without a rate
  double fpr = 0;
  uint64_t detail = 0;  // the method's own: k, fingerprint bits, flags ...
  uint8_t hash = 0;     // of the keys: kXxh3Hash or kSipHash

  bool operator==(const Shape&) const = default;
};

// The two scalars of a filter's state that are outside its body.
struct Counters {
  uint64_t count = 0;  // its meaning depends on the method
  uint32_t state = 0;  // for the method's own use
};

// ---- options --------------------------------------------------------------

// One option of dedup_method(). Values are numbers: on is 1, off is 0, and a word is its place in
// the list of words.
enum class OptionKind : uint8_t { kReal, kWhole, kMultipleOf8, kOnOff, kWord };

struct OptionSpec {
  const char* name;
  OptionKind kind;
  double min;
  double max;
  const char* words = nullptr;  // for kWord: "published|text"
};

inline constexpr int kMaxOptions = 8;

struct Options {
  double value[kMaxOptions] = {};
  bool given[kMaxOptions] = {};
  // the value of kHashOption, which every method has beside its own options
  double hash = kXxh3Hash;
  bool hash_given = false;
};

// The first two options of every method that has a rate. They determine its size.
inline constexpr OptionSpec kFprOption = {"fpr", OptionKind::kReal, kMinFpr, kMaxFpr};
inline constexpr OptionSpec kKeysOption = {"keys", OptionKind::kWhole, 1,
                                           static_cast<double>(kMaxKeys)};
// Every method has this option too: the hash function of the keys.
inline constexpr OptionSpec kHashOption = {"hash", OptionKind::kWord, 0, kHashCount - 1,
                                           "xxh3|sip"};
inline constexpr int kFpr = 0;
inline constexpr int kKeys = 1;

// Sizes a filter: for `keys` keys, or, if `keys` is 0, for as many keys as fit into `memory` bytes.
// Methods without a rate are sized by memory or by their own options.
struct Request {
  uint64_t keys = 0;
  uint64_t memory = 0;
  double fpr = 0.01;
  Options options;
};

enum class PlanStatus {
  kOk,
  kTooLarge,        // the body would exceed kMaxBodyBytes
  kMemoryTooSmall,  // there is no room for one line or block, or for one key at the rate
  kConflict,        // two options exclude each other: see Method::conflict
  kNoSize,          // method without a rate: there is neither memory nor an option for the size
  kTwoSizes,        // method without a rate: there are both
};

// ---- properties of a method and of a filter ----------------------------------

// The keys that a filter still knows after more keys came than it can hold.
enum class Remembers : uint8_t {
  kAll,        // every key; the rate rises, or the filter takes no more keys
  kLastSeen,   // a window: a key counts from its last sight
  kFirstSeen,  // a window: a key counts from its first sight
  kByChance,   // the keys that random evictions have left
};

// The question that a filter answers for a key. All filters count distinct keys. Only kMembership
// has a rate of wrong answers, and a number of keys up to which that rate holds.
enum class Answers : uint8_t {
  kMembership,  // whether the key was seen
  kNothing,     // a sketch that only counts
  kFrequency,   // how often the key was seen
};

// The order in which the exact form of a filter keeps its hashes. Each hash has its count, if the
// method counts.
enum class ExactOrder : uint8_t {
  kSorted,      // by value: the method's state does not depend on order
  kFirstSight,  // oldest first sight first
  kLastSight,   // longest unseen first
};

struct Weights {
  uint32_t left = 1;
  uint32_t right = 1;
};

// The upper limit of counts, the largest value of a bigint.
inline constexpr uint64_t kMaxCount = ~uint64_t{0} >> 1;

inline constexpr uint64_t SumOfCounts(uint64_t a, uint64_t b) noexcept {
  return a >= kMaxCount || b > kMaxCount - a ? kMaxCount : a + b;
}

// How often a key was seen.
struct Frequency {
  uint64_t count = 0;
  bool at_least = false;  // a counter was at its limit, so the true count may be larger
};

// The state of a filter, estimated from its bits.
struct Reading {
  double count = 0;  // estimated number of distinct keys
  double fpr = 0;    // the rate at which a new key is reported as a duplicate now
};

// The most hashes in the exact form of a filter that grows.
inline constexpr uint64_t kMostExactOfGrowing = 512;

// The functions of a method whose filters are made without a number of keys, and whose body grows.
// Their Shape::keys is 0, and Shape::bytes is kMaxBodyBytes. A body never refuses a key. When it
// has limit() keys, the owner of its memory makes a larger body with grow(), so that the rate is
// kept. The largest body, which holds most_keys() at the rate, has no limit.
struct Growth {
  uint64_t exact_hashes;  // the most hashes of the exact form, at most kMostExactOfGrowing
  uint64_t (*most_keys)(const Shape&) noexcept;
  // Returns the size of the smallest body that takes this many keys. If no body does, returns the
  // size of the largest body.
  uint32_t (*bytes_for)(const Shape&, uint64_t keys) noexcept;
  // Returns the counters of an empty body of one of these sizes.
  Counters (*start)(uint32_t bytes) noexcept;
  uint64_t (*limit)(const Shape&, const Counters&) noexcept;
  // Writes a body of more bytes with the same keys.
  void (*grow)(const Shape&, const Counters&, const uint8_t* body, uint32_t bytes, Counters* grown,
               uint8_t* out) noexcept;
  // Returns the approximate number of keys of a merge.
  uint64_t (*union_keys)(const Shape&, const Counters&, const uint8_t* body,
                         const Counters& other_counters, const uint8_t* other) noexcept;
  // Returns the approximate number of keys that a body and a state of the same rate have together.
  // It is estimated from a part of the state. If keys were chosen for it, the estimate may be far
  // off.
  uint64_t (*keys_with_state)(const Shape&, const Counters&, const uint8_t* body,
                              const Shape& state_shape, const Counters& state_counters,
                              const uint8_t* state) noexcept;
  // Adds the keys of a state to a body of the plain shape, which may exceed limit() afterwards.
  // Returns how many of these keys found no place of their own. There are few, unless the body is
  // too small.
  uint64_t (*take_state)(const Shape&, Counters*, uint8_t* body, const Shape& state_shape,
                         const Counters& state_counters, const uint8_t* state) noexcept;
  // Returns the shape of the states of partial aggregates. kStatesMerged of them may be merged
  // before the requested rate is exceeded. Method::reduce and take_state turn states into filters
  // of the plain shape.
  Shape (*state_shape)(const Shape&) noexcept;
};

struct Method {
  const char* name;
  uint8_t code;  // in stored filters; codes are never reused
  Answers answers = Answers::kMembership;
  Remembers (*remembers)(const Shape&) noexcept;
  bool merge_keeps_all;  // a merge keeps every key that one of its inputs remembers
  // a merge holds a key of both inputs twice, and the key must be forgotten twice
  bool merge_adds = false;
  uint32_t granule;  // body sizes are multiples of this
  // The body takes more bytes than the 64-bit hashes of its keys. So even the exact form holds no
  // more than `keys` hashes.
  bool exact_to_keys = false;
  const char* promise;  // for dedup_advise: the errors that an answer can have
  // For dedup_advise: what a merge keeps. If merge is null: why filters cannot be merged.
  const char* merging;
  // For dedup_advise: the reason to choose this method, in a few words. Null: the method exists to
  // be compared with its paper, and another method needs fewer bytes or promises more.
  const char* why = nullptr;
  const char* cost;  // for dedup_advise: bytes of memory that a key touches
  // Returns the largest share of the last `keys` distinct keys that are reported as new again (for
  // kByChance: the expected share, for a stream of distinct keys). Returns 0 for kAll.
  double (*missed)(const Shape&) noexcept;
  const OptionSpec* options;
  int option_count;
  // For dedup_advise: other options with which filters have another promise, that promise, and the
  // reason to choose it.
  const char* variant = nullptr;
  const char* variant_promise = nullptr;
  const char* variant_why = nullptr;
  const char* conflict = nullptr;  // a sentence for kConflict
  // Methods without a rate: the options that determine the size, as a user writes them
  // ("error=0.01").
  const char* sizing = nullptr;

  // Fills bytes, keys, fpr and detail of the shape. For methods without a rate, keys and fpr stay
  // 0.
  PlanStatus (*plan)(const Request&, Shape*) noexcept;
  // Returns whether the functions below can work with these bytes and this detail.
  bool (*valid)(const Shape&, const Counters&) noexcept;
  ExactOrder (*exact_order)(const Shape&) noexcept;

  // Writes the parameters as text ("k=6 lines=155"), at most `size` bytes with the NUL.
  void (*describe)(const Shape&, char* text, size_t size) noexcept;

  // For each hash in turn: sets seen[i] to 1 if the key is reported as seen, else to 0, and adds
  // the key. `seen` may be null. Returns how many keys were taken. It is fewer than n only if the
  // filter can be full. Then the next key is new, was not added, and has changed no answer. Body
  // and counters may have grown for it in vain; they agree with each other.
  size_t (*test_and_add)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes, size_t n,
                         uint8_t* seen) noexcept;
  void (*contains)(const Shape&, const Counters&, const uint8_t* body, const uint64_t* hashes,
                   size_t n, uint8_t* seen) noexcept;
  // Adds distinct keys without testing them. Used to replay exact hashes, where a false positive
  // must not lose a key. Returns the same as test_and_add.
  size_t (*insert)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes,
                   size_t n) noexcept;
  // Merges a filter of the same shape into this one. If age matters, the ages of the two filters
  // advance in proportion to the weights (1 and 1 for two filters; in an aggregate, the number of
  // filters that were merged into each, so that none is favoured). Returns false if the result
  // would be full; then the body is not a valid filter any more. Null: merging is meaningless.
  bool (*merge)(const Shape&, Counters*, uint8_t* body, const Counters& other_counters,
                const uint8_t* other, const Weights&) noexcept;

  // Some filters can be turned into a coarser one. reducible() returns whether `to` is the
  // shape of such a coarser filter and equal in all else. reduce() writes the coarser body, of
  // `bytes` bytes, and its counters. Both are null if the method cannot do this.
  bool (*reducible)(const Shape& from, const Shape& to) noexcept = nullptr;
  void (*reduce)(const Shape& from, const Counters&, const uint8_t* body, const Shape& to,
                 uint32_t bytes, Counters* reduced, uint8_t* out) noexcept = nullptr;

  Reading (*read)(const Shape&, const Counters&, const uint8_t* body) noexcept;
  // Returns the expected rate with `keys` keys in the filter. Null: the method has no rate.
  double (*expected_fpr)(const Shape&, double keys) noexcept;

  // Only for Answers::kFrequency; null for other methods. Every sight counts, and Counters::count
  // is the number of sights, up to kMaxCount. For each hash, adds as many sights as its count says.
  // The result is the same as adding the sights one by one.
  void (*add_counts)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes,
                     const uint64_t* counts, size_t n) noexcept = nullptr;
  Frequency (*frequency)(const Shape&, const Counters&, const uint8_t* body,
                         uint64_t hash) noexcept = nullptr;
  // Returns by how much a frequency may be too high, as a share of all sights.
  double (*epsilon)(const Shape&) noexcept = nullptr;

  // Removes one copy of a key that was reported as new when it was added. Returns false if the key
  // is not there. Null: the method cannot forget.
  bool (*forget)(const Shape&, Counters*, uint8_t* body, uint64_t hash) noexcept = nullptr;
  // Returns whether filters of this shape can forget. Null: all filters can.
  bool (*may_forget)(const Shape&) noexcept = nullptr;
  // Returns whether filters of this shape can have no room for a key. Null: none can.
  bool (*may_be_full)(const Shape&) noexcept = nullptr;
  // Returns how many bytes of a body that grows are in use. The other bytes are zero, are not
  // stored, and must not be looked at by contains, read, or merge (in the other body). A
  // body with `growth` has no other bytes. Null: all bytes are in use.
  uint32_t (*used_bytes)(const Shape&, const Counters&) noexcept = nullptr;
  // For methods whose body grows: returns whether adding one more new key rewrites the whole
  // body.
  bool (*grows_next)(const Shape&, const Counters&) noexcept = nullptr;
  // The functions of a method whose filters are made without a number of keys. Null: the
  // method needs that number.
  const Growth* growth = nullptr;
  // For bodies with links: returns whether the links are consistent. Takes time in proportion to
  // the body. Null: every body is valid.
  bool (*sound)(const Shape&, const Counters&, const uint8_t* body) noexcept = nullptr;

  // Returns whether the method has a false-positive rate. Then its size follows from the rate and a
  // number of keys, and filters can hold too many keys.
  bool has_rate() const noexcept { return answers == Answers::kMembership; }
  // Returns the index of the first option that only this method has.
  int own_options() const noexcept { return growth != nullptr ? 1 : has_rate() ? kKeys + 1 : 0; }
  // Returns whether the method counts sights.
  bool counts() const noexcept { return answers == Answers::kFrequency; }
  bool forgets(const Shape& shape) const noexcept { return remembers(shape) != Remembers::kAll; }
  bool can_be_full(const Shape& shape) const noexcept {
    return may_be_full != nullptr && may_be_full(shape);
  }
  bool can_forget(const Shape& shape) const noexcept {
    return forget != nullptr && (may_forget == nullptr || may_forget(shape));
  }
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_METHOD_HPP_
