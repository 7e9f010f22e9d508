// The list of all methods. No other file lists them.

#ifndef STREAMDEDUP_CORE_REGISTRY_HPP_
#define STREAMDEDUP_CORE_REGISTRY_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "method.hpp"

// To add a method, add one line here.
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

// Returns the method with this code, or null.
inline const Method* MethodByCode(uint8_t code) noexcept {
  for (const Method* method : kMethods) {
    if (method->code == code) return method;
  }
  return nullptr;
}

// Returns the method with this name of `length` bytes, or null.
inline const Method* MethodByName(const char* name, size_t length) noexcept {
  for (const Method* method : kMethods) {
    if (std::strlen(method->name) == length && std::memcmp(method->name, name, length) == 0) {
      return method;
    }
  }
  return nullptr;
}

// Sizes a filter: fills every field of the shape, or returns why the filter cannot be made.
inline PlanStatus PlanFilter(const Method& method, const Request& request, uint64_t seed,
                             Shape* shape) noexcept {
  *shape = Shape{};
  shape->method = method.code;
  shape->seed = seed;
  shape->hash = static_cast<uint8_t>(request.options.hash);
  return method.plan(request, shape);
}

// Returns whether method, size, rate, hash and seed alone make this shape. If not, another option
// has changed it.
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

// Writes a filter's parameters as text: those of the method, and the hash of the keys if it is not
// XXH3.
inline void DescribeParameters(const Shape& shape, char* text, size_t size) noexcept {
  MethodByCode(shape.method)->describe(shape, text, size);
  const size_t used = std::strlen(text);
  if (shape.hash != kXxh3Hash) {
    std::snprintf(text + used, size - used, "%shash=%s", used > 0 ? " " : "",
                  kHashNames[shape.hash]);
  }
}

// Below this rate a plain Bloom filter takes fewer bytes than a blocked one.
inline constexpr double kBlockedBloomFrom = 0.0001;

// Returns the method that dedup_filter() picks for a number of keys. It never forgets.
inline const Method& FilterMethod(double fpr) noexcept {
  return fpr < kBlockedBloomFrom ? bloom::kMethod : blocked_bloom::kMethod;
}

// Returns the method that dedup_filter() picks without a number of keys. Its filters grow.
inline const Method& GrowingMethod() noexcept { return infini::kMethod; }

// Returns the method that dedup_window() picks. It remembers the last keys.
inline const Method& WindowMethod() noexcept { return recent::kMethod; }

// Returns the method that counts distinct keys in the fewest bytes. sketch.hpp adds keys to its
// filters without a call.
inline const Method& CountMethod() noexcept { return exaloglog::kMethod; }

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_REGISTRY_HPP_
