// quotient: a quotient filter, which never forgets by itself, can take keys back, and grows.
//
// Paper: Bender, Farach-Colton, Johnson, Kraner, Kuszmaul, Medjedovic, Montes, Shetty,
// Spillane and Zadok, "Don't Thrash: How to Cache Your Hash on Flash" (VLDB 2012). A key
// is a fingerprint of p = q + r bits, kept exactly in a table of 2^q slots of r + 3 bits
// (quotient_table.hpp). When the table is nine tenths full it doubles: one bit of each
// fingerprint moves from the remainder to the quotient, so p and all answers stay.
//
// Shape::bytes is the most that it grows to. It starts with 2^8 slots, or as many as fit.
// Since tables double, the largest that fits may leave nearly half of the bytes unused;
// they are never touched, and not stored. At the largest table it is full.
//
// Promise: no key is ever forgotten. A new key is called a duplicate with probability
// 1 - exp(-n / 2^p) when n keys are in. A duplicate, right or wrong, stores nothing.
// forget() takes one copy of the fingerprint out: it is only for a key whose add was
// answered new, and once; any other takes a key with it that has the same fingerprint.
// insert() stores a fingerprint as often as it comes, up to kMaxCopies times.
// Cost: one or two lines a key; (r + 3) / 0.9 bits a key when full, up to twice that
// before a doubling; a doubling rewrites the table once. Keys are slower as the table
// fills: the cluster on which a key falls has 5 slots on average at half full, 100 at nine
// tenths. Hashes must be spread: keys that crowd in one place are refused (after doubling
// in vain) when one would be more than kMaxShift slots from its own.
// State: the table, the same bytes for the same fingerprints, whatever their order, while
// nothing is forgotten. Counters::count is the fingerprints in it, copies included,
// Counters::state how often it has doubled.

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

// Fingerprints in a table of 2^q slots at most: more would make clusters long.
inline uint64_t Limit(unsigned q) noexcept {
  const uint64_t limit = (uint64_t{1} << q) * 9 / 10;
  return limit > 0 ? limit : 1;
}

struct Layout {
  unsigned p;      // bits of a fingerprint
  unsigned top;    // q of the largest table
  unsigned start;  // q of the first
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

// The fewest bits of a fingerprint that keep the rate.
inline unsigned BitsFor(double fpr, uint64_t keys) noexcept {
  unsigned p = 2;
  while (p <= kMaxP && RateOf(p, static_cast<double>(keys)) > fpr) ++p;
  return p;
}

// The most keys, up to `most`, of which fingerprints of p bits keep the rate.
inline uint64_t KeysFor(double fpr, unsigned p, uint64_t most) noexcept {
  return LeastWhere(1, most,
                    [&](uint64_t keys) { return RateOf(p, static_cast<double>(keys)) > fpr; }) -
         1;
}

// The longest remainder of which a table of 2^q slots fits the bytes; 0 if none does.
inline unsigned LongestRemainder(unsigned q, uint64_t bytes) noexcept {
  unsigned r = kMaxRemainder < kMaxP - q ? kMaxRemainder : kMaxP - q;
  while (r > 0 && TableBytes(q, r) > bytes) --r;
  return r;
}

// Of the tables that fit the bytes the one for the most keys: a larger one has shorter
// fingerprints, which may keep the rate for fewer keys than it has room for. p is what these
// keys need. With r bits of remainder, whatever the rate, the largest that fits.
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

// A filter as it is being filled.
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

  // `again`: puts it in even if it is there.
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
    // One that counts nothing has no need to, whatever its bits are.
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
    // Empty is the state that it started with.
    ClearInPieces(body, table.size());
    counters->state = 0;
  }
  return true;
}

// ---- whole filters ----------------------------------------------------------

// The union, by one pass over both tables in order of fingerprints; one that is in both
// is kept as often as in the one that has more of it. Every key of both is found. Keys of
// each that share a fingerprint share it now, and forgetting the one forgets the other.
// The table is the smallest that holds the union, and not smaller than either input.
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
  // Of n distinct keys, 2^p (1 - exp(-n / 2^p)) have different fingerprints.
  Reading reading;
  reading.count = -std::log1p(-share) * std::ldexp(1, static_cast<int>(p));
  reading.fpr = share;
  return reading;
}

// Whether the bytes are those of the fingerprints that they say, and are so many.
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
