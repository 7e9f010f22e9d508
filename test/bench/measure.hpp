// What the programs that time the core share: memory, keys, and one timed round.

#ifndef STREAMDEDUP_TEST_BENCH_MEASURE_HPP_
#define STREAMDEDUP_TEST_BENCH_MEASURE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "core/xxh3.hpp"

namespace dedup::bench {

inline constexpr size_t kBatch = 512;

// Bytes that start at a page. They are zero unless the caller writes all of them anyway.
struct Memory {
  explicit Memory(size_t bytes, bool clear = true)
      : data(static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    if (clear) std::memset(data, 0, bytes);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(data); }
  uint8_t* data;
};

inline uint64_t KeyHash(uint64_t key, uint64_t seed = 0) { return Xxh3(&key, sizeof key, seed); }

// The processor time of this thread so far, in nanoseconds. On a machine with other work it is
// steadier than the time of day.
inline double ProcessorTime() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

// Nanoseconds of processor time that body() takes.
template <typename Body>
double Nanoseconds(Body body) {
  const double start = ProcessorTime();
  body();
  return ProcessorTime() - start;
}

// Nanoseconds a key of one round over fresh keys.
template <typename Body>
double Round(size_t keys, Body body) {
  return Nanoseconds(body) / static_cast<double>(keys);
}

}  // namespace dedup::bench

#endif  // STREAMDEDUP_TEST_BENCH_MEASURE_HPP_
