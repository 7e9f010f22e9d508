// The checksum of a live filter's page: what it covers, changes beside a computation from
// scratch, and words that check themselves.

#include "core/page_sum.hpp"

#include <gtest/gtest.h>

#include <set>

#include "test_support.hpp"

namespace dedup::test {
namespace {

using live::Kind;
using live::kPageBytes;

constexpr uint64_t kSeed = 42;
constexpr uint32_t kBlock = 3;

// A page with random contents, sealed.
struct Page {
  uint8_t bytes[kPageBytes];

  explicit Page(Kind kind, uint64_t contents = 1) {
    Random random(contents);
    std::memset(bytes, 0, sizeof bytes);
    live::InitPage(bytes, kind, kBlock, {2, false}, 0);
    for (size_t at = 64; at < kPageBytes; at += 8) StoreU64(bytes + at, random.Next());
    live::Seal(bytes, kSeed, kBlock);
  }
  bool sealed(uint64_t seed = kSeed, uint32_t block = kBlock) const {
    return live::IsSealed(bytes, seed, block);
  }
};

TEST(PageSum, CoversAllButTheLsnAndTheServersChecksum) {
  for (Kind kind : {Kind::kMain, Kind::kOverflow, Kind::kFree, Kind::kCounters}) {
    Page page(kind);
    ASSERT_TRUE(page.sealed());
    for (size_t at = 0; at < kPageBytes; ++at) {
      for (unsigned mask : {1u, 0x80u, 0xffu}) {
        page.bytes[at] ^= static_cast<uint8_t>(mask);
        const bool counts =
            at >= 10 && (kind != Kind::kCounters || at < 64 || (at >= 192 && at < 232));
        // The kind decides how much of a page of counters is covered.
        if (at != live::kKindAt) {
          ASSERT_EQ(counts, !page.sealed()) << at;
        }
        page.bytes[at] ^= static_cast<uint8_t>(mask);
      }
    }
    for (int mask = 1; mask < 256; ++mask) {
      page.bytes[live::kKindAt] ^= static_cast<uint8_t>(mask);
      EXPECT_FALSE(page.sealed());
      page.bytes[live::kKindAt] ^= static_cast<uint8_t>(mask);
    }
    EXPECT_TRUE(page.sealed());
    EXPECT_FALSE(page.sealed(kSeed + 1));
    EXPECT_FALSE(page.sealed(kSeed, kBlock + 1));
  }
}

// A page that has nothing yet needs no look at all of it.
TEST(PageSum, OfAnEmptyPage) {
  for (Kind kind : {Kind::kMain, Kind::kOverflow}) {
    Page page(kind);
    live::InitPage(page.bytes, kind, kBlock, {2, false}, kind == Kind::kMain ? 0 : 7);
    for (size_t at = 8; at < 20; ++at) page.bytes[at] = static_cast<uint8_t>(at);
    EXPECT_EQ(live::SumOfEmpty(page.bytes, kSeed, kBlock), live::SumOf(page.bytes, kSeed, kBlock));
  }
}

// Words that change places, and pages of zeros but for one word.
TEST(PageSum, PlacesMatter) {
  Page page(Kind::kMain);
  uint8_t word[8];
  std::memcpy(word, page.bytes + 1600, 8);
  std::memmove(page.bytes + 1600, page.bytes + 1608, 8);
  std::memcpy(page.bytes + 1608, word, 8);
  EXPECT_FALSE(page.sealed());

  std::set<uint32_t> sums;
  for (size_t place = 8; place < kPageBytes / 8; ++place) {
    std::memset(page.bytes + 64, 0, kPageBytes - 64);
    StoreU64(page.bytes + place * 8, 1);
    sums.insert(live::SumOf(page.bytes, kSeed, kBlock));
  }
  EXPECT_EQ(kPageBytes / 8 - 8, sums.size());
}

// What MakeChange() does: the terms of the old words go, those of the new come.
TEST(PageSum, FollowsChanges) {
  Random random(2);
  Page page(Kind::kMain);
  uint32_t sum = LoadU32(page.bytes + live::kSumAt);
  for (int i = 0; i < 2000; ++i) {
    const size_t from = 32 + random.Next() % (kPageBytes - 32 - 300);
    const size_t to = from + 1 + random.Next() % 300;
    sum -= live::TermsOf(page.bytes, from, to);
    for (size_t at = from; at < to; ++at) page.bytes[at] = static_cast<uint8_t>(random.Next());
    sum += live::TermsOf(page.bytes, from, to);
    ASSERT_EQ(live::SumOf(page.bytes, kSeed, kBlock), sum) << i;
  }
}

// Damage stays visible whatever is changed afterwards, on the same words too.
TEST(PageSum, ChangesDoNotHideDamage) {
  Random random(3);
  Page page(Kind::kMain);
  page.bytes[2000] ^= 1;
  for (int i = 0; i < 2000; ++i) {
    const size_t at = i % 2 == 0 ? 2000 : 64 + random.Next() % (kPageBytes - 64);
    uint32_t sum = LoadU32(page.bytes + live::kSumAt) - live::TermsOf(page.bytes, at, at + 1);
    page.bytes[at] = static_cast<uint8_t>(random.Next());
    StoreU32(page.bytes + live::kSumAt, sum + live::TermsOf(page.bytes, at, at + 1));
    ASSERT_FALSE(page.sealed()) << i;
  }
}

TEST(CheckedWords, KeepTheirValue) {
  Random random(4);
  EXPECT_EQ(0u, live::ToChecked(0));
  EXPECT_TRUE(live::IsChecked(0));
  for (int i = 0; i < 10000; ++i) {
    const uint64_t value = random.Next() >> (12 + random.Next() % 52);
    EXPECT_TRUE(live::IsChecked(live::ToChecked(value)));
    EXPECT_EQ(value, live::FromChecked(live::ToChecked(value)));
  }
}

TEST(CheckedWords, ADamagedByteIsAlwaysNoticed) {
  Random random(5);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t word = live::ToChecked(i < 100 ? i : random.Next() >> (random.Next() % 64));
    for (unsigned byte = 0; byte < 8; ++byte) {
      for (uint64_t mask = 1; mask < 256; ++mask) {
        ASSERT_FALSE(live::IsChecked(word ^ mask << 8 * byte)) << word << " " << byte;
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
