// Memory safety: whatever bits a filter holds, no function reads or writes outside
// it once Check() has accepted its header. All blocks are exactly as large as they
// must be, so the sanitizer build sees the first byte outside; in other builds
// these tests only show that nothing loops for ever or contradicts itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/methods/fifo.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

Header Checked(const Bytes& image) {
  Header header = {};
  EXPECT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone) << NameOf(header.shape);
  return header;
}

// Whether a filter of this shape may be full. Windows never are.
bool CanRefuse(const Header& header) { return !header.method->forgets(header.shape); }

// The same image with its deferred hashes put where they belong, which every other
// function wants done.
Bytes Settled(Bytes image) {
  Header header = Checked(image);
  EXPECT_TRUE(Settle(image.data(), &header) || CanRefuse(header));
  EXPECT_EQ(Checked(image).deferred(), 0u);
  return image;
}

// Everything that can be done with an accepted image.
void UseInEveryWay(const Bytes& unsettled, const Bytes& unsettled_other, Random* random) {
  const Bytes image = Settled(unsettled), other = Settled(unsettled_other);
  const Header header = Checked(image);
  const uint64_t probe = image.size() >= 68 ? LoadU64(image.data() + 60) : 1;
  const Method& method = *header.method;
  // Whether a body's bits hold together; where that is not to be had, all do. A filter
  // that takes a key then holds it, unless chance decides.
  const auto sound = [&](const uint8_t* body, const Counters& counters) {
    return method.sound == nullptr || method.sound(header.shape, counters, body);
  };
  for (uint64_t hash : {uint64_t{0}, ~uint64_t{0}, probe, random->Next()}) {
    Contains(image.data(), header, hash);
  }
  const Reading reading = Read(image.data(), header);
  EXPECT_TRUE(std::isfinite(reading.count) && reading.count >= 0);
  EXPECT_TRUE(reading.fpr >= 0 && reading.fpr <= 1);
  Overfull(header, reading);
  if (method.counts()) {
    for (uint64_t hash : {probe, random->Next()}) FrequencyOf(image.data(), header, hash);
    TotalOf(image.data(), header);
  }

  Bytes stored(CanonicalBytes(header));
  WriteCanonical(image.data(), header, stored.data());
  const Header stored_header = Checked(stored);
  EXPECT_TRUE(ChecksumHolds(stored.data(), stored.size()));

  // One key into a value.
  for (uint64_t hash : {probe, random->Next()}) {
    Bytes out(AddToBytes(stored_header));
    const size_t size = AddTo(stored.data(), stored_header, hash, out.data());
    ASSERT_LE(size, out.size());
    if (size == 0) {
      EXPECT_TRUE(CanRefuse(header));
      continue;
    }
    out = out.Prefix(size);
    const Header grown = Checked(out);
    // Found at once, unless the search is misled by hashes that are not sorted.
    if (grown.form == Form::kFull
            ? HoldsTheLast(method, header.shape) &&
                  (stored_header.exact() ||
                   sound(stored.data() + kHeaderBytes, stored_header.counters))
            : grown.order() != ExactOrder::kSorted) {
      EXPECT_TRUE(Contains(out.data(), grown, hash)) << NameOf(header.shape);
    }
  }

  // One key out of it.
  if (method.can_forget(header.shape)) {
    for (uint64_t hash : {probe, random->Next()}) {
      Bytes out(ForgetBytes(stored_header));
      const size_t size = ForgetFrom(stored.data(), stored_header, hash, out.data());
      ASSERT_LE(size, out.size());
      if (size > 0) Checked(out.Prefix(size));
    }
  }

  // Test-and-add where it is, as long as there is room, and after each growth. A stored
  // body that may grow has no room for that.
  if (!header.canonical() || (header.form == Form::kFull && method.used_bytes == nullptr)) {
    Bytes copy(image);
    Header at = header;
    for (int i = 0; i < 40; ++i) {
      const uint64_t hash = i % 4 == 3 ? probe : random->Next();
      const Outcome outcome = TestAndAdd(copy.data(), &at, hash);
      if (outcome == Outcome::kNoRoom) {
        const Step step = NextStep(at);
        Bytes grown(StepBytes(at, step));
        if (!MakeWorking(copy.data(), at, step, grown.data())) {
          EXPECT_TRUE(CanRefuse(at));
          break;
        }
        copy = std::move(grown);
        at = Checked(copy);
        EXPECT_TRUE(AddNew(copy.data(), &at, hash) || CanRefuse(at));
      }
      EXPECT_TRUE(outcome != Outcome::kFull || CanRefuse(at));
      Checked(copy);
    }
  }
  const Step step = NextStep(header);
  Bytes grown(StepBytes(header, step));
  if (MakeWorking(image.data(), header, step, grown.data())) {
    Header grown_header = Checked(grown);
    Contains(grown.data(), grown_header, probe);
  } else {
    EXPECT_TRUE(CanRefuse(header));
  }

  // Deferred keys, on top of those that the image came with. A small filter has
  // none of these, and never does a full batch wait (see AnyBits.ThatWaitAreSafe).
  if (!header.canonical()) {
    const bool none = !header.may_defer() || Checked(unsettled).deferred() == kMaxDeferred;
    Bytes copy(none ? image : unsettled);
    Header at = Checked(copy);
    for (int i = 0; i < 100; ++i) {
      const Outcome outcome = Defer(copy.data(), &at, random->Next());
      EXPECT_TRUE(outcome != Outcome::kFull || CanRefuse(at));
      Checked(copy);
      if (outcome == Outcome::kNoRoom || outcome == Outcome::kFull) break;
    }
    Checked(Settled(copy));
  }

  // Merges, in both directions and with itself.
  if (method.merge == nullptr) return;
  const Header other_header = Checked(other);
  const Bytes* images[] = {&image, &other};
  const Header* headers[] = {&header, &other_header};
  for (int left : {0, 1}) {
    for (int right : {0, 1}) {
      const uint64_t limit =
          random->OneIn(2) ? header.exact_limit() : random->Below(header.state_limit() + 1);
      const MergeBytes needs = MergeNeeds(*headers[left], *headers[right], limit);
      Bytes out(needs.out), scratch(needs.scratch);
      const size_t size = MergeTo(images[left]->data(), *headers[left], images[right]->data(),
                                  *headers[right], limit, out.data(), scratch.data());
      ASSERT_LE(size, out.size());
      if (size > 0) {
        Checked(out.Prefix(size));
      } else {
        EXPECT_TRUE(CanRefuse(header));
      }
      // A stored body may be no longer than what is in use: only a working one is merged
      // into.
      if (headers[left]->form != Form::kWorkingFull) continue;
      Bytes copy(*images[left]);
      Header at = *headers[left];
      if (MergeInPlace(copy.data(), &at, images[right]->data(), *headers[right]) ==
          Outcome::kFull) {
        EXPECT_TRUE(CanRefuse(header));
      } else {
        Checked(copy);
      }
    }
  }
}

// Bits for a body: noise, zeros, ones, or noise with few bits, by turns.
void Scribble(uint8_t* bytes, size_t size, Random* random) {
  const uint64_t kind = random->Below(5);
  for (size_t i = 0; i < size; ++i) {
    const uint64_t noise = random->Next();
    bytes[i] = static_cast<uint8_t>(kind == 0   ? 0
                                    : kind == 1 ? 0xff
                                    : kind == 2 ? noise & noise >> 8 & noise >> 16
                                    : kind == 3 ? (i % 4 == 0 ? noise % 40 : 0)  // small numbers
                                                : noise);
  }
}

std::vector<Shape> SomeShapes() {
  std::vector<Shape> shapes;
  for (const Variant& variant : AllVariants()) {
    for (uint64_t keys : {1, 30, 300}) {
      for (double fpr : {0.5, 0.01, 1e-9}) {
        if (!HasRate(variant, fpr)) continue;
        shapes.push_back(PlanKeys(*variant.method, keys, fpr, variant.options));
      }
    }
    // Large enough to defer.
    shapes.push_back(
        PlanMemory(*variant.method, DeferringMemory(*variant.method), 0.01, variant.options));
  }
  for (double fpr : {0.5, 0.001, 1e-6, 1e-9}) {
    shapes.push_back(PlanKeys(Named("fifo"), 300, fpr));
    Shape timed;
    EXPECT_EQ(fifo::PlanTimed(300, fpr, fifo::kMinGenerationUs, 0, &timed), PlanStatus::kOk);
    shapes.push_back(timed);
  }
  return shapes;
}

// Counters that a filter of this shape can have: those of one that took some keys, or
// numbers that valid() takes.
Counters RandomCounters(const Shape& shape, Random* random) {
  const Method& method = *MethodByCode(shape.method);
  if (random->OneIn(shape.bytes < kDeferFromBytes || method.growth != nullptr ? 3 : 100)) {
    Body body(shape);
    std::vector<uint64_t> hashes(1 + random->Below(random->OneIn(2) ? 400 : 20));
    for (uint64_t& hash : hashes) hash = random->Next();
    body.Try(hashes.data(), hashes.size(), nullptr);
    return body.counters();
  }
  for (int tries = 0; tries < 20; ++tries) {
    Counters counters;
    if (random->OneIn(2)) counters.count = random->Next() >> random->Below(64);
    if (random->OneIn(2)) {
      counters.state = static_cast<uint32_t>(random->Next() >> (32 + random->Below(32)));
    }
    // Of bodies that grow, those that are still small.
    if (method.growth != nullptr) {
      counters = method.growth->start(method.growth->bytes_for(shape, random->Below(6000)));
      counters.count = random->Next() >> random->Below(64);
    }
    if (method.valid(shape, counters)) return counters;
  }
  return FirstCounters(shape);
}

// A random image of this shape in any form, with the least size that Check()
// accepts.
Bytes RandomImage(const Shape& shape, Random* random) {
  const Method& method = *MethodByCode(shape.method);
  const ExactOrder order = method.exact_order(shape);
  const uint64_t limit = StateLimit(method, shape, order);
  Bytes image;
  switch (random->Below(4)) {
    case 0: {
      const uint64_t n = random->Below(std::min<uint64_t>(limit, 60) + 1);
      image = Bytes(kHeaderBytes + EntryBytes(method.counts()) * n);
      Scribble(image.data() + 60, image.size() - 60, random);
      WriteHeader(image.data(), shape, Form::kExact, Counters{n, 0});
      break;
    }
    case 1: {
      const uint64_t room = random->Below(std::min<uint64_t>(limit, 60) + 1);
      const uint64_t n = random->Below(room + 1);
      image = Bytes(WorkingExactBytes(room, order, method.counts()));
      Scribble(image.data() + 60, image.size() - 60, random);
      const uint64_t deferred = shape.bytes < kDeferFromBytes || method.growth != nullptr
                                    ? 0
                                    : random->Below(std::min<uint64_t>(room - n + 1, kMaxDeferred));
      WriteHeader(image.data(), shape, Form::kWorkingExact,
                  Counters{n, static_cast<uint32_t>(room)},
                  WorkingState{.deferred = static_cast<uint16_t>(deferred)});
      break;
    }
    default: {
      const bool working = random->OneIn(2);
      Counters counters = RandomCounters(shape, random);
      if (method.growth != nullptr && random->OneIn(20)) counters = DeferringCounters(shape);
      const size_t body_bytes = BodyBytesOf(shape, counters);
      const size_t deferred_room = DeferredRoom(body_bytes);
      const size_t shift = working ? 8 * deferred_room + random->Below(kLineBytes) : 0;
      const uint64_t deferred = working && deferred_room > 0 ? random->Below(kMaxDeferred) : 0;
      const size_t used =
          method.used_bytes != nullptr ? method.used_bytes(shape, counters) : size_t{shape.bytes};
      image = Bytes(working ? WorkingFullBytes(body_bytes) : kHeaderBytes + used);
      Scribble(image.data() + 60, image.size() - 60, random);
      WriteHeader(image.data(), shape, working ? Form::kWorkingFull : Form::kFull, counters,
                  WorkingState{.shift = static_cast<uint16_t>(shift),
                               .deferred = static_cast<uint16_t>(deferred)});
    }
  }
  return image;
}

// Random bodies, random hashes, random indexes and links, in every form.
TEST(AnyBits, AreSafe) {
  Random random(1);
  for (const Shape& shape : SomeShapes()) {
    for (uint64_t i = 0; i < 60 / kQuick; ++i) {
      const Bytes image = RandomImage(shape, &random), other = RandomImage(shape, &random);
      UseInEveryWay(image, other, &random);
      if (HasFatalFailure()) return;
    }
  }
}

// An index that is full, or whose entries all lead to the wrong place, and links
// that lead in a small circle: everything ends.
TEST(AnyBits, InIndexAndLinksEnd) {
  Random random(2);
  for (const char* name : {"blocked_bloom", "recent", "count_min"}) {
    const Shape shape = PlanMemory(Named(name), 4096, 0.01);
    const ExactOrder order = Named(name).exact_order(shape);
    const bool counted = Named(name).counts();
    const uint64_t room = 64;
    for (uint32_t entry : {0u, 1u, 2u, 64u, 65u, 0x7fffffffu, 0xffffffffu}) {
      for (uint64_t n : {0, 1, 2, 63, 64}) {
        Bytes image(WorkingExactBytes(room, order, counted));
        for (size_t at = kHeaderBytes; at < image.size(); at += 4)
          StoreU32(image.data() + at, entry);
        WriteHeader(image.data(), shape, Form::kWorkingExact, Counters{n, room});
        UseInEveryWay(image, image, &random);
      }
    }
  }
}

// Headers are scribbled over too: whatever Check() accepts is safe to use.
TEST(AnyHeader, IsRefusedOrSafe) {
  Random random(3);
  uint64_t accepted = 0;
  const std::vector<Shape> shapes = SomeShapes();
  for (uint64_t i = 0; i < 100000 / kThin; ++i) {
    const Shape& shape = shapes[random.Below(shapes.size())];
    if (shape.bytes >= kDeferFromBytes && !random.OneIn(10) &&
        MethodByCode(shape.method)->growth == nullptr) {
      continue;
    }
    Bytes image = RandomImage(shape, &random);
    for (uint64_t changes = 1 + random.Below(3); changes > 0; --changes) {
      const size_t at = random.Below(60);
      image[at] =
          static_cast<uint8_t>(random.OneIn(2) ? random.Next() : image[at] ^ 1u << random.Below(8));
    }
    Header header;
    if (Check(image.data(), image.size(), &header) != Flaw::kNone) continue;
    ++accepted;
    // A changed byte easily makes a body of many megabytes, which takes long to use.
    const bool large = header.shape.bytes > 4 << 20 && header.method->growth == nullptr;
    if (!random.OneIn(large ? 200 : 4)) continue;
    UseInEveryWay(image, image, &random);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(accepted, 2000 / kThin);
}

// Works with a body of noise of this shape.
void UseNoise(const Shape& shape, Random* random) {
  const Method& method = *MethodByCode(shape.method);
  const Counters counters = RandomCounters(shape, random);
  const size_t used =
      method.used_bytes != nullptr ? method.used_bytes(shape, counters) : size_t{shape.bytes};
  Bytes image(kHeaderBytes + used);
  Scribble(image.data() + 60, used, random);
  WriteHeader(image.data(), shape, Form::kFull, counters);
  UseInEveryWay(image, image, random);
}

class AnyDetail : public ::testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Methods, AnyDetail, ::testing::ValuesIn(AllVariants()), VariantName);

// Every layout that valid() lets through works on a body of noise: all of 25 bits, and
// those that differ little from a planned one, also in its other fields.
TEST_P(AnyDetail, IsRefusedOrSafe) {
  const Method* method = GetParam().method;
  Random random(4 + method->code);
  const bool plain = GetParam().options.empty();
  // As large as the largest block, and smaller where that is a body.
  const bool grows = method->growth != nullptr;
  for (uint32_t bytes : {std::max(128u, method->granule), 8192u, uint32_t{kMaxBodyBytes}}) {
    if (!plain || (bytes == 8192 && method->granule != 512)) continue;
    if ((bytes == kMaxBodyBytes) != grows) continue;
    uint64_t accepted = 0;
    const auto shape_of = [&](uint64_t detail) {
      const bool rate = method->has_rate();
      return Shape{method->code,      bytes, 0, rate && !grows ? 1 + random.Below(100) : 0,
                   rate ? 0.01 : 0.0, detail};
    };
    for (uint64_t detail = 0; detail < 1u << 25; detail += kThin) {
      accepted += method->valid(shape_of(detail), Counters{});
    }
    const uint64_t one_in = 1 + kThin * accepted / 6000;
    for (uint64_t detail = 0; detail < 1u << 25; detail += 1 + random.Below(2 * kThin - 1)) {
      const Shape shape = shape_of(detail);
      if (!method->valid(shape, Counters{}) || !random.OneIn(one_in)) continue;
      UseNoise(shape, &random);
      if (HasFatalFailure()) return;
    }
  }
  for (uint64_t i = 0; i < 3000 / kThin; ++i) {
    double fpr = random.OneIn(2) ? 0.01 : std::pow(10, -9 * random.Unit()) / 2;
    if (fpr < kMinFpr) fpr = kMinFpr;
    const std::optional<Shape> planned =
        TryMemory(*method, method->granule + random.Below(random.OneIn(9) ? 4000 : 500), fpr,
                  GetParam().options);
    if (!planned.has_value()) continue;
    Shape shape = *planned;
    switch (random.Below(4)) {
      case 0:
        shape.detail ^= uint64_t{1} << random.Below(64);
        break;
      case 1: {
        const uint64_t shift = random.Below(60);
        shape.detail = (shape.detail & ~(uint64_t{0xff} << shift)) | (random.Next() & 0xff)
                                                                         << shift;
        break;
      }
      case 2:
        shape.bytes = static_cast<uint32_t>(8 * (1 + random.Below(600)));
        break;
      default:
        if (method->has_rate() && !grows)
          shape.keys = 1 + (random.Next() >> (24 + random.Below(39)));
    }
    if (!method->valid(shape, Counters{})) continue;
    if (shape.keys > kMaxKeys || (shape.bytes > 1 << 20 && !grows)) continue;
    UseNoise(shape, &random);
    if (HasFatalFailure()) return;
  }
}

// An image that Check() accepts stays one that it accepts when a key is added by
// Defer(), also if it says that keys wait where the filter is too small to defer, or
// as many as make a batch: the next Settle() would else read and write outside it.
TEST(AnyBits, ThatWaitAreSafe) {
  for (const Method* method : kMethods) {
    const Shape shape = PlanMemory(*method, 8192, 0.01);
    for (uint64_t room : {8, 64}) {
      Bytes image(WorkingExactBytes(room, method->exact_order(shape), method->counts()));
      WriteHeader(image.data(), shape, Form::kWorkingExact,
                  Counters{room - 2, static_cast<uint32_t>(room)}, WorkingState{.deferred = 2});
      Header header;
      if (Check(image.data(), image.size(), &header) != Flaw::kNone) continue;
      EXPECT_NE(Defer(image.data(), &header, 12345), Outcome::kFull);
      ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone) << method->name;
      EXPECT_TRUE(Settle(image.data(), &header));
      ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone) << method->name;
    }
    const Shape large = PlanMemory(*method, DeferringMemory(*method), 0.01);
    Bytes exact(WorkingExactBytes(256, method->exact_order(large), method->counts()));
    WriteHeader(exact.data(), large, Form::kWorkingExact, Counters{100, 256},
                WorkingState{.deferred = kMaxDeferred});
    const Counters counters = DeferringCounters(large);
    Bytes full(kHeaderBytes + kMaxShift + BodyBytesOf(large, counters));
    WriteHeader(full.data(), large, Form::kWorkingFull, counters,
                WorkingState{.shift = kMaxShift, .deferred = kMaxDeferred});
    for (const Bytes* image : {&exact, &full}) {
      Header header;
      if (Check(image->data(), image->size(), &header) != Flaw::kNone) continue;
      // Defer() would write one more, and Settle() has room for no more than these.
      EXPECT_LT(header.deferred(), kMaxDeferred) << method->name;
    }
  }
}

// Realigning a full working image that Check() accepts stays inside it, though it
// stands at an address for which its body has to move up.
TEST(AnyBits, CanBeAligned) {
  const Shape shape = PlanKeys(Named("blocked_bloom"), 10, 0.01);
  for (size_t at = 0; at < 64; ++at) {
    for (size_t spare : {size_t{0}, size_t{10}, size_t{63}, kMaxShift}) {
      // `at` moves the image to every address. Bytes behind it that are not its
      // own keep a wrong move from ending the test.
      Bytes block(at + kHeaderBytes + spare + shape.bytes + kMaxShift);
      uint8_t* image = block.data() + at;
      const size_t size = kHeaderBytes + spare + shape.bytes;
      WriteHeader(image, shape, Form::kWorkingFull, Counters{});
      Header header;
      if (Check(image, size, &header) != Flaw::kNone) continue;
      Align(image, &header);
      ASSERT_LE(header.body_at() + shape.bytes, size) << "the body now ends outside its image";
    }
  }
}

}  // namespace
}  // namespace dedup::test
