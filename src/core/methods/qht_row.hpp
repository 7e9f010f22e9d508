// Rows of cells, of which a key has one row: what qht, qhtd, qqht and qqhtd are made of.
//
// A row is `cells` fingerprints of `bits` bits, packed without gaps, and so are the rows
// (Geraud, Lombard-Platet and Naccache, "Quotient Hash Tables", SAC 2019). 0 is an empty
// cell; a key's fingerprint is uniform on 1 to 2^bits - 1: their third way to do without
// an empty symbol, and the one of their figures. The used cells come first.
//
// A row of up to 64 bits is read and written as one word, and all of its cells are
// compared at once. A wider row is as many words as it takes, each of whole cells.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_

#include <bit>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../packed.hpp"
#include "../random.hpp"

namespace dedup::qht_row {

inline constexpr unsigned kMaxCells = 32;
inline constexpr unsigned kMaxBits = 40;  // 32 cells at a rate of 1e-9 take 35
inline constexpr uint32_t kGranule = 8;

// What a method does with a key.
struct Rule {
  bool queue;       // the oldest cell gives way; else, one at random
  bool duplicates;  // a key that is found is stored once more; else, it changes nothing
  unsigned cells;   // of a row, at most, if the user does not say
};

struct Layout {
  unsigned cells;
  unsigned bits;

  unsigned width() const noexcept { return cells * bits; }
  uint64_t fingerprints() const noexcept { return LowMask(bits); }  // that there are
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff),
          static_cast<unsigned>(shape.detail >> 8 & 0xff)};
}
inline uint64_t Rows(const Shape& shape, const Layout& layout) noexcept {
  return uint64_t{shape.bytes} * 8 / layout.width();
}

// ---- words of cells -----------------------------------------------------------

// So many cells as one word: the constants to compare them all at once.
struct Word {
  unsigned cells;
  unsigned width;
  uint64_t mask;   // its bits
  uint64_t ones;   // the lowest bit of each cell
  uint64_t highs;  // the highest bit of each cell
};

inline Word WordOf(unsigned cells, unsigned bits) noexcept {
  Word word = {cells, cells * bits, LowMask(cells * bits), 0, 0};
  for (unsigned i = 0; i < cells; ++i) word.ones |= uint64_t{1} << i * bits;
  word.highs = word.ones << (bits - 1);
  return word;
}

// Not 0 where a cell is 0; the lowest bit set is then the highest of the first such cell.
inline uint64_t Zeros(uint64_t cells, const Word& word) noexcept {
  return (cells - word.ones) & ~cells & word.highs;
}
inline bool Holds(uint64_t cells, uint64_t fingerprint, const Word& word) noexcept {
  return Zeros(cells ^ fingerprint * word.ones, word) != 0;
}

// A word of up to 57 bits lies within 8 bytes; one of up to 64, within 9. The ninth is
// read and written whether it is of the word or not (it is then put back as it was):
// that depends on the row, and is not to be guessed.
template <bool kNinth>
inline uint64_t LoadCells(const uint8_t* body, size_t bytes, uint64_t bit,
                          const Word& word) noexcept {
  const size_t at = WordAt(bytes, bit);
  const unsigned shift = static_cast<unsigned>(bit - 8 * uint64_t{at});
  uint64_t cells = LoadU64(body + at) >> shift;
  if constexpr (kNinth) {
    const size_t ninth = at + 8 < bytes ? at + 8 : bytes - 1;
    cells |= uint64_t{body[ninth]} << 1 << (63 - shift);
  }
  return cells & word.mask;
}

template <bool kNinth>
inline void StoreCells(uint8_t* body, size_t bytes, uint64_t bit, const Word& word,
                       uint64_t cells) noexcept {
  const size_t at = WordAt(bytes, bit);
  const unsigned shift = static_cast<unsigned>(bit - 8 * uint64_t{at});
  StoreU64(body + at, (LoadU64(body + at) & ~(word.mask << shift)) | cells << shift);
  if constexpr (kNinth) {
    const size_t ninth = at + 8 < bytes ? at + 8 : bytes - 1;
    const auto mask = static_cast<uint8_t>(word.mask >> 1 >> (63 - shift));
    body[ninth] = static_cast<uint8_t>((body[ninth] & ~mask) | cells >> 1 >> (63 - shift));
  }
}

// ---- one row --------------------------------------------------------------------

// A row is one word (of up to 57 bits or of up to 64), or several.
enum class Width { kWord, kLongWord, kWords };

struct RowLayout : Layout {
  Word word;       // the whole row, or all words of it but the last
  Word last;       // the last word of several
  unsigned words;  // before the last
  uint64_t rows;
};

inline RowLayout RowLayoutOf(const Shape& shape) noexcept {
  RowLayout row = {};
  static_cast<Layout&>(row) = LayoutOf(shape);
  row.rows = Rows(shape, row);
  const unsigned fit = row.width() <= 64 ? row.cells : 64 / row.bits;
  row.word = WordOf(fit, row.bits);
  row.words = (row.cells - 1) / fit;
  row.last = WordOf(row.cells - row.words * fit, row.bits);
  return row;
}

// Runs visit(bit, word) for the words of a wide row, youngest cells first; it may return
// false to stop.
template <typename Visit>
inline void ForEachWord(const RowLayout& row, uint64_t bit, Visit visit) noexcept {
  for (unsigned i = 0; i < row.words; ++i, bit += row.word.width) {
    if (!visit(bit, row.word)) return;
  }
  visit(bit, row.last);
}

inline bool HoldsWide(const RowLayout& row, const uint8_t* body, size_t bytes, uint64_t bit,
                      uint64_t fingerprint) noexcept {
  bool found = false;
  ForEachWord(row, bit, [&](uint64_t at, const Word& word) {
    found = Holds(LoadCells<true>(body, bytes, at, word), fingerprint, word);
    return !found;
  });
  return found;
}

// Makes it the youngest, 0th cell; the others move on by one, and the last is gone.
inline void PushWide(const RowLayout& row, uint8_t* body, size_t bytes, uint64_t bit,
                     uint64_t fingerprint) noexcept {
  ForEachWord(row, bit, [&](uint64_t at, const Word& word) {
    const uint64_t cells = LoadCells<true>(body, bytes, at, word);
    StoreCells<true>(body, bytes, at, word, (cells << row.bits | fingerprint) & word.mask);
    fingerprint = cells >> (word.width - row.bits);
    return true;
  });
}

// The cell that gives way in a full row: one draw, of the step that `count` numbers.
inline unsigned RandomCell(const Shape& shape, const RowLayout& row, Counters* counters) noexcept {
  if (row.cells == 1) return 0;
  return static_cast<unsigned>(StepRandom(shape.seed, counters->count++).Below(row.cells));
}

// Puts it into the first empty cell, or into one at random.
inline void PutWide(const Shape& shape, const RowLayout& row, Counters* counters, uint8_t* body,
                    uint64_t bit, uint64_t fingerprint) noexcept {
  uint64_t to = 0;
  bool empty = false;
  ForEachWord(row, bit, [&](uint64_t at, const Word& word) {
    const uint64_t zeros = Zeros(LoadCells<true>(body, shape.bytes, at, word), word);
    empty = zeros != 0;
    if (empty) to = at + static_cast<unsigned>(std::countr_zero(zeros)) - (row.bits - 1);
    return !empty;
  });
  if (!empty) to = bit + uint64_t{RandomCell(shape, row, counters)} * row.bits;
  StoreField(body, shape.bytes, to, row.bits, fingerprint);
}

// Asks and stores, by the rule.
template <Rule kRule, Width kWidth>
inline bool TestAndAddOne(const Shape& shape, const RowLayout& row, Counters* counters,
                          uint8_t* body, uint64_t bit, uint64_t fingerprint) noexcept {
  if constexpr (kWidth == Width::kWords) {
    const bool found = HoldsWide(row, body, shape.bytes, bit, fingerprint);
    if (found && !kRule.duplicates) return true;
    if constexpr (kRule.queue) {
      PushWide(row, body, shape.bytes, bit, fingerprint);
    } else {
      PutWide(shape, row, counters, body, bit, fingerprint);
    }
    return found;
  } else {
    constexpr bool kNinth = kWidth == Width::kLongWord;
    const uint64_t cells = LoadCells<kNinth>(body, shape.bytes, bit, row.word);
    const bool found = Holds(cells, fingerprint, row.word);
    if (found && !kRule.duplicates) return true;
    uint64_t stored;
    if constexpr (kRule.queue) {
      stored = (cells << row.bits | fingerprint) & row.word.mask;
    } else {
      const uint64_t zeros = Zeros(cells, row.word);
      const unsigned to = zeros != 0
                              ? static_cast<unsigned>(std::countr_zero(zeros)) - (row.bits - 1)
                              : RandomCell(shape, row, counters) * row.bits;
      stored = (cells & ~(row.fingerprints() << to)) | fingerprint << to;
    }
    StoreCells<kNinth>(body, shape.bytes, bit, row.word, stored);
    return found;
  }
}

// ---- keys -----------------------------------------------------------------------

struct Place {
  uint64_t bit;  // where the row starts
  uint64_t fingerprint;
};

// Runs step(place, i) for every hash, with the rows of the keys to come on their way
// into the cache. Each place is made once: it waits in a ring of two groups.
template <typename Step>
DEDUP_ALWAYS_INLINE inline void ForEachPlace(const RowLayout& row, const uint8_t* body,
                                             const uint64_t* hashes, size_t n, Step step) noexcept {
  const unsigned width = row.width();
  const uint64_t fingerprints = row.fingerprints();
  Place places[2 * kGroup];
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        Place& place = places[i % (2 * kGroup)];
        place = {FastRange(hashes[i], row.rows) * width,
                 1 + FastRange(Derived(hashes[i], 0), fingerprints)};
        const uint64_t first = place.bit / 8, last = (place.bit + width - 1) / 8;
        PrefetchToWrite(body + first);
        for (uint64_t at = first + kLineBytes; at < last; at += kLineBytes) {
          PrefetchToWrite(body + at);
        }
        PrefetchToWrite(body + last);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE { step(places[i % (2 * kGroup)], i); });
}

template <Rule kRule, Width kWidth>
void TestAndAddLoop(const Shape& shape, const RowLayout& row, Counters* counters, uint8_t* body,
                    const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ForEachPlace(row, body, hashes, n, [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
    const bool found =
        TestAndAddOne<kRule, kWidth>(shape, row, counters, body, place.bit, place.fingerprint);
    if (seen != nullptr) seen[i] = found;
  });
}

template <Rule kRule>
inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const RowLayout row = RowLayoutOf(shape);
  if (row.width() <= kMaxFieldBits) {
    TestAndAddLoop<kRule, Width::kWord>(shape, row, counters, body, hashes, n, seen);
  } else if (row.width() <= 64) {
    TestAndAddLoop<kRule, Width::kLongWord>(shape, row, counters, body, hashes, n, seen);
  } else {
    TestAndAddLoop<kRule, Width::kWords>(shape, row, counters, body, hashes, n, seen);
  }
  return n;
}

// A key whose fingerprint is there is found already: without duplicates it is not stored
// a second time here either.
template <Rule kRule>
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd<kRule>(shape, counters, body, hashes, n, nullptr);
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const RowLayout row = RowLayoutOf(shape);
  const size_t bytes = shape.bytes;
  if (row.width() <= kMaxFieldBits) {
    ForEachPlace(row, body, hashes, n, [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
      const uint64_t cells = LoadCells<false>(body, bytes, place.bit, row.word);
      seen[i] = Holds(cells, place.fingerprint, row.word);
    });
  } else {
    ForEachPlace(row, body, hashes, n, [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
      seen[i] = HoldsWide(row, body, bytes, place.bit, place.fingerprint);
    });
  }
}

}  // namespace dedup::qht_row

#endif  // STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_
