// The lines and the table of infini: entries, what is joined and displaced, and which bodies are
// none of this code.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/methods/infini.hpp"
#include "test_support.hpp"

namespace dedup::infini {
namespace {

using test::Bytes;
using test::HashOf;
using test::Random;

uint64_t SomeEntry(Random* random, unsigned most) {
  return EntryOf(random->Next(), static_cast<unsigned>(random->Below(most + 1)));
}

TEST(InfiniEntry, HoldsWhatItsBitsSay) {
  Random random(1);
  for (int i = 0; i < 200000; ++i) {
    const uint64_t fingerprint = random.Next();
    const auto length = static_cast<unsigned>(random.Below(64));
    const uint64_t entry = EntryOf(fingerprint, length);
    ASSERT_EQ(LengthOf(entry), length);
    const auto same = [&](uint64_t other, unsigned bits) {
      return bits == 0 || (fingerprint ^ other) >> (64 - bits) == 0;
    };
    const uint64_t other = fingerprint ^ random.Next() >> random.Below(64);
    ASSERT_EQ(Holds(entry, other), same(other, length));
    const auto others = static_cast<unsigned>(random.Below(64));
    const uint64_t another = EntryOf(other, others);
    ASSERT_EQ(Covers(entry, another), others >= length && same(other, length));
    const uint64_t common = Common(entry, another);
    ASSERT_TRUE(Covers(common, entry) && Covers(common, another));
    // No longer one covers both.
    unsigned most = std::min(length, others);
    while (!same(other, most)) --most;
    ASSERT_EQ(LengthOf(common), most);
  }
}

template <typename Width>
class InfiniLine : public ::testing::Test {};
using Widths = ::testing::Types<Line<2>, Line<3>, Line<4>, Line<5>>;
TYPED_TEST_SUITE(InfiniLine, Widths);

TYPED_TEST(InfiniLine, CandidatesAreAllThatMayHold) {
  using L = TypeParam;
  Random random(2);
  for (int round = 0; round < 3000; ++round) {
    Bytes line(kLineBytes);
    for (unsigned slot = 0; slot < L::kSlots; ++slot) {
      const uint64_t entry = random.OneIn(8) ? random.Next() : SomeEntry(&random, L::kMaxLength);
      L::Store(line.data(), slot, entry);
      ASSERT_EQ(L::Load(line.data(), slot) >> (64 - L::kBits), entry >> (64 - L::kBits));
    }
    const uint64_t fingerprint =
        L::Load(line.data(), static_cast<unsigned>(random.Below(L::kSlots))) ^
        random.Next() >> random.Below(64);
    const uint32_t found = L::Candidates(line.data(), fingerprint);
    bool held = false;
    for (unsigned slot = 0; slot < L::kSlots; ++slot) {
      const uint64_t entry = L::Load(line.data(), slot);
      const bool holds = entry != 0 && Holds(entry, fingerprint);
      // By the upper 16 bits alone: a prefix of fewer of them, or all.
      const auto head = static_cast<uint16_t>(entry >> 48);
      bool may = head == 0;
      for (unsigned bits = 0; bits < 16 && !may; ++bits) {
        const auto marker = static_cast<uint16_t>(0x8000u >> bits);
        if ((head & (2 * marker - 1)) != marker) continue;
        may = bits == 0 || (head ^ static_cast<uint16_t>(fingerprint >> 48)) >> (16 - bits) == 0;
        // The marker's own bit does not matter.
      }
      ASSERT_EQ((found >> slot & 1) != 0, may) << slot;
      ASSERT_TRUE(may || !holds || L::kTailBytes > 0);
      held = held || holds;
    }
    if (L::kTailBytes > 0) {
      ASSERT_EQ(L::OwnHolds(line.data(), L::kSlots, fingerprint), held);
    }
  }
}

TYPED_TEST(InfiniLine, JoinsWithoutLosing) {
  using L = TypeParam;
  Random random(3);
  for (int round = 0; round < 2000; ++round) {
    Bytes line(kLineBytes);
    Numbers numbers = {0, 0, 0};
    std::vector<uint64_t> entries;
    const uint64_t own = random.Below(L::kSlots + 1);
    while (entries.size() < own) {
      entries.push_back(SomeEntry(&random, L::kMaxLength));
      L::AppendOwn(line.data(), &numbers, entries.back());
    }
    for (int i = 0; i < 5; ++i) {
      entries.push_back(SomeEntry(&random, L::kMaxLength));
      if (own == 0) continue;
      L::Join(line.data(), numbers.own, entries.back());
      for (uint64_t entry : entries) {
        bool covered = false;
        for (unsigned slot = 0; slot < numbers.own; ++slot) {
          covered = covered || Covers(L::Load(line.data(), slot), entry);
        }
        ASSERT_TRUE(covered);
      }
      ASSERT_EQ(L::Read(line.data()).own, own);
    }
  }
}

template <typename Width>
class InfiniTable : public ::testing::Test {};
using Slots =
    ::testing::Types<std::integral_constant<unsigned, 2>, std::integral_constant<unsigned, 3>,
                     std::integral_constant<unsigned, 4>, std::integral_constant<unsigned, 5>>;
TYPED_TEST_SUITE(InfiniTable, Slots);

// 10,000 hashes of one line, also of the last ones, whose next are the first: none is missed, and
// the keys of the other lines are found as well.
TYPED_TEST(InfiniTable, TakesAHotLine) {
  for (unsigned step : {0u, 1u, 2u, 5u}) {
    const Size size = SizeAt(step);
    for (uint64_t hot : {uint64_t{0}, size.Lines() / 2, size.Lines() - 2, size.Lines() - 1}) {
      for (bool may_displace : {true, false}) {
        Bytes body(size.Bytes());
        Table<TypeParam::value> table(body.data(), size);
        std::vector<uint64_t> hashes;
        for (uint64_t key = 0; key < 200; ++key) hashes.push_back(HashOf(key, 1));
        for (uint64_t key = 0; hashes.size() < 10200; ++key) {
          const uint64_t hash = HashOf(key, 2);
          if (table.LineOf(hash) == hot) hashes.push_back(hash);
        }
        for (uint64_t hash : hashes) {
          table.TestAndAdd(hash, may_displace);
          ASSERT_TRUE(table.Contains(hash));
        }
        for (uint64_t hash : hashes) ASSERT_TRUE(table.Contains(hash));
        for (uint64_t line = 0; line < size.Lines() && !may_displace; ++line) {
          ASSERT_EQ(Line<TypeParam::value>::Read(table.At(line)).foreign, 0u);
        }
        // Far away nothing but its own keys is found.
        uint64_t found = 0, asked = 0;
        Random random(4);
        for (int i = 0; i < 20000; ++i) {
          const uint64_t hash = random.Next();
          if (table.LineOf(hash) == hot) continue;
          ++asked;
          found += table.Contains(hash);
        }
        ASSERT_LE(found, 20 + asked / 500);
      }
    }
  }
}

// Bits of any kind: nothing outside the body is touched.
TYPED_TEST(InfiniTable, TakesAnyBits) {
  Random random(5);
  for (unsigned step : {0u, 1u}) {
    Bytes body(SizeAt(step).Bytes()), grown(SizeAt(step + 1).Bytes());
    for (int round = 0; round < 10; ++round) {
      for (size_t i = 0; i < body.size(); ++i) {
        body[i] = round == 0 ? 0xff : static_cast<uint8_t>(random.Next());
      }
      Table<TypeParam::value> table(body.data(), SizeAt(step)), to(grown.data(), SizeAt(step + 1));
      table.ForEach([&](uint64_t line, uint64_t entry) { to.PutFromSmaller(line, entry); });
      (void)TakeAll<TypeParam::value, TypeParam::value>(table, &to);
      for (int i = 0; i < 500; ++i) {
        table.TestAndAdd(random.Next(), random.OneIn(2));
        table.Contains(random.Next());
      }
    }
  }
}

// Each damage that leaves a line which this code does not write is found.
TYPED_TEST(InfiniTable, TellsWhatIsNone) {
  using L = Line<TypeParam::value>;
  Shape shape;
  shape.detail = TypeParam::value;
  const Size size = SizeAt(0);
  Bytes body(size.Bytes());
  Table<TypeParam::value> table(body.data(), size);
  for (uint64_t key = 0; key < 30; ++key) table.TestAndAdd(HashOf(key, 1), true);
  for (uint64_t key = 0, taken = 0; taken < L::kSlots + 3; ++key) {
    const uint64_t hash = HashOf(key, 2);
    if (table.LineOf(hash) != 5) continue;
    taken += table.TestAndAdd(hash, true);
  }
  const auto sound = [&](const std::function<void(uint8_t*)>& damage) {
    Bytes copy(body);
    damage(copy.data());
    return Sound(shape, Counters{}, copy.data());
  };
  const auto with = [](uint8_t* line, int own, int foreign, int reach) {
    Numbers numbers = L::Read(line);
    numbers.own += static_cast<unsigned>(own);
    numbers.foreign += static_cast<unsigned>(foreign);
    numbers.reach += static_cast<unsigned>(reach);
    L::Write(line, numbers);
  };
  const size_t full = 5 * kLineBytes, next = 6 * kLineBytes;
  ASSERT_EQ(L::Read(body.data() + full).own, L::kSlots);
  ASSERT_GE(L::Read(body.data() + next).foreign, 3u);
  EXPECT_TRUE(sound([](uint8_t*) {}));
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + full, 0, 1, 0); })) << "no room";
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + full, -1, 0, 0); })) << "a slot that is not free";
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + next, 1, 0, 0); })) << "an entry of nothing";
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + next, 0, 1, 0); })) << "a foreign one of nothing";
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + next, 0, -1, 0); }));
  EXPECT_FALSE(sound([&](uint8_t* at) { with(at + full, 0, 0, -1); })) << "out of reach";
  EXPECT_FALSE(sound([&](uint8_t* at) { L::Store(at + full, 3, 0); }));
  for (unsigned distance : {0u, 2u, 15u}) {
    EXPECT_FALSE(sound([&](uint8_t* at) {
      L::StoreForeign(at + next, 0, distance, L::Load(at + next, L::ForeignSlot(0)));
    })) << distance;
  }
  EXPECT_FALSE(sound([&](uint8_t* at) {
    L::Store(at + next, L::ForeignSlot(0) - 1, uint64_t{0x11} << 48);
  })) << "more than a distance";
  for (unsigned bit = 5; bit < 8; ++bit) {
    EXPECT_FALSE(sound([&](uint8_t* at) {
      at[next + kLineBytes - 1] = static_cast<uint8_t>(at[next + kLineBytes - 1] | 1u << bit);
    }));
  }
  // Bytes that no slot has.
  for (size_t at = L::kSlots * TypeParam::value; at < kNumbersAt; ++at) {
    EXPECT_FALSE(sound([&](uint8_t* bytes) { bytes[at] = 1; }));
  }
}

}  // namespace
}  // namespace dedup::infini
