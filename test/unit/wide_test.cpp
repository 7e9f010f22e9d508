// The kernels for wide registers give the same answers and the same bytes as the plain ones:
// those of blocked_bloom for every k, those of infini for slots of every width. Where the
// processor has no such registers both are the plain ones, and the tests are skipped.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/methods/blocked_bloom.hpp"
#include "core/methods/infini.hpp"
#include "test_support.hpp"

namespace dedup::blocked_bloom {
namespace {

class WideKernels : public ::testing::TestWithParam<Path> {};

TEST_P(WideKernels, GiveTheSameAnswersAndBytes) {
  const Path path = GetParam();
  if (BestPath() < path) GTEST_SKIP() << "the processor has no such registers";
  constexpr uint32_t kLines = 50;
  for (int k = 1; k <= kMaxK; ++k) {
    const Kernels& plain = kKernels[k - 1][kPlainPath];
    const Kernels& wide = kKernels[k - 1][path];
    ASSERT_NE(plain.add, wide.add);
    ASSERT_NE(plain.ask, wide.ask);
    std::vector<uint8_t> a(kLines * kLineBytes), b(a);
    uint64_t answers = 0, asked = 0;
    for (uint64_t round = 0; round < 300; ++round) {
      uint64_t hashes[kLinesAhead];
      uint32_t lines[kLinesAhead];
      const size_t n = 1 + round % kLinesAhead;
      for (size_t i = 0; i < n; ++i) {
        // Some keys come again, so that both outcomes are met.
        hashes[i] = Derived(Derived(round, 1) % 4000, static_cast<unsigned>(i % 3));
        lines[i] = static_cast<uint32_t>(FastRange(hashes[i], kLines));
      }
      uint8_t seen_a[kLinesAhead] = {}, seen_b[kLinesAhead] = {}, ask_a[kLinesAhead] = {},
              ask_b[kLinesAhead] = {};
      plain.ask(a.data(), lines, hashes, n, ask_a);
      wide.ask(b.data(), lines, hashes, n, ask_b);
      plain.add(a.data(), lines, hashes, n, round % 4 == 0 ? nullptr : seen_a);
      wide.add(b.data(), lines, hashes, n, round % 4 == 0 ? nullptr : seen_b);
      for (size_t i = 0; i < n; ++i) {
        ASSERT_EQ(ask_a[i], ask_b[i]) << "k " << k << " round " << round;
        ASSERT_EQ(seen_a[i], seen_b[i]) << "k " << k << " round " << round;
        answers += ask_a[i];
      }
      asked += n;
      ASSERT_EQ(a, b) << "k " << k << " round " << round;
    }
    EXPECT_GT(answers, 0u);
    EXPECT_LT(answers, asked);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, WideKernels, ::testing::Values(kAvx2Path, kAvx512Path));

}  // namespace
}  // namespace dedup::blocked_bloom

namespace dedup::infini {
namespace {

using test::Bytes;
using test::HashOf;
using test::Random;

// What the bytes of a table are.
enum class Content { kEmpty, kSparse, kFull, kEntries, kDamaged };

template <unsigned kSlotBytes>
Bytes TableOf(Content content, const Size& size, Random* random) {
  using L = Line<kSlotBytes>;
  Bytes bytes(size.Bytes());
  Table<kSlotBytes> table(bytes.data(), size);
  switch (content) {
    case Content::kEmpty:
      break;
    case Content::kSparse:
    case Content::kFull: {
      // Of a full one every line has no room, and many have entries of others.
      const uint64_t keys = size.Lines() * L::kSlots * (content == Content::kFull ? 2 : 1) /
                            (content == Content::kFull ? 1 : 4);
      for (uint64_t i = 0; i < keys; ++i) table.TestAndAdd(random->Next(), true);
      break;
    }
    case Content::kEntries:
      // Of every length, each with numbers that a line can have.
      for (uint64_t line = 0; line < size.Lines(); ++line) {
        Numbers numbers = {0, 0, static_cast<unsigned>(random->Below(kMaxDistance + 1))};
        for (uint64_t own = random->Below(L::kSlots + 1); own > 0; --own) {
          const auto length = static_cast<unsigned>(random->Below(L::kMaxLength + 1));
          L::AppendOwn(table.At(line), &numbers, EntryOf(random->Next(), length));
        }
        L::Write(table.At(line), numbers);
      }
      break;
    case Content::kDamaged:
      // Any bits, also in the numbers; and bytes that are all 0 or all 1.
      for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(random->OneIn(8)   ? 0
                                        : random->OneIn(8) ? 255
                                                           : random->Next());
      }
      break;
  }
  return bytes;
}

// Hashes that go to a line of a table of one line for each cell, with fingerprints at and around
// those of its slots, whether they are in use or not.
template <unsigned kSlotBytes>
std::vector<uint64_t> HashesNear(const Table<kSlotBytes>& table, const Size& size, uint64_t line,
                                 Random* random) {
  std::vector<uint64_t> hashes;
  for (unsigned slot = 0; slot < Line<kSlotBytes>::kSlots; ++slot) {
    const uint64_t entry = Line<kSlotBytes>::Load(table.At(line), slot);
    for (const uint64_t fingerprint :
         {entry, entry - 1, entry ^ MarkerOf(entry), entry ^ uint64_t{1} << random->Below(64),
          entry ^ random->Next() >> random->Below(64)}) {
      hashes.push_back(line << (64 - size.bits) | fingerprint >> size.bits);
    }
  }
  return hashes;
}

template <typename Width>
class WideLines : public ::testing::Test {};
using Widths = ::testing::Types<Line<2>, Line<3>, Line<4>, Line<5>>;
TYPED_TEST_SUITE(WideLines, Widths);

TYPED_TEST(WideLines, GiveTheSameCandidates) {
  if (!HasWide()) GTEST_SKIP() << "no AVX-512";
  using L = TypeParam;
  constexpr unsigned kSlotBytes = L::kBits / 8;
  Random random(16);
  for (const Content content :
       {Content::kEmpty, Content::kSparse, Content::kFull, Content::kEntries, Content::kDamaged}) {
    uint64_t found = 0, asked = 0;
    for (unsigned step : {0, 1}) {
      const Size size = SizeAt(step);
      Bytes bytes = TableOf<kSlotBytes>(content, size, &random);
      const Table<kSlotBytes> table(bytes.data(), size);
      std::vector<uint64_t> hashes(1000);
      for (uint64_t& hash : hashes) hash = random.Next();
      for (uint64_t line = 0; size.lines == 2 && line < size.Lines(); ++line) {
        const std::vector<uint64_t> near = HashesNear(table, size, line, &random);
        hashes.insert(hashes.end(), near.begin(), near.end());
      }
      for (size_t done = 0, n; done < hashes.size(); done += n) {
        n = std::min<size_t>(hashes.size() - done, 1 + random.Below(kGroup));
        Compared plain, wide;
        Compare(table, &hashes[done], n, &plain);
        CompareWide(table, &hashes[done], n, &wide);
        for (size_t i = 0; i < n; ++i) {
          const uint64_t hash = hashes[done + i];
          const uint8_t* line = table.At(table.LineOf(hash));
          const auto wanted = static_cast<uint16_t>(table.FingerprintOf(hash) >> 48);
          const unsigned own = L::Read(line).own;
          // Slot by slot, by the rule of the header.
          for (unsigned slot = 0; slot < 32; ++slot) {
            const auto head = LoadLittle<uint16_t>(line + 2 * slot);
            const bool may = slot < own && uint16_t(head ^ wanted) <= uint16_t(head ^ (head - 1));
            ASSERT_EQ((wide.candidates[i] >> slot & 1) != 0, may) << "slot " << slot;
            ASSERT_EQ((plain.candidates[i] >> slot & 1) != 0, may) << "slot " << slot;
          }
          found += wide.candidates[i] != 0;
          ++asked;
        }
      }
    }
    EXPECT_EQ(found > 0, content != Content::kEmpty);
    EXPECT_LT(found, asked);
  }
}

TYPED_TEST(WideLines, TakeTheSameKeys) {
  if (!HasWide()) GTEST_SKIP() << "no AVX-512";
  constexpr unsigned kSlotBytes = TypeParam::kBits / 8;
  Random random(17);
  for (const Content content :
       {Content::kEmpty, Content::kSparse, Content::kFull, Content::kEntries, Content::kDamaged}) {
    uint64_t all = 0;
    for (unsigned step : {0, 1}) {
      const Size size = SizeAt(step);
      Bytes plain = TableOf<kSlotBytes>(content, size, &random), wide = plain;
      Table<kSlotBytes> plain_table(plain.data(), size), wide_table(wide.data(), size);
      // Every third key came before, so that some are seen.
      std::vector<uint64_t> hashes(1500);
      for (size_t i = 0; i < hashes.size(); ++i) {
        hashes[i] = i % 3 == 2 ? hashes[random.Below(i)] : random.Next();
      }
      for (size_t done = 0, n; done < hashes.size(); done += n) {
        n = std::min<size_t>(hashes.size() - done, 1 + random.Below(3 * kGroup));
        const bool may_displace = !random.OneIn(3);
        std::vector<uint8_t> plain_seen(n), wide_seen(n);
        const uint64_t added =
            AddPlain(&plain_table, &hashes[done], n, may_displace, plain_seen.data());
        ASSERT_EQ(AddWide(&wide_table, &hashes[done], n, may_displace, wide_seen.data()), added);
        ASSERT_EQ(wide_seen, plain_seen);
        ASSERT_EQ(wide, plain);
        all += added;
      }
    }
    EXPECT_GT(all, 0u);
  }
}

}  // namespace
}  // namespace dedup::infini
