// What the tests of fifo's lines share: the layouts, and a line's sizes by the manual.

#ifndef STREAMDEDUP_TEST_UNIT_FIFO_SUPPORT_HPP_
#define STREAMDEDUP_TEST_UNIT_FIFO_SUPPORT_HPP_

#include <string>
#include <vector>

#include "core/methods/fifo.hpp"

namespace dedup::test {

using fifo::LineLayout;

inline std::vector<LineLayout> AllLayouts() {
  std::vector<LineLayout> layouts = {{1, false}};  // 12 bits a slot
  for (unsigned slot_bytes = 2; slot_bytes <= 5; ++slot_bytes) {
    for (bool timed : {false, true}) layouts.push_back({slot_bytes, timed});
  }
  return layouts;
}

inline std::string InWords(const LineLayout& layout) {
  return std::to_string(layout.slot_bytes == 1 ? 12 : 8 * layout.slot_bytes) + " bits a slot" +
         (layout.timed ? ", timed" : "");
}

// Slots of a line, and how many of them are in use at most.
inline unsigned SlotsOf(const LineLayout& layout) {
  return layout.slot_bytes == 1 ? 42 : 64 / layout.slot_bytes;
}
inline unsigned RoomOf(const LineLayout& layout) {
  return layout.slot_bytes == 1 ? 40 : 64 / layout.slot_bytes - 1;
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_FIFO_SUPPORT_HPP_
