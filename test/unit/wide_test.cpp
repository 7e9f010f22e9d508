// blocked_bloom's kernels for wide registers give the same answers and the same bytes
// as the plain ones, for every k. Where the processor has no such registers both are
// the plain ones, and the test is skipped.

#include <gtest/gtest.h>

#include <vector>

#include "core/methods/blocked_bloom.hpp"

namespace dedup::blocked_bloom {
namespace {

TEST(WideKernels, GiveTheSameAnswersAndBytes) {
  if (!HasWide()) GTEST_SKIP() << "no AVX-512";
  constexpr uint32_t kLines = 50;
  for (int k = 1; k <= kMaxK; ++k) {
    const Kernels& plain = kKernels[k - 1][0];
    const Kernels& wide = kKernels[k - 1][1];
    ASSERT_NE(plain.add, wide.add);
    std::vector<uint8_t> a(kLines * kLineBytes), b(a);
    uint64_t answers = 0, asked = 0;
    for (uint64_t round = 0; round < 300; ++round) {
      uint64_t hashes[kGroup];
      uint32_t lines[kGroup];
      const size_t n = 1 + round % kGroup;
      for (size_t i = 0; i < n; ++i) {
        // Some keys come again, so that both outcomes are met.
        hashes[i] = Derived(Derived(round, 1) % 4000, static_cast<unsigned>(i % 3));
        lines[i] = static_cast<uint32_t>(FastRange(hashes[i], kLines));
      }
      uint8_t seen_a[kGroup] = {}, seen_b[kGroup] = {}, ask_a[kGroup] = {}, ask_b[kGroup] = {};
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

}  // namespace
}  // namespace dedup::blocked_bloom
