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

// A filter's parameter block, fixed when it is made. Two filters of equal shape
// can be merged where the method can merge at all.
struct Shape {
  uint8_t method = 0;   // Method::code
  uint32_t bytes = 0;   // size of the body, at most kMaxBodyBytes
  uint64_t seed = 0;    // of the key hash
  uint64_t keys = 0;    // capacity, or window, in distinct keys
  double fpr = 0;       // asked-for false-positive rate at `keys` keys
  uint64_t detail = 0;  // the method's own: k, fingerprint bits, flags ...

  bool operator==(const Shape&) const = default;
};

// The two scalars of a filter's state outside its body.
struct Counters {
  uint64_t count = 0;  // the method says of what
  uint32_t state = 0;  // the method's own
};

// ---- options --------------------------------------------------------------

// One option of dedup_method(). Values are numbers; on and off are 1 and 0.
enum class OptionKind : uint8_t { kReal, kWhole, kMultipleOf8, kOnOff };

struct OptionSpec {
  const char* name;
  OptionKind kind;
  double min;
  double max;
};

inline constexpr int kMaxOptions = 8;

struct Options {
  double value[kMaxOptions] = {};
  bool given[kMaxOptions] = {};
};

// Every method's first two options: how it is sized.
inline constexpr OptionSpec kFprOption = {"fpr", OptionKind::kReal, kMinFpr, kMaxFpr};
inline constexpr OptionSpec kKeysOption = {"keys", OptionKind::kWhole, 1,
                                           static_cast<double>(kMaxKeys)};
inline constexpr int kFpr = 0;
inline constexpr int kKeys = 1;

// What a filter is to be sized by: `keys` keys, or, if that is 0, as many as fit
// `memory` bytes.
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
};

// ---- what is told of a method and of a filter -------------------------------

// The order in which a filter that is still exact keeps its hashes.
enum class ExactOrder : uint8_t {
  kSorted,      // by value: the method's state does not depend on order
  kFirstSight,  // oldest first sight first
  kLastSight,   // longest unseen first
};

struct Weights {
  uint32_t left = 1;
  uint32_t right = 1;
};

// A filter's state, measured from its bits.
struct Reading {
  double count = 0;  // estimated distinct keys held
  double fpr = 0;    // rate at which a key never seen is now called a duplicate
};

struct Method {
  const char* name;
  uint8_t code;          // in stored filters: never reused
  bool forgets;          // a window: old keys give way to new ones
  bool merge_keeps_all;  // a merge drops no key that either input remembers
  uint32_t granule;      // body sizes are multiples of this
  const char* promise;   // for dedup_advise: what an answer can be wrong about
  const char* merging;   // for dedup_advise: what a merge keeps
  double missed;         // promised share of the last `keys` keys answered new
  const OptionSpec* options;
  int option_count;

  // Fills bytes, keys, fpr and detail of the shape.
  PlanStatus (*plan)(const Request&, Shape*) noexcept;
  // Whether bytes and detail are ones that the functions below can work with.
  bool (*valid)(const Shape&, const Counters&) noexcept;
  ExactOrder (*exact_order)(const Shape&) noexcept;

  // The parameters in words ("k=6 lines=155"), at most `size` bytes with the NUL.
  void (*describe)(const Shape&, char* text, size_t size) noexcept;

  // For each hash in turn: seen[i] = 1 if it was already answered for, and it is
  // remembered. `seen` may be null.
  void (*test_and_add)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes, size_t n,
                       uint8_t* seen) noexcept;
  void (*contains)(const Shape&, const Counters&, const uint8_t* body, const uint64_t* hashes,
                   size_t n, uint8_t* seen) noexcept;
  // Remembers distinct keys without asking first: for replaying exact hashes,
  // where a false positive must not lose one.
  void (*insert)(const Shape&, Counters*, uint8_t* body, const uint64_t* hashes, size_t n) noexcept;
  // Merges a filter of the same shape into this one. Where age decides, the ages of
  // the two run as their weights (1 and 1 for two filters; in an aggregate, how many
  // were merged into each already, so that none is favoured).
  void (*merge)(const Shape&, Counters*, uint8_t* body, const Counters& other_counters,
                const uint8_t* other, const Weights&) noexcept;

  Reading (*read)(const Shape&, const Counters&, const uint8_t* body) noexcept;
  // The rate to expect with `keys` keys in the filter.
  double (*expected_fpr)(const Shape&, double keys) noexcept;
};

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_METHOD_HPP_
