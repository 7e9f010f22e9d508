// SipHash-2-4 against the vectors of its authors' implementation, and what the keys of
// filters make of it.

#include "core/siphash.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "core/key_hash.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Aumasson and Bernstein's vectors_sip64: key 00 01 .. 0f, input i the bytes
// 00 01 .. i-1; each value's 8 bytes as they write them.
constexpr uint64_t kVectors[64] = {
    0x310e0edd47db6f72, 0xfd67dc93c539f874, 0x5a4fa9d909806c0d, 0x2d7efbd796666785,
    0xb7877127e09427cf, 0x8da699cd64557618, 0xcee3fe586e46c9cb, 0x37d1018bf50002ab,
    0x6224939a79f5f593, 0xb0e4a90bdf82009e, 0xf3b9dd94c5bb5d7a, 0xa7ad6b22462fb3f4,
    0xfbe50e86bc8f1e75, 0x903d84c02756ea14, 0xeef27a8e90ca23f7, 0xe545be4961ca29a1,
    0xdb9bc2577fcc2a3f, 0x9447be2cf5e99a69, 0x9cd38d96f0b3c14b, 0xbd6179a71dc96dbb,
    0x98eea21af25cd6be, 0xc7673b2eb0cbf2d0, 0x883ea3e395675393, 0xc8ce5ccd8c030ca8,
    0x94af49f6c650adb8, 0xeab8858ade92e1bc, 0xf315bb5bb835d817, 0xadcf6b0763612e2f,
    0xa5c91da7acaa4dde, 0x716595876650a2a6, 0x28ef495c53a387ad, 0x42c341d8fa92d832,
    0xce7cf2722f512771, 0xe37859f94623f3a7, 0x381205bb1ab0e012, 0xae97a10fd434e015,
    0xb4a31508beff4d31, 0x81396229f0907902, 0x4d0cf49ee5d4dcca, 0x5c73336a76d8bf9a,
    0xd0a704536ba93e0e, 0x925958fcd6420cad, 0xa915c29bc8067318, 0x952b79f3bc0aa6d4,
    0xf21df2e41d4535f9, 0x87577519048f53a9, 0x10a56cf5dfcd9adb, 0xeb75095ccd986cd0,
    0x51a9cb9ecba312e6, 0x96afadfc2ce666c7, 0x72fe52975a4364ee, 0x5a1645b276d592a1,
    0xb274cb8ebf87870a, 0x6f9bb4203de7b381, 0xeaecb2a30b22a87f, 0x9924a43cc1315724,
    0xbd838d3aafbf8db7, 0x0b1a2a3265d51aea, 0x135079a3231ce660, 0x932b2846e4d70666,
    0xe1915f5cb1eca46c, 0xf325965ca16d629f, 0x575ff28e60381be5, 0x724506eb4c328a95,
};

TEST(SipHash, AuthorsVectors) {
  uint8_t key[16], input[64];
  for (unsigned i = 0; i < 16; ++i) key[i] = static_cast<uint8_t>(i);
  for (unsigned i = 0; i < 64; ++i) input[i] = static_cast<uint8_t>(i);
  for (size_t size = 0; size < 64; ++size) {
    const Bytes exact(input, size);  // the sanitizer sees a byte too many
    uint8_t written[8];
    StoreU64(written, SipHash24(exact.data(), size, {LoadU64(key), LoadU64(key + 8)}));
    uint64_t value = 0;
    for (const uint8_t byte : written) value = value << 8 | byte;
    EXPECT_EQ(value, kVectors[size]) << size << " bytes";
  }
}

TEST(SipHash, UnalignedInput) {
  Random random(1);
  std::vector<uint8_t> bytes(300);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next());
  const SipKey key = SipKeyOf(5);
  for (size_t at = 0; at < 8; ++at) {
    for (size_t size = 0; size < 280; size += 13) {
      const Bytes copy(bytes.data() + at, size);
      EXPECT_EQ(SipHash24(bytes.data() + at, size, key), SipHash24(copy.data(), size, key));
    }
  }
}

// The key is the first two numbers of SplitMix64 from the seed: for seed 0 those that
// its authors publish.
TEST(SipHash, KeyOfASeed) {
  EXPECT_EQ(SipKeyOf(0).k0, 0xe220a8397b1dcdafu);
  EXPECT_EQ(SipKeyOf(0).k1, 0x6e789e6aa1b965f4u);
  std::set<uint64_t> halves;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    halves.insert(SipKeyOf(seed).k0);
    halves.insert(SipKeyOf(seed).k1);
  }
  EXPECT_EQ(halves.size(), 2000u);
}

TEST(SipHash, ChosenByTheShape) {
  const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Shape shape = PlanKeys(Named("blocked_bloom"), 1000, 0.01, "", 77);
  EXPECT_EQ(HashBytes(bytes, 8, KeySeedOf(shape)), Xxh3(bytes, 8, 77));
  shape = PlanKeys(Named("blocked_bloom"), 1000, 0.01, "hash=sip", 77);
  EXPECT_EQ(HashBytes(bytes, 8, KeySeedOf(shape)), SipHash24(bytes, 8, SipKeyOf(77)));
  EXPECT_EQ(HashBytes(bytes, 8, KeySeedOf(shape).Other()), SipHash24(bytes, 8, SipKeyOf(~77ull)));
}

// ---- the option, and the stored bytes ----------------------------------------------

TEST(HashOption, OfEveryMethod) {
  for (const Method* method : kMethods) {
    const Shape plain = PlanKeys(*method, 5000, 0.01);
    const Shape xxh3 = PlanKeys(*method, 5000, 0.01, "hash=xxh3");
    Shape sip = PlanKeys(*method, 5000, 0.01, "hash=sip");
    EXPECT_EQ(plain, xxh3) << method->name;
    EXPECT_NE(plain, sip) << method->name;
    EXPECT_EQ(sip.hash, kSipHash);
    char text[200], own[200];
    DescribeParameters(sip, text, sizeof text);
    method->describe(sip, own, sizeof own);
    EXPECT_EQ(std::string(text), std::string(own) + " hash=sip");
    DescribeParameters(plain, text, sizeof text);
    EXPECT_STREQ(text, own);
    sip.hash = kXxh3Hash;
    EXPECT_EQ(plain, sip) << "the hash changes nothing else";
  }
}

TEST(HashOption, Errors) {
  const Method& method = Named("blocked_bloom");
  const auto status = [&](const std::string& text) {
    Options options;
    return ParseOptions(method, text.data(), text.size(), &options).status;
  };
  EXPECT_EQ(status("hash=sip"), OptionStatus::kOk);
  EXPECT_EQ(status("k=3,hash=xxh3"), OptionStatus::kOk);
  EXPECT_EQ(status("hash=md5"), OptionStatus::kBadValue);
  EXPECT_EQ(status("hash="), OptionStatus::kBadValue);
  EXPECT_EQ(status("hash"), OptionStatus::kNoValue);
  EXPECT_EQ(status("hash=sip hash=sip"), OptionStatus::kTwice);
  EXPECT_EQ(status("hash=xxh3 hash=sip"), OptionStatus::kTwice);
  EXPECT_EQ(status("hashes=sip"), OptionStatus::kUnknown);
}

// The hash is the upper half of byte 3; nothing else tells the two filters apart, and
// numbers that are not known are no corruption.
TEST(HashOption, StoredBytes) {
  for (const Method* method : kMethods) {
    for (const bool full : {false, true}) {
      Filter plain(PlanMemory(*method, 16384, 0.01));
      Filter sip(PlanMemory(*method, 16384, 0.01, "hash=sip"));
      // A body may be larger than the memory asked for, and is exact as long as it fits.
      const uint64_t keys = full ? std::max<uint64_t>(3000, plain.header().exact_limit() + 1) : 20;
      for (uint64_t key = 0; key < keys; ++key) {
        plain.Add(HashOf(key));
        sip.Add(HashOf(key));
      }
      plain.MakeCanonical();
      sip.MakeCanonical();
      ASSERT_EQ(plain.exact(), !full) << method->name;
      EXPECT_EQ(plain.image()[3], full ? 1 : 0);
      EXPECT_EQ(sip.image()[3], full ? 0x11 : 0x10);
      EXPECT_EQ(sip.header().shape.hash, kSipHash);
      Bytes changed = sip.image();
      changed[3] &= 0xf;
      Seal(changed.data(), changed.size());
      EXPECT_EQ(changed, plain.image()) << method->name;
      for (unsigned hash = kHashCount; hash < 16; ++hash) {
        changed = sip.image();
        changed[3] = static_cast<uint8_t>((changed[3] & 0xf) | hash << 4);
        Seal(changed.data(), changed.size());
        Header header;
        EXPECT_EQ(Validate(changed.data(), changed.size(), &header), Flaw::kUnknownHash);
        EXPECT_EQ(HashNumberOf(changed.data()), hash);
      }
      // Without a new checksum the other hash is damage, whether or not it is one.
      changed = sip.image();
      changed[3] &= 0xf;
      Header header;
      EXPECT_EQ(Validate(changed.data(), changed.size(), &header), Flaw::kChecksum);
    }
  }
}

// Working forms keep it, and an image that was looked at before is looked at again if
// the hash has changed.
TEST(HashOption, WorkingForms) {
  Filter sip(PlanMemory(Named("recent"), 4096, 0.01, "hash=sip"));
  sip.Add(HashOf(1));
  ASSERT_FALSE(sip.header().canonical());
  EXPECT_EQ(sip.image()[3], 0x12);
  LastCheck last;
  Bytes image = sip.image();
  ASSERT_EQ(CheckAgain(image.data(), image.size(), &last), Flaw::kNone);
  EXPECT_EQ(last.header.shape.hash, kSipHash);
  image[3] = 2;
  ASSERT_EQ(CheckAgain(image.data(), image.size(), &last), Flaw::kNone);
  EXPECT_EQ(last.header.shape.hash, kXxh3Hash);
  image[3] = 0x22;
  EXPECT_EQ(CheckAgain(image.data(), image.size(), &last), Flaw::kUnknownHash);
  image[3] = 0x14;
  EXPECT_EQ(CheckAgain(image.data(), image.size(), &last), Flaw::kParameters);
}

}  // namespace
}  // namespace dedup::test
