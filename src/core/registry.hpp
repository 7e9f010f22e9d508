// The methods there are: the only place that lists them.

#ifndef STREAMDEDUP_CORE_REGISTRY_HPP_
#define STREAMDEDUP_CORE_REGISTRY_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "method.hpp"
#include "methods/blocked_bloom.hpp"
#include "methods/bloom.hpp"
#include "methods/fifo.hpp"
#include "methods/recent.hpp"
#include "methods/ring.hpp"

namespace dedup {

inline constexpr const Method* kMethods[] = {
    &blocked_bloom::kMethod, &bloom::kMethod, &recent::kMethod, &ring::kMethod, &fifo::kMethod,
};
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
  return method.plan(request, shape);
}

// Below this rate a plain Bloom filter takes less room than a blocked one.
inline constexpr double kBlockedBloomFrom = 0.0001;

// What dedup_filter() picks: a filter that never forgets.
inline const Method& FilterMethod(double fpr) noexcept {
  return fpr < kBlockedBloomFrom ? bloom::kMethod : blocked_bloom::kMethod;
}

// What dedup_window() picks: a filter that remembers the last keys.
inline const Method& WindowMethod() noexcept { return recent::kMethod; }

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_REGISTRY_HPP_
