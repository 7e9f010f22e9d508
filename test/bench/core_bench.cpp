// The core's speed: test-and-add and contains of every method at 1, 16 and 256 MiB,
// one key at a time and in batches, beside the limit: the same loop, hash, batch and
// prefetch that increments one word of one random line (or of two).
//
// The machines this runs on are shared and noisy, so what matters is the ratio: each
// row measures the method and its limit in alternation, several rounds, and prints
// the best and the median of each. Rates and bits a key stand on the same row.
//
// A method whose filters grow is filled from empty in each round, until the next key would
// pass the size: its time to add includes growth. It goes through the filter layer, as in the
// extension.
//
//   core_bench [--benchmark_filter=REGEX]

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "core/bytes.hpp"
#include "core/methods/blocked_bloom.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"
#include "growing/shipped.hpp"
#include "measure.hpp"

namespace {

using namespace dedup;
using namespace dedup::bench;

constexpr int kRounds = 5;
constexpr size_t kKeysARound = size_t{1} << 20;

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

enum class Operation { kAdd, kAsk };

// A filter filled to its capacity, kept for the four measurements of its method and
// size: asking, which leaves it as it is, comes first. A method that can be full stops
// short by the keys that adding is then measured with.
struct Prepared {
  Prepared(const Method& of, uint64_t memory, const char* options) : method(&of), bytes(memory) {
    Request request;
    request.memory = memory;
    request.fpr = 0.01;
    ParseOptions(of, options, std::strlen(options), &request.options);
    if (PlanFilter(of, request, 0, &shape) != PlanStatus::kOk) return;
    filter = std::make_unique<Memory>(shape.bytes);
    keys_a_round = kKeysARound;
    uint64_t fill = shape.keys;
    if (of.can_be_full(shape)) {
      const uint64_t most = shape.keys / 64 / kBatch * kBatch;
      if (keys_a_round > most) keys_a_round = most;
      fill -= 2 * kRounds * keys_a_round;
    }
    uint64_t hashes[kBatch];
    for (uint64_t left = fill; left > 0;) {
      const size_t n = left < kBatch ? left : kBatch;
      for (size_t i = 0; i < n; ++i) hashes[i] = KeyHash(key++);
      of.test_and_add(shape, &counters, filter->data, hashes, n, nullptr);
      left -= n;
    }
    // The rate at capacity; adding moves it.
    uint8_t seen[kBatch];
    uint64_t strange = uint64_t{1} << 59, positives = 0, asked = 0;
    for (; asked < 8 * keys_a_round; asked += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) hashes[i] = KeyHash(strange++);
      of.contains(shape, counters, filter->data, hashes, kBatch, seen);
      for (size_t i = 0; i < kBatch; ++i) positives += seen[i];
    }
    false_positives = 100.0 * static_cast<double>(positives) / static_cast<double>(asked);
  }

  const Method* method;
  uint64_t bytes;
  Shape shape;
  Counters counters;
  std::unique_ptr<Memory> filter;
  size_t keys_a_round = 0;
  double false_positives = 0;  // percent
  uint64_t key = 0;
};

std::unique_ptr<Prepared> prepared;

// Nanoseconds a key of each round, sorted: the best comes first, the median is in the middle.
using Rounds = std::array<double, kRounds>;
struct Times {
  Rounds method, limit;
};

// Runs rounds of the limit and of the method in alternation, which return nanoseconds a key.
template <typename Limit, typename Run>
Times TimesOf(benchmark::State& state, Limit limit, Run run) {
  Times times{};
  for (auto _ : state) {
    for (int round = 0; round < kRounds; ++round) {
      times.limit[round] = limit();
      times.method[round] = run();
    }
  }
  std::sort(times.method.begin(), times.method.end());
  std::sort(times.limit.begin(), times.limit.end());
  return times;
}

void Report(benchmark::State& state, const Times& times, double percent, double bits_a_key) {
  constexpr size_t kMiddle = kRounds / 2;
  state.counters["FPR%"] = percent;
  state.counters["ns/key"] = times.method[0];
  state.counters["median"] = times.method[kMiddle];
  state.counters["limit_ns"] = times.limit[0];
  state.counters["limit_median"] = times.limit[kMiddle];
  state.counters["ratio"] = times.method[0] / times.limit[0];
  state.counters["median_ratio"] = times.method[kMiddle] / times.limit[kMiddle];
  state.counters["bits/key"] = bits_a_key;
}

// Nanoseconds a key of use(hashes, n) for a batch or one key at a time. The keys are hashed
// where the loop uses them.
template <typename Use>
double Timed(size_t keys, bool batch, uint64_t* key, Use use) {
  uint64_t hashes[kBatch];
  return Round(keys, [&] {
    for (size_t done = 0; done < keys; done += kBatch) {
      for (size_t i = 0; i < kBatch; ++i) hashes[i] = KeyHash((*key)++);
      if (batch) {
        use(hashes, kBatch);
      } else {
        for (size_t i = 0; i < kBatch; ++i) use(hashes + i, 1);
      }
    }
  });
}

template <int kLines>
double TimedLimit(const LineLoop<kLines>& lines, size_t keys, bool batch, uint64_t* key) {
  return Timed(keys, batch, key, [&](const uint64_t* hashes, size_t n) DEDUP_ALWAYS_INLINE {
    if (n == 1) {
      lines.Touch(*hashes);
    } else {
      lines.Batch(hashes, n);
    }
  });
}

// A filter that grows, filled to `bytes`.
void MeasureGrowing(benchmark::State& state, uint64_t bytes, Operation operation, bool batch) {
  static std::optional<Shipped> filter;
  static uint64_t filled = 0, keys = 0;
  static double percent = 0;
  if (filled != bytes) {
    filter.emplace(0.01);
    keys = FillTo(&*filter, bytes + kHeaderBytes, true);
    filled = bytes;
    const uint64_t strange = uint64_t{1} << 59, asked = 8 * kKeysARound;
    percent = 100.0 * static_cast<double>(Found(*filter, strange, strange + asked, 0)) /
              static_cast<double>(asked);
  }
  Memory limit(bytes);
  const LineLoop<1> lines = {limit.data, bytes / kLineBytes};
  uint64_t key = uint64_t{1} << 60;
  const Times times = TimesOf(
      state, [&] { return TimedLimit(lines, kKeysARound, batch, &key); },
      [&] {
        if (operation == Operation::kAdd) {
          return Round(keys, [&] {
            filter.emplace(0.01);
            FillTo(&*filter, bytes + kHeaderBytes, batch);
          });
        }
        key += kKeysARound;
        return Round(kKeysARound, [&] {
          benchmark::DoNotOptimize(Found(*filter, key - kKeysARound, key, 0, batch));
        });
      });
  state.SetLabel("set");
  Report(state, times, percent,
         8.0 * static_cast<double>(filter->Bytes()) / static_cast<double>(keys));
}

template <int kLines>
void Measure(benchmark::State& state, const Method& method, const char* options, uint64_t bytes,
             Operation operation, bool batch) {
  if (prepared == nullptr || prepared->method != &method || prepared->bytes != bytes ||
      (operation == Operation::kAsk && batch)) {
    prepared = nullptr;
    prepared = std::make_unique<Prepared>(method, bytes, options);
  }
  Prepared& at = *prepared;
  if (at.filter == nullptr) {
    state.SkipWithError("cannot size the filter");
    return;
  }
  const Shape& shape = at.shape;
  Memory limit(shape.bytes);
  const LineLoop<kLines> lines = {limit.data, shape.bytes / kLineBytes};
  uint8_t seen[kBatch];
  uint64_t key = uint64_t{1} << (operation == Operation::kAsk ? 60 : 61);
  bool full = false;

  const auto step = [&](const uint64_t* hashes, size_t n) DEDUP_ALWAYS_INLINE {
    if (operation == Operation::kAdd) {
      full |= method.test_and_add(shape, &at.counters, at.filter->data, hashes, n, seen) < n;
    } else {
      method.contains(shape, at.counters, at.filter->data, hashes, n, seen);
    }
    benchmark::DoNotOptimize(seen[0]);
  };
  uint64_t* fresh = operation == Operation::kAdd ? &at.key : &key;
  const Times times = TimesOf(
      state, [&] { return TimedLimit(lines, at.keys_a_round, batch, &key); },
      [&] { return Timed(at.keys_a_round, batch, fresh, step); });
  if (full) {
    state.SkipWithError("the filter is full");
    return;
  }
  const dedup::Remembers remembers = method.remembers(shape);
  state.SetLabel(remembers == dedup::Remembers::kAll        ? "set"
                 : remembers == dedup::Remembers::kByChance ? "chance"
                                                            : "window");
  Report(state, times, at.false_positives, 8.0 * shape.bytes / static_cast<double>(shape.keys));
}

void RegisterOne(const Method& method, const std::string& label, const char* options) {
  const bool two_lines = std::strcmp(method.name, "recent") == 0;
  for (const uint64_t mib : {1, 16, 256}) {
    // The index and list of lru come on top of its memory, and pass the limit.
    if (mib == 256 && std::strstr(method.name, "lru") != nullptr) continue;
    for (const Operation operation : {Operation::kAsk, Operation::kAdd}) {
      for (const bool batch : {true, false}) {
        const std::string name = label + "/" + std::to_string(mib) + "MiB/" +
                                 (operation == Operation::kAdd ? "add" : "ask") +
                                 (batch ? "/batch" : "/single");
        benchmark::RegisterBenchmark(
            name.c_str(),
            [&method, options, mib, operation, batch, two_lines](benchmark::State& state) {
              if (method.growth != nullptr) {
                MeasureGrowing(state, mib << 20, operation, batch);
              } else if (two_lines) {
                Measure<2>(state, method, options, mib << 20, operation, batch);
              } else {
                Measure<1>(state, method, options, mib << 20, operation, batch);
              }
            })
            ->Iterations(1)
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

// blocked_bloom as it is on processors without AVX-512 or without AVX2, where this one has them.
template <blocked_bloom::Path kPath>
const Method& BlockedBloomBy() {
  static const Method method = [] {
    Method by = blocked_bloom::kMethod;
    by.test_and_add = [](const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
      return blocked_bloom::TestAndAddBy(blocked_bloom::KernelsFor(shape, kPath), shape, body,
                                         hashes, n, seen);
    };
    by.contains = [](const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
      blocked_bloom::ContainsBy(blocked_bloom::KernelsFor(shape, kPath), shape, body, hashes, n,
                                seen);
    };
    return by;
  }();
  return method;
}

void Register() {
  for (const Method* method : kMethods) {
    if (!method->has_rate()) continue;  // they are asked nothing, or how often
    RegisterOne(*method, method->name, "");
    if (method->variant == nullptr) continue;
    const std::string variant = method->variant;
    RegisterOne(*method, method->name + ("_" + variant.substr(0, variant.find('='))),
                method->variant);
  }
  using namespace blocked_bloom;
  if (BestPath() > kAvx2Path) RegisterOne(BlockedBloomBy<kAvx2Path>(), "blocked_bloom_avx2", "");
  if (BestPath() > kPlainPath) RegisterOne(BlockedBloomBy<kPlainPath>(), "blocked_bloom_plain", "");
}

}  // namespace

int main(int argc, char** argv) {
  Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
