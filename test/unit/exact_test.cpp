// Exact while small: until when, in which order, in how many bytes, and what
// changes at the switch.

#include "core/exact.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

std::vector<Shape> SomeShapes(const Variant& variant) {
  std::vector<Shape> shapes;
  for (uint64_t keys : {1, 30, 500, 4000}) {
    for (double fpr : {0.3, 0.01, 0.0001}) {
      if (!HasRate(variant, fpr)) continue;
      shapes.push_back(PlanKeys(*variant.method, keys, fpr, variant.options));
    }
  }
  return shapes;
}

class Exact : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, Exact, ::testing::ValuesIn(AllVariants()), VariantName);

// A filter is exact while 8 n <= M, M its method's bytes, and where every sight counts
// while 16 n <= M; the insertion that
// passes it takes the filter over, and every key is still found then. Where that many
// are more than the method can hold, the insertion is refused, and the filter stays
// as it is.
TEST_P(Exact, UntilEightBytesAKeyPassTheMethods) {
  const Method& method = *GetParam().method;
  for (const Shape& shape : SomeShapes(GetParam())) {
    const uint64_t limit = MostExact(shape);
    Filter working(shape), value(shape);
    for (uint64_t key = 0; key < limit; ++key) {
      ASSERT_FALSE(working.Add(HashOf(key)));
      if (limit <= 200 || key + 5 > limit) {
        value.AddValue(HashOf(key));
        if (limit <= 200) {
          ASSERT_EQ(value.Canonical(), working.Canonical());
        }
      } else if (key + 5 == limit) {
        value = Filter(working.Canonical());
      }
    }
    ASSERT_TRUE(working.exact());
    EXPECT_EQ(working.header().hashes(), limit);
    EXPECT_EQ(working.Canonical().size(), 60 + (method.counts() ? 16 : 8) * limit);
    // A duplicate does not pass it.
    ASSERT_TRUE(working.Add(HashOf(0)));
    value.AddValue(HashOf(0));
    ASSERT_TRUE(working.exact());
    ASSERT_TRUE(value.exact());
    ASSERT_FALSE(working.Add(HashOf(limit)));
    value.AddValue(HashOf(limit));
    EXPECT_TRUE(Same(value, working)) << NameOf(shape);
    EXPECT_EQ(value.refused(), working.refused());
    EXPECT_EQ(working.exact(), working.refused() > 0);
    EXPECT_EQ(value.exact(), working.exact());
    if (working.exact()) continue;
    if (method.used_bytes == nullptr) {
      EXPECT_EQ(working.Canonical().size(), 60 + uint64_t{shape.bytes});
    } else {
      EXPECT_LE(working.Canonical().size(), 60 + uint64_t{shape.bytes});
    }
    // Those that the method promises: all, or the last `keys`. What methods miss that
    // may miss some is measured in their own tests.
    const uint64_t promised =
        method.missed(shape) > 0 || method.remembers(shape) == Remembers::kByChance
            ? 0
            : (method.forgets(shape) ? std::min(limit + 1, shape.keys) : limit + 1);
    for (uint64_t age = 0; age < promised; ++age) {
      uint64_t key = limit - age;
      // With refresh, key 0 was seen again last but one.
      if (working.header().order() == ExactOrder::kLastSight && age > 0) {
        key = age == 1 ? 0 : limit - age + 1;
      }
      ASSERT_TRUE(working.Contains(HashOf(key))) << NameOf(shape) << " age " << age;
    }
  }
}

// While exact there is no false positive: none of a hundred thousand other keys.
TEST_P(Exact, MakesNoFalsePositives) {
  const Method& method = *GetParam().method;
  const uint64_t memory = method.counts() ? 16 * 1024 + 64 : 8 * 1024 + method.granule;
  const Shape shape = PlanBody(method, memory, 0.3, GetParam().options);
  Filter filter(shape);
  const uint64_t held = std::min<uint64_t>(1024, MostExact(shape));
  for (uint64_t key = 0; key < held; ++key) ASSERT_FALSE(filter.Add(HashOf(key)));
  ASSERT_TRUE(filter.exact());
  const Filter stored(filter.Canonical());
  for (uint64_t key = held; key < 101024 / kThin; ++key) ASSERT_FALSE(filter.Contains(HashOf(key)));
  for (uint64_t key = held; key < 3000; ++key) ASSERT_FALSE(stored.Contains(HashOf(key)));
  for (uint64_t key = 0; key < held; ++key) ASSERT_TRUE(stored.Contains(HashOf(key)));
  EXPECT_EQ(filter.Read().count, static_cast<double>(held));
  EXPECT_LE(filter.Read().fpr, 1e-15);
}

// The canonical order is that of a plain list: sorted for blocked_bloom and bloom,
// first sight for ring and fifo, last sight for recent and for a ring with refresh. Where
// every sight counts, each hash is followed by how many there were.
TEST(ExactOrders, AreThoseOfAList) {
  struct Case {
    const char *method, *options;
    ExactOrder order;
  };
  for (const Case& c :
       {Case{"blocked_bloom", "", ExactOrder::kSorted}, Case{"bloom", "", ExactOrder::kSorted},
        Case{"recent", "", ExactOrder::kLastSight}, Case{"ring", "", ExactOrder::kFirstSight},
        Case{"ring", "refresh=on", ExactOrder::kLastSight},
        Case{"ring", "generations=16", ExactOrder::kFirstSight},
        Case{"fifo", "", ExactOrder::kFirstSight}, Case{"count_min", "", ExactOrder::kSorted},
        Case{"count_min", "conservative=on", ExactOrder::kFirstSight}}) {
    const Shape shape = PlanMemory(Named(c.method), 8192, 0.01, c.options);
    EXPECT_EQ(Filter(shape).header().order(), c.order) << NameOf(shape);
  }
  for (const Variant& variant : AllVariants()) {
    // Room for 7, 8, 16, ... hashes: lists, then indexes.
    for (uint64_t distinct : {1, 2, 7, 8, 9, 20, 300}) {
      const Shape shape = PlanMemory(*variant.method, 8192, 0.01, variant.options);
      const ExactOrder order = variant.method->exact_order(shape);
      Filter working(shape), value(shape);
      EXPECT_EQ(working.header().order(), order);
      const bool counts = variant.method->counts();
      const size_t entry = counts ? 16 : 8;
      std::vector<uint64_t> list;
      std::unordered_map<uint64_t, uint64_t> sights;
      Random random(distinct);
      for (uint64_t i = 0; i < 6 * distinct; ++i) {
        const uint64_t hash = HashOf(random.Below(distinct), 3);
        const auto found = std::find(list.begin(), list.end(), hash);
        const bool known = found != list.end();
        if (!known) {
          list.push_back(hash);
        } else if (order == ExactOrder::kLastSight) {
          list.erase(found);
          list.push_back(hash);
        }
        ++sights[hash];
        ASSERT_EQ(working.Add(hash), known);
        value.AddValue(hash);
        // Asking changes nothing.
        ASSERT_FALSE(working.Contains(HashOf(i + 1000, 3)));
        ASSERT_TRUE(working.Contains(list.front()));
        std::vector<uint64_t> expected = list;
        if (order == ExactOrder::kSorted) std::sort(expected.begin(), expected.end());
        const Bytes stored = working.Canonical();
        ASSERT_EQ(stored.size(), 60 + entry * expected.size());
        for (size_t place = 0; place < expected.size(); ++place) {
          const uint8_t* at = stored.data() + 60 + entry * place;
          ASSERT_EQ(LoadU64(at), expected[place]);
          if (counts) {
            ASSERT_EQ(LoadU64(at + 8), sights[expected[place]]);
          }
        }
        ASSERT_EQ(value.Canonical(), stored);
      }
    }
  }
}

// At full room the working form takes at most three times the stored bytes, in
// every order and at every room.
TEST(ExactBytes, OfTheWorkingFormAreThreeTimesTheStoredAtMost) {
  for (ExactOrder order : {ExactOrder::kSorted, ExactOrder::kFirstSight, ExactOrder::kLastSight}) {
    for (uint64_t room = 0; room < 5000; ++room) {
      ASSERT_LE(WorkingExactBytes(room, order), 3 * (60 + 8 * room)) << room;
    }
    EXPECT_LE(WorkingExactBytes(40000000, order), 3 * (60 + 8 * uint64_t{40000000}));
  }
  // With counts one and a half times, and a list as much as is stored.
  for (ExactOrder order : {ExactOrder::kSorted, ExactOrder::kFirstSight}) {
    for (uint64_t room = 0; room < 5000; ++room) {
      ASSERT_EQ(WorkingExactBytes(room, order, true), 60 + (room <= 8 ? 16 : 24) * room) << room;
    }
  }
}

// Room grows by doubling, so that n keys cost O(log n) copies, and never beyond
// the most that a filter keeps.
TEST(ExactBytes, GrowByDoubling) {
  const Shape shape = PlanMemory(Named("recent"), 64 * 1000, 0.01);  // 8000 hashes
  Filter filter(shape);
  uint64_t room = 0, growths = 0;
  for (uint64_t key = 0; key < 8000; ++key) {
    filter.Add(HashOf(key));
    ASSERT_TRUE(filter.exact());
    if (filter.header().room() != room) {
      ASSERT_TRUE(filter.header().room() >= 2 * room || filter.header().room() == 8000);
      room = filter.header().room();
      ++growths;
    }
    ASSERT_LE(room, 2 * (key + 1) + 14);
  }
  EXPECT_EQ(room, 8000u);
  EXPECT_LE(growths, 12u);
}

// An empty filter takes 60 bytes whatever it is sized for, a billion keys or all
// the memory there may be; its first working form, with PostgreSQL's length word,
// is under 128, and 128 where every sight counts.
TEST(ExactBytes, OfAnEmptyFilterAreSixty) {
  EXPECT_EQ(Filter(PlanKeys(Named("blocked_bloom"), 1000000000, 0.3)).Canonical().size(), 60u);
  EXPECT_EQ(Filter(PlanKeys(Named("bloom"), 1000000000, 0.3)).Canonical().size(), 60u);
  for (const Method* method : kMethods) {
    Filter filter(PlanMemory(
        *method, CountsAllBytes(*method) ? kMaxBodyBytes : MostMemory(*method, 0.01), 0.01));
    EXPECT_EQ(filter.Canonical().size(), 60u);
    filter.MakeWorkingForm();
    EXPECT_LE(filter.image().size() + 4, method->counts() ? 128u : 127u);
  }
}

// No exact form, of the largest filters neither, passes what a value may take.
TEST(ExactBytes, StayBelowAValuesLimit) {
  for (const Method* method : kMethods) {
    for (double fpr : {0.3, 0.01}) {
      const Shape shape = PlanMemory(
          *method, CountsAllBytes(*method) ? kMaxBodyBytes : MostMemory(*method, fpr), fpr);
      const ExactOrder order = method->exact_order(shape);
      const uint64_t limit = ExactLimit(*method, shape, order);
      const bool counts = method->counts();
      EXPECT_LE(WorkingExactBytes(limit, order, counts), kMaxWorkingBytes);
      EXPECT_LE((counts ? 16 : 8) * limit, shape.bytes);
      if (method->growth != nullptr) {
        EXPECT_EQ(limit, 512u);
      } else if (counts) {
        EXPECT_GE(limit, uint64_t{33000000});
      } else if (method->exact_to_keys) {
        EXPECT_EQ(limit, shape.keys);
      } else {
        EXPECT_GE(limit, std::min<uint64_t>(40000000, shape.bytes / 8));
      }
    }
  }
  // Below 340 MiB the rule is 8 n <= M and nothing else.
  const Shape shape = PlanMemory(Named("recent"), uint64_t{340} << 20, 0.01);
  EXPECT_EQ(ExactLimit(Named("recent"), shape, ExactOrder::kLastSight), shape.bytes / 8);
}

// Hundreds of thousands of exact keys, each hit several times, in the order that
// is worst for a list: this would not end if a hit scanned.
TEST(ExactSpeed, AHitDoesNotScan) {
  for (const Method* method : kMethods) {
    Filter filter(PlanBody(*method, (method->counts() ? 16 : 8) * 300000 + 8192, 0.01));
    const uint64_t keys = std::min<uint64_t>(300000 / kThin, filter.header().exact_limit());
    for (uint64_t round = 0; round < 4; ++round) {
      for (uint64_t key = 0; key < keys; ++key) {
        ASSERT_EQ(filter.Add(HashOf(round % 2 == 0 ? key : keys - 1 - key)), round > 0);
      }
    }
    ASSERT_TRUE(filter.exact());
  }
}

// A stored filter that stands at its limit is filled on as an exact one, and becomes
// full by the next new key only: like one that was never stored.
TEST(ExactSteps, GoOnExactAtTheLimit) {
  for (const Method* method : kMethods) {
    const Shape shape = PlanMemory(*method, 8192, 0.01);
    const uint64_t limit = MostExact(shape);
    Filter filter(shape);
    for (uint64_t key = 0; key < limit; ++key) filter.Add(HashOf(key));
    Filter stored(filter.Canonical());
    EXPECT_EQ(FirstStep(stored.header(), limit).form, Form::kWorkingExact);
    EXPECT_EQ(NextStep(stored.header(), limit).form, Form::kWorkingFull);
    for (uint64_t key = 0; key < limit; ++key) ASSERT_TRUE(stored.Add(HashOf(key)));
    ASSERT_TRUE(stored.exact());
    for (uint64_t key = 0; key < limit; ++key) filter.Add(HashOf(key));
    EXPECT_EQ(stored.Canonical(), filter.Canonical());
    EXPECT_FALSE(stored.Add(HashOf(limit)));
    EXPECT_FALSE(stored.exact());
  }
}

// A caller may end the exact form earlier than the format would.
TEST(ExactSteps, MayEndEarlier) {
  const Shape shape = PlanMemory(Named("blocked_bloom"), 64 * 100, 0.01);
  Filter filter(shape);
  for (uint64_t key = 0; key < 10; ++key) filter.Add(HashOf(key));
  EXPECT_EQ(NextStep(filter.header()).form, Form::kWorkingExact);
  EXPECT_EQ(NextStep(filter.header(), 11).form, Form::kWorkingExact);
  EXPECT_EQ(NextStep(filter.header(), 11).room, 11u);
  EXPECT_EQ(NextStep(filter.header(), 10).form, Form::kWorkingFull);
  EXPECT_EQ(NextStep(filter.header(), 0).form, Form::kWorkingFull);
  EXPECT_EQ(NextStep(filter.header(), 1000).room, 16u);
}

// The state of a partial aggregate may stay exact for all the keys that a window is
// sized for: also beyond 8 n <= M, for that long it can be merged without loss. It
// goes over to its method when it is written, with the bytes of a filter that went
// over at once, and with more hashes than a filter may have it is never accepted
// from outside.
TEST(ExactStates, OfWindowsHoldAllTheirKeys) {
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 3000, 0.01, variant.options);
    if (!variant.method->forgets(shape)) {
      // A filter that never forgets can be merged without loss anyway.
      const Filter filter(shape);
      EXPECT_EQ(filter.header().state_limit(), filter.header().exact_limit());
      continue;
    }
    Filter state(shape), filter(shape);
    const uint64_t limit = state.header().exact_limit(), most = state.header().state_limit();
    ASSERT_EQ(limit, MostExact(shape));
    ASSERT_EQ(most, std::max(uint64_t{3000}, limit));
    state.SetLimit(most);
    for (uint64_t key = 0; key < most; ++key) {
      ASSERT_FALSE(state.Add(HashOf(key)));
      filter.Add(HashOf(key));
    }
    ASSERT_TRUE(state.exact());
    EXPECT_EQ(state.Read().count, most);
    for (uint64_t key = 0; key < 6000; ++key) ASSERT_EQ(state.Contains(HashOf(key)), key < most);
    const Bytes stored = state.Canonical();
    if (most > limit) {
      ASSERT_EQ(stored.size(), 60 + size_t{shape.bytes}) << NameOf(shape);
      Body body(shape);
      for (uint64_t key = 0; key < most; ++key) body.Insert(HashOf(key));
      EXPECT_EQ(std::memcmp(stored.data() + 60, body.bytes().data(), shape.bytes), 0);
    } else {
      EXPECT_EQ(stored.size(), 60 + 8 * most) << NameOf(shape);
    }
    ASSERT_FALSE(state.Add(HashOf(most)));
    EXPECT_FALSE(state.exact());

    // An image of a hash too many, as it might come from outside.
    if (most == limit) continue;
    for (uint64_t n : {limit, limit + 1}) {
      std::vector<uint8_t> payload(8 * n);
      std::vector<uint64_t> hashes(n);
      for (uint64_t i = 0; i < n; ++i) hashes[i] = HashOf(i);
      if (variant.method->exact_order(shape) == ExactOrder::kSorted) {
        std::sort(hashes.begin(), hashes.end());
      }
      for (uint64_t i = 0; i < n; ++i) StoreU64(payload.data() + 8 * i, hashes[i]);
      const Bytes image = ImageOf(shape, 0, n, 0, payload);
      Header header;
      EXPECT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
      EXPECT_EQ(Validate(image.data(), image.size(), &header),
                n == limit ? Flaw::kNone : Flaw::kParameters);
    }
  }
}

// Across the switch a filter that never forgets loses nothing, and a window that misses
// none keeps its sentence. By first sight: a key answered new is a duplicate until `keys`
// further were new. By last sight: a key is one if fewer than `keys` came since it was
// answered last.
TEST(ExactSwitch, KeepsThePromises) {
  for (const Variant& variant : AllVariants()) {
    const Method& method = *variant.method;
    for (uint64_t keys : {1, 20, 300, 3000}) {
      for (double fpr : {0.3, 0.01}) {
        if (!HasRate(variant, fpr)) continue;
        const Shape shape = PlanKeys(method, keys, fpr, variant.options);
        const bool window = IsWindow(method, shape);
        if (!HoldsTheLast(method, shape) || method.missed(shape) > 0) continue;
        const bool by_last = method.exact_order(shape) == ExactOrder::kLastSight;
        Filter filter(shape);
        struct Sight {
          uint64_t news, adds;  // when it was answered new, and when it was promised last
        };
        std::unordered_map<uint64_t, Sight> added;
        uint64_t news = 0, adds = 0;
        Random random(keys);
        const uint64_t until = 3 * (keys + HashesInBody(shape));
        while (news < until && filter.refused() == 0) {
          ++adds;
          const uint64_t key = random.Below(2 * until);
          const auto found = added.find(key);
          const bool known = found != added.end();
          const bool held = known && (!window || (by_last ? adds - found->second.adds <= keys
                                                          : news - found->second.news < keys));
          const bool exact = filter.exact();
          const bool seen = filter.Add(HashOf(key, 5));
          ASSERT_TRUE(seen || !held) << NameOf(shape);
          ASSERT_TRUE(!exact || seen == known || filter.refused() > 0) << NameOf(shape);
          if (!seen) added[key] = {++news, adds};
          if (seen && held) found->second.adds = adds;
          if (seen && !known) ++news;  // refused: it ends the loop too
        }
        EXPECT_FALSE(filter.exact() && filter.refused() == 0);
      }
    }
  }
}

// The key that takes a filter over is never lost, though the method may call it a
// duplicate of what was replayed: at a rate of 0.5 that happens every other time.
TEST(ExactSwitch, NeverLosesTheKeyThatPassesIt) {
  for (const Variant& variant : AllVariants()) {
    if (!HasRate(variant, 0.5)) continue;
    const Shape shape = PlanKeys(*variant.method, 3, 0.5, variant.options);
    for (uint64_t trial = 0; trial < 300; ++trial) {
      Filter filter(shape), value(shape);
      uint64_t key = 1000 * trial;
      while (filter.exact()) {
        ASSERT_FALSE(filter.Add(HashOf(key))) << variant.name;
        value.AddValue(HashOf(key));
        if (filter.refused() > 0) break;
        if (HoldsTheLast(*variant.method, shape) || filter.exact()) {
          ASSERT_TRUE(filter.Contains(HashOf(key))) << variant.name;
        }
        ++key;
      }
      ASSERT_TRUE(Same(filter, value)) << variant.name;
      ASSERT_EQ(filter.refused(), value.refused()) << variant.name;
    }
  }
}

// Replay inserts without asking: a method's state after the switch is that of all
// its keys inserted in canonical order, each as often as it was counted where it was. (Those
// that grow are replayed in any order, which changes their bytes.)
TEST(ExactSwitch, ReplaysInCanonicalOrder) {
  for (const Variant& variant : AllVariants()) {
    const Method* method = variant.method;
    if (method->growth != nullptr) continue;
    const Shape shape = PlanMemory(*method, 8192, 0.3, variant.options);
    Filter filter(shape);
    Random random(6);
    while (true) {
      const Bytes stored = filter.Canonical();
      const uint64_t n = filter.header().hashes();
      const uint64_t hash = HashOf(random.Below(4000), 6);
      filter.Add(hash);
      if (filter.exact()) continue;
      Body body(shape);
      for (uint64_t i = 0; i < n; ++i) {
        const bool counts = method->counts();
        const uint8_t* at = stored.data() + 60 + (counts ? 16 : 8) * i;
        const uint64_t times = counts ? LoadU64(at + 8) : 1;
        for (uint64_t sight = 0; sight < times; ++sight) body.Insert(LoadU64(at));
      }
      body.Insert(hash);
      const Bytes full = filter.Canonical();
      const size_t used = filter.header().used_bytes();
      ASSERT_EQ(full.size(), 60 + used);
      EXPECT_EQ(std::memcmp(full.data() + 60, body.bytes().data(), used), 0) << method->name;
      EXPECT_EQ(filter.header().counters.count, body.counters().count);
      EXPECT_EQ(filter.header().counters.state, body.counters().state);
      break;
    }
  }
}

// AddTo() needs no more bytes than AddToBytes() says, in every form (the block is
// exactly that large, so the sanitizer would see more), and it may say so before
// the key is known to be new.
TEST(AddToValue, StaysWithinItsBytes) {
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 5, 0.1, variant.options);
    const bool holds = HoldsTheLast(*variant.method, shape);
    Filter filter(shape);
    for (uint64_t key = 0; key < 900; ++key) {
      for (uint64_t one : {key, key / 2}) {
        const uint64_t refused = filter.refused();
        filter.AddValue(HashOf(one));
        if (filter.refused() == refused && (holds || filter.exact())) {
          ASSERT_TRUE(filter.Contains(HashOf(one))) << variant.name;
        }
      }
    }
    EXPECT_FALSE(filter.exact() && filter.refused() == 0);
  }
}

// A full working image may be moved to any address: Align() puts its body back at
// a cache line, and changes nothing else.
class Moved : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, Moved, ::testing::ValuesIn(AllVariants()), VariantName);

TEST_P(Moved, IsAlignedAgain) {
  const Shape shape = PlanKeys(*GetParam().method, 100, 0.01, GetParam().options);
  Filter filter(shape);
  for (uint64_t key = 0; key < HashesInBody(shape) + 200; ++key) filter.Add(HashOf(key));
  ASSERT_FALSE(filter.exact());
  const Bytes stored = filter.Canonical();
  Bytes arena(filter.image().size() + 256);
  for (size_t at = 0; at < 130; ++at) {
    uint8_t* moved = arena.data() + at;
    std::memcpy(moved, filter.image().data(), filter.image().size());
    Header header;
    ASSERT_EQ(Check(moved, filter.image().size(), &header), Flaw::kNone);
    Align(moved, &header);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(moved + header.body_at()) % 64, 0u);
    Header again;
    ASSERT_EQ(Check(moved, filter.image().size(), &again), Flaw::kNone);
    EXPECT_EQ(again.body_at(), header.body_at());
    Bytes out(CanonicalBytes(header));
    WriteCanonical(moved, header, out.data());
    ASSERT_EQ(out, stored);
  }
}

}  // namespace
}  // namespace dedup::test
