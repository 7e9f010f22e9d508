// The cells of `sbf`, of 1 to 8 bits without gaps. They are decremented in words and set in bytes.

#ifndef STREAMDEDUP_CORE_METHODS_SBF_CELLS_HPP_
#define STREAMDEDUP_CORE_METHODS_SBF_CELLS_HPP_

#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../packed.hpp"
#include "../pause.hpp"

namespace dedup::sbf {

// The number of cells that are read at a time: as many as always fit into a word that starts at
// their first byte.
template <unsigned D>
inline constexpr unsigned kCells = kMaxFieldBits / D;

// The lowest bit of each of kCells<D> cells.
template <unsigned D>
inline constexpr uint64_t LowestBits() noexcept {
  uint64_t bits = 0;
  for (unsigned i = 0; i < kCells<D>; ++i) bits |= uint64_t{1} << i * D;
  return bits;
}

// Returns a word with every cell decremented, where it is not 0.
template <unsigned D>
inline uint64_t Decremented(uint64_t cells) noexcept {
  uint64_t any = cells;
  DEDUP_UNROLL
  for (unsigned bit = 1; bit < D; ++bit) any |= cells >> bit;
  return cells - (any & LowestBits<D>());
}

template <unsigned D>
inline void DecrementRun(uint8_t* body, size_t bytes, uint64_t cell, uint64_t count) noexcept {
  while (count > 0) {
    const auto taken = static_cast<unsigned>(count < kCells<D> ? count : kCells<D>);
    const uint64_t bit = cell * D;
    const size_t at = WordAt(bytes, bit);
    const auto shift = static_cast<unsigned>(bit - 8 * uint64_t{at});
    const uint64_t mask = LowMask(taken * D) << shift;
    const uint64_t word = LoadU64(body + at);
    const uint64_t less = D == 1 ? 0 : Decremented<D>((word & mask) >> shift) << shift;
    StoreU64(body + at, (word & ~mask) | less);
    cell += taken;
    count -= taken;
  }
}

// Decrements `p` cells, at most m, from `start` on. Cell m - 1 is followed by cell 0.
template <unsigned D>
inline void Decay(uint8_t* body, size_t bytes, uint64_t m, uint64_t start, uint64_t p) noexcept {
  const uint64_t to_end = m - start;
  if (p <= to_end) {
    DecrementRun<D>(body, bytes, start, p);
  } else {
    DecrementRun<D>(body, bytes, start, to_end);
    DecrementRun<D>(body, bytes, 0, p - to_end);
  }
}

// The place of a cell, which is in one byte or two. Cells are written byte by byte, because a wider
// store might touch a line that was not prefetched.
struct Cell {
  size_t byte;
  unsigned mask;  // mask in that byte and the next
};

template <unsigned D>
inline Cell CellAt(uint64_t cell) noexcept {
  const uint64_t bit = cell * D;
  return {static_cast<size_t>(bit / 8), ((1u << D) - 1) << bit % 8};
}

template <unsigned D>
inline bool IsZero(const uint8_t* body, const Cell& cell) noexcept {
  unsigned bits = body[cell.byte] & cell.mask;
  if constexpr (8 % D != 0) {
    if (cell.mask > 0xff) bits |= body[cell.byte + 1] & cell.mask >> 8;
  }
  return bits == 0;
}

template <unsigned D>
inline void SetToMax(uint8_t* body, const Cell& cell) noexcept {
  body[cell.byte] = static_cast<uint8_t>(body[cell.byte] | cell.mask);
  if constexpr (8 % D != 0) {
    if (cell.mask > 0xff) {
      body[cell.byte + 1] = static_cast<uint8_t>(body[cell.byte + 1] | cell.mask >> 8);
    }
  }
}

// Runs visit(bit, width) over all m cells, in runs that fit a field: the first bit of a run and its
// number of bits.
template <unsigned D, typename Visit>
inline void ForEachRun(uint64_t m, Visit visit) noexcept {
  ForPieces(m, kPieceBytes / 8 * kCells<D>, [&](uint64_t from, uint64_t to) {
    for (uint64_t cell = from; cell < to; cell += kCells<D>) {
      const uint64_t left = to - cell;
      const auto taken = static_cast<unsigned>(left < kCells<D> ? left : kCells<D>);
      visit(cell * D, taken * D);
    }
  });
}

// Returns the larger of each pair of cells. Compares bit by bit from the top: the first difference
// decides.
template <unsigned D>
inline uint64_t LargerCells(uint64_t a, uint64_t b) noexcept {
  constexpr uint64_t kLowest = LowestBits<D>();
  uint64_t larger_a = 0, larger_b = 0;
  for (unsigned bit = D; bit-- > 0;) {
    const uint64_t differ = ((a ^ b) >> bit & kLowest) & ~(larger_a | larger_b);
    larger_a |= differ & a >> bit;
    larger_b |= differ & b >> bit;
  }
  const uint64_t from_b = larger_b * ((uint64_t{1} << D) - 1);  // all bits of those cells
  return (a & ~from_b) | (b & from_b);
}

}  // namespace dedup::sbf

#endif  // STREAMDEDUP_CORE_METHODS_SBF_CELLS_HPP_
