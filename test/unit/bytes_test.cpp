// The ground the formats stand on: byte order, scaling, and the numbers derived
// from a hash.

#include "core/bytes.hpp"

#include <gtest/gtest.h>

#include "core/xxh3.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Numbers are little-endian in memory, at any address.
TEST(Bytes, AreLittleEndianAtAnyAddress) {
  uint8_t bytes[12] = {};
  StoreU64(bytes + 1, 0x0807060504030201u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bytes[1 + i], i + 1);
  EXPECT_EQ(LoadU64(bytes + 1), 0x0807060504030201u);
  EXPECT_EQ(LoadU32(bytes + 1), 0x04030201u);
  EXPECT_EQ(LoadLittle<uint16_t>(bytes + 3), 0x0403u);
  StoreU32(bytes + 3, 0xaabbccddu);
  EXPECT_EQ(bytes[3], 0xdd);
  EXPECT_EQ(bytes[6], 0xaa);
}

// Derived() is SplitMix64: these are the published outputs for seed 1234567.
TEST(Derived, IsSplitMix64) {
  const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                               4593380528125082431u, 16408922859458223821u};
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(Derived(1234567, i), expected[i]);
}

// FastRange() is floor(x n / 2^64), and stays below n.
TEST(FastRange, ScalesWithoutGap) {
  EXPECT_EQ(FastRange(0, 10), 0u);
  EXPECT_EQ(FastRange(~uint64_t{0}, 10), 9u);
  EXPECT_EQ(FastRange(~uint64_t{0}, 1), 0u);
  EXPECT_EQ(FastRange(uint64_t{1} << 63, 10), 5u);
  EXPECT_EQ(FastRange((uint64_t{1} << 63) - 1, 10), 4u);
  EXPECT_EQ(FastRange(~uint64_t{0}, ~uint64_t{0}), ~uint64_t{0} - 1);
}

// LowMask() has no hole at 0, 63 and 64.
TEST(LowMask, HasEveryWidth) {
  EXPECT_EQ(LowMask(0), 0u);
  EXPECT_EQ(LowMask(1), 1u);
  EXPECT_EQ(LowMask(63), ~uint64_t{0} >> 1);
  EXPECT_EQ(LowMask(64), ~uint64_t{0});
}

// The hash is XXH3 as published: the empty input, and its seed.
TEST(Xxh3, IsThePublishedOne) {
  EXPECT_EQ(Xxh3("", 0, 0), 0x2d06800538d394c2u);
  EXPECT_NE(Xxh3("a", 1, 0), Xxh3("a", 1, 1));
}

// The tests' own generator is the one that the expected values were made with.
TEST(Random, IsSplitMix64) {
  Random random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
}

}  // namespace
}  // namespace dedup::test
