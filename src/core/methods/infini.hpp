// infini: fingerprints of different lengths in cache lines. The filter never forgets and grows.
//
// Papers: Dayan, Bercea, Reviriego and Pagh, "InfiniFilter: Expanding Filters to Infinity and
// Beyond" (SIGMOD 2023), and Dayan, Bercea and Pagh, "Aleph Filter: To Infinity in Constant Time"
// (VLDB 2024). A fingerprint marks its own length. It gives one bit to its address each time the
// table doubles, while new keys get longer fingerprints. The filters of these papers are quotient
// filters. Here a bucket is a cache line (infini_line.hpp), as in Apple's Taffy filters (Apple,
// "Stretching your data with Taffy filters", 2021), which have buckets of cuckoo tables.
//
// A filter is a set of prefixes of hashes. Its rate is the sum of 2^-p over them, where p is the
// number of bits of a prefix. The first k bits of a hash are its cell. The bits that follow, up to
// w - 1 of them, are its fingerprint, in a slot of w bits. The table has a line for each cell, or
// three lines for two cells. Of these, the second line has the last third of the first cell and the
// first third of the second cell. So the table grows in steps of 3/2 and 4/3 (Table). A key whose
// line is full goes into one of the next 15 lines. If those are full as well, two entries of its
// line are joined into one that holds both.
//
// With more than c keys a line, the table is rebuilt one step larger. When the cells double, the
// first bit of every entry says to which of two cells it goes; an entry without bits goes to both.
// No entry changes what it holds, so the rate does not change. Only new keys add to it: 3/4 c
// 2^(1-w) in a doubling. There are 18 doublings from 2 kB to 512 MB, and w is chosen so that the
// sum is at most the requested rate.
//
// Promise: the filter never forgets, so a key that was added is never reported as new. A new key is
// reported as a duplicate at most at the requested rate, whatever the number of keys, up to 512 MB.
// At that size keys are joined with others and the rate rises, but no key is ever lost.
// Cost: one cache line a key. For rates from 0.01 on 23 to 34 bits a key, from 0.00004 on 34 to 51.
// A step rewrites the table; all steps together write each key 3.5 times.
// State: the lines. Counters::count is the number of keys added, Counters::state the number of
// steps that the table has grown. The bytes depend on the order of the keys, because a key's
// fingerprint has as many bits as new fingerprints have when the key is added.

#ifndef STREAMDEDUP_CORE_METHODS_INFINI_HPP_
#define STREAMDEDUP_CORE_METHODS_INFINI_HPP_

#include <cmath>
#include <cstdio>
#include <cstring>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"
#include "infini_grow.hpp"
#include "infini_keys.hpp"
#include "infini_order.hpp"
#include "infini_table.hpp"
#include "infini_take.hpp"

namespace dedup::infini {

inline constexpr uint64_t kExactHashes = kMostExactOfGrowing;

// Shape::detail has the bytes of a slot, and this flag if the filter is a state of a partial
// aggregate. The rate of a state is an eighth of the requested one.
inline constexpr uint64_t kStateFlag = 0x100;
inline constexpr double kStatesMerged = 8;

// This flag means that the filter was saved from a live filter that grows. The bits above it are
// the number of bits of its fingerprints. The order of hashes is then a different one
// (infini_order.hpp).
inline constexpr uint64_t kLiveOrder = 0x200;
inline constexpr unsigned kLiveBitsShift = 10;

inline unsigned SlotBytes(const Shape& shape) noexcept {
  return static_cast<unsigned>(shape.detail & 0xff);
}
inline bool IsState(const Shape& shape) noexcept { return (shape.detail & kStateFlag) != 0; }
inline bool InLiveOrder(const Shape& shape) noexcept { return (shape.detail & kLiveOrder) != 0; }
inline unsigned LiveBits(const Shape& shape) noexcept {
  return static_cast<unsigned>(shape.detail >> kLiveBitsShift);
}

inline Size SizeOf(const Counters& counters) noexcept { return SizeAt(counters.state); }
inline uint32_t UsedBytes(const Shape&, const Counters& counters) noexcept {
  return SizeOf(counters).Bytes();
}

// The most keys that a reading counts: the maximum of a bigint.
inline constexpr double kMostAdded = 0x1.fffffffffffffp62;

// ---- sizes ------------------------------------------------------------------

// The average number of keys a line with which the table grows, by the bytes of a slot. With this
// many, fewer than one key in 100,000 finds no room in its line or nearby.
inline constexpr double kKeysALine[kMaxSlotBytes + 1] = {0, 0, 22.5, 14.5, 9, 6.5};

// Returns the most keys before a table grows.
inline uint64_t Limit(unsigned slot_bytes, unsigned step) noexcept {
  return static_cast<uint64_t>(kKeysALine[slot_bytes] * static_cast<double>(SizeAt(step).Lines()));
}

// Returns the least step whose table takes this many keys, or kTopStep.
inline unsigned StepFor(unsigned slot_bytes, uint64_t keys) noexcept {
  unsigned step = 0;
  while (step < kTopStep && Limit(slot_bytes, step) < keys) ++step;
  return step;
}

// Runs visit(keys, rate of each) for the keys that are added to each table until there are `keys`
// in all.
template <typename Visit>
inline void ForEachStep(unsigned slot_bytes, double keys, Visit visit) noexcept {
  double before = 0;
  for (unsigned step = StepFor(slot_bytes, kExactHashes + 1); before < keys; ++step) {
    double end = static_cast<double>(Limit(slot_bytes, step));
    if (end > keys || step >= kTopStep) end = keys;
    visit(end - before, std::ldexp(1, -static_cast<int>(SizeAt(step).bits + 8 * slot_bytes - 1)));
    before = end;
  }
}

inline double RateOf(unsigned slot_bytes, double keys) noexcept {
  double rate = 0;
  ForEachStep(slot_bytes, keys, [&](double added, double of_each) { rate += added * of_each; });
  return rate < 1 ? rate : 1;
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  if (keys <= static_cast<double>(kExactHashes)) return std::ldexp(keys, -64);
  return RateOf(SlotBytes(shape), keys);
}

// Returns the narrowest slots that keep the rate up to the largest table.
inline unsigned SlotBytesFor(double rate) noexcept {
  unsigned slot_bytes = kMinSlotBytes;
  while (slot_bytes < kMaxSlotBytes &&
         RateOf(slot_bytes, static_cast<double>(Limit(slot_bytes, kTopStep))) > rate) {
    ++slot_bytes;
  }
  return slot_bytes;
}

inline uint64_t DetailFor(double fpr, bool state) noexcept {
  return SlotBytesFor(state ? fpr / kStatesMerged : fpr) | (state ? kStateFlag : 0);
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  if (request.keys != 0 || request.memory != 0) return PlanStatus::kConflict;
  shape->bytes = static_cast<uint32_t>(kMaxBodyBytes);
  shape->keys = 0;
  shape->fpr = request.fpr;
  shape->detail = DetailFor(request.fpr, false);
  return PlanStatus::kOk;
}

// Only the largest table may have more keys than its limit. Otherwise a filter of few bytes could
// grow to any size with its next key.
inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  return SlotBytes(shape) >= kMinSlotBytes && SlotBytes(shape) <= kMaxSlotBytes &&
         (InLiveOrder(shape) ? !IsState(shape) && LiveBits(shape) >= kMinLiveBits &&
                                   LiveBits(shape) <= kMaxLiveBits
                             : shape.detail >> kLiveBitsShift == 0) &&
         shape.bytes == kMaxBodyBytes && counters.state <= kTopStep &&
         counters.count <=
             (counters.state < kTopStep ? Limit(SlotBytes(shape), counters.state) : kMaxCount);
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  if (InLiveOrder(shape)) {
    std::snprintf(text, size, "slot_bits=%u live_bits=%u", 8 * SlotBytes(shape), LiveBits(shape));
    return;
  }
  std::snprintf(text, size, "slot_bits=%u%s", 8 * SlotBytes(shape),
                IsState(shape) ? " state=on" : "");
}

// ---- the table --------------------------------------------------------------

// Runs use(table), where the table has the width of the shape's slots.
template <typename Use>
DEDUP_ALWAYS_INLINE inline auto WithWidth(const Shape& shape, Use use) noexcept {
  switch (SlotBytes(shape)) {
    case 2:
      return use(std::integral_constant<unsigned, 2>());
    case 3:
      return use(std::integral_constant<unsigned, 3>());
    case 4:
      return use(std::integral_constant<unsigned, 4>());
    default:
      return use(std::integral_constant<unsigned, 5>());
  }
}

// Returns a table of a body that is only read, in spite of the const_cast.
template <unsigned kSlotBytes>
inline const Table<kSlotBytes> TableOf(const Counters& counters, const uint8_t* body) noexcept {
  return Table<kSlotBytes>(const_cast<uint8_t*>(body), SizeOf(counters));
}

// ---- keys -------------------------------------------------------------------

inline bool MayDisplace(const Shape& shape, const Counters& counters) noexcept {
  return counters.state < kTopStep || counters.count < Limit(SlotBytes(shape), kTopStep);
}

// Runs use(first, count, hashes): passes the hashes of the keys in the order of the shape.
template <typename Use>
DEDUP_ALWAYS_INLINE inline void InOrderOf(const Shape& shape, const uint64_t* hashes, size_t n,
                                          Use use) noexcept {
  if (__builtin_expect(!InLiveOrder(shape), 1)) {
    use(size_t{0}, n, hashes);
    return;
  }
  uint64_t ordered[256];
  for (size_t done = 0; done < n;) {
    const size_t left = n - done;
    const size_t count = left < 256 ? left : 256;
    for (size_t i = 0; i < count; ++i) ordered[i] = ToLiveOrder(hashes[done + i], LiveBits(shape));
    use(done, count, ordered);
    done += count;
  }
}

// Does the same as TestAndAdd(), for hashes that are in that order.
inline void AddOrdered(const Shape& shape, Counters* counters, uint8_t* body,
                       const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const bool may_displace = MayDisplace(shape, *counters);
  // The keys before the one with which the largest table reaches its limit may be displaced, and
  // those after it may not, whatever the batches are.
  if (may_displace && counters->state >= kTopStep && n > 1 &&
      counters->count + n > Limit(SlotBytes(shape), kTopStep)) {
    for (size_t i = 0; i < n; ++i) {
      AddOrdered(shape, counters, body, hashes + i, 1, seen != nullptr ? seen + i : nullptr);
    }
    return;
  }
  WithWidth(shape, [&](auto width) {
    Table<width> table(body, SizeOf(*counters));
    counters->count =
        SumOfCounts(counters->count, AddAll<width>(&table, hashes, n, may_displace, seen));
  });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  InOrderOf(shape, hashes, n, [&](size_t first, size_t count, const uint64_t* ordered) {
    AddOrdered(shape, counters, body, ordered, count, seen != nullptr ? seen + first : nullptr);
  });
  return n;
}

inline void Contains(const Shape& shape, const Counters& counters, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  WithWidth(shape, [&](auto width) {
    InOrderOf(shape, hashes, n, [&](size_t first, size_t count, const uint64_t* ordered) {
      AskAll<width>(TableOf<width>(counters, body), ordered, count, seen + first);
    });
  });
}

// Keys that the filter holds already by chance count as the others do: they are known to be new.
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  const uint64_t before = counters->count;
  TestAndAdd(shape, counters, body, hashes, n, nullptr);
  counters->count = SumOfCounts(before, n);
  return n;
}

// ---- growing ----------------------------------------------------------------

inline uint32_t BytesFor(const Shape& shape, uint64_t keys) noexcept {
  return SizeAt(StepFor(SlotBytes(shape), keys)).Bytes();
}

// Returns the step of a table of this many bytes.
inline uint32_t StateOf(uint32_t bytes) noexcept {
  const uint32_t lines = bytes / uint32_t{kLineBytes};
  const auto bits = static_cast<unsigned>(std::bit_width(lines)) - 1;
  return 2 * (bits - kStartBits) + (std::has_single_bit(lines) ? 0 : 1);
}

inline uint64_t LimitOf(const Shape& shape, const Counters& counters) noexcept {
  return counters.state < kTopStep ? Limit(SlotBytes(shape), counters.state) : ~uint64_t{0};
}

// Writes a body with all keys of this one to `out`. It has `bytes` bytes, which is more than this
// body has.
inline void Grow(const Shape& shape, const Counters& counters, const uint8_t* body, uint32_t bytes,
                 Counters* grown, uint8_t* out) noexcept {
  *grown = {counters.count, StateOf(bytes)};
  ClearInPieces(out, bytes);
  WithWidth(shape, [&](auto width) {
    const auto from = TableOf<width>(counters, body);
    Table<width> to(out, SizeOf(*grown));
    if (grown->state == counters.state + 1) {
      GrowByStep(from, &to);
    } else {
      (void)TakeAll<width, width>(from, &to);
    }
  });
}

// ---- whole filters ----------------------------------------------------------

inline void AddToCount(Counters* counters, int64_t grown) noexcept {
  if (grown < 0) {
    const auto fewer = static_cast<uint64_t>(-grown);
    counters->count = counters->count > fewer ? counters->count - fewer : 0;
  } else {
    counters->count = SumOfCounts(counters->count, static_cast<uint64_t>(grown));
  }
}

// Merges into the union: every key of either filter is found, at no more than the sum of their
// rates. If the prefix of one key holds that of another, the longer prefix is dropped. The other's
// table may have any size.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  int64_t grown = 0;
  WithWidth(shape, [&](auto width) {
    Table<width> to(body, SizeOf(*counters));
    grown = TakeAll<width, width>(TableOf<width>(other_counters, other), &to);
  });
  AddToCount(counters, grown);
  // A body that was not made here may have more entries than its count says.
  const uint64_t limit = LimitOf(shape, *counters);
  if (counters->count > limit) counters->count = limit;
  return true;
}

// Returns the approximate number of keys of the union, or a higher number. It is never more than
// the sum of both counts, for which there is room: entries over a line's end are stored twice, and
// a body that was not made here may have any number of entries. Also returns that sum if the keys
// counted so far already determine the size of the table.
inline uint64_t UnionKeys(const Shape& shape, const Counters& counters, const uint8_t* body,
                          const Counters& other_counters, const uint8_t* other) noexcept {
  const uint64_t most = SumOfCounts(counters.count, other_counters.count);
  const unsigned width_of_slots = SlotBytes(shape), step = StepFor(width_of_slots, most);
  // With more keys than this, the table has the same size as with all keys.
  const uint64_t enough = step == 0 ? 0 : Limit(width_of_slots, step - 1);
  uint64_t keys = counters.count;
  WithWidth(shape, [&](auto width) {
    const auto ours = TableOf<width>(counters, body);
    const auto theirs = TableOf<width>(other_counters, other);
    keys += KeysOnlyIn(theirs, ours, enough > keys ? enough - keys : 0);
  });
  return keys > enough || keys > most ? most : keys;
}

// KeysWithState() reads one in this many lines of a large state.
inline constexpr uint64_t kSampled = 16;
inline constexpr uint64_t kSampledFrom = uint64_t{1} << 15;

// Returns the approximate number of keys that a body and a state have together. If it reads a
// sample, it adds many times the standard error.
inline uint64_t KeysWithState(const Shape& shape, const Counters& counters, const uint8_t* body,
                              const Shape& state_shape, const Counters& state_counters,
                              const uint8_t* state) noexcept {
  const uint64_t most = SumOfCounts(counters.count, state_counters.count);
  uint64_t keys = counters.count;
  WithWidth(shape, [&](auto width) {
    WithWidth(state_shape, [&](auto state_width) {
      const auto ours = TableOf<width>(counters, body);
      const auto theirs = TableOf<state_width>(state_counters, state);
      const bool sampled = theirs.lines() >= kSampledFrom;
      const uint64_t more = KeysTakenOf(theirs, ours, sampled ? kSampled : 1);
      keys += sampled ? kSampled * more + state_counters.count / 64 : more;
    });
  });
  return keys < most ? keys : most;
}

// Adds the keys of a state, with as many bits as new keys have here. Returns how many were joined
// with others.
inline uint64_t TakeState(const Shape& shape, Counters* counters, uint8_t* body,
                          const Shape& state_shape, const Counters& state_counters,
                          const uint8_t* state) noexcept {
  int64_t grown = 0;
  uint64_t joined = 0;
  WithWidth(shape, [&](auto width) {
    WithWidth(state_shape, [&](auto state_width) {
      Table<width> to(body, SizeOf(*counters));
      grown = TakeAll(TableOf<state_width>(state_counters, state), &to);
      joined = to.joined();
    });
  });
  // A body that was not made here may have more entries than its count says.
  const uint64_t most = SumOfCounts(counters->count, state_counters.count);
  AddToCount(counters, grown);
  if (counters->count > most) counters->count = most;
  return joined;
}

// Returns whether `to` is the shape of the values that states of shape `from` become.
inline bool Reducible(const Shape& from, const Shape& to) noexcept {
  Shape plain = from;
  plain.detail = DetailFor(from.fpr, false);
  return IsState(from) && plain == to;
}

// Writes the body of a shape with shorter slots.
inline void Reduce(const Shape& from, const Counters& counters, const uint8_t* body,
                   const Shape& to, uint32_t bytes, Counters* reduced, uint8_t* out) noexcept {
  *reduced = {0, StateOf(bytes)};
  ClearInPieces(out, bytes);
  int64_t taken = 0;
  WithWidth(from, [&](auto from_width) {
    WithWidth(to, [&](auto to_width) {
      Table<to_width> table(out, SizeOf(*reduced));
      taken = TakeAll<from_width, to_width>(TableOf<from_width>(counters, body), &table);
    });
  });
  // Keys that differed only in bits that were cut are now held by chance, and Read() takes this
  // into account. A body that was not made here may have more entries than its count says.
  const auto keys = static_cast<uint64_t>(taken < 0 ? 0 : taken);
  reduced->count = keys < counters.count ? keys : counters.count;
}

inline Shape StateShape(const Shape& shape) noexcept {
  Shape state = shape;
  if (!InLiveOrder(shape)) state.detail = DetailFor(shape.fpr, true);
  return state;
}

// The number of entries by their bits, and the rate of all of them. `cell_bits` is the number of
// bits of a cell.
struct Lengths {
  unsigned cell_bits;
  uint64_t entries[8 * kMaxSlotBytes] = {};

  // Returns the rate of `many` prefixes of p bits.
  static double RateOf(uint64_t many, unsigned p) noexcept {
    return std::ldexp(static_cast<double>(many), -static_cast<int>(p));
  }
  double Rate() const noexcept {
    double rate = 0;
    for (unsigned length = 0; length < 8 * kMaxSlotBytes; ++length) {
      rate += RateOf(entries[length], cell_bits + length);
    }
    return rate < 1 ? rate : 1;
  }
  // Returns how many keys left no entry because another entry held them by chance. A key's entry is
  // removed, or never added, if a shorter entry holds it. In a filter that grew, the shorter
  // entries are the older ones; in a merge also those of the other filters. If the shorter entries
  // hold the share s of all hashes, the share 1 - s of N keys with p bits remains. These have 2^p
  // (1 - s) (1 - exp(-N / 2^p)) different prefixes.
  double HeldByChance(unsigned least_length) const noexcept {
    double shorter = 0, held = 0;
    for (unsigned length = 0; length < 8 * kMaxSlotBytes; ++length) {
      const double rate = RateOf(entries[length], cell_bits + length);
      // Entries of the least length are left out, because one key can have several of them. So are
      // all lengths for which shorter entries hold more than half of all hashes: the estimate would
      // be noise there.
      if (entries[length] > 0 && length > least_length && shorter < 0.5) {
        const double share = rate / (1 - shorter) < 0.5 ? rate / (1 - shorter) : 0.5;
        held += static_cast<double>(entries[length]) *
                (-std::log1p(-share) / (share * (1 - shorter)) - 1);
      }
      shorter += rate;
    }
    return held;
  }
};

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  Lengths lengths = {SizeOf(counters).bits};
  double held = 0;
  WithWidth(shape, [&](auto width) {
    const auto table = TableOf<width>(counters, body);
    table.ForEach([&](uint64_t line, uint64_t entry) {
      lengths.entries[LengthOf(entry)] += table.StartsIn(line, entry);
    });
    held = lengths.HeldByChance(table.LeastLength());
  });
  // A body that was not made here may have more entries than its count says.
  const auto taken = static_cast<double>(counters.count);
  const double added = taken + (held < taken ? held : taken);
  double rate = lengths.Rate();
  if (InLiveOrder(shape)) rate = rate * kLiveDensity < 1 ? rate * kLiveDensity : 1;
  return {added < kMostAdded ? added : kMostAdded, rate};
}

// Returns whether every slot and every number is one that this code writes.
inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  return WithWidth(shape, [&](auto width) {
    using L = Line<width>;
    const auto table = TableOf<width>(counters, body);
    bool sound = true;
    ForUnits(table.lines(), 8 * kLineBytes, [&](uint64_t from, uint64_t to) {
      for (uint64_t line = from; line < to && sound; ++line) {
        const uint8_t* bytes = table.At(line);
        const Numbers numbers = L::Read(bytes);
        uint8_t written[kLineBytes] = {};
        sound = L::HasRoom(numbers, 0);
        for (unsigned slot = 0; slot < numbers.own && sound; ++slot) {
          const uint64_t entry = L::Load(bytes, slot);
          sound = entry != 0;
          L::Store(written, slot, entry);
        }
        for (unsigned i = 0; i < numbers.foreign && sound; ++i) {
          const uint64_t entry = L::Load(bytes, L::ForeignSlot(i));
          const unsigned distance = L::DistanceAt(bytes, i);
          sound = entry != 0 && distance >= 1 &&
                  distance <= L::Read(table.At(table.Before(line, distance))).reach;
          L::StoreForeign(written, i, distance, entry);
        }
        L::Write(written, numbers);
        sound = sound && std::memcmp(written, bytes, kLineBytes) == 0;
      }
    });
    return sound;
  });
}

inline constexpr OptionSpec kOptions[] = {kFprOption};

extern const Method kMethod;

}  // namespace dedup::infini

#endif  // STREAMDEDUP_CORE_METHODS_INFINI_HPP_
