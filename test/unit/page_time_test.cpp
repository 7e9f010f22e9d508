// Lines of windows of time: of each key the last sight, and what a line may have lost before
// its time.

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "core/live_method.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Geometry;
using Keys = std::map<std::pair<unsigned, uint64_t>, uint32_t>;  // the last sight of each key

constexpr Geometry kGeometries[] = {{10, {2, true}, true}, {10, {4, true}, true}};

struct Page {
  uint8_t bytes[live::kPageBytes];
  explicit Page(const Geometry& geometry) {
    std::memset(bytes, 0, sizeof bytes);
    live::InitPage(bytes, live::Kind::kMain, 3, geometry.layout, 0);
  }
};

// A key that differs from all others in what a fingerprint keeps of it.
uint64_t KeyNumber(uint64_t i, const Geometry& geometry) {
  return (i + 1) << (live::kRestBits - geometry.layout.fingerprint_bits());
}

// Sights in random order, some late: a line has each key once, with its last sight.
TEST(LivePageTime, ALineKeepsTheLastSight) {
  for (const Geometry& geometry : kGeometries) {
    Page page(geometry);
    Random random(15);
    Keys keys;
    for (uint32_t step = 0; step < 4000; ++step) {
      const uint32_t at = 1000 + step / 100 - static_cast<uint32_t>(random.Next() % 6);
      const auto line = static_cast<unsigned>(random.Next() % 3);
      const uint64_t key = KeyNumber(random.Next() % (geometry.layout.usable() - 1), geometry);
      unsigned early = 0;
      ASSERT_TRUE(live::Fold(page.bytes, geometry, line, key, at, &early));
      EXPECT_EQ(0u, early);
      uint32_t& last = keys[{line, key}];
      last = std::max(last, at);
      const uint32_t clock = live::ClockOf(page.bytes);
      unsigned alive[3] = {};
      for (const auto& [place, seen] : keys) {
        uint32_t found = 0;
        const bool there =
            live::LastSightInLine(live::LineAt(page.bytes, place.first), geometry.layout,
                                  place.second, clock, clock, &found);
        ASSERT_EQ(live::Alive(seen, clock), there);
        ASSERT_EQ(there ? seen : 0, found);
        alive[place.first] += there;
      }
      for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(alive[i], live::KeysInLine(live::LineAt(page.bytes, i), geometry.layout));
      }
    }
    EXPECT_EQ(nullptr, live::PageFlaw(page.bytes, live::Kind::kMain, 3, geometry));
  }
}

// Lines that receive too many keys, in bursts: where a line says that it cannot have lost a key
// of a window, all of them are there.
TEST(LivePageTime, WhatALineMayHaveLost) {
  for (const Geometry& geometry : kGeometries) {
    Page page(geometry);
    Random random(16);
    Keys keys;
    unsigned sure = 0, doubtful = 0, lost_in_doubt = 0, early = 0;
    uint32_t now = 1000;
    for (uint32_t step = 0; step < 20000; ++step) {
      // Bursts between quiet times, in which all expires.
      if (random.Next() % (step / 500 % 2 == 0 ? 20 : 2) == 0) ++now;
      const auto line = static_cast<unsigned>(random.Next() % 2);
      const uint32_t at = now - static_cast<uint32_t>(random.Next() % 9);
      const uint64_t key = KeyNumber(random.Next() % 4000, geometry);
      ASSERT_TRUE(live::Fold(page.bytes, geometry, line, key, at, &early));
      uint32_t& last = keys[{line, key}];
      last = std::max(last, at);
      const uint32_t clock = live::ClockOf(page.bytes);
      const uint32_t asked = clock + static_cast<uint32_t>(random.Next() % 3);
      const uint8_t* bytes = live::LineAt(page.bytes, line);
      const bool may = live::MayHaveLost(bytes, geometry.layout, clock, asked);
      bool lost = false;
      for (const auto& [place, seen] : keys) {
        if (place.first != line || !live::Alive(seen, asked)) continue;
        lost = lost || !live::LineHolds(bytes, geometry.layout, place.second, clock, asked);
      }
      ASSERT_TRUE(may || !lost);
      sure += !may;
      doubtful += may;
      lost_in_doubt += may && lost;
    }
    EXPECT_GT(sure, 4000u);
    EXPECT_GT(doubtful, 4000u);
    EXPECT_GT(lost_in_doubt, doubtful / 2);
    EXPECT_GT(early, 1000u);
  }
}

}  // namespace
}  // namespace dedup::test
