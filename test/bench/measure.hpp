// What the programs that time the core share: memory, keys, one timed round, and filling filters.

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

// Adds the keys from .. to-1, in batches or one at a time.
template <typename Filter>
void AddKeys(Filter* filter, uint64_t from, uint64_t to, uint64_t seed, bool batch = true) {
  uint64_t hashes[kBatch];
  uint8_t seen[kBatch];
  while (from < to) {
    const size_t n = to - from < kBatch ? static_cast<size_t>(to - from) : kBatch;
    for (size_t i = 0; i < n; ++i) hashes[i] = KeyHash(from++, seed);
    if (batch) {
      filter->Add(hashes, n, seen);
    } else {
      for (size_t i = 0; i < n; ++i) filter->Add(hashes + i, 1, seen + i);
    }
  }
}

// How many of the keys from .. to-1 are found.
template <typename Filter>
uint64_t Found(const Filter& filter, uint64_t from, uint64_t to, uint64_t seed, bool batch = true) {
  uint64_t hashes[kBatch], found = 0;
  uint8_t seen[kBatch];
  while (from < to) {
    const size_t n = to - from < kBatch ? static_cast<size_t>(to - from) : kBatch;
    for (size_t i = 0; i < n; ++i) hashes[i] = KeyHash(from++, seed);
    if (batch) {
      filter.Contains(hashes, n, seen);
    } else {
      for (size_t i = 0; i < n; ++i) filter.Contains(hashes + i, 1, seen + i);
    }
    for (size_t i = 0; i < n; ++i) found += seen[i];
  }
  return found;
}

// Adds keys until one more batch could need more bytes. Returns how many.
template <typename Design>
uint64_t FillTo(Design* design, uint64_t bytes, bool batch) {
  uint64_t keys = 0;
  while (design->UntilGrowth() >= kBatch || design->NextBytes() <= bytes) {
    AddKeys(design, keys, keys + kBatch, 0, batch);
    keys += kBatch;
  }
  return keys;
}

}  // namespace dedup::bench

#endif  // STREAMDEDUP_TEST_BENCH_MEASURE_HPP_
