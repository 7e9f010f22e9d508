// exaloglog: counts distinct keys, in the bytes of a sketch.
//
// This is an ExaLogLog with t = 2 and d = 20 (Ertl, "ExaLogLog: Space-Efficient and Practical
// Approximate Distinct Counting up to the Exa-Scale", EDBT 2025). It is the successor of
// HyperLogLog, and takes 43 % fewer bytes than 6-bit registers at equal error. There are 2^p
// registers of 28 bits, two in seven bytes. A key's hash chooses a register and gives an update
// value k >= 1. Values of k and more occur with probability of about 2^(-k/4). The register keeps
// the largest value u that it saw, in 8 bits, and for each of u-1 ... u-20 whether it saw that
// value, in 20 bits. So the state depends only on the set of keys, not on their order, nor on how
// often each came. A merge joins the registers one by one. A sketch can be reduced to fewer
// registers; the result is the same as if it had been made with them.
//
//   bits of a hash:  nlz of bits 63 .. p+2 | p bits: the register | 2 bits
//   k = 4 nlz + those 2 bits + 1
//
// The result is the maximum-likelihood estimate divided by 1 + c/m, which removes its first-order
// bias. There are no tables. By the Fisher information, the relative standard error is sqrt(ln b /
// zeta(2, 1 + a)) / sqrt(m) = 0.3622 / sqrt(m), where m = 2^p and zeta is Hurwitz's zeta function.
// It is less while there are fewer keys than registers. It holds up to 10^18.
//
// A sketch cannot report whether a key was seen: `contains` and test-and-add report whether a key
// would change the state.
// Cost: one cache line a key.
// State: the registers. Counters::count and Counters::state stay zero.

#ifndef STREAMDEDUP_CORE_METHODS_EXALOGLOG_HPP_
#define STREAMDEDUP_CORE_METHODS_EXALOGLOG_HPP_

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"

namespace dedup::exaloglog {

inline constexpr unsigned kT = 2;   // low bits of a hash in an update value
inline constexpr unsigned kD = 20;  // earlier values that a register keeps
inline constexpr uint32_t kWindow = uint32_t{1} << kD;
inline constexpr uint32_t kRegisterMask = (uint32_t{1} << 28) - 1;
inline constexpr unsigned kMinP = 4;
inline constexpr unsigned kMaxP = 26;
inline constexpr uint32_t kGranule = 7u << (kMinP - 1);

// b = 2^(1/4) is the base of the update values' distribution, a = b^-d / (b - 1).
//   kErrorFactor  sqrt(ln b / zeta(2, 1+a))
//   kBias         c = ln b (1 + 2a) zeta(3, 1+a) / zeta(2, 1+a)^2, by Cox and Snell's
//                 formula for the bias of a maximum-likelihood estimate
inline constexpr double kErrorFactor = 0.36220;
inline constexpr double kBias = 0.10554;

// Estimates stay below the maximum of a bigint.
inline constexpr double kMostKeys = 0x1p63 - 1024;

inline unsigned P(const Shape& shape) noexcept { return static_cast<unsigned>(shape.detail); }
inline constexpr uint32_t BytesFor(unsigned p) noexcept { return 7u << (p - 1); }
inline double StandardError(unsigned p) noexcept {
  return kErrorFactor / std::sqrt(static_cast<double>(uint64_t{1} << p));
}

inline constexpr int kErrorOption = 0;
inline constexpr OptionSpec kOptions[] = {{"error", OptionKind::kReal, 0.00005, 0.5}};

// ---- sizes ------------------------------------------------------------------

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const bool by_error = request.options.given[kErrorOption];
  if (by_error && request.memory > 0) return PlanStatus::kTwoSizes;
  if (!by_error && request.memory == 0) return PlanStatus::kNoSize;
  unsigned p = kMinP;
  if (by_error) {
    // The upper end of the option's range is above the error of the largest sketch.
    while (p < kMaxP && StandardError(p) > request.options.value[kErrorOption]) ++p;
  } else {
    if (request.memory < BytesFor(kMinP)) return PlanStatus::kMemoryTooSmall;
    if (request.memory > kMaxBodyBytes) return PlanStatus::kTooLarge;
    while (p < kMaxP && BytesFor(p + 1) <= request.memory) ++p;
  }
  shape->bytes = BytesFor(p);
  shape->detail = p;
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return shape.detail >= kMinP && shape.detail <= kMaxP && shape.bytes == BytesFor(P(shape)) &&
         counters.count == 0 && counters.state == 0;
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  std::snprintf(text, size, "p=%u standard_error=%.2g", P(shape), StandardError(P(shape)));
}

// ---- registers ----------------------------------------------------------------

// Register i is in the four bytes from 7i/2 on: in their low 28 bits if i is even, in the high 28
// bits if i is odd.
inline size_t ByteOf(uint64_t i) noexcept { return static_cast<size_t>(7 * i / 2); }

inline uint32_t LoadRegister(const uint8_t* body, uint64_t i) noexcept {
  return LoadU32(body + ByteOf(i)) >> (4 * (i & 1)) & kRegisterMask;
}

inline void StoreRegister(uint8_t* body, uint64_t i, uint32_t value) noexcept {
  uint8_t* at = body + ByteOf(i);
  const unsigned shift = 4 * (i & 1);
  StoreU32(at, (LoadU32(at) & ~(kRegisterMask << shift)) | value << shift);
}

inline uint32_t ShiftedOut(uint32_t bits, uint32_t by) noexcept { return by < 32 ? bits >> by : 0; }

// Returns the register after an update with value k.
inline uint32_t Updated(uint32_t value, uint32_t k) noexcept {
  const uint32_t u = value >> kD;
  if (k > u) return k << kD | ShiftedOut(kWindow | (value & (kWindow - 1)), k - u);
  if (k < u && u - k <= kD) return value | kWindow >> (u - k);
  return value;
}

// Returns the register that saw the values of both registers.
inline uint32_t Joined(uint32_t left, uint32_t right) noexcept {
  const uint32_t u = left >> kD, v = right >> kD;
  if (u == v) return left | right;
  if (u < v) return Joined(right, left);
  return v == 0 ? left : left | ShiftedOut(kWindow | (right & (kWindow - 1)), u - v);
}

struct Place {
  uint64_t at;  // of the register
  uint32_t k;   // the update value
};

inline Place PlaceOf(uint64_t hash, unsigned p) noexcept {
  const auto nlz = static_cast<uint32_t>(std::countl_zero(hash | LowMask(p + kT)));
  return {hash >> kT & LowMask(p), (nlz << kT) + static_cast<uint32_t>(hash & LowMask(kT)) + 1};
}

// Returns the largest update value.
inline uint32_t MostValue(unsigned p) noexcept { return (65 - p - kT) << kT; }

// ---- keys -------------------------------------------------------------------

// Adds a key. Returns whether the state has changed.
DEDUP_ALWAYS_INLINE inline bool Add(uint8_t* body, unsigned p, uint64_t hash) noexcept {
  const Place place = PlaceOf(hash, p);
  const uint32_t before = LoadRegister(body, place.at);
  const uint32_t after = Updated(before, place.k);
  if (after == before) return false;
  StoreRegister(body, place.at, after);
  return true;
}

inline size_t TestAndAdd(const Shape& shape, Counters*, uint8_t* body, const uint64_t* hashes,
                         size_t n, uint8_t* seen) noexcept {
  const unsigned p = P(shape);
  InGroups(
      n,
      [&](size_t j)
          DEDUP_ALWAYS_INLINE { PrefetchToWrite(body + ByteOf(PlaceOf(hashes[j], p).at)); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        const bool changed = Add(body, p, hashes[j]);
        if (seen != nullptr) seen[j] = !changed;
      });
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const unsigned p = P(shape);
  InGroups(
      n, [&](size_t j) DEDUP_ALWAYS_INLINE { Prefetch(body + ByteOf(PlaceOf(hashes[j], p).at)); },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        const Place place = PlaceOf(hashes[j], p);
        const uint32_t value = LoadRegister(body, place.at);
        seen[j] = Updated(value, place.k) == value;
      });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd(shape, counters, body, hashes, n, nullptr);
}

// Runs visit(i) over all 2^p registers.
template <typename Visit>
DEDUP_ALWAYS_INLINE inline void ForRegisters(unsigned p, Visit visit) noexcept {
  ForPieces(uint64_t{1} << p, kPieceBytes / 4, [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) visit(i);
  });
}

inline bool Merge(const Shape& shape, Counters*, uint8_t* body, const Counters&,
                  const uint8_t* other, const Weights&) noexcept {
  ForRegisters(P(shape), [&](uint64_t i) {
    const uint32_t value = LoadRegister(body, i);
    const uint32_t joined = Joined(value, LoadRegister(other, i));
    if (joined != value) StoreRegister(body, i, joined);
  });
  return true;
}

// ---- fewer registers ----------------------------------------------------------

inline bool Reducible(const Shape& from, const Shape& to) noexcept {
  Shape same = to;
  same.bytes = from.bytes;
  same.detail = from.detail;
  return same == from && P(from) > P(to);
}

// Registers whose numbers agree in their low bits become one register. The high bits of the number
// join the leading zeros of the hash. This only changes hashes with nothing but zeros before these
// bits: their values, which are in the last group, rise by the number of further zeros.
inline void Reduce(const Shape& from, const uint8_t* body, const Shape& to, uint8_t* out) noexcept {
  const unsigned p = P(from), less = p - P(to);
  const uint32_t last_group = (64 - p - kT) << kT;  // values of the last group are above this
  ClearInPieces(out, to.bytes);
  ForRegisters(p, [&](uint64_t i) {
    const uint32_t value = LoadRegister(body, i);
    if (value >> kD == 0) return;
    const uint64_t at = i & LowMask(P(to));
    uint32_t joined = LoadRegister(out, at);
    const uint32_t u = value >> kD;
    if (u <= last_group) {
      joined = Joined(joined, value);
    } else {
      const uint64_t high = i >> P(to);
      const auto zeros = static_cast<uint32_t>(less) - static_cast<uint32_t>(std::bit_width(high));
      for (uint32_t back = u - 1 < kD ? u - 1 : kD; back <= kD; --back) {
        if (back > 0 && (value & kWindow >> back) == 0) continue;
        uint32_t k = u - back;
        if (k > last_group) k += zeros << kT;
        if (k > MostValue(P(to))) k = MostValue(P(to));  // only in bits that no sketch has
        joined = Updated(joined, k);
      }
    }
    StoreRegister(out, at, joined);
  });
}

// ---- the estimate ---------------------------------------------------------------
//
// The number n of keys is taken as Poisson. Then registers and values are independent, and a value
// of probability 2^-j / m was seen with probability 1 - exp(-n / (m 2^j)), so
//   ln L(n) = -n/m A + sum over j of B_j ln(1 - exp(-n / (m 2^j))),
// where A is the sum of the probabilities of all values that were surely not seen, and B_j the
// number of seen values of probability 2^-j. At the maximum of L
//   A = sum over j of B_j 2^-j / (exp(n / (m 2^j)) - 1).
// The right side falls with n and is convex: Newton's steps from below rise to the root and stop.
//
// A is a whole multiple of the smallest probability, so it is exact. The rest uses only single
// additions, products and divisions of doubles. A compiler may fuse a product and a sum, which then
// rounds only once. Apart() prevents that, so that the estimate is the same on every machine.

inline constexpr unsigned kLevels = 64;  // groups of four values

// Returns -log2 of the probability of each of the four values of a group in its register.
inline uint32_t Exponent(unsigned p, uint32_t group) noexcept {
  const uint32_t j = kT + 1 + group;
  return j < 64 - p ? j : 64 - p;
}

// The statistics of a sketch from which n is estimated.
struct Statistics {
  uint64_t unseen = 0;          // A in units of 2^(p-64)
  uint64_t seen[kLevels] = {};  // B, by level: group 0 has j = 3
  uint64_t all_seen = 0;
};

inline Statistics StatisticsOf(const Shape& shape, const uint8_t* body) noexcept {
  const unsigned p = P(shape);
  const uint32_t most = MostValue(p);
  // Indexed by u: the number of registers, and how often each of the values u-20 ... u was seen.
  // Counts are by group: the even groups in the low four bytes and the odd groups above. They are
  // flushed before they can overflow.
  constexpr uint64_t kFlush = 32;
  uint64_t registers[256] = {}, lanes[256] = {};
  Statistics statistics;
  const auto lowest = [](uint32_t u) { return static_cast<int>(u) - static_cast<int>(kD) - 1; };
  const auto flush = [&](uint32_t u) {
    const int group = lowest(u) >> kT;  // rounded down
    for (int i = 0; i < 6; ++i) {
      const uint64_t count = lanes[u] >> (8 * (i / 2) + 32 * (i % 2)) & 0xff;
      if (group + i >= 0) statistics.seen[group + i] += count;
    }
    lanes[u] = 0;
  };
  ForRegisters(p, [&](uint64_t i) {
    const uint32_t value = LoadRegister(body, i);
    uint32_t u = value >> kD;
    if (u > most) u = most;  // only in bits that no sketch has
    // Bit 0 is value u-20, bit 20 is u. The bits are shifted so that groups are nibbles.
    uint32_t bits = (kWindow | (value & (kWindow - 1))) << (lowest(u) & 3);
    bits = (bits & 0x555555) + (bits >> 1 & 0x555555);
    bits = (bits & 0x333333) + (bits >> 2 & 0x333333);
    lanes[u] += (bits & 0x0f0f0f) | uint64_t{bits >> 4 & 0x0f0f0f} << 32;
    if (++registers[u] % kFlush == 0) flush(u);
  });
  for (uint32_t u = 1; u <= most; ++u) flush(u);

  // The values that a register with this u keeps, by group, and the values above u.
  uint64_t told[kLevels] = {};
  for (uint32_t u = 1; u <= most; ++u) {
    for (uint32_t k = u > kD ? u - kD : 1; k <= u; ++k) told[(k - 1) >> kT] += registers[u];
  }
  uint64_t above = 0;
  for (uint32_t u = most; u > 0; --u) {
    statistics.unseen += registers[u] * above;
    above += uint64_t{1} << (64 - p - Exponent(p, (u - 1) >> kT));
  }
  statistics.unseen += registers[0] * above;  // 2^64 if all registers are empty
  for (uint32_t group = 0; group << kT < most; ++group) {
    statistics.unseen += (told[group] - statistics.seen[group]) << (64 - p - Exponent(p, group));
    statistics.all_seen += statistics.seen[group];
  }
  return statistics;
}

// Returns the product, and prevents the compiler from fusing it with a sum.
inline double Apart(double product) noexcept {
  volatile double rounded = product;
  return rounded;
}

// Returns exp(v) - 1 for v >= 0, by single operations.
inline double ExpMinus1(double v) noexcept {
  int halvings = 0;
  for (; v > 0x1p-5; ++halvings) v *= 0.5;
  double sum = v, term = v;
  for (int i = 2; i <= 10; ++i) {
    term = term * v / i;
    sum += term;
  }
  for (; halvings > 0; --halvings) sum = Apart(sum * (sum + 2));
  return sum;
}

inline double Estimate(unsigned p, const Statistics& statistics) noexcept {
  if (statistics.all_seen == 0) return 0;
  double weight[kLevels + 3] = {};  // by j, B_j 2^-j in units of 2^(p-64)
  int least = 64, most = 0;
  double half_sum = 0;
  for (unsigned group = 0; group <= 64 - p - kT; ++group) {
    if (statistics.seen[group] == 0) continue;
    const int j = static_cast<int>(Exponent(p, group));
    const double seen = static_cast<double>(statistics.seen[group]);
    const double weighted = std::ldexp(seen, 64 - static_cast<int>(p) - j);
    weight[j] += weighted;
    half_sum += 0.5 * weighted;
    if (j < least) least = j;
    if (j > most) most = j;
  }
  // All values were seen: there are more keys than can be estimated. The result is still a number.
  const double unseen = statistics.unseen > 0 ? static_cast<double>(statistics.unseen) : 1;
  // In units of v = n / (m 2^most). Because 1 / (exp(y) - 1) > 1/y - 1/2, the start is below the
  // root.
  double v = std::ldexp(static_cast<double>(statistics.all_seen), 64 - static_cast<int>(p) - most) /
             (unseen + half_sum);
  for (int step = 0; step < 200; ++step) {
    double x = ExpMinus1(v), value = 0, slope = 0, scale = 1;
    for (int j = most; j >= least && x < 1e100; --j) {
      const double part = weight[j] / x;
      value += part;
      slope += Apart(part * scale * (1 + 1 / x));
      x = Apart(x * (x + 2));
      scale *= 2;
    }
    const double next = v + (value - unseen) / slope;
    if (!(next > v)) break;
    v = next;
  }
  const double n = std::ldexp(v, static_cast<int>(p) + most) /
                   (1 + kBias / static_cast<double>(uint64_t{1} << p));
  return n < kMostKeys ? n : kMostKeys;
}

// The rate is the probability that a new key changes nothing.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Statistics statistics = StatisticsOf(shape, body);
  Reading reading;
  if (statistics.all_seen == 0) return reading;
  reading.count = Estimate(P(shape), statistics);
  reading.fpr = 1 - std::ldexp(static_cast<double>(statistics.unseen), -64);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::exaloglog

#endif  // STREAMDEDUP_CORE_METHODS_EXALOGLOG_HPP_
