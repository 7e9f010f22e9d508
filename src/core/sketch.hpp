// Adds keys to a filter of CountMethod() without a call through the method's table. Each key costs
// a few nanoseconds, and the call would be a large part of that.

#ifndef STREAMDEDUP_CORE_SKETCH_HPP_
#define STREAMDEDUP_CORE_SKETCH_HPP_

#include <cstdint>

#include "methods/exaloglog.hpp"

namespace dedup {

// Adds a key to the body of a filter of CountMethod() in one of its full forms. The header
// does not change.
inline void AddToSketch(const Shape& shape, uint8_t* body, uint64_t hash) noexcept {
  exaloglog::Add(body, exaloglog::P(shape), hash);
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_SKETCH_HPP_
