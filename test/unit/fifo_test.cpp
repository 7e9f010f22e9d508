// fifo: its lines against plain lists, for slots of every width, with and without time;
// the promise of its windows; and merges against lists.

#include "core/methods/fifo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "fifo_support.hpp"
#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// A slot that is written is read as it was, leaves the others and stays inside the line.
TEST(FifoLine, HasSlotsApart) {
  Random random(2);
  for (const LineLayout& layout : AllLayouts()) {
    Bytes line(64);
    std::vector<uint64_t> slots(SlotsOf(layout));
    for (int i = 0; i < 3000; ++i) {
      const auto at = static_cast<unsigned>(random.Below(slots.size()));
      slots[at] = random.OneIn(4) ? 0 : random.Next() & LowMask(layout.slot_bits());
      fifo::StoreSlot(line.data(), at, layout.slot_bytes, slots[at]);
      uint64_t equal = 0, alike = 0;
      const uint64_t ignored = LowMask(3), value = slots[random.Below(slots.size())];
      for (unsigned slot = 0; slot < slots.size(); ++slot) {
        ASSERT_EQ(fifo::LoadSlot(line.data(), slot, layout.slot_bytes), slots[slot]);
        equal |= static_cast<uint64_t>(slots[slot] == value) << slot;
        alike |= static_cast<uint64_t>(slots[slot] >> 3 == value >> 3) << slot;
      }
      ASSERT_EQ(fifo::SlotsEqual(line.data(), layout, value, 0), equal) << InWords(layout);
      ASSERT_EQ(fifo::SlotsEqual(line.data(), layout, value & ~ignored, ignored), alike);
    }
    ASSERT_EQ(layout.slot_bytes == 1 ? line[63] : 0, 0);
  }
}

// ---- lines -------------------------------------------------------------------------

// A line as a list, oldest first.
struct LineTwin {
  struct Slot {
    uint64_t fingerprint;
    uint32_t generation;
  };

  bool Holds(uint64_t fingerprint, uint32_t now) const {
    return std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) {
      const auto age = int64_t{now} - int64_t{slot.generation};
      return slot.fingerprint == fingerprint && (!layout.timed || age <= 7);
    });
  }
  bool Insert(uint64_t fingerprint, uint32_t generation) {
    const Slot slot = {fingerprint, layout.timed ? generation : 0};
    slots.insert(std::find_if(slots.begin(), slots.end(),
                              [&](const Slot& s) { return s.generation > slot.generation; }),
                 slot);
    if (slots.size() <= RoomOf(layout)) return false;
    slots.pop_front();
    return true;
  }
  bool Remove(uint64_t fingerprint) {
    const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) {
      return slot.fingerprint == fingerprint;
    });
    if (found == slots.end()) return false;
    slots.erase(found);
    return true;
  }
  unsigned Expire(uint32_t clock) {
    return static_cast<unsigned>(std::erase_if(
        slots, [&](const Slot& slot) { return int64_t{clock} - int64_t{slot.generation} > 7; }));
  }

  LineLayout layout;
  std::deque<Slot> slots = {};
};

// The line holds what the list does, in its order, and is one that is ever written.
void ExpectSame(const Bytes& line, const LineTwin& twin, uint32_t clock) {
  const LineLayout& layout = twin.layout;
  ASSERT_TRUE(fifo::ValidLine(line.data(), layout));
  ASSERT_EQ(fifo::Full(line.data(), layout), twin.slots.size() == RoomOf(layout));
  fifo::Slots slots;
  fifo::ReadSlots(line.data(), layout, &slots);
  ASSERT_EQ(slots.count, twin.slots.size());
  for (unsigned i = 0; i < slots.count; ++i) {
    const uint64_t slot = slots.value[i];
    ASSERT_EQ(layout.timed ? slot >> 3 : slot, twin.slots[i].fingerprint);
    if (layout.timed) {
      ASSERT_EQ(fifo::GenerationOf(slot, clock), twin.slots[i].generation);
    }
  }
}

// Random operations leave what they leave in a list: adding, late ones too, asking, also
// for an earlier time, taking out, and time that passes by one generation or by many.
TEST(FifoLine, IsAList) {
  Random random(1);
  for (const LineLayout& layout : AllLayouts()) {
    for (uint32_t start : {0u, 5u, 1234567u, 0xffff0000u}) {
      Bytes line(64);
      LineTwin twin = {layout};
      uint32_t clock = start;
      const uint64_t most = LowMask(layout.fingerprint_bits());
      // A small pool, so that fingerprints come again; with both ends of their range.
      auto draw = [&] {
        const uint64_t fingerprint = 1 + random.Below(50);
        return random.OneIn(4) ? most + 1 - fingerprint : fingerprint;
      };
      for (int i = 0; i < 40000 / static_cast<int>(kThin); ++i) {
        const uint64_t fingerprint = draw();
        const uint32_t late =
            random.OneIn(3) ? static_cast<uint32_t>(random.Below(std::min(8u, clock - start + 1)))
                            : 0;
        switch (random.Below(8)) {
          case 0:
          case 1:
          case 2:
            ASSERT_EQ(fifo::Insert(line.data(), layout, fingerprint, clock - late, clock),
                      twin.Insert(fingerprint, clock - late));
            break;
          case 3:
            ASSERT_EQ(fifo::Remove(line.data(), layout, fingerprint), twin.Remove(fingerprint));
            break;
          case 4:
            if (layout.timed && random.OneIn(3)) {
              const auto passes =
                  static_cast<uint32_t>(random.OneIn(20) ? random.Below(100) : 1 + random.Below(3));
              ASSERT_EQ(fifo::Expire(line.data(), layout, clock, clock + passes),
                        twin.Expire(clock + passes));
              clock += passes;
            }
            break;
          default:
            ASSERT_EQ(fifo::Holds(line.data(), layout, fingerprint, clock, clock - late),
                      twin.Holds(fingerprint, clock - late));
        }
        ExpectSame(line, twin, clock);
        if (HasFatalFailure()) {
          ADD_FAILURE() << InWords(layout) << " from " << start << ", operation " << i;
          return;
        }
      }
    }
  }
}

// AddOnce() does what Holds(), Full() and Insert() do, wherever the run of slots in use begins.
TEST(FifoLine, AddsOnce) {
  Random random(3);
  for (const LineLayout& layout : AllLayouts()) {
    if (layout.timed) continue;
    std::set<fifo::Once> found;
    for (int round = 0; round < 400 / static_cast<int>(kThin); ++round) {
      Bytes line(64);
      // Full lines give up their oldest key: so the run moves around the circle.
      for (uint64_t n = random.Below(2 * SlotsOf(layout)); n > 0; --n) {
        (void)fifo::Insert(line.data(), layout, 1 + random.Below(50), 0, 0);
      }
      for (uint64_t n = random.Below(SlotsOf(layout)); n > 0 && round % 2 == 0; --n) {
        (void)fifo::Remove(line.data(), layout, 1 + random.Below(50));
      }
      for (int i = 0; i < 60; ++i) {
        const uint64_t fingerprint = 1 + random.Below(100);
        Bytes expected = line;
        fifo::Once once = fifo::Once::kAdded;
        if (fifo::Holds(line.data(), layout, fingerprint, 0, 0)) {
          once = fifo::Once::kHeld;
        } else if (fifo::Full(line.data(), layout)) {
          once = fifo::Once::kFull;
        } else {
          (void)fifo::Insert(expected.data(), layout, fingerprint, 0, 0);
        }
        ASSERT_EQ(fifo::AddOnce(line.data(), layout, fingerprint), once) << InWords(layout);
        ASSERT_EQ(line, expected) << InWords(layout);
        found.insert(once);
      }
    }
    EXPECT_EQ(found.size(), 3u);
  }
}

// What every line does at most, told once without a list: it keeps the last of those
// added that it has room for, and asks of others "new".
TEST(FifoLine, KeepsTheLastAdded) {
  for (const LineLayout& layout : AllLayouts()) {
    Bytes line(64);
    for (uint64_t fingerprint = 1; fingerprint <= 500; ++fingerprint) {
      const bool evicts = fifo::Insert(line.data(), layout, fingerprint, 9, 9);
      ASSERT_EQ(evicts, fingerprint > layout.usable());
      for (uint64_t other = 1; other <= fingerprint + 3; ++other) {
        ASSERT_EQ(fifo::Holds(line.data(), layout, other, 9, 9),
                  other <= fingerprint && other + layout.usable() > fingerprint)
            << InWords(layout);
      }
    }
  }
}

// A key of generation g is held in g and the 7 after it, and not in the one after those,
// whether or not the line was told that time passes.
TEST(FifoLine, ForgetsAfterEightGenerations) {
  for (unsigned slot_bytes = 2; slot_bytes <= 5; ++slot_bytes) {
    const LineLayout layout = {slot_bytes, true};
    for (uint32_t g : {0u, 7u, 8u, 100000u}) {
      Bytes line(64);
      fifo::Insert(line.data(), layout, 77, g, g);
      for (uint32_t now = g; now < g + 20; ++now) {
        EXPECT_EQ(fifo::Holds(line.data(), layout, 77, g, now), now <= g + 7);
        Bytes moved(line);
        EXPECT_EQ(fifo::Expire(moved.data(), layout, g, now), now > g + 7);
        EXPECT_EQ(fifo::Holds(moved.data(), layout, 77, now, now), now <= g + 7);
      }
      // Asked by an event that is late, it is held.
      EXPECT_TRUE(g == 0 || fifo::Holds(line.data(), layout, 77, g, g - 1));
    }
  }
}

// The bytes of lines are frozen: live filters keep them on disk. Written out by hand,
// those of 12 bits a slot by another program.
TEST(FifoLine, HasFrozenBytes) {
  const auto bytes_are = [](const Bytes& line, const std::vector<uint8_t>& first) {
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(line[i], i < first.size() ? first[i] : 0) << i;
  };
  Bytes two(64), three(64), four(64), five(64), full(64);
  fifo::Insert(two.data(), {2, false}, 0x1234, 0, 0);
  fifo::Insert(two.data(), {2, false}, 0xffff, 0, 0);
  bytes_are(two, {0x34, 0x12, 0xff, 0xff});
  // Generation 13 is 5 in three bits; a late key of generation 12 stands before it.
  fifo::Insert(three.data(), {3, true}, 0x1abcd, 13, 13);
  fifo::Insert(three.data(), {3, true}, 1, 12, 13);
  bytes_are(three, {0x0c, 0x00, 0x00, 0x6d, 0x5e, 0x0d});
  fifo::Insert(four.data(), {4, false}, 0x89abcdef, 0, 0);
  bytes_are(four, {0xef, 0xcd, 0xab, 0x89});
  fifo::Insert(five.data(), {5, true}, LowMask(37), 7, 7);
  fifo::Insert(five.data(), {5, true}, 2, 8, 8);
  bytes_are(five, {0xff, 0xff, 0xff, 0xff, 0xff, 0x10});
  // 33 keys in 32 slots: the last is in slot 0, slot 1 is free, the oldest is in slot 2.
  for (uint64_t key = 1; key <= 33; ++key) fifo::Insert(full.data(), {2, false}, key, 0, 0);
  std::vector<uint8_t> expected = {33, 0, 0, 0};
  for (uint8_t key = 3; key <= 32; ++key) {
    expected.push_back(key);
    expected.push_back(0);
  }
  bytes_are(full, expected);
  // Taking one out closes the gap, and the oldest goes to slot 0.
  EXPECT_TRUE(fifo::Remove(full.data(), {2, false}, 4));
  expected.clear();
  for (uint8_t key = 3; key <= 33; ++key) {
    if (key == 4) continue;
    expected.push_back(key);
    expected.push_back(0);
  }
  bytes_are(full, expected);
  Bytes twelve(64), wrapped(64);
  for (uint64_t key : {0x123, 0xfff, 0xabc, 0x010}) {
    fifo::Insert(twelve.data(), {1, false}, key, 0, 0);
  }
  expected.assign(44, 0);
  expected[0] = 0x23;
  expected[1] = 0xff;
  expected[2] = 0xbc;
  expected[3] = 0x10;
  expected[42] = 0xf1;
  expected[43] = 0x0a;
  bytes_are(twelve, expected);
  // 45 keys in 42 slots: the last three are in front, slots 3 and 4 are free.
  for (uint64_t key = 1; key <= 45; ++key) {
    fifo::Insert(wrapped.data(), {1, false}, key * 89 % 4095 + 1, 0, 0);
  }
  bytes_are(wrapped, {0xf4, 0x4d, 0xa6, 0x00, 0x00, 0x17, 0x70, 0xc9, 0x22, 0x7b, 0xd4, 0x2d, 0x86,
                      0xdf, 0x38, 0x91, 0xea, 0x43, 0x9c, 0xf5, 0x4e, 0xa7, 0x00, 0x59, 0xb2, 0x0b,
                      0x64, 0xbd, 0x16, 0x6f, 0xc8, 0x21, 0x7a, 0xd3, 0x2c, 0x85, 0xde, 0x37, 0x90,
                      0xe9, 0x42, 0x9b, 0xfe, 0x0f, 0x20, 0x22, 0x33, 0x43, 0x44, 0x55, 0x65, 0x66,
                      0x77, 0x88, 0x98, 0x99, 0xaa, 0xba, 0xbb, 0xcc, 0xdc, 0xdd, 0xee});
  EXPECT_TRUE(fifo::Remove(wrapped.data(), {1, false}, 0x2c9));
  bytes_are(wrapped, {0x17, 0x70, 0x22, 0x7b, 0xd4, 0x2d, 0x86, 0xdf, 0x38, 0x91, 0xea, 0x43, 0x9c,
                      0xf5, 0x4e, 0xa7, 0x00, 0x59, 0xb2, 0x0b, 0x64, 0xbd, 0x16, 0x6f, 0xc8, 0x21,
                      0x7a, 0xd3, 0x2c, 0x85, 0xde, 0x37, 0x90, 0xe9, 0x42, 0x9b, 0xf4, 0x4d, 0xa6,
                      0x00, 0x00, 0x00, 0x22, 0x33, 0x43, 0x44, 0x55, 0x65, 0x66, 0x77, 0x88, 0x98,
                      0x99, 0xaa, 0xba, 0xbb, 0xcc, 0xdc, 0xdd, 0xee, 0xfe, 0x0f});
}

// Lines that were never written so are told: two runs, too few free slots, a fingerprint
// out of its range, and bytes behind the last slot.
TEST(FifoLine, IsToldFromOtherBytes) {
  for (const LineLayout& layout : AllLayouts()) {
    const unsigned slots = SlotsOf(layout), free = slots - RoomOf(layout);
    Bytes line(64);
    EXPECT_TRUE(fifo::ValidLine(line.data(), layout));
    for (unsigned slot = 0; slot < slots; ++slot) {
      fifo::StoreSlot(line.data(), slot, layout.slot_bytes, fifo::SlotOf(9, 3, layout));
      EXPECT_EQ(fifo::ValidLine(line.data(), layout), slot < RoomOf(layout)) << InWords(layout);
    }
    for (unsigned gap = 0; gap < slots; ++gap) {
      Bytes other(line);
      for (unsigned i = 0; i < free; ++i) {
        EXPECT_FALSE(fifo::ValidLine(other.data(), layout));
        fifo::StoreSlot(other.data(), (gap + i) % slots, layout.slot_bytes, 0);
      }
      EXPECT_TRUE(fifo::ValidLine(other.data(), layout));
      fifo::StoreSlot(other.data(), (gap + free + 1) % slots, layout.slot_bytes, 0);
      EXPECT_FALSE(fifo::ValidLine(other.data(), layout));
    }
    Bytes one(64);
    if (layout.timed) {
      fifo::StoreSlot(one.data(), 3, layout.slot_bytes, 5);  // a generation of no fingerprint
      EXPECT_FALSE(fifo::ValidLine(one.data(), layout));
    } else if (layout.slot_bytes == 5) {
      fifo::StoreSlot(one.data(), 3, 5, LowMask(37) + 1);
      EXPECT_FALSE(fifo::ValidLine(one.data(), layout));
    }
    if (slots * layout.slot_bits() <= 63 * 8) {
      Bytes behind(64);
      behind[63] = 1;
      EXPECT_FALSE(fifo::ValidLine(behind.data(), layout));
    }
  }
}

// Whatever bits a line holds, everything that can be done with it stays inside it, and
// what was just added to it is there: the blocks are of exactly 64 bytes.
TEST(FifoLine, IsSafeForAnyBits) {
  Random random(3);
  for (const LineLayout& layout : AllLayouts()) {
    for (int i = 0; i < 20000 / static_cast<int>(kThin); ++i) {
      Bytes line(64), other(64);
      const uint64_t kind = random.Below(4);
      for (size_t at = 0; at < 64; ++at) {
        const uint64_t noise = random.Next();
        line[at] = static_cast<uint8_t>(kind == 0   ? 0xff
                                        : kind == 1 ? noise & noise >> 8
                                        : kind == 2 ? noise % 3
                                                    : noise);
        other[at] = static_cast<uint8_t>(random.Next());
      }
      const auto clock = static_cast<uint32_t>(random.OneIn(2) ? random.Below(10) : random.Next());
      const uint64_t fingerprint = 1 + random.Below(LowMask(layout.fingerprint_bits()) - 40);
      fifo::ValidLine(line.data(), layout);
      fifo::Full(line.data(), layout);
      fifo::Holds(line.data(), layout, fingerprint, clock, clock);
      Bytes merged(line), expired(line), removed(line);
      fifo::MergeLine(merged.data(), other.data(), layout, clock, Weights{1, 2});
      fifo::Expire(expired.data(), layout, clock, clock + 3);
      fifo::Remove(removed.data(), layout,
                   fifo::LoadSlot(line.data(), 1, layout.slot_bytes) >> (layout.timed ? 3 : 0));
      for (int added = 0; added < 40; ++added) {
        fifo::Insert(line.data(), layout, fingerprint + added, clock, clock);
        ASSERT_TRUE(fifo::Holds(line.data(), layout, fingerprint + added, clock, clock))
            << InWords(layout);
      }
    }
  }
}

// ---- windows by count ----------------------------------------------------------------

struct Share {
  uint64_t missed = 0, asked = 0;
  double of() const { return static_cast<double>(missed) / static_cast<double>(asked); }
};

// The promise, word for word: of the keys after whose first sight n further ones were
// answered new at most 0.1 % are missed, of younger ones fewer.
TEST(FifoWindow, MissesAtMostOneInAThousand) {
  for (double fpr : {0.01, 0.001, 1e-4, 1e-7, 1e-9}) {
    for (uint64_t keys : {1, 100, 1700, 5000, 30000, 300000}) {
      const Shape shape = PlanKeys(Named("fifo"), keys, fpr);
      Body body(shape);
      std::vector<uint64_t> news;
      Share at_n, younger;
      Random random(keys);
      const uint64_t length = std::max<uint64_t>(9 * keys, 1500000 / kThin);
      for (uint64_t key = 0; key < length; ++key) {
        const uint64_t hash = HashOf(key, keys);
        if (body.TestAndAdd(hash)) continue;
        news.push_back(hash);
        if (news.size() <= 6 * keys) continue;  // then lines are full
        at_n.missed += !body.Contains(news[news.size() - 1 - keys]);
        ++at_n.asked;
        younger.missed += !body.Contains(news[news.size() - 1 - random.Below(keys)]);
        ++younger.asked;
      }
      // What is missed is missed by lines, all keys of one window at a time.
      const double a_line = static_cast<double>(keys) / (static_cast<double>(shape.bytes) / 64);
      const double windows = static_cast<double>(at_n.asked) / std::max(1.0, a_line);
      EXPECT_LE(at_n.of(), 0.001 + 4 * std::sqrt(0.001 / windows)) << NameOf(shape);
      EXPECT_LE(younger.of(), 0.0004) << NameOf(shape);
      std::printf("%-8g %7llu keys: missed %.6f at age n, %.6f younger, of %llu\n", fpr,
                  static_cast<unsigned long long>(keys), at_n.of(), younger.of(),
                  static_cast<unsigned long long>(at_n.asked));
    }
  }
}

// A hit changes nothing: a key that keeps coming is let through once a window.
TEST(FifoWindow, LetsASteadyRepeatThrough) {
  const Shape shape = PlanKeys(Named("fifo"), 1000, 0.01);
  Body body(shape);
  uint64_t through = 0;
  const uint64_t length = 400000;
  for (uint64_t key = 0; key < length; ++key) {
    through += !body.TestAndAdd(HashOf(1000000000));
    const Bytes before = body.bytes();
    if (key < 1000) {
      ASSERT_TRUE(body.TestAndAdd(HashOf(1000000000)));
      ASSERT_EQ(body.bytes(), before);
    }
    body.TestAndAdd(HashOf(key));
  }
  // Its line takes 40 keys, every 103rd.
  const double turns = static_cast<double>(length) / (40 * 103);
  EXPECT_NEAR(static_cast<double>(through), turns, 0.1 * turns);
}

// The rate of a window in its steady state is what is expected of it, and at most what
// was asked for.
TEST(FifoWindow, KeepsTheRate) {
  for (double fpr : {0.01, 0.00978, 0.0097, 0.0005, 2e-6}) {
    const Shape shape = PlanKeys(Named("fifo"), 20000, fpr);
    EXPECT_EQ(shape.detail, fpr > 0.00977 ? 1u : fpr > 0.0001 ? 2u : 3u);
    Body body(shape);
    Random random(7);
    for (uint64_t key = 0; key < 200000; ++key) body.Insert(random.Next());
    const double expected = body.Read().fpr;
    const uint64_t probes = 20000000 / kThin;
    uint64_t found = 0;
    uint64_t hashes[1000];
    uint8_t seen[1000];
    for (uint64_t done = 0; done < probes; done += 1000) {
      for (uint64_t& hash : hashes) hash = random.Next();
      body.Contains(hashes, 1000, seen);
      for (uint8_t one : seen) found += one;
    }
    const double n = static_cast<double>(probes);
    EXPECT_NEAR(static_cast<double>(found), n * expected, 5 * std::sqrt(n * expected) + 1);
    EXPECT_LE(static_cast<double>(found), n * fpr + 5 * std::sqrt(n * fpr));
    EXPECT_NEAR(expected, Named("fifo").expected_fpr(shape, 1e9), 1e-9);
  }
}

// ---- windows by time -------------------------------------------------------------------

// A window by time as a live filter keeps it: its clock moves on, and with it its lines.
class Timed {
 public:
  explicit Timed(const Shape& shape) : shape_(shape), bytes_(shape.bytes) {}

  bool TestAndAdd(uint64_t hash) {
    uint8_t seen = 2;
    fifo::TestAndAdd(shape_, &counters_, bytes_.data(), &hash, 1, &seen);
    return seen != 0;
  }
  bool Contains(uint64_t hash) const {
    uint8_t seen = 2;
    fifo::Contains(shape_, counters_, bytes_.data(), &hash, 1, &seen);
    return seen != 0;
  }
  void Advance(uint32_t clock) {
    for (size_t at = 0; at < bytes_.size(); at += 64) {
      fifo::Expire(bytes_.data() + at, fifo::LayoutOf(shape_), counters_.state, clock);
    }
    counters_.state = clock;
  }
  void Merge(const Timed& other, const Weights& weights) {
    fifo::Merge(shape_, &counters_, bytes_.data(), other.counters_, other.bytes_.data(), weights);
  }
  Reading Read() const { return fifo::Read(shape_, counters_, bytes_.data()); }
  const Counters& counters() const { return counters_; }
  const Bytes& bytes() const { return bytes_; }

 private:
  Shape shape_;
  Counters counters_ = {};
  Bytes bytes_;
};

Shape PlanByTime(uint64_t keys, double fpr) {
  Shape shape;
  EXPECT_EQ(fifo::PlanTimed(keys, fpr, 60000000, 0, &shape), PlanStatus::kOk);
  return shape;
}

// With `keys` keys in 7 generations, keys of the last 8 generations are held but for at
// most 0.1 %, and none of earlier ones is: it is found as a new key would be.
TEST(FifoByTime, HoldsEightGenerations) {
  for (double fpr : {0.01, 1e-5, 1e-9}) {
    for (uint64_t keys : {700, 70000}) {
      const Shape shape = PlanByTime(keys, fpr);
      Timed window(shape);
      const uint64_t each = keys / 7;
      std::deque<std::vector<uint64_t>> news;  // by generation, the latest first
      Share held, gone;
      for (uint32_t generation = 1000; generation < 1040; ++generation) {
        window.Advance(generation);
        news.emplace_front();
        for (uint64_t i = 0; i < each; ++i) {
          const uint64_t hash = HashOf(generation * each + i);
          if (!window.TestAndAdd(hash)) news.front().push_back(hash);
        }
        if (generation < 1020) continue;
        for (size_t age = 0; age < 16; ++age) {
          Share& share = age <= 7 ? held : gone;
          for (uint64_t hash : news[age]) share.missed += !window.Contains(hash);
          share.asked += news[age].size();
        }
        EXPECT_NEAR(window.Read().count, 8.0 * static_cast<double>(each),
                    0.01 * static_cast<double>(keys) + 1);
      }
      EXPECT_LE(held.of(), 0.001) << NameOf(shape);
      const double asked = static_cast<double>(gone.asked), found = asked * (1 - gone.of());
      EXPECT_LE(found, fpr * asked + 5 * std::sqrt(fpr * asked) + 1e-6) << NameOf(shape);
    }
  }
}

// ---- against the reference ----------------------------------------------------------------

void ExpectBytes(const Bytes& bytes, const ReferenceFifo& reference, const std::string& what) {
  const std::vector<uint8_t> expected = reference.Bytes();
  ASSERT_EQ(bytes.size(), expected.size());
  ASSERT_EQ(std::memcmp(bytes.data(), expected.data(), expected.size()), 0) << what;
}

// Merges with every weight, of empty, half full and full filters, and with time of clocks
// that are equal, near, and so far apart that nothing of one is left: the same bytes as
// lists that are merged by sorting. Filters go on as they should afterwards.
TEST(FifoTwin, MergesToTheSameBytes) {
  Random random(11);
  for (const LineLayout& layout : AllLayouts()) {
    Shape shape = PlanByTime(100, 0.01);
    shape.detail = layout.slot_bytes | (layout.timed ? 1u << 8 | uint64_t{60000000} << 16 : 0);
    shape.bytes = 2 * 103 * 64;
    ASSERT_TRUE(Named("fifo").valid(shape, Counters{}));
    for (int trial = 0; trial < 60 / static_cast<int>(kThin); ++trial) {
      std::vector<Timed> filters(2, Timed(shape));
      std::vector<ReferenceFifo> references(2, ReferenceFifo(shape));
      uint32_t clock = static_cast<uint32_t>(random.Below(2) * 1000);
      for (int side = 0; side < 2; ++side) {
        const uint64_t adds = random.OneIn(5) ? 0 : random.Below(206 * SlotsOf(layout) * 2);
        auto advance = [&](uint32_t by) {
          if (!layout.timed) return;
          clock += by;
          filters[side].Advance(clock);
          references[side].Advance(clock);
        };
        advance(static_cast<uint32_t>(random.OneIn(3) ? 0 : random.Below(12)));
        for (uint64_t i = 0; i < adds; ++i) {
          const uint64_t hash = HashOf(random.Below(206 * SlotsOf(layout) * 3), trial);
          ASSERT_EQ(filters[side].TestAndAdd(hash), references[side].TestAndAdd(hash));
          if (random.OneIn(adds / 5 + 1)) advance(static_cast<uint32_t>(random.Below(4)));
        }
        ExpectBytes(filters[side].bytes(), references[side], InWords(layout));
        if (random.OneIn(3)) clock = clock < 10 ? 0 : clock - 10;
      }
      const Weights weights = {static_cast<uint32_t>(1 + random.Below(4)),
                               static_cast<uint32_t>(1 + random.Below(4))};
      filters[0].Merge(filters[1], weights);
      references[0].Merge(references[1], weights.left, weights.right);
      ASSERT_EQ(filters[0].counters().state, references[0].counters().state);
      ExpectBytes(filters[0].bytes(), references[0], InWords(layout) + " merged");
      for (size_t at = 0; at < shape.bytes; at += 64) {
        ASSERT_TRUE(fifo::ValidLine(filters[0].bytes().data() + at, layout));
      }
      for (uint64_t i = 0; i < 3000; ++i) {
        const uint64_t hash = HashOf(random.Below(206 * SlotsOf(layout) * 3), trial);
        ASSERT_EQ(filters[0].TestAndAdd(hash), references[0].TestAndAdd(hash));
      }
      ExpectBytes(filters[0].bytes(), references[0], InWords(layout) + " and used");
    }
  }
}

// Two full windows keep about half the window of each, and four that are merged one after
// another by weight a quarter: of two, 20 of a line's slots are for each, where 11.6 of
// its keys are on average, or of slots of 2 bytes 15 or 16, where 8.3 are. Keys are added
// without asking: one that is refused at first sight is not promised.
TEST(FifoMerge, IsFairByWeight) {
  for (double fpr : {0.01, 0.001}) {
    const Shape shape = PlanKeys(Named("fifo"), 50000, fpr);
    for (uint32_t parts : {2u, 4u}) {
      Body all(shape);
      for (uint32_t part = 0; part < parts; ++part) {
        Body one(shape);
        for (uint64_t key = 0; key < 4 * shape.keys; ++key) {
          one.Insert(HashOf(part * 10000000 + key));
        }
        if (part == 0) {
          all = one;
        } else {
          all.Merge(one, Weights{part, 1});
        }
      }
      for (uint32_t part = 0; part < parts; ++part) {
        uint64_t missed = 0;
        for (uint64_t age = 1; age <= shape.keys / parts; ++age) {
          missed += !all.Contains(HashOf(part * 10000000 + 4 * shape.keys - age));
        }
        const double share = static_cast<double>(missed) / static_cast<double>(shape.keys / parts);
        EXPECT_LE(share, parts == 2 ? 0.005 : 0.04) << "part " << part << " of " << parts;
        std::printf("%-8g part %u of %u: missed %.6f\n", fpr, part, parts, share);
      }
    }
  }
}

}  // namespace
}  // namespace dedup::test
