// Reads rows of cells (cell_rows.hpp) out of a filter, and merges two filters row by row.

#ifndef STREAMDEDUP_CORE_METHODS_CELL_ROWS_MERGE_HPP_
#define STREAMDEDUP_CORE_METHODS_CELL_ROWS_MERGE_HPP_

#include "../method.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "cell_rows.hpp"

namespace dedup::cell_rows {

struct Cells {
  unsigned count = 0;
  uint64_t value[2 * kMaxCells];

  bool Has(uint64_t code) const noexcept {
    bool found = false;
    for (unsigned i = 0; i < count; ++i) found = found || value[i] == code;
    return found;
  }
  void AddIfNew(uint64_t code) noexcept {
    if (code != 0 && !Has(code)) value[count++] = code;
  }
};

// Returns the codes of a row, each once. In a queue, a code has the place of its youngest copy.
inline Cells CellsOf(const Rows& rows, const uint8_t* body, size_t bytes, uint64_t row) noexcept {
  Cells cells;
  uint64_t bit = row * rows.width();
  for (unsigned i = 0; i < rows.cells; ++i, bit += rows.bits) {
    cells.AddIfNew(LoadField(body, bytes, bit, rows.bits));
  }
  return cells;
}

// Removes random cells until `left` are left.
inline void Thin(Cells* cells, unsigned left, StepRandom* random) noexcept {
  while (cells->count > left) {
    const uint64_t gone = random->Below(cells->count);
    cells->value[gone] = cells->value[--cells->count];
  }
}

// Chooses `wanted` random cells of two rows that have no code in common and more cells together.
// The share of each row is in proportion to its cells and its weight; a random number decides about
// rounding. (If the cells were drawn one by one, each draw would lower the chance of the heavier
// row.)
inline void ChooseAtRandom(Cells* left, Cells* right, unsigned wanted, uint64_t left_weight,
                           uint64_t right_weight, StepRandom* random) noexcept {
  const uint64_t of_left = left->count * left_weight;
  const uint64_t all = of_left + right->count * right_weight;
  uint64_t share = (wanted * of_left + random->Below(all)) / all;
  if (share > left->count) share = left->count;
  if (share + right->count < wanted) share = wanted - right->count;
  Thin(left, static_cast<unsigned>(share), random);
  Thin(right, wanted - static_cast<unsigned>(share), random);
}

// Chooses the youngest cells of two queues, which take turns in proportion to the weights. Each
// code is taken once. The place in its turn where a row starts is random, so that even rows of one
// or three cells favour neither filter.
inline void ChooseYoungest(const Cells& left, const Cells& right, unsigned wanted,
                           uint64_t left_weight, uint64_t right_weight, StepRandom* random,
                           Cells* chosen) noexcept {
  uint64_t turn = random->Below(left_weight + right_weight);
  unsigned l = 0, r = 0;
  while (chosen->count < wanted && (l < left.count || r < right.count)) {
    const bool from_left = turn < left_weight;
    turn = from_left ? turn + right_weight : turn - left_weight;
    if (r == right.count || (from_left && l < left.count)) {
      chosen->AddIfNew(left.value[l++]);
    } else {
      chosen->AddIfNew(right.value[r++]);
    }
  }
}

// Merges row by row. If a row is empty in one filter, the other filter's row is taken with its
// duplicates. Else each code of the two is kept once if there is room for all of them; if not, the
// rule chooses. One step of Counters::count is used up if both filters hold keys.
inline bool Merge(const Shape& shape, const Rows& rows, const Rule& rule, Counters* counters,
                  uint8_t* body, const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  const uint64_t left_weight = weights.left > 0 ? weights.left : 1;
  const uint64_t right_weight = weights.right > 0 ? weights.right : 1;
  counters->count += other_counters.count;
  StepRandom random(shape.seed, counters->count);
  bool both = false;
  const auto merge_row = [&](uint64_t row) {
    Cells right = CellsOf(rows, other, shape.bytes, row);
    if (right.count == 0) return;
    Cells left = CellsOf(rows, body, shape.bytes, row), chosen;
    const uint64_t bit = row * rows.width();
    if (left.count == 0) {
      for (unsigned i = 0; i < rows.cells; ++i) {
        const uint64_t at = bit + uint64_t{i} * rows.bits;
        StoreField(body, shape.bytes, at, rows.bits, LoadField(other, shape.bytes, at, rows.bits));
      }
      return;
    }
    both = true;
    if (rule.queue) {
      ChooseYoungest(left, right, rows.cells, left_weight, right_weight, &random, &chosen);
    } else {
      unsigned news = 0;
      for (unsigned i = 0; i < right.count; ++i) {
        if (!left.Has(right.value[i])) right.value[news++] = right.value[i];
      }
      right.count = news;
      if (left.count + right.count > rows.cells) {
        ChooseAtRandom(&left, &right, rows.cells, left_weight, right_weight, &random);
      }
      chosen = left;
      for (unsigned i = 0; i < right.count; ++i) chosen.value[chosen.count++] = right.value[i];
    }
    for (unsigned i = 0; i < rows.cells; ++i) {
      StoreField(body, shape.bytes, bit + uint64_t{i} * rows.bits, rows.bits,
                 i < chosen.count ? chosen.value[i] : 0);
    }
  };
  ForUnits(rows.count, rows.width(), [&](uint64_t from, uint64_t to) {
    for (uint64_t row = from; row < to; ++row) merge_row(row);
  });
  if (both) ++counters->count;
  return true;
}

}  // namespace dedup::cell_rows

#endif  // STREAMDEDUP_CORE_METHODS_CELL_ROWS_MERGE_HPP_
