// The methods there are: the only place that lists them.

#ifndef STREAMDEDUP_CORE_REGISTRY_HPP_
#define STREAMDEDUP_CORE_REGISTRY_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "method.hpp"

// A new method is one line here.
// clang-format off
#define DEDUP_METHODS(X) \
  X(blocked_bloom) \
  X(bloom) \
  X(recent) \
  X(ring) \
  X(fifo) \
  X(counting_bloom) \
  X(sbf) \
  X(rsbf) \
  X(sqf) \
  X(dsqf) \
  X(qht) \
  X(qhtd) \
  X(qqht) \
  X(qqhtd) \
  X(cuckoo) \
  X(quotient) \
  X(a2) \
  X(b_dbf) \
  X(lru) \
  X(fp_lru) \
  X(apbf) \
  X(exaloglog) \
  X(count_min) \
  X(infini)
// clang-format on

#define DEDUP_DECLARE_METHOD(name) \
  namespace dedup::name {          \
  extern const Method kMethod;     \
  }
DEDUP_METHODS(DEDUP_DECLARE_METHOD)
#undef DEDUP_DECLARE_METHOD

namespace dedup {

#define DEDUP_METHOD_ADDRESS(name) &name::kMethod,
inline constexpr const Method* kMethods[] = {DEDUP_METHODS(DEDUP_METHOD_ADDRESS)};
#undef DEDUP_METHOD_ADDRESS
inline constexpr size_t kMethodCount = sizeof kMethods / sizeof kMethods[0];

// The method with this code, or null.
inline const Method* MethodByCode(uint8_t code) noexcept {
  for (const Method* method : kMethods) {
    if (method->code == code) return method;
  }
  return nullptr;
}

// The method with this name of `length` bytes, or null.
inline const Method* MethodByName(const char* name, size_t length) noexcept {
  for (const Method* method : kMethods) {
    if (std::strlen(method->name) == length && std::memcmp(method->name, name, length) == 0) {
      return method;
    }
  }
  return nullptr;
}

// Sizes a filter: fills every field of the shape, or says why it cannot be.
inline PlanStatus PlanFilter(const Method& method, const Request& request, uint64_t seed,
                             Shape* shape) noexcept {
  *shape = Shape{};
  shape->method = method.code;
  shape->seed = seed;
  shape->hash = static_cast<uint8_t>(request.options.hash);
  return method.plan(request, shape);
}

// Returns whether method, size, rate, hash and seed alone make this shape. If not, another
// option has changed it.
inline bool IsPlain(const Shape& shape) noexcept {
  const Method& method = *MethodByCode(shape.method);
  Request request;
  request.options.hash = shape.hash;
  request.fpr = shape.fpr;
  request.keys = shape.keys;
  Shape plain;
  if (PlanFilter(method, request, shape.seed, &plain) == PlanStatus::kOk && plain == shape) {
    return true;
  }
  request.keys = 0;
  request.memory = shape.bytes;
  return PlanFilter(method, request, shape.seed, &plain) == PlanStatus::kOk && plain == shape;
}

// A filter's parameters in words: the method's own, and the hash of the keys where it
// is not XXH3.
inline void DescribeParameters(const Shape& shape, char* text, size_t size) noexcept {
  MethodByCode(shape.method)->describe(shape, text, size);
  const size_t used = std::strlen(text);
  if (shape.hash != kXxh3Hash) {
    std::snprintf(text + used, size - used, "%shash=%s", used > 0 ? " " : "",
                  kHashNames[shape.hash]);
  }
}

// Below this rate a plain Bloom filter takes less room than a blocked one.
inline constexpr double kBlockedBloomFrom = 0.0001;

// What dedup_filter() picks: a filter that never forgets.
inline const Method& FilterMethod(double fpr) noexcept {
  return fpr < kBlockedBloomFrom ? bloom::kMethod : blocked_bloom::kMethod;
}

// What dedup_filter() picks without a number of keys: one that grows.
inline const Method& GrowingMethod() noexcept { return infini::kMethod; }

// What dedup_window() picks: a filter that remembers the last keys.
inline const Method& WindowMethod() noexcept { return recent::kMethod; }

// What counts distinct keys in the fewest bytes. sketch.hpp adds to it without a call.
inline const Method& CountMethod() noexcept { return exaloglog::kMethod; }

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_REGISTRY_HPP_
