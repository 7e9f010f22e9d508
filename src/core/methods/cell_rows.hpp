// Rows of cells, where each key belongs to one row. The methods qht, qhtd, qqht, qqhtd and sqf are
// made of them.
//
// A row has a fixed number of codes of a fixed number of bits. Codes and rows are packed without
// gaps. 0 is an empty cell, and no key's code. The used cells come first.
//
// A row of up to 64 bits is read and written as one word, and all of its cells are compared at
// once. A wider row is stored in several words, each of whole cells.

#ifndef STREAMDEDUP_CORE_METHODS_CELL_ROWS_HPP_
#define STREAMDEDUP_CORE_METHODS_CELL_ROWS_HPP_

#include <bit>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../packed.hpp"
#include "../random.hpp"

namespace dedup::cell_rows {

inline constexpr unsigned kMaxCells = 32;  // of a row

// The rule by which a method stores a key.
struct Rule {
  bool queue;       // if the row is full, the oldest cell is evicted; else a random one
  bool duplicates;  // a key that is found is stored once more; else it changes nothing
};

// ---- words of cells -----------------------------------------------------------

// The constants to compare all cells of a word at once.
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

// Returns a value that is not 0 if a cell is 0. Its lowest bit is then the highest bit of the first
// such cell.
inline uint64_t Zeros(uint64_t cells, const Word& word) noexcept {
  return (cells - word.ones) & ~cells & word.highs;
}
inline bool Holds(uint64_t cells, uint64_t code, const Word& word) noexcept {
  return Zeros(cells ^ code * word.ones, word) != 0;
}

// Loads a word. A word of up to 57 bits lies within 8 bytes, and a word of up to 64 bits within 9.
// The ninth byte is always read and written (unchanged, if it is not part of the word), because a
// branch on it could not be predicted.
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

// The width of a row: one word of up to 57 bits, one word of up to 64 bits, or several words.
enum class Width { kWord, kLongWord, kWords };

struct Rows {
  unsigned cells;  // of a row
  unsigned bits;   // of a cell
  uint64_t count;
  Word word;       // the whole row, or all words of it but the last
  Word last;       // the last word of several
  unsigned words;  // number of words before the last

  unsigned width() const noexcept { return cells * bits; }
};

inline Rows RowsOf(unsigned cells, unsigned bits, uint64_t count) noexcept {
  Rows rows = {};
  rows.cells = cells;
  rows.bits = bits;
  rows.count = count;
  const unsigned fit = rows.width() <= 64 ? cells : 64 / bits;
  rows.word = WordOf(fit, bits);
  rows.words = (cells - 1) / fit;
  rows.last = rows.words == 0 ? rows.word : WordOf(cells - rows.words * fit, bits);
  return rows;
}

// Runs visit(bit, word) for the words of a wide row, youngest cells first; it may return
// false to stop.
template <typename Visit>
inline void ForEachWord(const Rows& rows, uint64_t bit, Visit visit) noexcept {
  for (unsigned i = 0; i < rows.words; ++i, bit += rows.word.width) {
    if (!visit(bit, rows.word)) return;
  }
  visit(bit, rows.last);
}

inline bool HoldsWide(const Rows& rows, const uint8_t* body, size_t bytes, uint64_t bit,
                      uint64_t code) noexcept {
  bool found = false;
  ForEachWord(rows, bit, [&](uint64_t at, const Word& word) {
    found = Holds(LoadCells<true>(body, bytes, at, word), code, word);
    return !found;
  });
  return found;
}

// Makes the code the youngest cell, cell 0. The other cells move on by one, and the last is
// dropped.
inline void PushWide(const Rows& rows, uint8_t* body, size_t bytes, uint64_t bit,
                     uint64_t code) noexcept {
  ForEachWord(rows, bit, [&](uint64_t at, const Word& word) {
    const uint64_t cells = LoadCells<true>(body, bytes, at, word);
    StoreCells<true>(body, bytes, at, word, (cells << rows.bits | code) & word.mask);
    code = cells >> (word.width - rows.bits);
    return true;
  });
}

// Returns the cell to evict from a full row. Uses one random number, of step `count`.
inline unsigned RandomCell(const Shape& shape, const Rows& rows, Counters* counters) noexcept {
  if (rows.cells == 1) return 0;
  return static_cast<unsigned>(StepRandom(shape.seed, counters->count++).Below(rows.cells));
}

// Puts the code into the first empty cell, or into a random one if there is none.
inline void PutWide(const Shape& shape, const Rows& rows, Counters* counters, uint8_t* body,
                    uint64_t bit, uint64_t code) noexcept {
  uint64_t to = 0;
  bool empty = false;
  ForEachWord(rows, bit, [&](uint64_t at, const Word& word) {
    const uint64_t zeros = Zeros(LoadCells<true>(body, shape.bytes, at, word), word);
    empty = zeros != 0;
    if (empty) to = at + static_cast<unsigned>(std::countr_zero(zeros)) - (rows.bits - 1);
    return !empty;
  });
  if (!empty) to = bit + uint64_t{RandomCell(shape, rows, counters)} * rows.bits;
  StoreField(body, shape.bytes, to, rows.bits, code);
}

// Tests and stores a key, by the rule.
template <Rule kRule, Width kWidth>
inline bool TestAndAddOne(const Shape& shape, const Rows& rows, Counters* counters, uint8_t* body,
                          uint64_t bit, uint64_t code) noexcept {
  if constexpr (kWidth == Width::kWords) {
    const bool found = HoldsWide(rows, body, shape.bytes, bit, code);
    if (found && !kRule.duplicates) return true;
    if constexpr (kRule.queue) {
      PushWide(rows, body, shape.bytes, bit, code);
    } else {
      PutWide(shape, rows, counters, body, bit, code);
    }
    return found;
  } else {
    constexpr bool kNinth = kWidth == Width::kLongWord;
    const uint64_t cells = LoadCells<kNinth>(body, shape.bytes, bit, rows.word);
    const bool found = Holds(cells, code, rows.word);
    if (found && !kRule.duplicates) return true;
    uint64_t stored;
    if constexpr (kRule.queue) {
      stored = (cells << rows.bits | code) & rows.word.mask;
    } else {
      const uint64_t zeros = Zeros(cells, rows.word);
      const unsigned to = zeros != 0
                              ? static_cast<unsigned>(std::countr_zero(zeros)) - (rows.bits - 1)
                              : RandomCell(shape, rows, counters) * rows.bits;
      stored = (cells & ~(LowMask(rows.bits) << to)) | code << to;
    }
    StoreCells<kNinth>(body, shape.bytes, bit, rows.word, stored);
    return found;
  }
}

// ---- keys -----------------------------------------------------------------------

struct Place {
  uint64_t bit;  // where the row starts
  uint64_t code;
};

// Runs step(place, i) for every hash, and prefetches the rows of later keys. Each place is computed
// once, and waits in a ring of two groups. `code_of(hash)` returns a key's code, which is not 0.
// Its bits are independent of the hash's high bits, which choose the row.
template <typename CodeOf, typename Step>
DEDUP_ALWAYS_INLINE inline void ForEachPlace(const Rows& rows, CodeOf code_of, const uint8_t* body,
                                             const uint64_t* hashes, size_t n, Step step) noexcept {
  const unsigned width = rows.width();
  Place places[2 * kGroup];
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        Place& place = places[i % (2 * kGroup)];
        place = {FastRange(hashes[i], rows.count) * width, code_of(hashes[i])};
        const uint64_t first = place.bit / 8, last = (place.bit + width - 1) / 8;
        PrefetchToWrite(body + first);
        for (uint64_t at = first + kLineBytes; at < last; at += kLineBytes) {
          PrefetchToWrite(body + at);
        }
        PrefetchToWrite(body + last);
      },
      [&](size_t i) DEDUP_ALWAYS_INLINE { step(places[i % (2 * kGroup)], i); });
}

template <Rule kRule, Width kWidth, typename CodeOf>
void TestAndAddLoop(const Shape& shape, const Rows& rows, CodeOf code_of, Counters* counters,
                    uint8_t* body, const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ForEachPlace(
      rows, code_of, body, hashes, n, [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
        const bool found =
            TestAndAddOne<kRule, kWidth>(shape, rows, counters, body, place.bit, place.code);
        if (seen != nullptr) seen[i] = found;
      });
}

template <Rule kRule, typename CodeOf>
inline size_t TestAndAdd(const Shape& shape, const Rows& rows, CodeOf code_of, Counters* counters,
                         uint8_t* body, const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  if (rows.width() <= kMaxFieldBits) {
    TestAndAddLoop<kRule, Width::kWord>(shape, rows, code_of, counters, body, hashes, n, seen);
  } else if (rows.width() <= 64) {
    TestAndAddLoop<kRule, Width::kLongWord>(shape, rows, code_of, counters, body, hashes, n, seen);
  } else {
    TestAndAddLoop<kRule, Width::kWords>(shape, rows, code_of, counters, body, hashes, n, seen);
  }
  return n;
}

template <typename CodeOf>
inline void Contains(const Shape& shape, const Rows& rows, CodeOf code_of, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const size_t bytes = shape.bytes;
  if (rows.width() <= kMaxFieldBits) {
    ForEachPlace(rows, code_of, body, hashes, n,
                 [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
                   const uint64_t cells = LoadCells<false>(body, bytes, place.bit, rows.word);
                   seen[i] = Holds(cells, place.code, rows.word);
                 });
  } else {
    ForEachPlace(rows, code_of, body, hashes, n,
                 [&](const Place& place, size_t i) DEDUP_ALWAYS_INLINE {
                   seen[i] = HoldsWide(rows, body, bytes, place.bit, place.code);
                 });
  }
}

}  // namespace dedup::cell_rows

#endif  // STREAMDEDUP_CORE_METHODS_CELL_ROWS_HPP_
