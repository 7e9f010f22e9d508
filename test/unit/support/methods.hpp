// The methods and their variants as the unit tests go over them: requests, shapes and sizes.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_METHODS_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_METHODS_HPP_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"
#include "random.hpp"

namespace dedup::test {

inline const Method& Named(const std::string& name) {
  const Method* method = MethodByName(name.data(), name.size());
  if (method == nullptr) {
    ADD_FAILURE() << "no method " << name;
    return *kMethods[0];
  }
  return *method;
}

// The option text of a request; tests that are about options do not use it.
inline Options OptionsFrom(const Method& method, const std::string& text) {
  Options options;
  const OptionError error = ParseOptions(method, text.data(), text.size(), &options);
  EXPECT_EQ(error.status, OptionStatus::kOk) << text;
  return options;
}

// A request for so many keys, or so much memory. Methods whose filters grow are given neither.
inline Request RequestOf(const Method& method, uint64_t keys, uint64_t memory, double fpr,
                         const std::string& options) {
  Request request;
  if (method.growth == nullptr) {
    request.keys = keys;
    request.memory = memory;
  }
  request.fpr = fpr;
  request.options = OptionsFrom(method, options);
  return request;
}

// Of methods that only count: of so many bytes, which the exact hashes of an eighth of the
// keys fill. Of others without a rate: of the least memory whose exact form holds so many.
inline Shape PlanKeys(const Method& method, uint64_t keys, double fpr,
                      const std::string& options = "", uint64_t seed = 0) {
  Request request;
  request.options = OptionsFrom(method, options);
  Shape shape;
  if (method.counts()) {
    const uint64_t entry = EntryBytes(method.counts());
    request.memory = entry * keys;
    while (PlanFilter(method, request, seed, &shape) != PlanStatus::kOk ||
           shape.bytes < entry * keys) {
      ++request.memory;
    }
    return shape;
  }
  request = method.has_rate()
                ? RequestOf(method, keys, 0, fpr, options)
                : RequestOf(method, 0, std::max<uint64_t>(keys, method.granule), fpr, options);
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " keys=" << keys << " fpr=" << fpr << " " << options;
  return shape;
}

inline Shape PlanMemory(const Method& method, uint64_t memory, double fpr,
                        const std::string& options = "", uint64_t seed = 0) {
  const Request request = RequestOf(method, 0, memory, fpr, options);
  Shape shape;
  EXPECT_EQ(PlanFilter(method, request, seed, &shape), PlanStatus::kOk)
      << method.name << " memory=" << memory << " fpr=" << fpr << " " << options;
  return shape;
}

// ---- all methods ---------------------------------------------------------------
//
// Tests that are about every method go over these, and what they ask of one depends
// on what it says of itself, never on its name.

// A method with options. `name` is one for a test.
struct Variant {
  const Method* method;
  std::string options;
  std::string name;
};
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

// Every method with every choice of its switches, words and numbers of eight, as far as
// they go together. Other numbers follow from the rate.
inline std::vector<Variant> AllVariants() {
  std::vector<Variant> all;
  for (const Method* method : kMethods) {
    std::vector<Variant> variants = {{method, "", method->name}};
    for (int i = method->own_options(); i < method->option_count; ++i) {
      const OptionSpec& spec = method->options[i];
      std::vector<std::string> values;
      if (spec.kind == OptionKind::kOnOff) {
        values = {"on"};
      } else if (spec.kind == OptionKind::kMultipleOf8) {
        values = {std::to_string(static_cast<int>(spec.max))};
      } else if (spec.kind == OptionKind::kWord) {
        std::string word;
        for (const char* c = spec.words;; ++c) {
          if (*c != '|' && *c != '\0') {
            word += *c;
            continue;
          }
          values.push_back(word);
          word.clear();
          if (*c == '\0') break;
        }
      }
      const size_t others = variants.size();
      for (const std::string& value : values) {
        for (size_t other = 0; other < others; ++other) {
          Variant variant = variants[other];
          if (!variant.options.empty()) variant.options += ' ';
          variant.options.append(spec.name).append("=").append(value);
          variant.name.append("_").append(spec.name).append("_").append(value);
          variants.push_back(variant);
        }
      }
    }
    for (const Variant& variant : variants) {
      const Request request = RequestOf(*method, 0, 1 << 20, 0.01, variant.options);
      Shape shape;
      if (PlanFilter(*method, request, 0, &shape) != PlanStatus::kConflict) all.push_back(variant);
    }
  }
  return all;
}

// Those that tell of membership, at a rate and up to a number of keys.
inline std::vector<Variant> MembershipVariants() {
  std::vector<Variant> all = AllVariants();
  std::erase_if(all, [](const Variant& variant) { return !variant.method->has_rate(); });
  return all;
}
inline std::vector<const Method*> MembershipMethods() {
  std::vector<const Method*> all(kMethods, kMethods + kMethodCount);
  std::erase_if(all, [](const Method* method) { return !method->has_rate(); });
  return all;
}

// Those of which the filters have a size, by keys or by memory.
inline std::vector<Variant> SizedVariants() {
  std::vector<Variant> all = MembershipVariants();
  std::erase_if(all, [](const Variant& variant) { return variant.method->growth != nullptr; });
  return all;
}

// Names for parametrised tests: ::testing::ValuesIn(AllVariants()), VariantName.
inline std::string VariantName(const ::testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

// The shape for so much memory, or none.
inline std::optional<Shape> TryMemory(const Method& method, uint64_t memory, double fpr,
                                      const std::string& options = "", uint64_t seed = 0) {
  const Request request = RequestOf(method, 0, memory, fpr, options);
  Shape shape;
  if (PlanFilter(method, request, seed, &shape) != PlanStatus::kOk) return std::nullopt;
  return shape;
}

// The shape for so much memory, or for twice that where its body would else be smaller.
inline Shape PlanBody(const Method& method, uint64_t bytes, double fpr,
                      const std::string& options = "") {
  const Shape shape = PlanMemory(method, bytes, fpr, options);
  return shape.bytes >= bytes - method.granule ? shape
                                               : PlanMemory(method, 2 * bytes, fpr, options);
}

// Whether filters of this method can have this rate: not all cells, or counters, or
// numbers of rows can do all. Those that can, can at every size (PlanKeys()).
inline bool HasRate(const Variant& variant, double fpr) {
  return TryMemory(*variant.method, 64 << 20, fpr, variant.options).has_value();
}

// The least and the most memory by which a filter can be sized: these are its body's
// bytes, but where the method's papers do not count all that it keeps.
inline uint64_t LeastMemory(const Method& method, double fpr, const std::string& options = "") {
  uint64_t low = 0, high = 64 << 20;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (TryMemory(method, middle, fpr, options).has_value() ? high : low) = middle;
  }
  return high;
}
inline uint64_t MostMemory(const Method& method, double fpr, const std::string& options = "") {
  uint64_t low = 1 << 20, high = kMaxBodyBytes + 1;
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (TryMemory(method, middle, fpr, options).has_value() ? low : high) = middle;
  }
  return low;
}

// Whether the method's bytes are the memory that was asked for, all of it.
inline bool CountsAllBytes(const Method& method) {
  return TryMemory(method, 1 << 20, 0.01)->bytes <= 1 << 20;
}

inline bool IsWindow(const Method& method, const Shape& shape) {
  const Remembers remembers = method.remembers(shape);
  return remembers == Remembers::kLastSeen || remembers == Remembers::kFirstSeen;
}

// Whether the rate is kept however many keys come: not by all that evict by chance, of which
// some have a rate of their own that their parameters only come near to.
inline bool KeepsItsRate(const Method& method, const Shape& shape) {
  return method.remembers(shape) != Remembers::kByChance ||
         method.expected_fpr(shape, 100 * static_cast<double>(shape.keys)) <=
             shape.fpr * (1 + 1e-9);
}

// Whether a key that was just added is surely there: random choices may have given up
// even that one.
inline bool HoldsTheLast(const Method& method, const Shape& shape) {
  return method.remembers(shape) != Remembers::kByChance;
}

// The least memory with which a filter of this method defers keys.
inline uint64_t DeferringMemory(const Method& method) {
  uint64_t memory = (kDeferFromBytes + method.granule - 1) / method.granule * method.granule;
  // Not all bodies take all of the memory.
  while (TryMemory(method, memory, 0.01)->bytes < kDeferFromBytes) {
    memory += method.counts() ? method.granule : memory;
  }
  return memory;
}

// The rule of the exact form, written out: as many hashes of 8 bytes, each with 8 bytes of
// a count where every sight counts, as the body has bytes for, and of a buffer of hashes no
// more than it has entries. A filter that grows says how many.
inline uint64_t MostExact(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  if (growth != nullptr) return growth->exact_hashes;
  const uint64_t fits = shape.bytes / (MethodByCode(shape.method)->counts() ? 16 : 8);
  return MethodByCode(shape.method)->exact_to_keys ? std::min(fits, shape.keys) : fits;
}

// No fewer hashes than an exact filter has: one more makes a full one of it.
inline uint64_t HashesInBody(const Shape& shape) {
  return MethodByCode(shape.method)->growth != nullptr ? MostExact(shape) : shape.bytes / 8;
}

// The same where a full one is to be so large that it defers keys, which one that grows is
// later.
inline uint64_t HashesToDefer(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  uint64_t keys = HashesInBody(shape);
  while (growth != nullptr && growth->bytes_for(shape, keys) < kDeferFromBytes) keys += keys / 8;
  return keys;
}

// The bytes of a body, all of them.
inline uint32_t BodyBytesOf(const Shape& shape, const Counters& counters) {
  const Method& method = *MethodByCode(shape.method);
  return method.growth != nullptr ? method.used_bytes(shape, counters) : shape.bytes;
}
// The counters of an empty body that is so large that it defers keys.
inline Counters DeferringCounters(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  if (growth == nullptr) return {};
  return growth->start(growth->bytes_for(shape, HashesToDefer(shape)));
}

// What the first body of a filter has.
inline uint32_t FirstBytes(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  return growth != nullptr ? growth->bytes_for(shape, growth->exact_hashes + 1) : shape.bytes;
}
inline Counters FirstCounters(const Shape& shape) {
  const Growth* growth = MethodByCode(shape.method)->growth;
  return growth != nullptr ? growth->start(FirstBytes(shape)) : Counters{};
}

inline std::string NameOf(const Shape& shape) {
  const Method& method = *MethodByCode(shape.method);
  char sized[100], text[200];
  std::snprintf(sized, sizeof sized, " keys=%llu fpr=%g ",
                static_cast<unsigned long long>(shape.keys), shape.fpr);
  method.describe(shape, text, sizeof text);
  return std::string(method.name) + sized + text;
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_METHODS_HPP_
