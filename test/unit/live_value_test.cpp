// Live filters that grow as dumps and as values of the method infini: which pages there can be,
// and what a value keeps of a key.

#include "core/live_value.hpp"

#include <gtest/gtest.h>

#include <set>
#include <tuple>
#include <vector>

#include "core/live_method.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::LineLayout;
using live::LongFingerprint;

TEST(LinearHash, TheFewestPagesWithAPageOfALevel) {
  // By a look at all pages of all numbers of pages: the first one with which it is there.
  std::set<std::tuple<uint32_t, unsigned>> seen;
  for (uint32_t pages = 1; pages <= 300; ++pages) {
    for (uint32_t page = 0; page < pages; ++page) {
      const unsigned level = live::LevelOfPage(page, pages);
      if (!seen.insert({page, level}).second) continue;
      ASSERT_EQ(pages, live::FewestPages(page, level)) << page << " " << level;
    }
  }
}

TEST(LinearHash, PagesThatCanBe) {
  // A page can be there behind `pages` if splits from then on make it.
  for (uint32_t pages = 1; pages <= 20; ++pages) {
    std::set<std::tuple<uint32_t, unsigned>> possible;
    for (uint32_t later = pages; later <= 128; ++later) {
      for (uint32_t page = 0; page < later; ++page) {
        possible.insert({page, live::LevelOfPage(page, later)});
      }
    }
    for (unsigned level = 0; level <= 6; ++level) {
      for (uint32_t page = 0; page < 128; ++page) {
        ASSERT_EQ(possible.count({page, level}) != 0, live::CanBePage(page, level, pages))
            << page << " " << level << " " << pages;
      }
    }
  }
  EXPECT_FALSE(live::CanBePage(0, live::kMostLevels + 1, 1));
}

// The first b + 7 bits of a hash in live order are what a live filter knows of the key.
TEST(LiveValue, OrderOfHashes) {
  Random random(11);
  for (const unsigned bits : {29u, 32u, 37u}) {
    for (int i = 0; i < 1000; ++i) {
      const uint64_t hash = random.Next();
      const live::Address address = live::GrowingAddressOf(hash, live::kLines);
      const uint64_t ordered = infini::ToLiveOrder(hash, bits);
      ASSERT_EQ(address.rest >> (40 - bits), ordered >> (64 - bits));
      ASSERT_EQ(address.line, ordered >> (57 - bits) & 127);
    }
  }
}

class LiveValues : public testing::TestWithParam<LineLayout> {};

// From the line of a page to a value and back: the value holds the key's hash, and gives back
// the fingerprint that the line had.
TEST_P(LiveValues, KeepWhatALineHas) {
  const unsigned bits = GetParam().widest_fingerprint_bits();
  Shape form;
  form.seed = 5;
  form.fpr = 0.001;
  const Shape shape = live::ValueShape(form, bits);
  uint32_t bytes = 0;
  Counters counters = live::EmptyValue(shape, 3000, &bytes);
  ASSERT_TRUE(infini::Valid(shape, counters));
  std::vector<uint8_t> body(bytes);
  std::vector<uint64_t> hashes(3000);
  std::set<std::tuple<uint64_t, unsigned>> put, got;
  Random random(12);
  for (uint64_t& hash : hashes) {
    hash = random.Next();
    const live::Address address = live::GrowingAddressOf(hash, live::kLines);
    LineLayout layout = GetParam();
    layout.level = static_cast<unsigned>(random.Next() % 12);
    const auto page = static_cast<uint32_t>(address.group & LowMask(layout.level));
    uint8_t line[kLineBytes] = {};
    live::AddToLine(line, layout, address.rest, 9, 10);
    live::ForEachInLine(line, layout, page, 10, [&](uint64_t first, uint32_t generation) {
      EXPECT_EQ(layout.timed ? 9u : 0u, generation);
      EXPECT_EQ(address.rest >> (40 - bits), first);
      put.insert({first, address.line});
      live::AddToValue(shape, &counters, body.data(), {first, address.line});
    });
  }
  EXPECT_EQ(3000u, counters.count);
  std::vector<uint8_t> seen(hashes.size());
  infini::Contains(shape, counters, body.data(), hashes.data(), hashes.size(), seen.data());
  for (const uint8_t one : seen) ASSERT_TRUE(one);
  live::ForEachPrefix(shape, counters, body.data(), [&](unsigned p, uint64_t prefix) {
    ASSERT_EQ(live::NeededBits(shape, bits), p);
    ASSERT_TRUE(live::FromPrefix(shape, bits, p, prefix, [&](const LongFingerprint& key) {
      got.insert({key.bits, key.line});
    }));
  });
  EXPECT_EQ(put, got);
}

INSTANTIATE_TEST_SUITE_P(Layouts, LiveValues,
                         testing::Values(LineLayout{5, false, true}, LineLayout{5, true, true},
                                         LineLayout{4, false, true}, LineLayout{4, true, true}));

// A prefix of a plain hash stands for one fingerprint of the hashes that it holds, or two.
TEST(LiveValue, PlainPrefixes) {
  Random random(13);
  Request request;
  request.fpr = 0.001;
  Shape shape;
  ASSERT_EQ(PlanStatus::kOk, PlanFilter(infini::kMethod, request, 1, &shape));
  for (int i = 0; i < 1000; ++i) {
    const unsigned p = live::NeededBits(shape, 32);
    const uint64_t hash = random.Next(), prefix = hash >> (64 - p) << (64 - p);
    const live::Address address = live::GrowingAddressOf(hash, live::kLines);
    unsigned found = 0, all = 0;
    ASSERT_TRUE(live::FromPrefix(shape, 32, p, prefix, [&](const LongFingerprint& key) {
      ++all;
      found += key.bits == address.rest >> 8 && key.line == address.line;
    }));
    ASSERT_EQ(1u, found);
    ASSERT_LE(all, 2u);
  }
}

}  // namespace
}  // namespace dedup::test
