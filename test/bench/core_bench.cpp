// The core's speed: test-and-add and contains of every method at 1, 16 and 256 MiB,
// one key at a time and in batches, beside the limit: the same loop, hash, batch and
// prefetch that increments one word of one random line (or of two).
//
// The machines this runs on are shared and noisy, so what matters is the ratio: each
// row measures the method and its limit in alternation, several rounds, and prints
// the best of each. Rates and bits a key stand on the same row.
//
//   core_bench [--benchmark_filter=REGEX]

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/registry.hpp"
#include "core/xxh3.hpp"

namespace {

using namespace dedup;

constexpr size_t kBatch = 512;
constexpr int kRounds = 7;
constexpr size_t kKeysARound = size_t{1} << 20;

struct Memory {
  explicit Memory(size_t bytes)
      : data(static_cast<uint8_t*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    std::memset(data, 0, bytes);
  }
  ~Memory() { std::free(data); }
  uint8_t* data;
};

uint64_t KeyHash(uint64_t key) { return Xxh3(&key, sizeof key, 0); }

// ---- the limit ----------------------------------------------------------------

// Increments one word of `kLines` random lines a key.
template <int kLines>
struct LineLoop {
  uint8_t* data;
  uint64_t lines;

  uint8_t* At(uint64_t hash, int i) const {
    return data + FastRange(i == 0 ? hash : Derived(hash, 0), lines) * kLineBytes + (hash & 7) * 8;
  }
  void Touch(uint64_t hash) const {
    for (int i = 0; i < kLines; ++i) {
      uint8_t* word = At(hash, i);
      StoreU64(word, LoadU64(word) + 1);
    }
  }
  void Batch(const uint64_t* hashes, size_t n) const {
    InGroups<kGroup / kLines>(
        n,
        [&](size_t i) DEDUP_ALWAYS_INLINE {
          for (int j = 0; j < kLines; ++j) PrefetchToWrite(At(hashes[i], j));
        },
        [&](size_t i) DEDUP_ALWAYS_INLINE { Touch(hashes[i]); });
  }
};

// ---- one measurement ------------------------------------------------------------

// Nanoseconds a key of one round over fresh keys.
template <typename Body>
double Round(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
             .count() /
         static_cast<double>(kKeysARound);
}

enum class Operation { kAdd, kAsk };

template <int kLines>
void Measure(benchmark::State& state, const Method& method, uint64_t bytes, Operation operation,
             bool batch) {
  Request request;
  request.memory = bytes;
  request.fpr = 0.01;
  Shape shape;
  if (PlanFilter(method, request, 0, &shape) != PlanStatus::kOk) {
    state.SkipWithError("cannot size the filter");
    return;
  }
  Memory filter(shape.bytes), limit(shape.bytes);
  Counters counters;
  const LineLoop<kLines> lines = {limit.data, shape.bytes / kLineBytes};
  uint64_t hashes[kBatch];
  uint8_t seen[kBatch];

  // Filled to its capacity.
  uint64_t key = 0;
  for (uint64_t left = shape.keys; left > 0;) {
    const size_t n = left < kBatch ? left : kBatch;
    for (size_t i = 0; i < n; ++i) hashes[i] = KeyHash(key++);
    method.test_and_add(shape, &counters, filter.data, hashes, n, nullptr);
    left -= n;
  }

  uint64_t positives = 0, asked = 0;
  auto step = [&](size_t at, size_t n) {
    if (operation == Operation::kAdd) {
      method.test_and_add(shape, &counters, filter.data, hashes + at, n, seen);
    } else {
      method.contains(shape, counters, filter.data, hashes + at, n, seen);
    }
    benchmark::DoNotOptimize(seen[0]);
  };
  // Keys never seen before, hashed where the loop uses them.
  auto run = [&](auto one_batch) {
    for (size_t done = 0; done < kKeysARound; done += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) hashes[i] = KeyHash(key++);
      one_batch();
    }
  };
  double best = 1e9, best_limit = 1e9;
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      const double limit_ns = Round([&] {
        run([&] {
          if (batch) {
            lines.Batch(hashes, kBatch);
          } else {
            for (size_t i = 0; i < kBatch; ++i) lines.Touch(hashes[i]);
          }
        });
      });
      const double ns = Round([&] {
        run([&] {
          if (batch) {
            step(0, kBatch);
          } else {
            for (size_t i = 0; i < kBatch; ++i) step(i, 1);
          }
        });
      });
      if (limit_ns < best_limit) best_limit = limit_ns;
      if (ns < best) best = ns;
    }
  }
  // Asked only, so that it is the rate at capacity; adding has moved it.
  if (operation == Operation::kAsk) {
    run([&] {
      method.contains(shape, counters, filter.data, hashes, kBatch, seen);
      for (size_t i = 0; i < kBatch; ++i) positives += seen[i];
      asked += kBatch;
    });
    state.counters["FPR%"] = 100.0 * static_cast<double>(positives) / static_cast<double>(asked);
  }
  state.counters["ns/key"] = best;
  state.counters["limit_ns"] = best_limit;
  state.counters["ratio"] = best / best_limit;
  state.counters["bits/key"] = 8.0 * shape.bytes / static_cast<double>(shape.keys);
}

void Register() {
  for (const Method* method : kMethods) {
    for (const uint64_t mib : {1, 16, 256}) {
      for (const Operation operation : {Operation::kAdd, Operation::kAsk}) {
        for (const bool batch : {false, true}) {
          const std::string name = std::string(method->name) + "/" + std::to_string(mib) + "MiB/" +
                                   (operation == Operation::kAdd ? "add" : "ask") +
                                   (batch ? "/batch" : "/single");
          const bool two_lines = std::strcmp(method->name, "recent") == 0;
          benchmark::RegisterBenchmark(name.c_str(),
                                       [=](benchmark::State& state) {
                                         if (two_lines) {
                                           Measure<2>(state, *method, mib << 20, operation, batch);
                                         } else {
                                           Measure<1>(state, *method, mib << 20, operation, batch);
                                         }
                                       })
              ->Iterations(1)
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
