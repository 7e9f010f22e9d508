// What a method is: a handful of functions over a parameter block and a byte
// span. registry.hpp lists the methods; nothing else names them one by one.
//
// A method owns no memory. Its state is `Shape::bytes` bytes (its body), which
// the caller owns, and two scalars (Counters) which live in the filter's header.
// A zeroed body with zeroed counters is an empty filter. Every function must be
// memory-safe whatever bits the body holds, and for counters that Valid() accepts.

#ifndef STREAMDEDUP_CORE_METHOD_HPP_
#define STREAMDEDUP_CORE_METHOD_HPP_

#include <cstddef>
#include <cstdint>

namespace dedup {

inline constexpr uint64_t kMaxBodyBytes = uint64_t{512} << 20;  // 512 MiB
inline constexpr double kMinFpr = 1e-9;
inline constexpr double kMaxFpr = 0.5;
inline constexpr uint64_t kMaxKeys = uint64_t{1} << 40;

// The hash functions of keys, by their numbers in stored filters: never reused.
inline constexpr uint8_t kXxh3Hash = 0;  // XXH3, seeded: the fastest
inline constexpr uint8_t kSipHash = 1;   // SipHash-2-4: for keys that an enemy may choose
inline constexpr uint8_t kHashCount = 2;
inline constexpr const char* kHashNames[kHashCount] = {"xxh3", "sip"};

// A filter's parameter block, fixed when it is made. Two filters of equal shape
// can be merged where the method can merge at all.
struct Shape {
  uint8_t method = 0;   // Method::code
  uint32_t bytes = 0;   // size of the body, at most kMaxBodyBytes
  uint64_t seed = 0;    // of the key hash
  uint64_t keys = 0;    // capacity, or window, in distinct keys; 0 without a rate
  double fpr = 0;       // asked-for false-positive rate at `keys` keys; 0 without a rate
  uint64_t detail = 0;  // the method's own: k, fingerprint bits, flags ...
  uint8_t hash = 0;     // of the keys: kXxh3Hash or kSipHash

  bool operator==(const Shape&) const = default;
};

// The two scalars of a filter's state outside its body.
struct Counters {
  uint64_t count = 0;  // the method says of what
  uint32_t state = 0;  // the method's own
};

// ---- options --------------------------------------------------------------

// One option of dedup_method(). Values are numbers; on and off are 1 and 0, and of
// words it is the place in their list.
enum class OptionKind : uint8_t { kReal, kWhole, kMultipleOf8, kOnOff, kWord };

struct OptionSpec {
  const char* name;
  OptionKind kind;
  double min;
  double max;
  const char* words = nullptr;  // of kWord: "published|text"
};

inline constexpr int kMaxOptions = 8;

struct Options {
  double value[kMaxOptions] = {};
  bool given[kMaxOptions] = {};
  double hash = kXxh3Hash;  // of kHashOption, which every method has beside its own list
  bool hash_given = false;
};

// The first two options of every method that has a rate: how it is sized.
inline constexpr OptionSpec kFprOption = {"fpr", OptionKind::kReal, kMinFpr, kMaxFpr};
inline constexpr OptionSpec kKeysOption = {"keys", OptionKind::kWhole, 1,
                                           static_cast<double>(kMaxKeys)};
// Every method takes this one as well: what hashes the keys.
inline constexpr OptionSpec kHashOption = {"hash", OptionKind::kWord, 0, kHashCount - 1,
                                           "xxh3|sip"};
inline constexpr int kFpr = 0;
inline constexpr int kKeys = 1;

// What a filter is to be sized by: `keys` keys, or, if that is 0, as many as fit
// `memory` bytes. Methods without a rate are sized by memory or their own options.
struct Request {
  uint64_t keys = 0;
  uint64_t memory = 0;
  double fpr = 0.01;
  Options options;
};

enum class PlanStatus {
  kOk,
  kTooLarge,        // the body would pass kMaxBodyBytes
  kMemoryTooSmall,  // not even one line or block, or not one key at the rate
  kConflict,        // options that exclude each other: Method::conflict says which
  kNoSize,          // without a rate: neither memory nor the options that size it
  kTwoSizes,        // both
};

// ---- what is told of a method and of a filter -------------------------------

// What a filter still knows when more keys came than it can hold.
enum class Remembers : uint8_t {
  kAll,        // every key; the rate rises, or no more are taken
  kLastSeen,   // a window: a key counts from its last sight
  kFirstSeen,  // a window: a key counts from its first sight
  kByChance,   // what random evictions have left
};

// What a filter answers of a key. All count the distinct keys. Only those that tell of
// membership have a rate of wrong answers, and a number of keys up to which it holds.
enum class Answers : uint8_t {
  kMembership,  // whether it was seen
  kNothing,     // a sketch that only counts
  kFrequency,   // how often it was seen
};

// The order in which a filter that is still exact keeps its hashes, each with its count
// where every sight counts.
enum class ExactOrder : uint8_t {
  kSorted,      // by value: the method's state does not depend on order
  kFirstSight,  // oldest first sight first
  kLastSight,   // longest unseen first
};

struct Weights {
  uint32_t left = 1;
  uint32_t right = 1;
};

// Counts of sights end here, the most that a bigint can say.
inline constexpr uint64_t kMaxCount = ~uint64_t{0} >> 1;

inline constexpr uint64_t SumOfCounts(uint64_t a, uint64_t b) noexcept {
  return a >= kMaxCount || b > kMaxCount - a ? kMaxCount : a + b;
}

// How often a key was seen.
struct Frequency {
  uint64_t count = 0;
  bool at_least = false;  // a counter had come to its end: it may have been more
};

// A filter's state, measured from its bits.
struct Reading {
  double count = 0;  // estimated distinct keys held
  double fpr = 0;    // rate at which a key never seen is now called a duplicate
};

// The most hashes in the exact form of a filter that grows.
inline constexpr uint64_t kMostExactOfGrowing = 512;

// What a method needs to make filters without a number of keys, whose body grows. Their
// Shape::keys is 0, and Shape::bytes is kMaxBodyBytes. A body takes keys for ever; when it has
// as many as limit() says, whoever owns its memory makes a larger one (grow), so that the
// rate is kept. The largest, of most_keys() at the rate, has no limit.
struct Growth {
  uint64_t exact_hashes;  // that a filter keeps before it goes over to a body, at most
                          // kMostExactOfGrowing
  uint64_t (*most_keys)(const Shape&) noexcept;
  // The size of the smallest body that takes so many keys, or of the largest.
  uint32_t (*bytes_for)(const Shape&, uint64_t keys) noexcept;
  // The counters of an empty body of one of these sizes.
  Counters (*start)(uint32_t bytes) noexcept;
  uint64_t (*limit)(const Shape&, const Counters&) noexcept;
  // Writes a body of more bytes with the same keys.
  void (*grow)(const Shape&, const Counters&, const uint8_t* body, uint32_t bytes, Counters* grown,
               uint8_t* out) noexcept;
  // How many keys a merge has, or nearly.
  uint64_t (*union_keys)(const Shape&, const Counters&, const uint8_t* body,
                         const Counters& other_counters, const uint8_t* other) noexcept;
  // How many keys a body and a state of the same rate have together, nearly, by a part of the
  // state. Where keys were chosen for it, that may be far off.
  uint64_t (*keys_with_state)(const Shape&, const Counters&, const uint8_t* body,
                              const Shape& state_shape, const Counters& state_counters,
                              const uint8_t* state) noexcept;
  // Adds the keys of a state to a body of the plain shape, which may have more than limit() then.
  // Returns how many of them found no place of their own: few, unless the body is too small.
  uint64_t (*take_state)(const Shape&, Counters*, uint8_t* body, const Shape& state_shape,
                         const Counters& state_counters, const uint8_t* state) noexcept;
  // The shape of the states of partial aggregates, of which kStatesMerged may be merged before the
  // rate asked for is passed. Method::reduce and take_state make filters of the plain shape of
  // them.
  Shape (*state_shape)(const Shape&) noexcept;
};

struct Method {
  const char* name;
  uint8_t code;  // in stored filters: never reused
  Answers answers = Answers::kMembership;
  Remembers (*remembers)(const Shape&) noexcept;
  bool merge_keeps_all;     // a merge drops no key that either input remembers
  bool merge_adds = false;  // a merge holds a key of both inputs twice, for two forgets
  uint32_t granule;         // body sizes are multiples of this
  // Its body takes more than the 64-bit hashes of its keys: even while exact it holds no
  // more than `keys` of them.
  bool exact_to_keys = false;
  const char* promise;  // for dedup_advise: what an answer can be wrong about
  // For dedup_advise: what a merge keeps, or, where merge is null, why there is none.
  const char* merging;
  // For dedup_advise: why to choose it, in a few words. Null: it is there to be compared
  // with its paper, and another method does the same in fewer bytes or promises more.
  const char* why = nullptr;
  const char* cost;  // for dedup_advise: memory touched a key
  // Share of the last `keys` distinct keys that are answered new again, at most
  // (kByChance: expected, on a stream of distinct keys). Zero for kAll.
  double (*missed)(const Shape&) noexcept;
  const OptionSpec* options;
  int option_count;
  // For dedup_advise: other options that make a filter of another promise, and that.
  const char* variant = nullptr;
  const char* variant_promise = nullptr;
  const char* variant_why = nullptr;
  const char* conflict = nullptr;  // kConflict in words
  // Without a rate: the options that size it, as one would write them ("error=0.01").
  const char* sizing = nullptr;

  // Fills bytes, keys, fpr and detail of the shape; without a rate keys and fpr stay 0.
  PlanStatus (*plan)(const Request&, Shape*) noexcept;
  // Whether bytes and detail are ones that the functions below can work with.
  bool (*valid)(const Shape&, const Counters&) noexcept;
  ExactOrder (*exact_order)(const Shape&) noexcept;

  // The parameters in words ("k=6 lines=155"), at most `size` bytes with the NUL.
  void (*describe)(const Shape&, char* text, size_t size) noexcept;

  // For each hash in turn: seen[i] = 1 if it was already answered for, and it is
  // remembered. `seen` may be null. Returns how many keys were taken: fewer than n only
  // where a filter can be full, and then the key at that place is new, is not
  // remembered, and has changed no answer. Body and counters may have grown for it in
  // vain, and belong together.
  size_t (*test_and_add)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes, size_t n,
                         uint8_t* seen) noexcept;
  void (*contains)(const Shape&, const Counters&, const uint8_t* body, const uint64_t* hashes,
                   size_t n, uint8_t* seen) noexcept;
  // Remembers distinct keys without asking first: for replaying exact hashes,
  // where a false positive must not lose one. Returns as test_and_add does.
  size_t (*insert)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes,
                   size_t n) noexcept;
  // Merges a filter of the same shape into this one. Where age decides, the ages of
  // the two run as their weights (1 and 1 for two filters; in an aggregate, how many
  // were merged into each already, so that none is favoured). False: the result would
  // be full, and what is in the body now is no filter. Null: merging is meaningless.
  bool (*merge)(const Shape&, Counters*, uint8_t* body, const Counters& other_counters,
                const uint8_t* other, const Weights&) noexcept;

  // Some filters can be turned into a coarser one. reducible() returns whether `to` is the
  // shape of such a coarser filter and equal in all else. reduce() writes the coarser body, of
  // `bytes` bytes, and its counters. Both are null if the method cannot do this.
  bool (*reducible)(const Shape& from, const Shape& to) noexcept = nullptr;
  void (*reduce)(const Shape& from, const Counters&, const uint8_t* body, const Shape& to,
                 uint32_t bytes, Counters* reduced, uint8_t* out) noexcept = nullptr;

  Reading (*read)(const Shape&, const Counters&, const uint8_t* body) noexcept;
  // The rate to expect with `keys` keys in the filter. Null: it has none.
  double (*expected_fpr)(const Shape&, double keys) noexcept;

  // Of Answers::kFrequency, null for others. Every sight counts, and Counters::count is
  // how many there were, up to kMaxCount. For each hash in turn, as many sights as its
  // count says: what the same sights one after the other would leave.
  void (*add_counts)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes,
                     const uint64_t* counts, size_t n) noexcept = nullptr;
  Frequency (*frequency)(const Shape&, const Counters&, const uint8_t* body,
                         uint64_t hash) noexcept = nullptr;
  // By what share of all sights a frequency may be too high.
  double (*epsilon)(const Shape&) noexcept = nullptr;

  // Takes back one add of a key that was answered new. False: the key is not there.
  // Null: the method cannot.
  bool (*forget)(const Shape&, Counters*, uint8_t* body, uint64_t hash) noexcept = nullptr;
  // Whether filters of this shape can forget, where not all of the method can. Null: all.
  bool (*may_forget)(const Shape&) noexcept = nullptr;
  // Whether filters of this shape can have no room for a key. Null: none ever.
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
  // Of bodies with links: whether they hold together. Takes time in proportion to the
  // body. Null: every body is one.
  bool (*sound)(const Shape&, const Counters&, const uint8_t* body) noexcept = nullptr;

  // Whether it has a false-positive rate, is sized by it and a number of keys, and can
  // hold too many.
  bool has_rate() const noexcept { return answers == Answers::kMembership; }
  // The place of the first option that is only this method's.
  int own_options() const noexcept { return growth != nullptr ? 1 : has_rate() ? kKeys + 1 : 0; }
  // Whether what it keeps are counts of sights.
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
