// Sizes: bits a key and k against the published tables and formulas, and the two
// ways to ask for a size against each other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>

#include "core/methods/fifo.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

double BitsAKey(const Shape& shape, uint64_t keys) {
  return 8.0 * shape.bytes / static_cast<double>(keys);
}

unsigned KOf(const Shape& shape) { return shape.detail & 0xff; }

constexpr uint64_t kMany = 10000000;  // where one line or block does not matter

// blocked_bloom takes the bits a key of the exact sum over loads, and its k.
TEST(BlockedBloomSizes, AreTheTables) {
  struct Row {
    double fpr, bits;
    unsigned k;
  };
  for (const Row& row : {Row{0.3, 2.52, 2}, Row{0.1, 4.84, 3}, Row{0.01, 9.92, 6},
                         Row{0.001, 15.55, 9}, Row{0.0001, 22.03, 12}, Row{1e-6, 38.8, 16}}) {
    const Shape many = PlanKeys(Named("blocked_bloom"), kMany, row.fpr);
    EXPECT_NEAR(BitsAKey(many, kMany), row.bits, 0.002 * row.bits + 0.005) << row.fpr;
    EXPECT_EQ(KOf(many), row.k) << row.fpr;
    for (uint64_t keys = 1; keys <= kMany; keys = keys * 10 / 3 + 1) {
      const Shape shape = PlanKeys(Named("blocked_bloom"), keys, row.fpr);
      EXPECT_LE(shape.bytes, 1.03 * row.bits * static_cast<double>(keys) / 8 + 64)
          << keys << " keys at " << row.fpr;
      EXPECT_EQ(shape.bytes % 64, 0u);
      EXPECT_EQ(shape.keys, keys);
      EXPECT_EQ(shape.fpr, row.fpr);
    }
  }
}

// bloom takes what Bloom's formula says for the best whole k, which is near
// 1.44 log2(1/fpr), and never less than 64 bytes.
TEST(BloomSizes, AreBloomsFormula) {
  for (double fpr : {0.5, 0.3, 0.1, 0.01, 0.001, 0.0001, 1e-6, 1e-9}) {
    double best = 1e9;
    for (int k = 1; k <= 32; ++k) best = std::min(best, -k / std::log(1 - std::pow(fpr, 1.0 / k)));
    EXPECT_LE(best, 1.02 * 1.4427 * std::log2(1 / fpr)) << fpr;
    for (uint64_t keys : {1, 10, 100, 1000, 100000, 10000000}) {
      const Shape shape = PlanKeys(Named("bloom"), keys, fpr);
      // What a small filter needs more, for its fill varies: under 64 bytes.
      EXPECT_LE(shape.bytes, best * static_cast<double>(keys) / 8 + 64) << keys << " " << fpr;
      EXPECT_GE(shape.bytes, 64u);
      EXPECT_EQ(shape.bytes % 8, 0u);
    }
    EXPECT_NEAR(BitsAKey(PlanKeys(Named("bloom"), kMany, fpr), kMany), best, 0.001 * best) << fpr;
  }
}

// ring with 8 generations: at most 1.05 times the table, and the table's K.
TEST(RingSizes, AreTheTables) {
  struct Row {
    double fpr, bits;
    unsigned k, block;
  };
  for (const Row& row : {Row{0.1, 10.6, 6, 512}, Row{0.01, 17.1, 9, 512},
                         Row{0.001, 21.8, 13, 4096}, Row{0.0001, 27.6, 16, 4096}}) {
    const Shape many = PlanKeys(Named("ring"), kMany, row.fpr);
    EXPECT_NEAR(BitsAKey(many, kMany), row.bits, 0.005 * row.bits) << row.fpr;
    EXPECT_EQ(KOf(many), row.k) << row.fpr;
    for (uint64_t keys = 1; keys <= kMany; keys = keys * 10 / 3 + 1) {
      const Shape shape = PlanKeys(Named("ring"), keys, row.fpr);
      EXPECT_LE(shape.bytes, 1.05 * row.bits * static_cast<double>(keys) / 8 + row.block)
          << keys << " keys at " << row.fpr;
      EXPECT_EQ(shape.bytes % row.block, 0u);
      EXPECT_EQ(1u << (shape.detail >> 16 & 0xff), row.block);
    }
  }
}

// ring with 16 generations: the rows for blocks of 512 bytes; at 0.001 the block
// is 4096 bytes and the table's 28.6 bits are an upper bound.
TEST(RingSizes, OfSixteenGenerationsAreTheTables) {
  const std::string sixteen = "generations=16";
  EXPECT_NEAR(BitsAKey(PlanKeys(Named("ring"), kMany, 0.1, sixteen), kMany), 12.1, 0.06);
  EXPECT_NEAR(BitsAKey(PlanKeys(Named("ring"), kMany, 0.01, sixteen), kMany), 19.4, 0.1);
  EXPECT_LE(BitsAKey(PlanKeys(Named("ring"), kMany, 0.001, sixteen), kMany), 28.6);
}

// refresh changes what counts toward a generation's end, not how many keys a
// generation holds: the size is the same.
TEST(RingSizes, AreTheSameWithRefresh) {
  for (double fpr : {0.3, 0.01, 0.0001}) {
    EXPECT_EQ(PlanKeys(Named("ring"), 12345, fpr).bytes,
              PlanKeys(Named("ring"), 12345, fpr, "refresh=on").bytes);
  }
}

// recent: k is the largest with k f <= 504 and f = ceil(log2(2k/fpr + 1)), of at
// least 8 bits, and there are max(1, ceil(keys / (0.8 k))) lines. At the lowest
// rates, where a line has fewer than 21 slots, there may be more, if the promise
// needs it (recent_test.cpp).
TEST(RecentSizes, AreTheFormulas) {
  for (double fpr : {0.5, 0.3, 0.1, 0.05, 0.01, 0.003, 0.001, 0.0001, 1e-5, 1e-6, 1e-7, 1e-9}) {
    unsigned k = 0, f = 0;
    for (unsigned slots = 1; slots <= 63; ++slots) {
      const auto bits =
          std::max(8u, static_cast<unsigned>(std::ceil(std::log2(2 * slots / fpr + 1))));
      if (slots * bits <= 504) {
        k = slots;
        f = bits;
      }
    }
    for (uint64_t keys : {1, 2, 10, 25, 40, 41, 1000, 12345, 1000000, 10000000}) {
      const Shape shape = PlanKeys(Named("recent"), keys, fpr);
      EXPECT_EQ(KOf(shape), k) << fpr;
      EXPECT_EQ(shape.detail >> 8 & 0xff, f) << fpr;
      const uint64_t lines = std::max<uint64_t>(1, (10 * keys + 8 * k - 1) / (8 * k));
      EXPECT_GE(shape.bytes, 64 * lines) << keys << " " << fpr;
      EXPECT_LE(shape.bytes, 64 * (k >= 21 ? lines : lines * 4 / 3 + 1)) << keys << " " << fpr;
    }
  }
}

// The published figures for recent: slots, fingerprints and bits a key.
TEST(RecentSizes, AreTheTables) {
  struct Row {
    double fpr, bits;
    unsigned k, f;
  };
  for (const Row& row : {Row{0.1, 12.8, 50, 10}, Row{0.01, 16.8, 38, 13}, Row{0.001, 20.6, 31, 16},
                         Row{0.0001, 24.6, 26, 19}}) {
    const Shape shape = PlanKeys(Named("recent"), kMany, row.fpr);
    EXPECT_EQ(KOf(shape), row.k);
    EXPECT_EQ(shape.detail >> 8 & 0xff, row.f);
    EXPECT_NEAR(BitsAKey(shape, kMany), row.bits, 0.05);
  }
}

// fifo: the shortest slots that keep the rate with all lines full (40 fingerprints of 12
// bits 40 * 4098 / 4096^2 = 0.0097704), one slot of each
// free, of those of 12 bits (slot_bytes 1) two, and so many lines that Poisson's share of them
// takes a line's fill of further keys in at most 0.1 % of cases. Bits a key, and for windows by
// time, of a seventh more.
TEST(FifoSizes, AreTheTables) {
  struct Row {
    double fpr, bits;
    unsigned slot_bytes;
    double timed_bits;
    unsigned timed_slot_bytes;
  };
  for (const Row& row : {Row{0.3, 22.02, 1, 35.27, 2}, Row{0.01, 22.02, 1, 35.27, 2},
                         Row{0.009771, 22.02, 1, 35.27, 2}, Row{0.00977, 30.86, 2, 35.27, 2},
                         Row{0.001, 30.86, 2, 65.32, 3}, Row{0.0001, 57.16, 3, 65.32, 3},
                         Row{1e-6, 88.37, 4, 100.99, 4}, Row{1e-8, 88.37, 4, 167.60, 5},
                         Row{1e-9, 146.64, 5, 167.60, 5}}) {
    const Shape shape = PlanKeys(Named("fifo"), kMany, row.fpr);
    EXPECT_NEAR(BitsAKey(shape, kMany), row.bits, 0.02) << row.fpr;
    EXPECT_EQ(KOf(shape), row.slot_bytes);
    Shape timed;
    ASSERT_EQ(fifo::PlanTimed(kMany, row.fpr, 5000000, 9, &timed), PlanStatus::kOk);
    EXPECT_NEAR(BitsAKey(timed, kMany), row.timed_bits, 0.02) << row.fpr;
    EXPECT_EQ(timed.detail, row.timed_slot_bytes | 1u << 8 | uint64_t{5000000} << 16);
    EXPECT_TRUE(Named("fifo").valid(timed, Counters{0, 12345}));
    EXPECT_FALSE(Named("fifo").valid(timed, Counters{1, 0}));
    EXPECT_FALSE(Named("fifo").valid(shape, Counters{0, 12345}));
    EXPECT_EQ(timed.method, 5);
    EXPECT_EQ(timed.seed, 9u);
    EXPECT_EQ(timed.keys, kMany);
    EXPECT_EQ(timed.fpr, row.fpr);
    // Poisson's tail, added up from the other end: with n keys a line takes its fill
    // with at most 0.1 %, with one group fewer with more.
    const auto tail = [&](uint64_t groups) {
      const double mean = static_cast<double>(kMany) / static_cast<double>(groups * 103);
      double below = 0, p = std::exp(-mean);
      const unsigned room = row.slot_bytes == 1 ? 40 : 64 / row.slot_bytes - 1;
      for (unsigned load = 0; load < room; p *= mean / ++load) below += p;
      return 1 - below;
    };
    EXPECT_LE(tail(shape.bytes / 6592), 0.001);
    EXPECT_GT(tail(shape.bytes / 6592 - 1), 0.001);
  }
}

// A generation is from a tenth of a second to what 48 bits of microseconds hold.
TEST(FifoSizes, TakeOnlyGenerationsOfSomeLength) {
  Shape shape;
  for (uint64_t us : {uint64_t{0}, uint64_t{99999}, uint64_t{1} << 48, ~uint64_t{0}}) {
    EXPECT_EQ(fifo::PlanTimed(1000, 0.01, us, 0, &shape), PlanStatus::kTooLarge) << us;
  }
  for (uint64_t us : {uint64_t{100000}, (uint64_t{1} << 48) - 1}) {
    ASSERT_EQ(fifo::PlanTimed(1000, 0.01, us, 0, &shape), PlanStatus::kOk) << us;
    EXPECT_EQ(fifo::GenerationUs(shape), us);
    EXPECT_TRUE(Named("fifo").valid(shape, Counters{}));
  }
  EXPECT_EQ(fifo::PlanTimed(kMaxKeys, 0.01, 1000000, 0, &shape), PlanStatus::kTooLarge);
}

// Sizing by memory is the inverse of sizing by keys: the keys that fit so many
// bytes need at most these bytes, and one key more needs more of them.
TEST(Sizes, ByMemoryAreTheInverseOfByKeys) {
  for (const Variant& variant : SizedVariants()) {
    const Method& method = *variant.method;
    for (double fpr : {0.3, 0.01, 0.001, 1e-6}) {
      if (!HasRate(variant, fpr)) continue;
      const uint64_t least = LeastMemory(method, fpr, variant.options);
      EXPECT_EQ(least % method.granule, 0u) << variant.name;
      for (uint64_t units : {1, 2, 3, 17, 400, 2000}) {
        const uint64_t memory = units * least;
        const Shape shape = PlanMemory(method, memory, fpr, variant.options);
        if (CountsAllBytes(method)) {
          EXPECT_EQ(shape.bytes, memory) << NameOf(shape);
        } else {
          EXPECT_GT(shape.bytes, memory) << NameOf(shape);
        }
        EXPECT_EQ(shape.fpr, fpr);
        ASSERT_GE(shape.keys, 1u);
        const uint32_t bytes = shape.bytes;
        EXPECT_LE(PlanKeys(method, shape.keys, fpr, variant.options).bytes, bytes) << NameOf(shape);
        EXPECT_GT(PlanKeys(method, shape.keys + 1, fpr, variant.options).bytes, bytes)
            << NameOf(shape);
        // What does not fill a unit is left unused.
        EXPECT_EQ(PlanMemory(method, memory + 1, fpr, variant.options).bytes, bytes);
      }
    }
  }
}

// More memory never holds fewer keys, and every method can do the rates that are asked
// for most.
TEST(Sizes, GrowWithTheMemory) {
  for (const Variant& variant : SizedVariants()) {
    for (double fpr : {0.3, 0.1, 0.01, 0.001}) {
      EXPECT_TRUE(HasRate(variant, fpr)) << variant.name << " " << fpr;
      if (!HasRate(variant, fpr)) continue;
      uint64_t keys = 0;
      const uint64_t least = LeastMemory(*variant.method, fpr, variant.options);
      for (uint64_t memory = least; memory < least + 3000; memory += variant.method->granule) {
        const std::optional<Shape> shape = TryMemory(*variant.method, memory, fpr, variant.options);
        ASSERT_TRUE(shape.has_value()) << variant.name << " " << memory;
        ASSERT_GE(shape->keys, keys) << NameOf(*shape);
        keys = shape->keys;
      }
    }
  }
}

// A k that is asked for is the one that is used, by keys and by memory.
TEST(Sizes, TakeTheKThatIsAskedFor) {
  for (const char* name : {"blocked_bloom", "bloom", "ring"}) {
    for (int k : {1, 5, 16}) {
      const std::string option = "k=" + std::to_string(k);
      EXPECT_EQ(KOf(PlanKeys(Named(name), 1000, 0.01, option)), static_cast<unsigned>(k));
      EXPECT_EQ(KOf(PlanMemory(Named(name), 65536, 0.01, option)), static_cast<unsigned>(k));
    }
  }
}

// The smallest filter is one line, one block, one group, or 64 bytes.
TEST(Sizes, StartAtOneLineOrBlock) {
  EXPECT_EQ(PlanKeys(Named("blocked_bloom"), 1, 0.01).bytes, 64u);
  EXPECT_EQ(PlanKeys(Named("bloom"), 1, 0.01).bytes, 64u);
  EXPECT_EQ(PlanKeys(Named("recent"), 1, 0.01).bytes, 64u);
  EXPECT_EQ(PlanKeys(Named("ring"), 1, 0.01).bytes, 512u);
  EXPECT_EQ(PlanKeys(Named("ring"), 1, 0.009).bytes, 4096u);
  EXPECT_EQ(PlanKeys(Named("fifo"), 1, 0.01).bytes, 103u * 64);
}

// A filter that would pass 512 MiB is refused, by keys and by memory; one that
// just fits is not. Less memory than one line or block is refused too.
TEST(Sizes, AreRefusedOutOfRange) {
  for (const Method* method : MembershipMethods()) {
    if (method->growth != nullptr) continue;
    Request request;
    Shape shape;
    const uint64_t most_memory =
        CountsAllBytes(*method) ? kMaxBodyBytes : MostMemory(*method, 0.001);
    request.fpr = 0.001;
    request.keys = kMaxKeys;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kTooLarge) << method->name;
    request.fpr = 1e-9;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kTooLarge) << method->name;
    request.fpr = 0.001;
    request.keys = 0;
    request.memory = most_memory;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kOk) << method->name;
    if (CountsAllBytes(*method)) {
      EXPECT_EQ(shape.bytes, kMaxBodyBytes - kMaxBodyBytes % method->granule) << method->name;
    } else {
      EXPECT_LE(shape.bytes, kMaxBodyBytes) << method->name;
      EXPECT_GE(shape.bytes, kMaxBodyBytes - 4096) << method->name;
    }
    const uint64_t most = shape.keys;
    request.memory = most_memory + 4096;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kTooLarge) << method->name;
    request.memory = uint64_t{1} << 62;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kTooLarge) << method->name;
    request.memory = method->granule - 1;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kMemoryTooSmall) << method->name;
    request.memory = 0;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kMemoryTooSmall) << method->name;
    request.keys = most;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kOk) << method->name;
    request.keys = most + 1;
    EXPECT_EQ(PlanFilter(*method, request, 0, &shape), PlanStatus::kTooLarge) << method->name;
  }
}

// Every shape that is planned is one that the method's own check accepts, for all
// rates, sizes and options; and what it expects at capacity is at most the rate. A plan
// is refused only where not even the most memory holds the keys, or the memory not one.
TEST(Sizes, AreValidEverywhere) {
  for (const Variant& variant : SizedVariants()) {
    const Method* method = variant.method;
    Random random(3 + method->code);
    for (int i = 0; i < 300; ++i) {
      Request request;
      const uint64_t most = request.keys = 1 + random.Below(uint64_t{1} << random.Below(24));
      if (random.OneIn(2)) {
        request.memory = 4096 + random.Below(1 << 20);
        request.keys = 0;
      }
      request.fpr = std::pow(10, -9 * random.Unit()) / 2;
      if (request.fpr < kMinFpr) request.fpr = kMinFpr;
      request.options = OptionsFrom(*method, variant.options);
      Shape shape;
      if (PlanFilter(*method, request, i, &shape) != PlanStatus::kOk) {
        if (request.keys > 0) {
          const std::optional<Shape> largest = TryMemory(
              *method, CountsAllBytes(*method) ? kMaxBodyBytes : MostMemory(*method, request.fpr),
              request.fpr, variant.options);
          EXPECT_TRUE(!largest.has_value() || largest->keys < most)
              << variant.name << " " << most << " " << request.fpr;
        } else {
          EXPECT_TRUE(!HasRate(variant, request.fpr) ||
                      LeastMemory(*method, request.fpr, variant.options) > request.memory)
              << variant.name << " " << request.memory << " " << request.fpr;
        }
        continue;
      }
      EXPECT_TRUE(method->valid(shape, Counters{})) << NameOf(shape);
      EXPECT_EQ(shape.bytes % method->granule, 0u) << NameOf(shape);
      EXPECT_EQ(shape.method, method->code);
      EXPECT_EQ(shape.seed, static_cast<uint64_t>(i));
      // Where chance decides, the rate may follow from parameters that only come near it.
      if (!KeepsItsRate(*method, shape)) continue;
      EXPECT_LE(method->expected_fpr(shape, static_cast<double>(shape.keys)),
                shape.fpr * (1 + 1e-9))
          << NameOf(shape);
    }
  }
}

// The registry: names and codes are those of the format, and each finds its method.
TEST(Registry, NamesAndCodesAreFixed) {
  EXPECT_EQ(Named("blocked_bloom").code, 1);
  EXPECT_EQ(Named("bloom").code, 2);
  EXPECT_EQ(Named("recent").code, 3);
  EXPECT_EQ(Named("ring").code, 4);
  EXPECT_EQ(Named("fifo").code, 5);
  std::set<int> codes;
  std::set<std::string> names;
  for (const Method* method : MembershipMethods()) {
    EXPECT_TRUE(codes.insert(method->code).second);
    EXPECT_TRUE(names.insert(method->name).second);
    EXPECT_EQ(MethodByCode(method->code), method);
    EXPECT_EQ(MethodByName(method->name, std::string(method->name).size()), method);
    EXPECT_LE(method->option_count, kMaxOptions);
    if (!method->has_rate()) {
      // It says what sizes it instead.
      EXPECT_EQ(OptionsFrom(*method, method->sizing).given[0], true) << method->name;
      continue;
    }
    EXPECT_STREQ(method->options[kFpr].name, "fpr");
    if (method->growth != nullptr) continue;
    EXPECT_STREQ(method->options[kKeys].name, "keys");
  }
  EXPECT_EQ(MethodByCode(0), nullptr);
  EXPECT_EQ(MethodByCode(255), nullptr);
  EXPECT_EQ(MethodByName("bloom", 4), nullptr);
  EXPECT_EQ(MethodByName("blooms", 6), nullptr);
  EXPECT_EQ(MethodByName("", 0), nullptr);
}

// What a method says of itself goes together.
TEST(Registry, SaysWhatGoesTogether) {
  for (const Variant& variant : MembershipVariants()) {
    const Method& method = *variant.method;
    const Shape shape = PlanKeys(method, 1000, 0.01, variant.options);
    for (const char* text : {method.promise, method.merging, method.cost}) {
      EXPECT_GT(std::strlen(text), 5u) << variant.name;
    }
    if (method.merge == nullptr) {
      EXPECT_FALSE(method.merge_keeps_all) << variant.name;
    }
    if (method.may_forget != nullptr) {
      EXPECT_NE(method.forget, nullptr) << variant.name;
    }
    EXPECT_EQ(method.forgets(shape), method.remembers(shape) != Remembers::kAll);
    const double missed = method.missed(shape);
    EXPECT_TRUE(missed >= 0 && missed <= 1) << variant.name << " " << missed;
    if (!method.forgets(shape)) {
      EXPECT_EQ(missed, 0) << variant.name;
    }
    std::set<std::string> names;
    for (int i = 0; i < method.option_count; ++i) {
      const OptionSpec& spec = method.options[i];
      EXPECT_TRUE(names.insert(spec.name).second) << variant.name << " " << spec.name;
      EXPECT_EQ(spec.words != nullptr, spec.kind == OptionKind::kWord) << spec.name;
      if (spec.kind != OptionKind::kOnOff && spec.kind != OptionKind::kWord) {
        EXPECT_LT(spec.min, spec.max) << variant.name << " " << spec.name;
      }
    }
  }
}

// Options that exclude each other are refused as that, however the filter is sized, and
// the method has words for it. All others can be had in some size.
TEST(Sizes, ConflictsHaveWords) {
  Random random(9);
  for (const Method* method : MembershipMethods()) {
    for (int i = 0; i < 500; ++i) {
      Request by_keys, by_memory;
      for (int option = method->own_options(); option < method->option_count; ++option) {
        const OptionSpec& spec = method->options[option];
        if (random.OneIn(2)) continue;
        double value = 0;
        switch (spec.kind) {
          case OptionKind::kReal:
            value = spec.min + random.Unit() * (spec.max - spec.min);
            break;
          case OptionKind::kOnOff:
            value = static_cast<double>(random.Below(2));
            break;
          case OptionKind::kWord:
            value = static_cast<double>(random.Below(
                1 + std::count(spec.words, spec.words + std::strlen(spec.words), '|')));
            break;
          default:
            value = spec.min + static_cast<double>(random.Below(
                                   static_cast<uint64_t>(std::min(spec.max - spec.min, 1e9)) + 1));
            if (spec.kind == OptionKind::kMultipleOf8) value = std::ceil(value / 8) * 8;
        }
        if (value > spec.max) value = spec.max;
        by_keys.options.value[option] = value;
        by_keys.options.given[option] = true;
      }
      by_memory = by_keys;
      by_keys.keys = 1000;
      by_memory.memory = 1 << 20;
      Shape shape;
      const PlanStatus keys = PlanFilter(*method, by_keys, 0, &shape);
      if (keys == PlanStatus::kOk) {
        EXPECT_TRUE(method->valid(shape, Counters{})) << NameOf(shape);
      }
      const PlanStatus memory = PlanFilter(*method, by_memory, 0, &shape);
      if (memory == PlanStatus::kOk) {
        EXPECT_TRUE(method->valid(shape, Counters{})) << NameOf(shape);
      }
      // An option may be of filters that are sized by memory only: then the words say so.
      if (method->conflict == nullptr ||
          std::strstr(method->conflict, "sized by memory") == nullptr) {
        EXPECT_EQ(keys == PlanStatus::kConflict, memory == PlanStatus::kConflict) << method->name;
      }
      if (memory == PlanStatus::kConflict) {
        EXPECT_EQ(keys, PlanStatus::kConflict) << method->name;
      }
      if (keys == PlanStatus::kConflict) {
        ASSERT_NE(method->conflict, nullptr) << method->name;
        EXPECT_GT(std::strlen(method->conflict), 5u) << method->name;
      }
    }
  }
}

// dedup_filter() takes bloom only below 0.0001; dedup_window() takes recent.
TEST(Registry, PicksTheMethodByRate) {
  EXPECT_STREQ(FilterMethod(0.5).name, "blocked_bloom");
  EXPECT_STREQ(FilterMethod(0.0001).name, "blocked_bloom");
  EXPECT_STREQ(FilterMethod(0.000099).name, "bloom");
  EXPECT_STREQ(FilterMethod(1e-9).name, "bloom");
  EXPECT_STREQ(WindowMethod().name, "recent");
}

// The description fits the space it is given, however little.
TEST(Describe, StaysWithinItsBuffer) {
  for (const Method* method : kMethods) {
    const Shape shape = PlanKeys(*method, 1000, 0.01);
    for (size_t size : {1, 2, 8, 100}) {
      Bytes text(size);
      method->describe(shape, reinterpret_cast<char*>(text.data()), size);
      EXPECT_LT(std::strlen(reinterpret_cast<const char*>(text.data())), size);
    }
  }
  char text[100];
  Named("blocked_bloom").describe(PlanKeys(Named("blocked_bloom"), 1000, 0.01), text, sizeof text);
  EXPECT_STREQ(text, "k=5 lines=20");
  Named("fifo").describe(PlanKeys(Named("fifo"), 1000, 0.01), text, sizeof text);
  EXPECT_STREQ(text, "slot_bits=12 lines_per_group=103 groups=1");
  Named("fifo").describe(PlanKeys(Named("fifo"), 1000, 0.001), text, sizeof text);
  EXPECT_STREQ(text, "slot_bytes=2 lines_per_group=103 groups=1");
}

}  // namespace
}  // namespace dedup::test
