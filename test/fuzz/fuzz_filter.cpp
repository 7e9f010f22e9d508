// Bytes from outside, for libFuzzer. The first byte chooses what the rest is:
//
//   0  a stored filter: what Validate() accepts is asked, filled, merged and
//      written, and what comes out must be accepted again
//   1  the same with the checksum set right first, so that the fuzzer gets past it
//   2  any image in memory, also of a working form: what Check() accepts must be
//      safe to use, whatever its other bits are
//   3  the text of options, and the filter that is planned with it
//
// Images stand in blocks of exactly their size, so that the address sanitizer sees
// the first byte outside. A broken promise ends the program with a message.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/merge.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"
#include "core/xxh3.hpp"

namespace dedup {
namespace {

// Larger bodies only make the fuzzer slow. Filters that are exact do without the
// body: they may be so large that they take keys in batches (Defer).
constexpr uint32_t kMostBytes = 64 * 1024;
constexpr uint32_t kMostBytesExact = 16 * 1024 * 1024;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A heap block of exactly so many bytes.
class Block {
 public:
  explicit Block(size_t size) : bytes_(new uint8_t[size]()), size_(size) {}
  Block(const uint8_t* from, size_t size) : Block(size) {
    if (size > 0) std::memcpy(bytes_.get(), from, size);
  }
  uint8_t* data() { return bytes_.get(); }
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  Block Copy() const { return Block(data(), size_); }
  Block Prefix(size_t size) const { return Block(data(), size); }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_;
};

Header Checked(const Block& image, const char* what) {
  Header header = {};
  Require(Check(image.data(), image.size(), &header) == Flaw::kNone, what);
  return header;
}

// Canonical bytes, of `image` in any form. `valid`: they must pass Validate(), since
// those that they were made from did.
Block Written(const Block& image, const Header& header, bool valid) {
  Block out(CanonicalBytes(header));
  WriteCanonical(image.data(), header, out.data());
  Header again = {};
  if (valid) {
    Require(Validate(out.data(), out.size(), &again) == Flaw::kNone, "what was written is refused");
  } else {
    Require(ChecksumHolds(out.data(), out.size()), "what was written is not sealed");
  }
  return out;
}

// Windows have room for every key.
bool MayBeFull(const Header& header) { return !header.method->forgets(header.shape); }

// Whether a filter that took a key then holds it: not where chance decides, nor in a body
// that no filter has.
bool HoldsWhatItTakes(const Header& header) {
  return header.method->remembers(header.shape) != Remembers::kByChance;
}

// How often a key was seen, up to what counters of 32 bits hold; 0 of methods that do not say.
uint64_t Told(const Block& image, const Header& header, uint64_t key) {
  if (!header.counted()) return 0;
  return std::min<uint64_t>(FrequencyOf(image.data(), header, key).count, 0xffffffff);
}

// Empty if the result would be full.
Block Merged(const Block& a, const Header& ha, const Block& b, const Header& hb) {
  const uint64_t limit = ha.exact_limit();
  const MergeBytes needs = MergeNeeds(ha, hb, limit);
  Block out(needs.out), scratch(needs.scratch);
  const size_t size = MergeTo(a.data(), ha, b.data(), hb, limit, out.data(), scratch.data());
  Require(size <= needs.out, "a merge is larger than it may be");
  if (size == 0) {
    Require(MayBeFull(ha), "a merge of windows is full");
    return out.Prefix(0);
  }
  Seal(out.data(), size);
  return out.Prefix(size);
}

// An image that is being filled.
struct Filling {
  Block image;
  Header header;

  // To the next working form, and with another key if there is one. False, with nothing
  // changed: the method is full.
  bool Grow(const uint64_t* hash = nullptr) {
    const uint64_t limit = header.exact_limit();
    const Step step = header.canonical() ? FirstStep(header, limit) : NextStep(header, limit);
    Block grown(StepBytes(header, step));
    if (!MakeWorking(image.data(), header, step, grown.data())) {
      Require(MayBeFull(header), "a window is full");
      return false;
    }
    Header grown_header = Checked(grown, "a grown image is refused");
    if (hash != nullptr && !AddNew(grown.data(), &grown_header, *hash)) {
      Require(MayBeFull(header), "a window is full");
      return false;
    }
    image = std::move(grown);
    header = Checked(image, "a grown image is refused");
    return true;
  }
  // kNew, kSeen, or kFull, with nothing changed.
  Outcome Add(uint64_t hash) {
    Block before = image.Copy();
    const Outcome outcome = TestAndAdd(image.data(), &header, hash);
    if (outcome == Outcome::kFull) {
      Require(MayBeFull(header), "a window is full");
      Require(std::memcmp(before.data(), image.data(), image.size()) == 0,
              "a key that found no room changed the filter");
    }
    if (outcome != Outcome::kNoRoom) return outcome;
    return Grow(&hash) ? Outcome::kNew : Outcome::kFull;
  }
};

// Everything that the extension does with a filter. `valid`: it passed Validate(),
// so answers must be right too.
void Use(const Block& image, bool valid, uint64_t seed) {
  const Header header = Checked(image, "an accepted image is refused");
  const uint64_t held = header.exact() && header.hashes() > 0 ? HashAt(image.data(), 0) : seed;
  const uint64_t keys[] = {held, seed, Derived(seed, 0), Derived(seed, 1), 0, ~uint64_t{0}};

  // Ask.
  bool seen[sizeof keys / sizeof keys[0]];
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
    seen[i] = Contains(image.data(), header, keys[i]);
  }
  const Reading reading = Read(image.data(), header);
  Require(reading.count >= 0 && reading.count < 0x1p63, "the count is no bigint");
  Require(reading.fpr >= 0 && reading.fpr <= 1, "the rate is no rate");
  Overfull(header, reading);
  if (header.counted()) Require(TotalOf(image.data(), header) <= kMaxCount, "the total is none");
  char text[64];
  header.method->describe(header.shape, text, sizeof text);

  // Write, and add to the value, key by key.
  Block value = Written(image, header, valid);
  for (uint64_t key : keys) {
    const Header at = Checked(value, "a written image is refused");
    const uint64_t told = Told(value, at, key);
    Block out(AddToBytes(at));
    const size_t size = AddTo(value.data(), at, key, out.data());
    Require(size <= out.size(), "AddTo wrote more than it may");
    if (size == 0) {
      Require(MayBeFull(at), "a window is full");
      Require(!valid || !Contains(value.data(), at, key), "a key that is there finds no room");
      continue;
    }
    Seal(out.data(), size);
    value = out.Prefix(size);
    Header after = {};
    const Flaw flaw = valid ? Validate(value.data(), value.size(), &after)
                            : Check(value.data(), value.size(), &after);
    Require(flaw == Flaw::kNone, "a filter with one more key is refused");
    Require(!valid || (!after.exact() && !HoldsWhatItTakes(after)) ||
                Contains(value.data(), after, key),
            "an added key is not found");
    if (valid && at.counted()) {
      Require(Told(value, after, key) >= std::min<uint64_t>(told + 1, 0xffffffff),
              "a sight was not counted");
    }
  }

  // Take keys back.
  if (header.method->can_forget(header.shape)) {
    Block less = value.Copy();
    for (size_t i = 0; i < 2 * sizeof keys / sizeof keys[0]; ++i) {
      const uint64_t key = keys[i % (sizeof keys / sizeof keys[0])];
      const Header at = Checked(less, "a filter that forgot a key is refused");
      Block out(ForgetBytes(at));
      const size_t size = ForgetFrom(less.data(), at, key, out.data());
      Require(size <= out.size(), "ForgetFrom wrote more than it may");
      if (size == 0) {
        Require(!valid || !Contains(less.data(), at, key), "a key that is there is not forgotten");
        continue;
      }
      Seal(out.data(), size);
      less = out.Prefix(size);
      Header after = {};
      const Flaw flaw = valid ? Validate(less.data(), less.size(), &after)
                              : Check(less.data(), less.size(), &after);
      Require(flaw == Flaw::kNone, "a filter with one key less is refused");
    }
  }

  // Fill in place, through growth and the exact switch.
  Filling filling = {image.Copy(), header};
  if (header.canonical()) {
    if (!filling.Grow()) return;
  } else {
    Require(Settle(filling.image.data(), &filling.header) || MayBeFull(header), "a window is full");
    Require(filling.header.deferred() == 0, "keys wait after they were settled");
  }
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; ++i) {
    const bool there = Contains(filling.image.data(), filling.header, keys[i]);
    const Outcome outcome = filling.Add(keys[i]);
    if (!valid || !HoldsWhatItTakes(header)) continue;
    Require(!there || outcome == Outcome::kSeen, "a key that is there is new");
    // The keys before this one may have pushed it out of a window that is smaller than they
    // are many.
    Require(
        !seen[i] || outcome == Outcome::kSeen || (i > 0 && header.method->forgets(header.shape)),
        "a key was lost by filling");
    if (outcome == Outcome::kFull) continue;
    Require(Contains(filling.image.data(), filling.header, keys[i]), "an added key is not found");
  }
  for (unsigned i = 0; i < 40; ++i) filling.Add(Derived(seed, 2 + i));
  Checked(filling.image, "a filled image is refused");
  Written(filling.image, filling.header, valid);

  // As a coarser one, and merged with it.
  Request request;
  Shape coarser;
  const bool grows = header.method->growth != nullptr;
  if (grows) {
    request.fpr = header.shape.fpr;
  } else {
    request.memory = header.shape.bytes / (2 + seed % 7);
  }
  bool coarse_too =
      header.method->reducible != nullptr &&
      PlanFilter(*header.method, request, header.shape.seed, &coarser) == PlanStatus::kOk;
  if (coarse_too) {
    coarser.hash = header.shape.hash;
    // Of filters that grow only the states of partial aggregates can be.
    coarse_too = Reducible(header, coarser);
    Require(coarse_too || grows, "a sketch cannot be made coarser");
  }
  if (coarse_too) {
    Block reduced(ReducedBytes(header, coarser));
    ReduceTo(image.data(), header, coarser, reduced.data());
    const Header reduced_header = Checked(reduced, "a coarser sketch is refused");
    Written(reduced, reduced_header, valid);
    Block of_filled(ReducedBytes(filling.header, coarser));
    ReduceTo(filling.image.data(), filling.header, coarser, of_filled.data());
    const Header of_filled_header = Checked(of_filled, "a coarser sketch is refused");
    const Reading coarse = Read(of_filled.data(), of_filled_header);
    Require(coarse.count >= 0 && coarse.count < 0x1p63 && coarse.fpr >= 0 && coarse.fpr <= 1,
            "a coarser sketch counts no bigint");
    const Block merged = Merged(reduced, reduced_header, of_filled, of_filled_header);
    Checked(merged, "a merge of coarser sketches is refused");
  }

  // Merge with itself, with an empty one of its shape, and with what was filled.
  if (header.method->merge == nullptr) return;
  Block empty(kHeaderBytes);
  WriteEmpty(header.shape, empty.data());
  const Header empty_header = Checked(empty, "an empty filter is refused");
  const Block settled = header.canonical() ? image.Copy() : Written(image, header, false);
  const Header settled_header = Checked(settled, "a written image is refused");
  const std::pair<const Block*, const Header*> sides[] = {
      {&settled, &settled_header}, {&empty, &empty_header}, {&filling.image, &filling.header}};
  for (const auto& [a, ha] : sides) {
    for (const auto& [b, hb] : sides) {
      const Block merged = Merged(*a, *ha, *b, *hb);
      if (merged.size() == 0) continue;
      const Header merged_header = Checked(merged, "a merge is refused");
      Written(merged, merged_header, valid);
      // Filters that never forget hold every key of both.
      if (valid && !header.method->forgets(header.shape)) {
        for (uint64_t key : keys) {
          Require(Contains(merged.data(), merged_header, key) ||
                      !(Contains(a->data(), *ha, key) || Contains(b->data(), *hb, key)),
                  "a key was lost by a merge");
          Require(!header.counted() ||
                      Told(merged, merged_header, key) >=
                          std::min<uint64_t>(Told(*a, *ha, key) + Told(*b, *hb, key), 0xffffffff),
                  "a merge lost sights");
        }
      }
      if (ha->form != Form::kWorkingFull) continue;
      Block in_place = a->Copy();
      Header in_place_header = *ha;
      const Outcome outcome = MergeInPlace(in_place.data(), &in_place_header, b->data(), *hb);
      Require(outcome != Outcome::kFull, "a merge is full in place only");
      if (outcome == Outcome::kNew) Checked(in_place, "a merge in place is refused");
    }
  }
}

// Working images may have keys waiting: these are settled, or more are added.
void UseWaiting(const Block& image, uint64_t seed) {
  Block copy = image.Copy();
  Header header = Checked(copy, "an accepted image is refused");
  if (header.canonical()) return;
  const auto settle = [&] {
    Require(Settle(copy.data(), &header) || MayBeFull(header), "a window is full");
  };
  settle();
  for (unsigned i = 0; i < 70; ++i) {
    const Outcome outcome = Defer(copy.data(), &header, Derived(seed, 100 + i));
    Require(outcome != Outcome::kFull || MayBeFull(header), "a window is full");
    Checked(copy, "an image with waiting keys is refused");
    if (outcome == Outcome::kNoRoom || outcome == Outcome::kFull) break;
  }
  settle();
  Checked(copy, "a settled image is refused");
}

void FuzzImage(const uint8_t* data, size_t size, int mode) {
  if (size > kMostBytes + 1024) return;
  Block image(data, size);
  if (mode == 1 && size >= kHeaderBytes) Seal(image.data(), size);
  Header header = {};
  const bool valid = mode != 2;
  const Flaw flaw =
      valid ? Validate(image.data(), size, &header) : Check(image.data(), size, &header);
  LastCheck last;
  const Flaw again = CheckAgain(image.data(), size, &last);
  Require((again == Flaw::kNone) == (Check(image.data(), size, &header) == Flaw::kNone),
          "CheckAgain differs from Check");
  if (flaw != Flaw::kNone) return;
  if (header.method->growth == nullptr
          ? header.shape.bytes > (header.exact() ? kMostBytesExact : kMostBytes)
          : !header.exact() && header.used_bytes() > kMostBytes) {
    return;
  }
  const uint64_t seed = Xxh3(data, size, 0);
  UseWaiting(image, seed);
  // Every other function wants waiting keys settled.
  Require(Settle(image.data(), &header) || MayBeFull(header), "a window is full");
  Use(image, valid, seed);
}

void FuzzOptions(const uint8_t* data, size_t size) {
  if (size < 10) return;
  // By its number, so that a seed means the same when there are more methods.
  const Method* const named = MethodByCode(data[0]);
  if (named == nullptr) return;
  const Method& method = *named;
  uint64_t amount;
  std::memcpy(&amount, data + 1, sizeof amount);
  const Block text(data + 9, size - 9);
  Request request;
  const OptionError error = ParseOptions(method, reinterpret_cast<const char*>(text.data()),
                                         text.size(), &request.options);
  if (error.status != OptionStatus::kOk) {
    Require(
        error.text >= reinterpret_cast<const char*>(text.data()) &&
            error.text + error.length <= reinterpret_cast<const char*>(text.data()) + text.size(),
        "the word at fault is not in the text");
    return;
  }
  for (int i = 0; i < method.option_count; ++i) {
    if (!request.options.given[i] || method.options[i].kind == OptionKind::kOnOff ||
        method.options[i].kind == OptionKind::kWord) {
      continue;
    }
    Require(request.options.value[i] >= method.options[i].min &&
                request.options.value[i] <= method.options[i].max,
            "an option is out of its range");
  }
  if (method.has_rate() && request.options.given[kFpr]) request.fpr = request.options.value[kFpr];
  if (method.has_rate() && request.options.given[kKeys]) {
    request.keys = static_cast<uint64_t>(request.options.value[kKeys]);
  } else {
    request.memory = method.growth != nullptr ? 0 : amount >> amount % 64;
  }
  Shape shape;
  const PlanStatus status = PlanFilter(method, request, amount, &shape);
  Require(status != PlanStatus::kConflict || method.conflict != nullptr, "a conflict has no words");
  if (status != PlanStatus::kOk) return;
  Block empty(kHeaderBytes);
  WriteEmpty(shape, empty.data());
  Header header = {};
  Require(Validate(empty.data(), empty.size(), &header) == Flaw::kNone,
          "a planned filter is refused");
  Require(request.keys == 0 || shape.keys == request.keys, "a planned filter has other keys");
  // Some papers count less than all that is kept: then at most three times the memory, and
  // a little.
  Require(request.keys > 0 || request.memory == 0 || shape.bytes <= 3 * request.memory + 64,
          "a planned filter is too large");
  if (shape.bytes <= kMostBytesExact || method.growth != nullptr) Use(empty, true, amount);
  if (!method.has_rate()) return;
  const double rate = method.expected_fpr(shape, static_cast<double>(shape.keys));
  Require(rate >= 0 && rate <= 1, "an expected rate is no rate");
  // What chance keeps may come to another rate; and what options lead to may be above the
  // highest rate that a shape can tell.
  Require(method.remembers(shape) == Remembers::kByChance || shape.fpr == kMaxFpr ||
              rate <= shape.fpr * (1 + 1e-9),
          "a planned filter has not the rate");
}

}  // namespace
}  // namespace dedup

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const int mode = data[0] % 4;
  if (mode == 3) {
    dedup::FuzzOptions(data + 1, size - 1);
  } else {
    dedup::FuzzImage(data + 1, size - 1, mode);
  }
  return 0;
}
