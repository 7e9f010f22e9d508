// Random operations of each method against two twins, a million in the thorough run: the
// reference filter, which must give the same answers and the same bytes, and the set of
// all keys that were ever added, which says what an answer must be.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

constexpr int kSlots = 3;  // filters of one shape that live side by side

class RandomOperations : public ::testing::TestWithParam<std::string> {
 protected:
  // What all filters of a shape share, and the keys that went into each.
  struct Slot {
    Slot(const Shape& shape) : filter(shape), reference(shape) {}
    Filter filter;
    ReferenceFilter reference;
    std::unordered_set<uint64_t> added;
  };

  void Run(const Shape& shape, uint64_t operations, Random* random) {
    const bool forgets = MethodByCode(shape.method)->forgets(shape);
    std::vector<Slot> slots(kSlots, Slot(shape));
    // Keys come from a pool that is larger than the filter, half of them from a
    // small part of it, so that duplicates of every age occur.
    const uint64_t pool = 3 * shape.keys + shape.bytes / 4 + 4;
    const uint64_t salt = random->Next();
    auto draw = [&] {
      const uint64_t key = random->Below(random->OneIn(2) ? pool : pool / 8 + 1);
      return HashOf(key, salt);
    };
    for (uint64_t i = 0; i < operations; ++i) {
      Slot& slot = slots[random->Below(kSlots)];
      const uint64_t dice = random->Below(1000);
      if (dice < 600) {
        const uint64_t hash = draw();
        const bool was_exact = slot.reference.exact();
        const bool seen = slot.filter.Add(hash);
        ASSERT_EQ(seen, slot.reference.Add(hash)) << NameOf(shape) << " operation " << i;
        const bool first = slot.added.insert(hash).second;
        if (was_exact || !forgets) {
          ASSERT_TRUE(seen || first) << "a key was lost";
        }
        if (was_exact) {
          ASSERT_EQ(seen, !first) << "a false positive while exact";
        }
        ASSERT_TRUE(slot.filter.Contains(hash)) << "a key is not there that was just added";
      } else if (dice < 900) {
        const uint64_t hash = draw();
        const bool seen = slot.filter.Contains(hash);
        ASSERT_EQ(seen, slot.reference.Contains(hash)) << NameOf(shape) << " operation " << i;
        if (!forgets) {
          ASSERT_TRUE(seen || slot.added.count(hash) == 0) << "a key was lost";
        }
        if (slot.filter.exact()) {
          ASSERT_EQ(seen, slot.added.count(hash) != 0);
        }
      } else if (dice < 960) {
        const uint64_t hash = draw();
        slot.filter.AddValue(hash);
        slot.reference.Add(hash);
        slot.added.insert(hash);
        ASSERT_TRUE(slot.filter.Contains(hash));
      } else if (dice < 980) {
        // Write and read back: the bytes are those of the reference.
        const Bytes stored = slot.filter.Canonical();
        ASSERT_EQ(stored, slot.reference.Canonical()) << NameOf(shape) << " operation " << i;
        slot.filter = Filter(stored);
      } else if (dice < 990) {
        // Merge another slot, in whatever forms the two are.
        const Slot& other = slots[random->Below(kSlots)];
        Filter merged = slot.filter.MergedWith(other.filter);
        if (!slot.filter.MergeInPlaceWith(other.filter)) slot.filter = merged;
        slot.reference.Merge(other.reference);
        const std::unordered_set<uint64_t> added = other.added;
        slot.added.insert(added.begin(), added.end());
        ASSERT_EQ(slot.filter.Canonical(), merged.Canonical()) << "in place differs";
        ASSERT_EQ(merged.Canonical(), slot.reference.Canonical())
            << NameOf(shape) << " operation " << i;
      } else if (dice < 995) {
        slot.filter.MakeWorkingForm();
      } else if (dice < 997) {
        slot = Slot(shape);
      }
      ASSERT_EQ(slot.filter.exact(), slot.reference.exact()) << NameOf(shape);
    }
    for (const Slot& slot : slots) {
      ASSERT_EQ(slot.filter.Canonical(), slot.reference.Canonical()) << NameOf(shape);
    }
  }
};

// Every method, from filters for one key to some thousands, at rates from 0.5 to
// 1e-9, through growth, the exact switch, merges of all forms, and storage.
TEST_P(RandomOperations, AgreeWithTheTwins) {
  const Method& method = Named(GetParam());
  std::vector<std::string> variants = {""};
  if (GetParam() == "ring") {
    variants = {"", "generations=16", "refresh=on", "generations=16 refresh=on"};
  }
  // The quick sanitizer run leaves out the largest filters, which have four fifths of all
  // keys, and four fifths of the operations.
  const bool small = kSanitize && kQuick > 1;
  std::vector<Shape> shapes;
  for (const std::string& options : variants) {
    for (uint64_t keys : {1, 2, 5, 8, 30, 100, 700, 3000}) {
      if (small && keys == 3000) continue;
      for (double fpr : {0.5, 0.1, 0.01, 0.0001, 1e-9}) {
        shapes.push_back(PlanKeys(method, keys, fpr, options, keys));
      }
    }
  }
  // Half of the operations evenly, half in proportion to the keys, so that the
  // larger filters too become full and their windows turn over.
  uint64_t all_keys = 0;
  for (const Shape& shape : shapes) all_keys += shape.keys;
  const uint64_t half = (variants.size() == 1 ? 600000 : 1200000) / kThin / (small ? 5 : 1);
  Random random(GetParam().size());
  for (const Shape& shape : shapes) {
    Run(shape, half / shapes.size() + half * shape.keys / all_keys + 1, &random);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, RandomOperations,
                         ::testing::Values("blocked_bloom", "bloom", "recent", "ring", "fifo"),
                         [](const auto& info) { return info.param; });

// Every method against itself: a filter that is worked on, one that takes each key as a value,
// and one that takes them in batches and is stored and read back at times, do the same
// operations and stay the same; and the keys they must hold are found.
class Paths : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, Paths, ::testing::ValuesIn(AllVariants()), VariantName);

TEST_P(Paths, Agree) {
  const Method& method = *GetParam().method;
  Random random(21);
  for (uint64_t keys : {1, 8, 100, 900}) {
    for (double fpr : {0.3, 0.01, 1e-6}) {
      if (!HasRate(GetParam(), fpr)) continue;
      const Shape shape = PlanKeys(method, keys, fpr, GetParam().options, keys);
      const bool all = !method.forgets(shape);
      Filter working(shape), value(shape), batches(shape);
      // Those answered new, and not forgotten since.
      std::unordered_set<uint64_t> held;
      const uint64_t pool = 3 * keys + 2 * HashesInBody(shape) + 4;
      for (uint64_t i = 0; i < (3000 + 4 * pool) / kThin; ++i) {
        const uint64_t hash = HashOf(random.Below(random.OneIn(2) ? pool : pool / 8 + 1), keys);
        const uint64_t dice = random.Below(1000);
        if (dice < 800) {
          const uint64_t refused = working.refused();
          const bool seen = working.Add(hash);
          value.AddValue(hash);
          batches.AddDeferred(hash);
          batches.Settle();
          ASSERT_EQ(working.refused(), value.refused()) << NameOf(shape);
          ASSERT_EQ(working.refused(), batches.refused()) << NameOf(shape);
          if (working.refused() > refused) {
            ASSERT_TRUE(all && held.count(hash) == 0);
            continue;
          }
          ASSERT_TRUE(seen || !all || held.count(hash) == 0) << "lost: " << NameOf(shape);
          if (!seen) held.insert(hash);
          if (working.exact() || HoldsTheLast(method, shape)) {
            ASSERT_TRUE(working.Contains(hash)) << NameOf(shape);
          }
        } else if (dice < 900) {
          const bool seen = working.Contains(hash);
          ASSERT_EQ(seen, value.Contains(hash));
          ASSERT_EQ(seen, batches.Contains(hash));
          ASSERT_TRUE(seen || !all || held.count(hash) == 0) << "lost: " << NameOf(shape);
        } else if (dice < 960) {
          // Only what was added may be forgotten.
          if (!method.can_forget(shape) || held.count(hash) == 0) continue;
          const bool there = working.ForgetValue(hash);
          ASSERT_TRUE(there || !all) << NameOf(shape);
          ASSERT_EQ(value.ForgetValue(hash), there);
          ASSERT_EQ(batches.ForgetValue(hash), there);
          held.erase(hash);
        } else if (dice < 990) {
          batches.MakeCanonical();
          if (random.OneIn(2)) working.MakeCanonical();
        } else {
          ASSERT_TRUE(Same(working, value)) << NameOf(shape) << " after " << i;
          ASSERT_TRUE(Same(working, batches)) << NameOf(shape) << " after " << i;
        }
      }
      ASSERT_TRUE(Same(working, value)) << NameOf(shape);
      ASSERT_TRUE(Same(working, batches)) << NameOf(shape);
    }
  }
}

}  // namespace
}  // namespace dedup::test
