// fifo: where a key belongs, and its fingerprint.

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fifo_support.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Worked out with whole numbers of any size, by another program: groups, then lines,
// then 40 bits, each from what the one before leaves of the hash; the fingerprint is the
// first of these bits, as many as fit, and 1 instead of 0.
TEST(FifoAddress, IsFrozen) {
  struct Row {
    uint64_t hash, group;
    unsigned line;
    uint64_t rest;
    uint64_t fingerprint[9];  // of 12 bits a slot; of 2 to 5 bytes, without and with time
  };
  for (const Row& row : {Row{0x0123456789abcdefu,
                             4,
                             45,
                             0xc71c71c71cu,
                             {0xc71u, 0xc71cu, 0x18e3u, 0xc71c71u, 0x18e38eu, 0xc71c71c7u,
                              0x18e38e38u, 0x18e38e38e3u, 0x18e38e38e3u}},
                         Row{0xfedcba9876543210u,
                             995,
                             57,
                             0x38e38e38e3u,
                             {0x38eu, 0x38e3u, 0x71cu, 0x38e38eu, 0x71c71u, 0x38e38e38u, 0x71c71c7u,
                              0x71c71c71cu, 0x71c71c71cu}},
                         Row{0x8000000000000001u,
                             500,
                             0,
                             0x0u,
                             {0x1u, 0x1u, 0x1u, 0x1u, 0x1u, 0x1u, 0x1u, 0x1u, 0x1u}},
                         Row{0xffffffffffffffffu,
                             999,
                             102,
                             0xffffffffffu,
                             {0xfffu, 0xffffu, 0x1fffu, 0xffffffu, 0x1fffffu, 0xffffffffu,
                              0x1fffffffu, 0x1fffffffffu, 0x1fffffffffu}}}) {
    const fifo::Address address = fifo::AddressOf(row.hash, 1000, 103);
    EXPECT_EQ(address.group, row.group);
    EXPECT_EQ(address.line, row.line);
    EXPECT_EQ(address.rest, row.rest);
    const uint64_t* expected = row.fingerprint;
    for (const LineLayout& layout : AllLayouts()) {
      EXPECT_EQ(fifo::FingerprintOf(address.rest, layout), *expected++) << InWords(layout);
    }
  }
}

// Fingerprints are from 1 to the most that a slot holds beside its generation, and the
// ends occur.
TEST(FifoAddress, FingerprintsFitTheirSlots) {
  for (const LineLayout& layout : AllLayouts()) {
    const unsigned slot_bits = layout.slot_bytes == 1 ? 12 : 8 * layout.slot_bytes;
    const unsigned bits = std::min(37u, slot_bits - (layout.timed ? 3 : 0));
    EXPECT_EQ(layout.slot_bits(), slot_bits);
    EXPECT_EQ(layout.fingerprint_bits(), bits);
    EXPECT_EQ(layout.slots(), SlotsOf(layout));
    EXPECT_EQ(layout.usable(), RoomOf(layout));
    EXPECT_EQ(fifo::FingerprintOf(0, layout), 1u);
    EXPECT_EQ(fifo::FingerprintOf(LowMask(40), layout), LowMask(bits));
    EXPECT_EQ(fifo::SlotOf(LowMask(bits), 7, layout) >> slot_bits, 0u);
  }
}

// The bits of a rest as a word of '0' and '1', and a number again.
std::string BitsOf(uint64_t rest, unsigned bits) {
  std::string word;
  for (unsigned bit = bits; bit-- > 0;) word += (rest >> bit & 1) != 0 ? '1' : '0';
  return word;
}
uint64_t StoredFrom(const std::string& word) {
  const uint64_t value = std::stoull(word, nullptr, 2);
  return value == 0 ? 1 : value;
}

// A fingerprint of b bits is the first b bits of the rest, 1 in place of 0; without its
// first bit it is the fingerprint of b - 1 bits of the rest without its first bit. So a
// page can be split by that bit, again and again.
TEST(FifoAddress, FingerprintsSplitByTheirTopBit) {
  Random random(12);
  for (const LineLayout& layout : AllLayouts()) {
    const unsigned b = layout.fingerprint_bits();
    for (int i = 0; i < 20000; ++i) {
      uint64_t rest = random.Next() & LowMask(40);
      if (i < 200) rest &= LowMask(40 - b + i % 4);           // fingerprints 0, 1 and a few more
      if (i % 5 == 0) rest = (rest & LowMask(39)) >> i % 40;  // many leading zeros
      if (i % 7 == 0) rest |= uint64_t{1} << 39;              // both halves
      std::string word = BitsOf(rest, 40);
      uint64_t fingerprint = fifo::FingerprintOf(rest, layout);
      ASSERT_EQ(fingerprint, StoredFrom(word.substr(0, b))) << InWords(layout);
      for (unsigned bits = b - 1; bits >= b - 4; --bits) {
        word = word.substr(1);
        fingerprint = fifo::Stored(fingerprint & LowMask(bits));
        ASSERT_EQ(fingerprint, StoredFrom(word.substr(0, bits))) << InWords(layout) << bits;
      }
    }
  }
}

// Two keys are taken for each other as often as LineRate() says: for the shortest
// fingerprints counted over all pairs, with 2 of 2^b rests behind fingerprint 1.
TEST(FifoAddress, HasTheRateOfItsFingerprints) {
  for (const LineLayout& layout :
       {LineLayout{1, false}, LineLayout{2, true}, LineLayout{2, false}}) {
    const unsigned b = layout.fingerprint_bits();
    std::vector<double> share(size_t{1} << b);
    for (uint64_t top = 0; top < uint64_t{1} << b; ++top) {
      share[fifo::FingerprintOf(top << (40 - b), layout)] += 1.0;
    }
    double pairs = 0;
    for (double one : share) pairs += one * one;
    const double all = static_cast<double>(share.size());
    EXPECT_DOUBLE_EQ(fifo::LineRate(layout, 1), pairs / (all * all));
    EXPECT_DOUBLE_EQ(fifo::LineRate(layout, 31), 31 * pairs / (all * all));
    EXPECT_EQ(share[0], 0);
    EXPECT_EQ(share[1], 2);
  }
}

}  // namespace
}  // namespace dedup::test
