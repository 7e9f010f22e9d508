// infini pauses by its work, not only by the bytes of the table that it walks over: a few lines
// can hold entries that belong all over a large table, or in many of its cells each, and bytes
// from outside can be anything. So merging, growing and reducing them can be cancelled.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/methods/infini.hpp"
#include "pause_meter.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using infini::kStateFlag;
using infini::Limit;
using infini::Line;
using infini::SizeAt;
using infini::Table;

// Twice as many pages as may be touched between two pauses.
constexpr uint32_t kLargeBytes = 2 * kMostBetweenPauses;
// So few that passing over them has no pause.
constexpr uint32_t kSmallBytes = kPieceBytes / 16;

enum class Content {
  kEmpty,
  kKeys,       // as many as it takes before it grows
  kManyCells,  // entries that are in 8 cells of a large table each
  kNoBits,     // entries that are in all cells of their line
  kDamaged,    // any bytes
};
constexpr const char* kNames[] = {"empty", "keys", "many cells", "no bits", "damaged"};

Shape ShapeOf(uint64_t slot_bytes, bool state = false) {
  Shape shape = PlanKeys(Named("infini"), 0, 0.01);
  shape.detail = slot_bytes | (state ? kStateFlag : 0);
  return shape;
}

template <unsigned kSlotBytes>
Counters Fill(Content content, uint8_t* body, uint32_t bytes) {
  using L = Line<kSlotBytes>;
  const Shape shape = ShapeOf(kSlotBytes);
  const Method& method = Named("infini");
  Counters counters = method.growth->start(bytes);
  const infini::Size size = SizeAt(counters.state);
  Table<kSlotBytes> table(body, size);
  const uint64_t limit = Limit(kSlotBytes, counters.state);
  Random random(9);
  switch (content) {
    case Content::kEmpty:
      return counters;
    case Content::kKeys:
      while (counters.count < limit) {
        uint64_t hashes[kKeysBetweenPauses];
        for (uint64_t& hash : hashes) hash = random.Next();
        const uint64_t n = std::min<uint64_t>(kKeysBetweenPauses, limit - counters.count);
        method.test_and_add(shape, &counters, body, hashes, n, nullptr);
      }
      return counters;
    case Content::kManyCells:
    case Content::kNoBits: {
      const unsigned large_bits = SizeAt(method.growth->start(kLargeBytes).state).bits;
      const unsigned length = content == Content::kNoBits ? 0 : large_bits - size.bits - 3;
      // Two lines without bits are enough: all cells of a large table take long.
      const uint64_t lines = content == Content::kNoBits ? 2 : size.Lines();
      for (uint64_t line = 0; line < lines; ++line) {
        infini::Numbers numbers = L::Read(table.At(line));
        for (uint64_t i = 0; i < L::kSlots; ++i) {
          L::AppendOwn(table.At(line), &numbers, infini::EntryOf(HashOf(i), length));
        }
      }
      break;
    }
    case Content::kDamaged:
      for (uint32_t i = 0; i < bytes; i += 8) StoreU64(body + i, random.Next());
      break;
  }
  counters.count = limit;
  return counters;
}

class InfiniPauses : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(SlotBytes, InfiniPauses,
                         ::testing::ValuesIn(kQuick > 1 ? std::vector<unsigned>{2, 3}
                                                        : std::vector<unsigned>{2, 3, 4, 5}));

Counters FillOf(unsigned slot_bytes, Content content, uint8_t* body, uint32_t bytes) {
  return infini::WithWidth(ShapeOf(slot_bytes),
                           [&](auto width) { return Fill<width>(content, body, bytes); });
}

TEST_P(InfiniPauses, ByTheEntriesThatAreTaken) {
  if (kSanitize) GTEST_SKIP() << kSkipped;
  const Method& method = Named("infini");
  const Shape shape = ShapeOf(GetParam());
  // A state has the next wider slots, or, of the widest, as wide ones.
  const unsigned state_bytes = GetParam() < infini::kMaxSlotBytes ? GetParam() + 1 : GetParam();
  const Shape state = ShapeOf(state_bytes, true);
  Arena arena(size_t{1} << 28);
  uint8_t* start = arena.Allocate(kLargeBytes);
  uint8_t* large = arena.Allocate(kLargeBytes);
  uint8_t* small = arena.Allocate(kSmallBytes);
  uint8_t* small_state = arena.Allocate(kSmallBytes);
  Meter meter(&arena);
  for (const Content to : {Content::kEmpty, Content::kKeys, Content::kDamaged}) {
    std::memset(start, 0, kLargeBytes);
    const Counters of_large = FillOf(GetParam(), to, start, kLargeBytes);
    for (const Content from :
         {Content::kKeys, Content::kManyCells, Content::kNoBits, Content::kDamaged}) {
      // The quick run takes the two widths in turns.
      if (kQuick > 1 && (static_cast<unsigned>(from) + GetParam()) % 2 == 0) continue;
      const uint32_t small_bytes = from == Content::kNoBits ? SizeAt(0).Bytes() : kSmallBytes;
      std::memset(small, 0, kSmallBytes);
      std::memset(small_state, 0, kSmallBytes);
      const Counters of_small = FillOf(GetParam(), from, small, small_bytes);
      const Counters of_state = FillOf(state_bytes, from, small_state, small_bytes);
      Counters counters;
      const auto copy = [&] {
        std::memcpy(large, start, kLargeBytes);
        counters = of_large;
      };
      const Case cases[] = {
          {"merge", false, copy,
           [&] { method.merge(shape, &counters, large, of_small, small, Weights{}); }},
          {"union_keys", true, [] {},
           [&] { method.growth->union_keys(shape, of_large, start, of_small, small); }},
          {"grow", false, [] {},
           [&] { method.growth->grow(shape, of_small, small, kLargeBytes, &counters, large); }},
          {"reduce", false, [] {},
           [&] {
             method.reduce(state, of_state, small_state, shape, kLargeBytes, &counters, large);
           }},
      };
      for (const Case& measured : cases) {
        // What these two read does not depend on the large table.
        const bool writes = measured.name == "grow" || measured.name == "reduce";
        if (writes && to != Content::kEmpty) continue;
        ExpectPauses(
            &meter, measured,
            std::string(kNames[static_cast<int>(from)]) + " into " + kNames[static_cast<int>(to)]);
        // Entries without bits are no keys, and looked up nowhere.
        if (measured.name == "union_keys" && from == Content::kNoBits) continue;
        measured.prepare();
        EXPECT_TRUE(RunTo(measured, 3)) << measured.name;
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
