// The sizes of an Age-Partitioned Bloom Filter (apbf.hpp): its parameters, their rate, and the
// choice of parameters for a rate.

#ifndef STREAMDEDUP_CORE_METHODS_APBF_SIZES_HPP_
#define STREAMDEDUP_CORE_METHODS_APBF_SIZES_HPP_

#include <cmath>
#include <cstdint>

#include "../method.hpp"
#include "../sizing.hpp"

namespace dedup::apbf {

inline constexpr unsigned kMaxK = 48;
inline constexpr unsigned kMaxL = 64;
inline constexpr unsigned kMaxSlices = kMaxK + kMaxL;
inline constexpr unsigned kDefaultK = 10;
inline constexpr unsigned kDefaultL = 7;
inline constexpr size_t kGranule = 8;
inline constexpr uint64_t kLeastSliceBits = 64;  // unless k and l are given
inline constexpr double kLn2 = 0.69314718055994531;

struct Layout {
  unsigned k;
  unsigned l;
  uint64_t generation;  // g: number of counted insertions after which a generation ends
  uint64_t slice_bits;  // m

  unsigned slices() const noexcept { return k + l; }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  Layout layout = {};
  layout.k = static_cast<unsigned>(shape.detail & 0xff);
  layout.l = static_cast<unsigned>(shape.detail >> 8 & 0xff);
  layout.generation = shape.detail >> 16;
  if (layout.slices() > 0) layout.slice_bits = uint64_t{shape.bytes} * 8 / layout.slices();
  return layout;
}

inline constexpr int kKOption = 2;
inline constexpr int kLOption = 3;
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"k", OptionKind::kWhole, 1, kMaxK},
                                          {"l", OptionKind::kWhole, 1, kMaxL}};

// ---- rates ------------------------------------------------------------------

// Calls visit(s, rate) for s = 0, 1, ... slices - k. `rate` is the probability that a new key is in
// k slices in a row among the first k + s slices, where slice i has the key with probability
// fill(i). The first such row ends at i if slice i - k does not have the key and no row ended
// before.
template <typename Fill, typename Visit>
inline void ForEachRun(unsigned k, unsigned slices, Fill fill, Visit visit) noexcept {
  // found[i]: probability of a row in slices 0 .. i
  double fills[kMaxSlices] = {}, found[kMaxSlices] = {};
  for (unsigned i = 0; i < slices; ++i) {
    fills[i] = fill(i);
    if (i + 1 < k) continue;
    double row = 1;
    for (unsigned j = i + 1 - k; j <= i; ++j) row *= fills[j];
    if (i >= k) row *= (1 - fills[i - k]) * (i > k ? 1 - found[i - k - 1] : 1);
    found[i] = (i > 0 ? found[i - 1] : 0) + row;
    if (found[i] > 1) found[i] = 1;
    visit(i + 1 - k, found[i]);
  }
}

template <typename Fill>
inline double RunRate(unsigned k, unsigned slices, Fill fill) noexcept {
  double last = 0;
  ForEachRun(k, slices, fill, [&](unsigned, double rate) { last = rate; });
  return last;
}

// Returns the rate when `generations` have ended and the current generation has `keys` insertions.
inline double RateAt(const Layout& layout, uint64_t generations, double keys) noexcept {
  const double full = static_cast<double>(layout.generation);
  const double bits = static_cast<double>(layout.slice_bits);
  return RunRate(layout.k, layout.slices(), [&](unsigned i) {
    // Slice i was one of the youngest for k generations, from generation G - i on.
    const uint64_t from = generations > i ? generations - i : 0;
    const uint64_t to = generations + layout.k;  // minus i; not included
    double held = i < layout.k ? keys : 0;
    const uint64_t end = i < layout.k ? generations : (to > i ? to - i : 0);
    if (end > from) held += static_cast<double>(end - from) * full;
    return -std::expm1(-held / bits);
  });
}

// Returns the rate just before a generation ends, when all slices have had k generations.
inline double MostRate(const Layout& layout) noexcept {
  return RateAt(layout, layout.slices() - 1, static_cast<double>(layout.generation));
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  const double full = static_cast<double>(layout.generation);
  const double generations = std::floor(keys / full);
  if (generations >= layout.slices()) return MostRate(layout);
  const auto ended = static_cast<uint64_t>(generations);
  const double now = RateAt(layout, ended, keys - generations * full);
  // The rate falls when a generation ends. The rate before that is returned until the current one
  // exceeds it.
  const double before = ended > 0 ? RateAt(layout, ended - 1, full) : 0;
  return now > before ? now : before;
}

// ---- sizes ------------------------------------------------------------------

inline void SetSizes(unsigned k, unsigned l, uint64_t generation, Shape* shape) noexcept {
  shape->keys = l * generation;
  shape->detail = k | l << 8 | generation << 16;
}

// Returns floor(m ln2 / k), which may be 0.
inline uint64_t GenerationOf(uint64_t bits, unsigned k, unsigned l) noexcept {
  const uint64_t slice_bits = bits / (k + l);
  return static_cast<uint64_t>(static_cast<double>(slice_bits) * kLn2 / k);
}

// Finds for each k the largest l that keeps the rate, or 0 if none does.
inline void LargestLs(double fpr, unsigned largest[kMaxK + 1]) noexcept {
  for (unsigned k = 1; k <= kMaxK; ++k) {
    largest[k] = 0;
    ForEachRun(
        k, k + kMaxL, [&](unsigned i) { return i < k ? 1 - std::exp2(-(i + 1.0) / k) : 0.5; },
        [&](unsigned l, double rate) {
          if (rate <= fpr) largest[k] = l;
        });
  }
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const bool k_given = options.given[kKOption], l_given = options.given[kLOption];
  const unsigned only_k = k_given ? static_cast<unsigned>(options.value[kKOption]) : 0;
  const unsigned only_l = l_given ? static_cast<unsigned>(options.value[kLOption]) : 0;
  unsigned largest[kMaxK + 1] = {};
  LargestLs(request.fpr, largest);

  const bool both = k_given && l_given;
  if (both || (!k_given && !l_given && largest[kDefaultK] >= kDefaultL)) {
    const unsigned k = both ? only_k : kDefaultK, l = both ? only_l : kDefaultL;
    const PlanStatus status =
        PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
          if (bytes * 8 < (both ? 1 : kLeastSliceBits) * (k + l)) {
            return PlanStatus::kMemoryTooSmall;
          }
          const uint64_t generation = GenerationOf(bytes * 8, k, l);
          SetSizes(k, l, generation > 0 ? generation : 1, sized);
          return PlanStatus::kOk;
        });
    if (both && status == PlanStatus::kOk) shape->fpr = FprFrom(MostRate(LayoutOf(*shape)));
    return status;
  }

  const unsigned first_k = k_given ? only_k : 1, last_k = k_given ? only_k : kMaxK;
  bool any = false;
  for (unsigned k = first_k; k <= last_k; ++k) any |= largest[k] >= (l_given ? only_l : 1);
  if (!any) return PlanStatus::kConflict;
  return PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* sized) {
    sized->keys = 0;
    for (unsigned k = first_k; k <= last_k; ++k) {
      const unsigned first_l = l_given ? only_l : 1;
      const unsigned last_l = l_given && only_l < largest[k] ? only_l : largest[k];
      for (unsigned l = first_l; l <= last_l; ++l) {
        if (bytes * 8 < kLeastSliceBits * (k + l)) break;
        const uint64_t generation = GenerationOf(bytes * 8, k, l);
        if (l * generation > sized->keys) SetSizes(k, l, generation, sized);
      }
    }
    return sized->keys > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
  });
}

}  // namespace dedup::apbf

#endif  // STREAMDEDUP_CORE_METHODS_APBF_SIZES_HPP_
