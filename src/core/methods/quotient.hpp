// quotient: a quotient filter, which never forgets by itself, supports dedup_forget, and grows.
//
// Paper: Bender, Farach-Colton, Johnson, Kraner, Kuszmaul, Medjedovic, Montes, Shetty, Spillane and
// Zadok, "Don't Thrash: How to Cache Your Hash on Flash" (VLDB 2012). A key is a fingerprint of p =
// q + r bits, kept exactly in a table of 2^q slots of r + 3 bits (quotient_table.hpp). When the
// table is nine tenths full it doubles: one bit of each fingerprint moves from the remainder to the
// quotient, so p and all answers stay the same.
//
// Shape::bytes is the size up to which the filter grows. It starts with 2^8 slots, or as many as
// fit. Because tables double, the largest table may leave nearly half of these bytes unused; they
// are never touched, and not stored. When the largest table is nine tenths full, the filter is
// full.
//
// Promise: no key is ever forgotten. A new key is reported as a duplicate with probability 1 -
// exp(-n / 2^p) when the filter holds n keys. A duplicate, right or wrong, stores nothing. forget()
// removes one copy of the fingerprint. It must be called only for a key whose add was reported as
// new, and only once: otherwise it removes another key with the same fingerprint. insert() stores a
// fingerprint as often as it comes, up to kMaxCopies times.
// Cost: one or two lines a key; (r + 3) / 0.9 bits a key when full, up to twice that before a
// doubling. A doubling rewrites the table once. Keys become slower as the table fills: the cluster
// on which a key falls has 5 slots on average if the table is half full, and 100 at nine tenths.
// Hashes must be spread: a key that would be more than kMaxShift slots from its place is refused
// (after a doubling in vain).
// State: the table. While nothing is forgotten, the same fingerprints give the same bytes, whatever
// their order. Counters::count is the number of fingerprints, copies included; Counters::state is
// the number of doublings.

#ifndef STREAMDEDUP_CORE_METHODS_QUOTIENT_HPP_
#define STREAMDEDUP_CORE_METHODS_QUOTIENT_HPP_

#include <cmath>
#include <cstdio>
#include <cstring>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"
#include "quotient_rewrite.hpp"
#include "quotient_table.hpp"

namespace dedup::quotient {

inline constexpr size_t kGranule = 8;
inline constexpr unsigned kMinQ = 1;
inline constexpr unsigned kMaxQ = 30;
inline constexpr unsigned kStartQ = 8;
inline constexpr unsigned kMaxP = 62;

// Returns the most fingerprints in a table of 2^q slots: more would make clusters long.
inline uint64_t Limit(unsigned q) noexcept {
  const uint64_t limit = (uint64_t{1} << q) * 9 / 10;
  return limit > 0 ? limit : 1;
}

struct Layout {
  unsigned p;      // bits of a fingerprint
  unsigned top;    // q of the largest table
  unsigned start;  // q of the first table
};

inline unsigned StartOf(unsigned p, unsigned top) noexcept {
  unsigned start = top < kStartQ ? top : kStartQ;
  if (p > kMaxRemainder && p - kMaxRemainder > start) start = p - kMaxRemainder;
  return start;
}
inline Layout LayoutOf(const Shape& shape) noexcept {
  const auto p = static_cast<unsigned>(shape.detail & 0xff);
  const auto top = static_cast<unsigned>(shape.detail >> 8 & 0xff);
  return {p, top, StartOf(p, top)};
}
inline unsigned QOf(const Layout& layout, const Counters& counters) noexcept {
  return layout.start + counters.state;
}
inline bool LayoutHolds(const Layout& layout, uint64_t bytes) noexcept {
  return layout.top >= kMinQ && layout.top <= kMaxQ && layout.p <= kMaxP && layout.p > layout.top &&
         layout.start <= layout.top && TableBytes(layout.top, layout.p - layout.top) <= bytes;
}

inline constexpr int kROption = 2;
inline constexpr OptionSpec kOptions[] = {
    kFprOption, kKeysOption, {"r", OptionKind::kWhole, 1, kMaxRemainder}};

// ---- sizes ------------------------------------------------------------------

inline double RateOf(unsigned p, double keys) noexcept {
  return -std::expm1(-std::ldexp(keys, -static_cast<int>(p)));
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  return RateOf(LayoutOf(shape).p, keys);
}

// Returns the fewest bits of a fingerprint that keep the rate.
inline unsigned BitsFor(double fpr, uint64_t keys) noexcept {
  unsigned p = 2;
  while (p <= kMaxP && RateOf(p, static_cast<double>(keys)) > fpr) ++p;
  return p;
}

// Returns the most keys, up to `most`, for which fingerprints of p bits keep the rate.
inline uint64_t KeysFor(double fpr, unsigned p, uint64_t most) noexcept {
  return LeastWhere(1, most,
                    [&](uint64_t keys) { return RateOf(p, static_cast<double>(keys)) > fpr; }) -
         1;
}

// Returns the longest remainder for which a table of 2^q slots fits into the bytes, or 0 if there
// is none.
inline unsigned LongestRemainder(unsigned q, uint64_t bytes) noexcept {
  unsigned r = kMaxRemainder < kMaxP - q ? kMaxRemainder : kMaxP - q;
  while (r > 0 && TableBytes(q, r) > bytes) --r;
  return r;
}

// Chooses, among the tables that fit into the bytes, the one for the most keys. A larger table has
// shorter fingerprints, which may keep the rate for fewer keys than it has room for. p is what
// these keys need. If r, the bits of the remainder, is given, chooses the largest table that fits,
// whatever its rate.
inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  const Options& options = request.options;
  const bool given = options.given[kROption];
  const PlanStatus status =
      PlanFromMemory(request, kGranule, shape, [&](uint64_t bytes, Shape* trial) {
        trial->keys = 0;
        for (unsigned top = kMaxQ; top >= kMinQ; --top) {
          const unsigned r =
              given ? static_cast<unsigned>(options.value[kROption]) : LongestRemainder(top, bytes);
          if (r == 0 || top + r > kMaxP || TableBytes(top, r) > bytes) continue;
          uint64_t keys = Limit(top);
          if (!given) keys = KeysFor(request.fpr, top + r, keys);
          if (keys <= trial->keys) continue;
          trial->keys = keys;
          unsigned p = top + r;
          if (!given) {
            if (request.keys > 0 && keys > request.keys) keys = request.keys;
            p = BitsFor(request.fpr, keys);
            if (p <= top) p = top + 1;
          }
          trial->detail = p | top << 8;
        }
        return trial->keys > 0 ? PlanStatus::kOk : PlanStatus::kMemoryTooSmall;
      });
  if (status == PlanStatus::kOk && given) {
    shape->fpr = FprFrom(ExpectedFpr(*shape, static_cast<double>(shape->keys)));
  }
  return status;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return shape.detail >> 16 == 0 && shape.bytes >= kGranule && shape.bytes % kGranule == 0 &&
         LayoutHolds(layout, shape.bytes) && shape.keys <= Limit(layout.top) &&
         counters.state <= layout.top - layout.start &&
         (counters.count > 0 || counters.state == 0) &&
         counters.count <= Limit(QOf(layout, counters));
}

inline uint32_t UsedBytes(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned q = QOf(layout, counters);
  return static_cast<uint32_t>(TableBytes(q, layout.p - q));
}

inline bool GrowsNext(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned q = QOf(layout, counters);
  return q < layout.top && counters.count >= Limit(q);
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "q=%u..%u r=%u..%u", layout.start, layout.top, layout.p - layout.start,
                layout.p - layout.top);
}

// ---- keys -------------------------------------------------------------------

inline uint64_t FingerprintOf(uint64_t hash, unsigned p) noexcept { return hash >> (64 - p); }

inline Table TableOf(const Layout& layout, const Counters& counters, const uint8_t* body) noexcept {
  const unsigned q = QOf(layout, counters);
  return Table(body, q, layout.p - q);
}

// A filter that is being filled.
class Filling {
 public:
  Filling(const Shape& shape, Counters* counters, uint8_t* body) noexcept
      : layout_(LayoutOf(shape)),
        counters_(counters),
        body_(body),
        table_(TableOf(layout_, *counters, body)),
        limit_(Limit(table_.q())) {}

  uint64_t FingerprintOf(uint64_t hash) const noexcept {
    return quotient::FingerprintOf(hash, layout_.p);
  }
  DEDUP_ALWAYS_INLINE void Fetch(uint64_t hash) const noexcept {
    table_.Fetch(FingerprintOf(hash));
  }

  enum class Result { kNew, kSeen, kFull };

  // `again`: adds the fingerprint even if it is there.
  Result Add(uint64_t fingerprint, bool again) noexcept {
    while (true) {
      const Spot spot = table_.Locate(fingerprint);
      if (spot.found) {
        if (!again) return Result::kSeen;
        if (table_.CopiesAt(spot) >= kMaxCopies) return Result::kFull;
      }
      if (counters_->count < limit_ && table_.Insert(spot)) {
        ++counters_->count;
        return Result::kNew;
      }
      if (!Grow()) return Result::kFull;
    }
  }

 private:
  bool Grow() noexcept {
    // A filter that counts no keys need not grow, whatever its bits are.
    const unsigned q = table_.q();
    if (counters_->count == 0 || q >= layout_.top || !Rewrite(body_, layout_.p, q, q + 1, nullptr))
      return false;
    ++counters_->state;
    table_ = TableOf(layout_, *counters_, body_);
    limit_ = Limit(q + 1);
    return true;
  }

  Layout layout_;
  Counters* counters_;
  uint8_t* body_;
  Table table_;
  uint64_t limit_;
};

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  Filling filling(shape, counters, body);
  size_t taken = 0;
  InGroups(
      n, [&](size_t i) DEDUP_ALWAYS_INLINE { filling.Fetch(hashes[i]); },
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        if (taken < i) return;
        const Filling::Result result = filling.Add(filling.FingerprintOf(hashes[i]), false);
        if (result == Filling::Result::kFull) return;
        if (seen != nullptr) seen[i] = result == Filling::Result::kSeen;
        ++taken;
      });
  return taken;
}

inline void Contains(const Shape& shape, const Counters& counters, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  const Table table = TableOf(layout, counters, body);
  InGroups(
      n, [&](size_t i) DEDUP_ALWAYS_INLINE { table.Fetch(FingerprintOf(hashes[i], layout.p)); },
      [&](size_t i)
          DEDUP_ALWAYS_INLINE { seen[i] = table.Contains(FingerprintOf(hashes[i], layout.p)); });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  Filling filling(shape, counters, body);
  for (size_t i = 0; i < n; ++i) {
    if (i + kGroup / 2 < n) filling.Fetch(hashes[i + kGroup / 2]);
    if (filling.Add(filling.FingerprintOf(hashes[i]), true) == Filling::Result::kFull) return i;
  }
  return n;
}

inline bool Forget(const Shape& shape, Counters* counters, uint8_t* body, uint64_t hash) noexcept {
  const Layout layout = LayoutOf(shape);
  Table table = TableOf(layout, *counters, body);
  const Spot spot = table.Locate(FingerprintOf(hash, layout.p));
  if (!spot.found || counters->count == 0 || !table.Remove(spot)) return false;
  if (--counters->count == 0) {
    // An empty filter has the state with which it started.
    ClearInPieces(body, table.size());
    counters->state = 0;
  }
  return true;
}

// ---- whole filters ----------------------------------------------------------

// Merges into the union, by one pass over both tables in order of fingerprints. A fingerprint in
// both is kept as often as in the table that has more copies of it. Every key of both is found. Two
// keys, one of each filter, with the same fingerprint share one copy, and forgetting one of them
// forgets the other. The table is the smallest that holds the union, and not smaller than either
// input.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const Layout layout = LayoutOf(shape);
  const Table ours = TableOf(layout, *counters, body);
  const Table theirs = TableOf(layout, other_counters, other);
  for (unsigned q = ours.q() > theirs.q() ? ours.q() : theirs.q(); q <= layout.top; ++q) {
    TableSource left(&ours), right(&theirs);
    Placer placer(q, layout.p - q);
    uint64_t count = 0;
    const bool fits = ForEachOfUnion(&left, &right, [&](uint64_t fingerprint) {
      return ++count <= Limit(q) && placer.Place(fingerprint);
    });
    if (!fits) continue;
    if (!Rewrite(body, layout.p, ours.q(), q, &theirs)) return false;
    counters->state = count > 0 ? q - layout.start : 0;
    counters->count = count;
    return true;
  }
  return false;
}

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t*) noexcept {
  const unsigned p = LayoutOf(shape).p;
  const double share = std::ldexp(static_cast<double>(counters.count), -static_cast<int>(p));
  // n distinct keys have 2^p (1 - exp(-n / 2^p)) different fingerprints.
  Reading reading;
  reading.count = -std::log1p(-share) * std::ldexp(1, static_cast<int>(p));
  reading.fpr = share;
  return reading;
}

// Returns whether the bytes are a valid table with the counted number of fingerprints.
inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const Table table = TableOf(layout, counters, body);
  Scanner scanner(table);
  Placer placer(table.q(), table.r());
  uint64_t count = 0, last = 0;
  while (!scanner.done()) {
    const uint64_t slot = scanner.at();
    uint64_t fingerprint;
    if (!scanner.Step(&fingerprint)) {
      if (scanner.value() != 0) return false;
      continue;
    }
    if (fingerprint < last || !placer.Place(fingerprint) || placer.at() != slot ||
        placer.value() != (scanner.value() & ~kOccupied)) {
      return false;
    }
    last = fingerprint;
    ++count;
  }
  return !scanner.broken() && !scanner.pending() && count == counters.count && table.EndsClear();
}

extern const Method kMethod;

}  // namespace dedup::quotient

#endif  // STREAMDEDUP_CORE_METHODS_QUOTIENT_HPP_
