// sbf: the Stable Bloom filter, in which random cells decay so that it never fills.
//
// Paper: Deng and Rafiei, "Approximately Detecting Duplicates for Streaming Data using Stable Bloom
// Filters" (SIGMOD 2006). There are m = floor(bits/d) cells of d bits. A key has K cells and is a
// duplicate if none of them is 0. Whatever the answer, P adjacent cells from one random start are
// decremented where they are not 0 (the last cell is followed by the first). Then the K cells are
// set to Max = 2^d - 1.
//
// Promise: a new key is reported as a duplicate at most at the requested rate, however long the
// stream is. Keys are forgotten at random. The longer a key was not seen, the likelier it is
// missed. `keys` is the number of keys in which a cell decays on average, Max m / P. At 0.01 that
// is one key per 11, 24 and 36 bits for d = 1, 2 and 3. Of the last `keys` keys, 66, 42 and 28 %
// are missed then.
// Cost: K cache lines a key and one for the decay (more if P d exceeds 512 bits).
// State: the cells, packed from bit 0 on. Counters::count is the number of keys added, duplicates
// included; it is the step of the random start. Counters::state stays zero.

#ifndef STREAMDEDUP_CORE_METHODS_SBF_HPP_
#define STREAMDEDUP_CORE_METHODS_SBF_HPP_

#include <bit>
#include <cmath>
#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "../sizing.hpp"
#include "sbf_cells.hpp"

namespace dedup::sbf {

inline constexpr int kMaxK = 32;
inline constexpr unsigned kMaxBits = 8;
inline constexpr uint64_t kMaxP = uint64_t{1} << 20;
inline constexpr uint32_t kGranule = 8;

struct Layout {
  unsigned d;  // bits of a cell
  int k;
  uint64_t p;  // number of cells that a key decrements
  uint64_t m;  // number of cells

  int max() const noexcept { return (1 << d) - 1; }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  const auto d = static_cast<unsigned>(shape.detail & 0xff);
  return {d, static_cast<int>(shape.detail >> 8 & 0xff), shape.detail >> 16,
          d == 0 ? 0 : uint64_t{shape.bytes} * 8 / d};
}

inline constexpr int kDOption = 2;
inline constexpr int kKOption = 3;
inline constexpr int kPOption = 4;
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"d", OptionKind::kWhole, 1, kMaxBits},
                                          {"k", OptionKind::kWhole, 1, kMaxK},
                                          {"p", OptionKind::kWhole, 1, kMaxP}};

// ---- rates ------------------------------------------------------------------

// The paper's sums (Eq. 1 and 9), in closed form. A step decrements a cell with probability p = P/m
// and then sets it with probability k = K/m. A cell that was Max becomes 0 for the first time at
// step j if its Max-th decrement is at that step and nothing set it before: this is the sum of
// (1-k)^j over that negative binomial,
//   rho^Max P[Bin(steps, theta) >= Max],  rho = p(1-k)/theta,  theta = 1-(1-p)(1-k).
// That is the probability that the cell is 0 after `steps`, whatever happened before, because a
// cell that is set starts the same chain again. For many steps it is Eq. 7, the base of Eq. 8.
struct Chain {
  double p, k, theta, rho;
  int max;

  explicit Chain(const Layout& layout) noexcept
      : p(static_cast<double>(layout.p) / static_cast<double>(layout.m)),
        k(layout.k / static_cast<double>(layout.m)),
        theta(p + k - p * k),
        rho(p * (1 - k) / theta),
        max(layout.max()) {}

  // Returns P[Bin(n, q) < max]. Sums from the largest term on, which does not underflow unless all
  // do.
  double Fewer(double n, double q) const noexcept {
    if (n < max) return 1;
    if (q >= 1) return 0;
    const double odds = q / (1 - q);
    const int top = n * q < max - 1 ? static_cast<int>(n * q) : max - 1;
    double log_term = n * std::log1p(-q) + top * std::log(odds);
    for (int j = 0; j < top; ++j) log_term += std::log((n - j) / (j + 1));
    const double largest = std::exp(log_term);
    double sum = largest, term = largest;
    for (int j = top; j > 0; --j) sum += term *= j / ((n - j + 1) * odds);
    term = largest;
    for (int j = top + 1; j < max; ++j) sum += term *= (n - j + 1) / j * odds;
    return sum < 1 ? sum : 1;
  }
  double ZeroSinceSet(double steps) const noexcept {
    return IntPower(rho, max) * (1 - Fewer(steps, theta));
  }
  // Starts from an empty filter. It is as if all cells were set at the start, except that a cell
  // that was never set is 0.
  double ZeroSinceEmpty(double steps) const noexcept {
    return ZeroSinceSet(steps) + std::exp(steps * std::log1p(-k)) * Fewer(steps, p);
  }
};

// Returns the upper bound of the rate (Eq. 8), which is reached on streams of distinct keys.
inline double StableFpr(const Layout& layout) noexcept {
  const Chain chain(layout);
  return IntPower(1 - IntPower(chain.rho, chain.max), layout.k);
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  const double stable = StableFpr(layout);
  if (!(keys > 0)) return 0;
  const double zero = Chain(layout).ZeroSinceEmpty(std::floor(keys));
  const double rate = zero < 1 ? IntPower(1 - zero, layout.k) : 0;
  return rate < stable ? rate : stable;
}

// Returns the expected share missed of the last `keys` distinct keys of a stream without
// duplicates. A key is missed if one of its K cells has become 0 and was not set again by the
// younger keys.
inline double Missed(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  const Chain chain(layout);
  constexpr uint64_t kPoints = 512;
  const uint64_t points = shape.keys < kPoints ? shape.keys : kPoints;
  const double stride = static_cast<double>(shape.keys) / static_cast<double>(points);
  double missed = 0;
  for (uint64_t i = 0; i < points; ++i) {
    const double age = std::floor((static_cast<double>(i) + 0.5) * stride);
    missed += 1 - IntPower(1 - chain.ZeroSinceSet(age), layout.k);
  }
  return missed / static_cast<double>(points);
}

// ---- sizes ------------------------------------------------------------------

inline int DefaultK(double fpr) noexcept {
  const double k = std::round(-0.5 * std::log2(fpr));
  return k < 1 ? 1 : static_cast<int>(k);
}

// Eq. 17, with 1/m = `one_cell`. The result is infinite or negative if there is no such P.
inline double PFor(double fpr, int k, int max, double one_cell) noexcept {
  // (1 - fpr^(1/k))^(-1/max) - 1, which is small where max is large.
  const double rest = std::expm1(-std::log1p(-std::pow(fpr, 1.0 / k)) / max);
  return std::round(1 / (rest * (1.0 / k - one_cell)));
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const unsigned d = options.given[kDOption] ? static_cast<unsigned>(options.value[kDOption]) : 1;
  const int k =
      options.given[kKOption] ? static_cast<int>(options.value[kKOption]) : DefaultK(request.fpr);
  const int max = (1 << d) - 1;
  const bool given = options.given[kPOption];
  if (!given && PFor(request.fpr, k, max, 0) > static_cast<double>(kMaxP)) {
    return PlanStatus::kConflict;
  }
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) noexcept {
        const uint64_t m = bytes * 8 / d;
        if (m <= static_cast<uint64_t>(k)) return PlanStatus::kMemoryTooSmall;
        double p =
            given ? options.value[kPOption] : PFor(request.fpr, k, max, 1 / static_cast<double>(m));
        if (p < 1) p = 1;
        const double most = static_cast<double>(m < kMaxP ? m : kMaxP);
        if (!(p <= most)) return PlanStatus::kMemoryTooSmall;
        const auto cells = static_cast<uint64_t>(p);
        sized->keys = static_cast<uint64_t>(max) * m / cells;
        sized->detail = d | static_cast<uint64_t>(k) << 8 | cells << 16;
        return PlanStatus::kOk;
      });
  if (given && status == PlanStatus::kOk) shape->fpr = FprFrom(StableFpr(LayoutOf(*shape)));
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return layout.d >= 1 && layout.d <= kMaxBits && layout.k >= 1 && layout.k <= kMaxK &&
         layout.p >= 1 && layout.p <= kMaxP && layout.p <= layout.m &&
         layout.m > static_cast<uint64_t>(layout.k) && shape.bytes % kGranule == 0 &&
         counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "d=%u k=%d p=%llu cells=%llu", layout.d, layout.k,
                static_cast<unsigned long long>(layout.p),
                static_cast<unsigned long long>(layout.m));
}

// ---- keys -------------------------------------------------------------------

// Returns the cell at which the decay of a step starts. It is the only random choice of the step.
inline uint64_t StartOf(const Shape& shape, const Layout& layout, uint64_t step) noexcept {
  return StepRandom(shape.seed, step).Below(layout.m);
}

template <unsigned D>
DEDUP_ALWAYS_INLINE inline void FetchKey(const Layout& layout, const uint8_t* body,
                                         uint64_t hash) noexcept {
  for (int i = 0; i < layout.k; ++i) {
    PrefetchToWrite(body + CellAt<D>(Position(hash, i, layout.m)).byte);
  }
}

// A key that decays at least this many cells has a pause of its own.
inline constexpr uint64_t kMuchDecay = uint64_t{1} << 16;

template <unsigned D>
void AddLoop(const Shape& shape, const Layout& layout, Counters* counters, uint8_t* body,
             const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const uint64_t step = counters->count;
  InGroups<kKeysAhead>(
      n,
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        FetchKey<D>(layout, body, hashes[j]);
        PrefetchToWrite(body + CellAt<D>(StartOf(shape, layout, step + j)).byte);
      },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        Cell cells[kMaxK];
        bool all = true;
        for (int i = 0; i < layout.k; ++i) {
          cells[i] = CellAt<D>(Position(hashes[j], i, layout.m));
          all &= !IsZero<D>(body, cells[i]);
        }
        Decay<D>(body, shape.bytes, layout.m, StartOf(shape, layout, step + j), layout.p);
        if (__builtin_expect(layout.p > kMuchDecay, 0)) Pause();
        for (int i = 0; i < layout.k; ++i) SetToMax<D>(body, cells[i]);
        if (seen != nullptr) seen[j] = all;
      });
  counters->count = step + n;
}

template <unsigned D>
void ContainsLoop(const Layout& layout, const uint8_t* body, const uint64_t* hashes, size_t n,
                  uint8_t* seen) noexcept {
  InGroups<kKeysAhead>(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { FetchKey<D>(layout, body, hashes[j]); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        bool all = true;
        for (int i = 0; i < layout.k && all; ++i) {
          all = !IsZero<D>(body, CellAt<D>(Position(hashes[j], i, layout.m)));
        }
        seen[j] = all;
      });
}

// Runs visit with the bits of a cell as a compile-time constant.
template <typename Visit>
inline void WithBits(unsigned d, Visit visit) noexcept {
  switch (d) {
    case 1:
      return visit.template operator()<1>();
    case 2:
      return visit.template operator()<2>();
    case 3:
      return visit.template operator()<3>();
    case 4:
      return visit.template operator()<4>();
    case 5:
      return visit.template operator()<5>();
    case 6:
      return visit.template operator()<6>();
    case 7:
      return visit.template operator()<7>();
    default:
      return visit.template operator()<8>();
  }
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  WithBits(layout.d,
           [&]<unsigned D>() { AddLoop<D>(shape, layout, counters, body, hashes, n, seen); });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  WithBits(layout.d, [&]<unsigned D>() { ContainsLoop<D>(layout, body, hashes, n, seen); });
}

// Every key is set without a test, so an insert is an add.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// ---- whole filters ----------------------------------------------------------

// Merges by the maximum of each cell: the merge finds all keys that either input finds. If each
// input has the share z of zeros, the merge has z^2, and the rate is (1 - z^2)^K at once: 5.6 times
// the rate at the defaults for 0.01, if the two decayed independently. (Inputs with one seed and
// equally many keys decayed at the same places, and more zeros coincide.) After that the cells
// decay as usual. One window of `keys` keys later a quarter of the excess of cells is left, which
// is 1.8 times the rate, and the inputs' keys are missed as those of any filter are at that age.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const Layout layout = LayoutOf(shape);
  WithBits(layout.d, [&]<unsigned D>() {
    ForEachRun<D>(layout.m, [&](uint64_t bit, unsigned width) {
      const uint64_t a = LoadField(body, shape.bytes, bit, width);
      const uint64_t b = LoadField(other, shape.bytes, bit, width);
      StoreField(body, shape.bytes, bit, width, LargerCells<D>(a, b));
    });
  });
  counters->count += other_counters.count;
  return true;
}

// The number of keys after which this many cells are still 0, if no cell is ever decremented. It
// includes the keys of which no cell has decayed yet, and a part of the others.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  uint64_t used = 0;
  WithBits(layout.d, [&]<unsigned D>() {
    ForEachRun<D>(layout.m, [&](uint64_t bit, unsigned width) {
      const uint64_t cells = LoadField(body, shape.bytes, bit, width);
      used += static_cast<uint64_t>(std::popcount(cells - Decremented<D>(cells)));
    });
  });
  const double m = static_cast<double>(layout.m);
  const double share = static_cast<double>(used) / m;
  Reading reading;
  reading.count = KeysFromClear(1 - share, 1, m, layout.k);
  reading.fpr = IntPower(share, layout.k);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::sbf

#endif  // STREAMDEDUP_CORE_METHODS_SBF_HPP_
