// The rows of qht, qhtd, qqht and qqhtd, made of cell_rows.hpp.
//
// Paper: Geraud, Lombard-Platet and Naccache, "Quotient Hash Tables - Efficiently Detecting
// Duplicates in Streaming Data" (SAC 2019). A key's fingerprint is uniform on 1 to 2^bits - 1. This
// is the third of the paper's ways to do without an empty symbol, and the one used for its figures.

#ifndef STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_
#define STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"
#include "cell_rows.hpp"
#include "cell_rows_merge.hpp"

namespace dedup::qht_row {

inline constexpr unsigned kMaxCells = cell_rows::kMaxCells;
inline constexpr unsigned kMaxBits = 40;  // 32 cells at a rate of 1e-9 need 35 bits
inline constexpr uint32_t kGranule = 8;

struct Rule : cell_rows::Rule {
  unsigned cells;  // the most cells of a row, if the user gives no number
};

struct Layout {
  unsigned cells;
  unsigned bits;

  unsigned width() const noexcept { return cells * bits; }
  // the number of different fingerprints
  uint64_t fingerprints() const noexcept { return LowMask(bits); }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff),
          static_cast<unsigned>(shape.detail >> 8 & 0xff)};
}
inline uint64_t Rows(const Shape& shape, const Layout& layout) noexcept {
  return uint64_t{shape.bytes} * 8 / layout.width();
}
inline cell_rows::Rows RowsOf(const Shape& shape) noexcept {
  const Layout layout = LayoutOf(shape);
  return cell_rows::RowsOf(layout.cells, layout.bits, Rows(shape, layout));
}

struct FingerprintOf {
  uint64_t fingerprints;

  explicit FingerprintOf(const Shape& shape) noexcept
      : fingerprints(LayoutOf(shape).fingerprints()) {}
  uint64_t operator()(uint64_t hash) const noexcept {
    return 1 + FastRange(Derived(hash, 0), fingerprints);
  }
};

template <Rule kRule>
inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  return cell_rows::TestAndAdd<cell_rows::Rule(kRule)>(shape, RowsOf(shape), FingerprintOf(shape),
                                                       counters, body, hashes, n, seen);
}

// A key whose fingerprint is there can be found already. Without duplicates it is not stored a
// second time here either.
template <Rule kRule>
inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  return TestAndAdd<kRule>(shape, counters, body, hashes, n, nullptr);
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  cell_rows::Contains(shape, RowsOf(shape), FingerprintOf(shape), body, hashes, n, seen);
}

inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights& weights,
                  const cell_rows::Rule& rule) noexcept {
  return cell_rows::Merge(shape, RowsOf(shape), rule, counters, body, other_counters, other,
                          weights);
}

// Counts the fingerprints, each once in a row: keys that share a fingerprint count as one.
inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const cell_rows::Rows rows = RowsOf(shape);
  uint64_t held = 0;
  ForUnits(rows.count, rows.width(), [&](uint64_t from, uint64_t to) {
    for (uint64_t row = from; row < to; ++row) {
      held += cell_rows::CellsOf(rows, body, shape.bytes, row).count;
    }
  });
  Reading reading;
  reading.count = static_cast<double>(held);
  reading.fpr = reading.count / static_cast<double>(rows.count) /
                static_cast<double>(LayoutOf(shape).fingerprints());
  return reading;
}

}  // namespace dedup::qht_row

#endif  // STREAMDEDUP_CORE_METHODS_QHT_ROW_HPP_
