// apbf: Age-Partitioned Bloom Filter, a window in generations of bits.
//
// Paper: Shtul, Baquero and Almeida, "Age-Partitioned Bloom Filters" (arXiv 2001.03147, 2020).
// There are k + l slices of m bits in a row, the youngest first. Every element is set in the k
// youngest slices, in one position each. A key is known while any k slices in a row have it. After
// g insertions that changed a bit, the oldest slice is emptied and becomes the youngest. g = max(1,
// floor(m ln2 / k)) fills a slice to one half during its k generations.
//
// Promise: a key is always reported as a duplicate as long as fewer than l g counted insertions
// have followed it. A sight is counted if it changed a bit. The first sight of a key always does; a
// repeat does so at most once a generation. So the window is l g distinct keys if no key comes
// twice. It may be fewer distinct keys if keys come again, but never fewer than g.
//
// The rate of (k, l) just before a generation ends is the same at any size: 0.15 % for k = 10, l =
// 7 (0.10 % on average). These two are taken unless fpr is lower. If fpr is lower, or if one of the
// two is given, k and l are those that keep the rate fpr and hold the most keys in the memory. If
// both are given, fpr is ignored. Slices have at least 64 bits, because shorter slices may by
// chance be far fuller than half. If k and l are given, slices may be shorter.
//
// Cost: k lines a key to add, and fewer to look up. (k + l) k / (l ln 2) bits a key of the window:
// 35 for k = 10, l = 7; 27 for the k and l taken at 0.001. The end of a generation empties one
// slice, k / ln 2 bits a counted key.
// State: the slices, packed. Counters::state is the number of generations that have ended, modulo k
// (k + l). Counters::count is the number of insertions counted in the current generation.

#ifndef STREAMDEDUP_CORE_METHODS_APBF_HPP_
#define STREAMDEDUP_CORE_METHODS_APBF_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "apbf_sizes.hpp"

namespace dedup::apbf {

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return layout.k >= 1 && layout.k <= kMaxK && layout.l >= 1 && layout.l <= kMaxL &&
         shape.bytes >= kGranule && shape.bytes % kGranule == 0 && layout.slice_bits >= 1 &&
         layout.generation >= 1 && layout.generation <= layout.slice_bits && shape.keys >= 1 &&
         shape.keys <= layout.l * layout.generation && counters.count < layout.generation &&
         counters.state < layout.k * layout.slices();
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%u l=%u slice_bits=%llu generation=%llu", layout.k, layout.l,
                static_cast<unsigned long long>(layout.slice_bits),
                static_cast<unsigned long long>(layout.generation));
}

// ---- keys -------------------------------------------------------------------

// The place of a slice, and which of a key's k positions it stores. Both follow from the generation
// in which the slice was the youngest, modulo k + l and modulo k. So any k slices in a row store
// different positions. Slices k apart store the same position. This does not help a row, but lets
// filters be merged whose generations differ by k.
struct Slice {
  unsigned place;
  unsigned position;
};

// Returns slice i; slice 0 is the youngest.
inline Slice SliceAt(const Layout& layout, const Counters& counters, unsigned i) noexcept {
  const unsigned all = layout.k * layout.slices();
  const unsigned opened = (counters.state + all - i % all) % all;
  return {opened % layout.slices(), opened % layout.k};
}

// Moves on to the next older slice.
inline void StepOlder(const Layout& layout, Slice* slice) noexcept {
  slice->place = (slice->place == 0 ? layout.slices() : slice->place) - 1;
  slice->position = (slice->position == 0 ? layout.k : slice->position) - 1;
}

// Moves on to the slice that is k slices younger; its position is the same.
inline void StepYoungerByK(const Layout& layout, Slice* slice) noexcept {
  slice->place += layout.k;
  if (slice->place >= layout.slices()) slice->place -= layout.slices();
}

// Returns a key's position number i in any slice that stores this position.
inline uint64_t PositionOf(const Layout& layout, uint64_t hash, unsigned i) noexcept {
  return FastRange(Derived(hash, i), layout.slice_bits);
}

inline bool IsSet(const uint8_t* body, uint64_t bit) noexcept {
  return (body[bit / 8] >> (bit % 8) & 1) != 0;
}

// The first slices in which the keys of a batch are looked up and set. They stay the same until a
// generation ends.
struct Start {
  Slice ask;  // slice l
  Slice set;  // slice 0
};
inline Start StartOf(const Layout& layout, const Counters& counters) noexcept {
  return {SliceAt(layout, counters, layout.l), SliceAt(layout, counters, 0)};
}

// Searches k slices in a row that have the key, as the paper does, from the oldest row on. A slice
// without the key rules out every row that contains it. So the search goes on k slices younger, and
// the slices found in between become the end of that row.
template <typename Position>
inline bool Ask(const Layout& layout, const uint8_t* body, Slice slice,
                Position position) noexcept {
  unsigned at = layout.l, found = 0, behind = 0;
  while (true) {
    if (IsSet(body, slice.place * layout.slice_bits + position(slice.position))) {
      if (++found + behind == layout.k) return true;
      ++at;
      StepOlder(layout, &slice);
    } else {
      if (at < layout.k) return false;
      at -= layout.k;
      StepYoungerByK(layout, &slice);
      behind = found;
      found = 0;
    }
  }
}

// Empties `count` bits from bit `from`.
inline void ClearBits(uint8_t* body, size_t bytes, uint64_t from, uint64_t count) noexcept {
  while (count > 0 && (from % 8 != 0 || count < 8)) {
    StoreField(body, bytes, from, 1, 0);
    ++from;
    --count;
  }
  ClearInPieces(body + from / 8, static_cast<size_t>(count / 8));
  from += count / 8 * 8;
  StoreField(body, bytes, from < bytes * 8 ? from : 0, count % 8, 0);
}

// Empties the oldest slice and makes it the youngest.
inline void StartGeneration(const Shape& shape, const Layout& layout, Counters* counters,
                            uint8_t* body) noexcept {
  counters->count = 0;
  counters->state = (counters->state + 1) % (layout.k * layout.slices());
  const Slice youngest = SliceAt(layout, *counters, 0);
  ClearBits(body, shape.bytes, youngest.place * layout.slice_bits, layout.slice_bits);
}

inline void Remember(const Shape& shape, const Layout& layout, Counters* counters, uint8_t* body,
                     const uint64_t* positions, Start* start) noexcept {
  Slice slice = start->set;
  unsigned changed = 0;
  for (unsigned i = 0; i < layout.k; ++i) {
    const uint64_t at = slice.place * layout.slice_bits + positions[slice.position];
    uint8_t* byte = body + at / 8;
    const auto bit = static_cast<uint8_t>(1u << (at % 8));
    changed |= bit & ~unsigned{*byte};
    *byte |= bit;
    StepOlder(layout, &slice);
  }
  if (changed != 0 && ++counters->count >= layout.generation) {
    StartGeneration(shape, layout, counters, body);
    *start = StartOf(layout, *counters);
  }
}

// Adds keys. If `seen` is not null, tests them, too.
inline void AddAll(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                   size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  Start start = StartOf(layout, *counters);
  // The positions of keys whose lines are being prefetched: those of this group and of the next
  // one.
  uint64_t positions[2 * kKeysAhead][kMaxK];
  InGroups<kKeysAhead>(
      n,
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        uint64_t* of_key = positions[j % (2 * kKeysAhead)];
        Slice slice = start.set;
        for (unsigned i = 0; i < layout.k; ++i) {
          const uint64_t position = PositionOf(layout, hashes[j], slice.position);
          of_key[slice.position] = position;
          PrefetchToWrite(body + (slice.place * layout.slice_bits + position) / 8);
          StepOlder(layout, &slice);
        }
        if (seen != nullptr && layout.l >= layout.k) {  // without `ask`, it is one of those
          Prefetch(body + (start.ask.place * layout.slice_bits + of_key[start.ask.position]) / 8);
        }
      },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        const uint64_t* of_key = positions[j % (2 * kKeysAhead)];
        if (seen != nullptr) {
          seen[j] = Ask(layout, body, start.ask, [&](unsigned i) { return of_key[i]; });
        }
        Remember(shape, layout, counters, body, of_key, &start);
      });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  AddAll(shape, counters, body, hashes, n, seen);
  return n;
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  AddAll(shape, counters, body, hashes, n, nullptr);
  return n;
}

inline void Contains(const Shape& shape, const Counters& counters, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  const Slice first = StartOf(layout, counters).ask;
  InGroups(
      n,
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        Prefetch(body +
                 (first.place * layout.slice_bits + PositionOf(layout, hashes[j], first.position)) /
                     8);
      },
      [&](size_t j) DEDUP_ALWAYS_INLINE {
        seen[j] =
            Ask(layout, body, first, [&](unsigned i) { return PositionOf(layout, hashes[j], i); });
      });
}

// ---- whole filters ----------------------------------------------------------

inline constexpr unsigned kWordBits = 56;

// Runs visit(first bit within the slice, number of bits) over the words of a slice.
template <typename Visit>
inline void ForEachSliceWord(const Layout& layout, Visit visit) noexcept {
  ForPieces(layout.slice_bits, kPieceBytes * 8 / kWordBits * kWordBits,
            [&](uint64_t from, uint64_t to) {
              for (uint64_t done = from; done < to; done += kWordBits) {
                const uint64_t left = to - done;
                visit(done, static_cast<unsigned>(left < kWordBits ? left : kWordBits));
              }
            });
}

inline uint64_t CountSlice(const Shape& shape, const Layout& layout, const Counters& counters,
                           const uint8_t* body, unsigned i) noexcept {
  const uint64_t start = SliceAt(layout, counters, i).place * layout.slice_bits;
  uint64_t set = 0;
  ForEachSliceWord(layout, [&](uint64_t at, unsigned bits) {
    set += static_cast<uint64_t>(std::popcount(LoadField(body, shape.bytes, start + at, bits)));
  });
  return set;
}

// Returns how many bits are set in the `count` oldest slices.
inline uint64_t CountOldest(const Shape& shape, const Layout& layout, const Counters& counters,
                            const uint8_t* body, unsigned count) noexcept {
  uint64_t set = 0;
  for (unsigned i = 0; i < count; ++i) {
    set += CountSlice(shape, layout, counters, body, layout.slices() - 1 - i);
  }
  return set;
}

// Merges by OR, with the youngest slices aligned. Two slices can be merged only if they store the
// same position of a key, so the two filters' generations must agree modulo k. If they do not,
// generations of one filter are first ended, without keys, until they do. The filter chosen for
// this is the one that loses fewer bits, then the one that needs fewer generations, then the one
// whose generation ends first. It loses its oldest keys: j generations of l, where j is the number
// of ended generations, less than k. All other keys of both inputs are found. Two full filters of k
// = 10, l = 7 at random generations keep 0.90 of their windows. Of two filters that are k / 2
// apart, the worse one keeps 0.49. If the generations agree, no key is dropped, and the larger
// count is taken. The rate is that of slices twice as full, until generations pass.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned behind =
      (other_counters.state % layout.k + layout.k - counters->state % layout.k) %
      layout.k;  // this filter is
  unsigned other_ends = 0;
  if (behind == 0) {
    if (other_counters.count > counters->count) counters->count = other_counters.count;
  } else {
    const unsigned ahead = layout.k - behind;
    const uint64_t lost = CountOldest(shape, layout, *counters, body, behind);
    const uint64_t other_lost = CountOldest(shape, layout, other_counters, other, ahead);
    const bool this_one = lost != other_lost ? lost < other_lost
                          : behind != ahead  ? behind < ahead
                                             : counters->state % layout.k < ahead;
    if (this_one) {
      for (unsigned i = 0; i < behind; ++i) StartGeneration(shape, layout, counters, body);
      counters->count = other_counters.count;
    } else {
      other_ends = ahead;
    }
  }
  for (unsigned i = 0; i + other_ends < layout.slices(); ++i) {
    const uint64_t to = SliceAt(layout, *counters, i + other_ends).place * layout.slice_bits;
    const uint64_t from = SliceAt(layout, other_counters, i).place * layout.slice_bits;
    ForEachSliceWord(layout, [&](uint64_t at, unsigned bits) {
      StoreField(body, shape.bytes, to + at, bits,
                 LoadField(body, shape.bytes, to + at, bits) |
                     LoadField(other, shape.bytes, from + at, bits));
    });
  }
  return true;
}

inline Reading Read(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const double bits = static_cast<double>(layout.slice_bits);
  double fills[kMaxSlices];
  for (unsigned i = 0; i < layout.slices(); ++i) {
    fills[i] = static_cast<double>(CountSlice(shape, layout, counters, body, i)) / bits;
  }
  Reading reading;
  reading.fpr = RunRate(layout.k, layout.slices(), [&](unsigned i) { return fills[i]; });
  // Slice l has the keys of the oldest k generations that are remembered, slice l - k those of the
  // next k generations, and so on. A key that was set again after k generations counts in each.
  for (int i = static_cast<int>(layout.l); i >= 0; i -= static_cast<int>(layout.k)) {
    reading.count += KeysFromClear(1 - fills[i], 1, bits, 1);
  }
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::apbf

#endif  // STREAMDEDUP_CORE_METHODS_APBF_HPP_
