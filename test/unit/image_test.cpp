// Stored bytes: the layout field by field, and every way to damage them.

#include "core/image.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "reference.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

// Stored filters of every method, empty, exact and full.
std::vector<Bytes> SomeImages() {
  std::vector<Bytes> images;
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 20, 0.1, variant.options, 42);
    for (uint64_t keys : {uint64_t{0}, uint64_t{5}, uint64_t{HashesInBody(shape) + 20}}) {
      Filter filter(shape);
      for (uint64_t key = 0; key < keys; ++key) filter.Add(HashOf(key));
      images.push_back(filter.Canonical());
    }
  }
  return images;
}

Flaw FlawOf(const Bytes& image) {
  Header header;
  return Validate(image.data(), image.size(), &header);
}

Flaw CheckOf(const Bytes& image) {
  Header header;
  return Check(image.data(), image.size(), &header);
}

// The same bytes with a new value in a field of the header, and sealed again: only
// the value can be found wrong.
template <typename T>
Bytes With(Bytes image, size_t at, T value) {
  if constexpr (std::is_same_v<T, double>) {
    StoreDouble(image.data() + at, value);
  } else {
    StoreLittle(image.data() + at, value);
  }
  Seal(image.data(), image.size());
  return image;
}

// Whether a filter of this shape ever has other counters than zeros: while it fills, and
// while its window turns over, and when it is merged.
struct Uses {
  bool count = false, state = false;
};
Uses UsesOf(const Shape& shape) {
  Uses uses;
  Body body(shape);
  const uint64_t many =
      MethodByCode(shape.method)->growth != nullptr ? 3000 : 20 * shape.keys + 100;
  for (uint64_t key = 0; key < many; ++key) {
    const uint64_t hash = HashOf(key);
    body.Try(&hash, 1, nullptr);
    uses.count = uses.count || body.counters().count != 0;
    uses.state = uses.state || body.counters().state != 0;
  }
  if (MethodByCode(shape.method)->counts()) {
    // Of more sights than a counter takes.
    const uint64_t hash = HashOf(1), sights = uint64_t{1} << 33;
    MethodByCode(shape.method)
        ->add_counts(shape, &body.counters(), body.bytes().data(), &hash, &sights, 1);
    uses.state = uses.state || body.counters().state != 0;
  }
  if (MethodByCode(shape.method)->merge != nullptr) {
    // Of one key each, and of two full ones, which may be too much.
    for (uint64_t keys : {uint64_t{1}, many}) {
      Body left(shape), right(shape);
      for (uint64_t key = 0; key < keys; ++key) {
        const uint64_t hashes[] = {HashOf(2 * key), HashOf(2 * key + 1)};
        left.Try(&hashes[0], 1, nullptr);
        right.Try(&hashes[1], 1, nullptr);
      }
      Counters counters = left.counters();
      if (!MethodByCode(shape.method)
               ->merge(shape, &counters, left.bytes().data(), right.counters(),
                       right.bytes().data(), Weights{})) {
        continue;
      }
      uses.count = uses.count || counters.count != 0;
      uses.state = uses.state || counters.state != 0;
    }
  }
  return uses;
}

// What is written is accepted, and read back as it was.
TEST(Image, IsReadBack) {
  for (const Bytes& image : SomeImages()) {
    Header header;
    ASSERT_EQ(Validate(image.data(), image.size(), &header), Flaw::kNone);
    EXPECT_TRUE(header.canonical());
    EXPECT_EQ(header.shape.seed, 42u);
    EXPECT_EQ(header.shape.fpr, header.method->has_rate() ? 0.1 : 0);
    EXPECT_EQ(header.shape.keys,
              header.method->has_rate() && header.method->growth == nullptr ? 20u : 0u);
    EXPECT_EQ(CanonicalBytes(header), image.size());
    Bytes again(image.size());
    WriteCanonical(image.data(), header, again.data());
    EXPECT_EQ(again, image);
  }
}

// The layout is the documented one: the reference writes it field by field.
TEST(Image, HasTheDocumentedLayout) {
  Shape shape = PlanKeys(Named("bloom"), 20, 0.1, "", 0x1122334455667788u);
  Filter filter(shape);
  EXPECT_EQ(filter.Canonical(), ImageOf(shape, 0, 0, 0, {}));
  filter.Add(0x0102030405060708u);
  EXPECT_EQ(filter.Canonical(), ImageOf(shape, 0, 1, 0, {8, 7, 6, 5, 4, 3, 2, 1}));
}

// Every truncation is rejected, and so is a byte too many.
TEST(Damage, EveryTruncationIsRejected) {
  for (const Bytes& image : SomeImages()) {
    for (size_t size = 0; size < image.size(); ++size) {
      const Bytes cut = image.Prefix(size);
      ASSERT_NE(FlawOf(cut), Flaw::kNone) << size << " of " << image.size();
      ASSERT_EQ(FlawOf(cut), size < 60 ? Flaw::kNotAFilter : Flaw::kSize);
    }
    Bytes longer(image.size() + 1);
    std::memcpy(longer.data(), image.data(), image.size());
    ASSERT_EQ(FlawOf(longer), Flaw::kSize);
  }
}

// Every single flipped bit is rejected, wherever it is.
TEST(Damage, EveryFlippedBitIsRejected) {
  for (Bytes image : SomeImages()) {
    for (size_t bit = 0; bit < 8 * image.size(); ++bit) {
      image[bit / 8] = static_cast<uint8_t>(image[bit / 8] ^ 1u << bit % 8);
      ASSERT_NE(FlawOf(image), Flaw::kNone) << "byte " << bit / 8;
      if (bit / 8 >= 60 || (bit / 8 >= 8 && bit / 8 < 24)) {
        ASSERT_EQ(FlawOf(image), Flaw::kChecksum) << "byte " << bit / 8;
      }
      image[bit / 8] = static_cast<uint8_t>(image[bit / 8] ^ 1u << bit % 8);
    }
    ASSERT_EQ(FlawOf(image), Flaw::kNone);
  }
}

// A checksum of nothing but zeros or ones does not pass.
TEST(Damage, AMissingChecksumIsRejected) {
  for (Bytes image : SomeImages()) {
    std::memset(image.data() + 8, 0, 8);
    EXPECT_EQ(FlawOf(image), Flaw::kChecksum);
    std::memset(image.data() + 8, 0xff, 8);
    EXPECT_EQ(FlawOf(image), Flaw::kChecksum);
  }
}

// A later version, an unknown method, an unknown form are told apart from damage,
// with a right checksum too.
TEST(Flaws, AreToldApart) {
  for (const Bytes& image : SomeImages()) {
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 0, 0xde)), Flaw::kNotAFilter);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 1, 2)), Flaw::kFutureVersion);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 1, 255)), Flaw::kFutureVersion);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 1, 0)), Flaw::kFutureVersion);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 2, 0)), Flaw::kUnknownMethod);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 2, 200)), Flaw::kUnknownMethod);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 3, 4)), Flaw::kParameters);
    EXPECT_EQ(FlawOf(With<uint8_t>(image, 3, 255)), Flaw::kParameters);
  }
  EXPECT_EQ(FlawOf(Bytes(0)), Flaw::kNotAFilter);
}

// Parameters that no filter can have: rates that are not numbers or out of range,
// no keys or too many, no bytes or too many, counters that the method has not. Without a
// rate both are zeros, and nothing else.
TEST(Flaws, OfParametersAreFound) {
  int any_size = 0;  // filters whose parameters leave the size open
  for (const Bytes& image : SomeImages()) {
    const bool ring = image[2] == 4, full = image[3] == 1;
    Header header;
    ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
    const Method& method = *header.method;
    const Uses uses = UsesOf(header.shape);
    // Without a rate both are 0, and nothing else.
    const auto none_is_right = [&](double value) {
      return value == 0 && !std::signbit(value) && !method.has_rate() ? Flaw::kNone
                                                                      : Flaw::kParameters;
    };
    for (double fpr :
         {std::nan(""), -std::nan(""), 0.0, -0.01, 9e-10, 0.500001, 1.0,
          std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      EXPECT_EQ(FlawOf(With(image, 32, fpr)), none_is_right(fpr)) << fpr;
    }
    for (uint64_t keys : {uint64_t{0}, kMaxKeys + 1, ~uint64_t{0}}) {
      const bool right = keys == 0 && (!method.has_rate() || method.growth != nullptr);
      EXPECT_EQ(FlawOf(With(image, 24, keys)), right ? Flaw::kNone : Flaw::kParameters) << keys;
    }
    if (!method.has_rate()) {
      EXPECT_EQ(FlawOf(With(image, 24, uint64_t{1})), Flaw::kParameters);
      EXPECT_EQ(FlawOf(With(image, 32, 0.01)), Flaw::kParameters);
      EXPECT_EQ(FlawOf(With(image, 32, -0.0)), Flaw::kParameters);
    }
    for (uint32_t bytes : {0u, 1u, 7u, 63u, (512u << 20) + 4096u, 0xffffffffu}) {
      EXPECT_EQ(FlawOf(With(image, 4, bytes)), Flaw::kParameters) << bytes;
    }
    // No parameters at all, but of a method that has none, and bits without a meaning.
    EXPECT_EQ(FlawOf(With(image, 40, ~uint64_t{0})), Flaw::kParameters) << method.name;
    if (header.shape.detail != 0) {
      EXPECT_EQ(FlawOf(With(image, 40, uint64_t{0})), Flaw::kParameters) << method.name;
    }
    for (uint64_t detail : {uint64_t{1} << 40, uint64_t{255}}) {
      Shape shape = header.shape;
      shape.detail = detail;
      // What methods take of these is worked with in memory_test.cpp.
      const bool valid = method.valid(shape, full ? header.counters : Counters{});
      EXPECT_FALSE(valid) << method.name << " has a meaning for " << detail;
      if (!valid) {
        EXPECT_EQ(FlawOf(With(image, 40, detail)), Flaw::kParameters) << detail;
      }
    }
    if (full) {
      // Counters that the method does not have; those of a ring are small.
      if (!uses.count) {
        EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, 1)), Flaw::kParameters) << method.name;
      }
      if (!uses.count || ring) {
        EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, 1u << 20)), Flaw::kParameters) << method.name;
      }
      if (!uses.state) {
        EXPECT_EQ(FlawOf(With<uint32_t>(image, 56, 1)), Flaw::kParameters) << method.name;
      }
      if (!uses.state || ring) {
        EXPECT_EQ(FlawOf(With<uint32_t>(image, 56, 16)), Flaw::kParameters) << method.name;
      }
      // The size must agree with M, where all of the body is stored.
      Shape larger = header.shape;
      larger.bytes += std::max(4096u, method.granule);
      const bool valid = method.valid(larger, header.counters);
      any_size += valid;
      if (method.used_bytes == nullptr) {
        EXPECT_EQ(FlawOf(With<uint32_t>(image, 4, larger.bytes)),
                  valid ? Flaw::kSize : Flaw::kParameters)
            << method.name;
      }
    } else {
      EXPECT_EQ(FlawOf(With<uint32_t>(image, 56, 16)), Flaw::kParameters);
      EXPECT_EQ(FlawOf(With<uint32_t>(image, 56, 1)), Flaw::kParameters);
      // More hashes than the exact form may hold; and other than there are.
      EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, header.state_limit() + 1)), Flaw::kParameters);
      EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, ~uint64_t{0})), Flaw::kParameters);
      EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, uint64_t{1} << 61)), Flaw::kParameters);
      const uint64_t n = LoadU64(image.data() + 48);
      EXPECT_EQ(FlawOf(With<uint64_t>(image, 48, n + 1)),
                n < header.state_limit() ? Flaw::kSize : Flaw::kParameters);
    }
  }
  EXPECT_GE(any_size, 5);
}

// Every value of a method's detail, of 25 bits, is refused or safe: what valid()
// accepts is what the method can work with (memory_test.cpp works with them).
TEST(Flaws, OfDetailLeaveOnlyWhatAMethodKnows) {
  const Shape bloom = PlanKeys(Named("bloom"), 1000, 0.01);
  const Shape recent = PlanKeys(Named("recent"), 1000, 0.01);
  const Shape ring = PlanKeys(Named("ring"), 10000, 0.001);  // 4096-byte blocks
  const auto valid = [](Shape shape, uint64_t detail) {
    shape.detail = detail;
    return MethodByCode(shape.method)->valid(shape, Counters{});
  };
  for (uint64_t detail = 0; detail < 1u << 25; ++detail) {
    const uint64_t low = detail & 0xff, middle = detail >> 8 & 0xff, high = detail >> 16 & 0xff;
    ASSERT_EQ(valid(bloom, detail), detail >= 1 && detail <= 32);
    ASSERT_EQ(valid(recent, detail),
              detail < 1u << 16 && low >= 1 && middle >= 8 && middle <= 40 && low * middle <= 504);
    ASSERT_EQ(valid(ring, detail),
              low >= 1 && low <= 40 && (middle == 8 || middle == 16) && (high == 9 || high == 12));
  }
  EXPECT_FALSE(valid(ring, ring.detail | 1u << 25));
  // fifo: bytes a slot (1: 12 bits, not with time), bit 8 for time, and from bit 16 on the
  // microseconds that a generation lasts: at least 0.1 s where there is time, else none.
  const Shape fifo = PlanKeys(Named("fifo"), 1000, 0.01);
  for (uint64_t us :
       {uint64_t{0}, uint64_t{1}, uint64_t{99999}, uint64_t{100000}, (uint64_t{1} << 48) - 1}) {
    for (uint64_t low = 0; low < 1u << 16; ++low) {
      const bool untimed = low >= 1 && low <= 5 && us == 0;
      const bool timed = low >= 0x102 && low <= 0x105 && us >= 100000;
      ASSERT_EQ(valid(fifo, us << 16 | low), untimed || timed);
    }
  }
}

// Working forms never come from outside, not even with a right checksum.
TEST(Flaws, WorkingFormsAreNotForStoring) {
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 20, 0.1, variant.options);
    for (uint64_t keys : {uint64_t{0}, uint64_t{5}, uint64_t{30}, HashesInBody(shape) + 1}) {
      Filter filter(shape);
      for (uint64_t key = 0; key < keys; ++key) filter.Add(HashOf(key));
      filter.MakeWorkingForm();
      Header header;
      EXPECT_EQ(Check(filter.image().data(), filter.image().size(), &header), Flaw::kNone);
      EXPECT_EQ(Validate(filter.image().data(), filter.image().size(), &header), Flaw::kWorking);
      Bytes sealed = filter.image();
      Seal(sealed.data(), sealed.size());
      EXPECT_NE(FlawOf(sealed), Flaw::kNone);
    }
  }
}

// The state of a working form takes the place of the checksum: three numbers of 16 bits, and
// 16 bits that are always zero.
TEST(WorkingStates, ArePackedAsTheFormatSays) {
  const WorkingState state = {.shift = 0x1234, .deferred = 0x5678, .merged = 0x9abc};
  EXPECT_EQ(Pack(state), 0x9abc56781234u);
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    const uint64_t field = random.Next() >> 16;
    WorkingState unpacked;
    ASSERT_TRUE(Unpack(field, &unpacked));
    ASSERT_EQ(Pack(unpacked), field);
    ASSERT_FALSE(Unpack(field | uint64_t{1} << (48 + i % 16), &unpacked));
  }
}

// What Header says of a working image is what its bytes say after each step, and a canonical
// one, whatever its checksum is, has no shift, nothing deferred, and is one part.
TEST(WorkingStates, AreInTheHeaderAndInTheImage) {
  for (const Variant& variant : AllVariants()) {
    Filter filter(
        PlanMemory(*variant.method, DeferringMemory(*variant.method), 0.01, variant.options));
    const auto bytes = [&](size_t at) {
      return filter.image()[at] | static_cast<unsigned>(filter.image()[at + 1]) << 8;
    };
    for (uint64_t key = 0; key < 200; ++key) {
      filter.AddDeferred(HashOf(key));
      ASSERT_FALSE(filter.header().canonical());
      ASSERT_EQ(filter.header().checksum, 0u);
      ASSERT_EQ(bytes(8), filter.header().body_at() - kHeaderBytes);
      ASSERT_EQ(bytes(10), filter.header().deferred());
      ASSERT_EQ(bytes(12), filter.header().parts() - 1);
      ASSERT_EQ(bytes(14), 0u);
    }
    const WorkingState before = filter.header().working;
    filter.SetParts(0x1235);
    EXPECT_EQ(filter.header().parts(), 0x1235u);
    EXPECT_EQ(bytes(8), before.shift);
    EXPECT_EQ(bytes(10), before.deferred);
    EXPECT_EQ(bytes(12), 0x1234u);
    filter.SetParts(0x20000);
    EXPECT_EQ(filter.header().parts(), 0x10000u);
    const Bytes canonical = filter.Canonical();
    Header header;
    ASSERT_EQ(Check(canonical.data(), canonical.size(), &header), Flaw::kNone);
    EXPECT_EQ(header.checksum, LoadU64(canonical.data() + 8));
    EXPECT_EQ(header.working, WorkingState{});
    EXPECT_EQ(header.parts(), 1u);
  }
}

// Working forms are refused where their sizes do not agree with their headers.
TEST(Flaws, OfWorkingFormsAreFound) {
  for (const Variant& variant : AllVariants()) {
    const Method* method = variant.method;
    Shape shape = PlanKeys(*method, 200, 0.01, variant.options);
    if (HashesInBody(shape) < 20) shape = PlanMemory(*method, 512, 0.01, variant.options);
    Filter exact(shape), full(shape);
    for (uint64_t key = 0; key < 20; ++key) exact.Add(HashOf(key));
    for (uint64_t key = 0; key <= HashesInBody(shape); ++key) full.Add(HashOf(key));
    ASSERT_EQ(exact.header().form, Form::kWorkingExact);
    ASSERT_EQ(full.header().form, Form::kWorkingFull);
    for (size_t size = 0; size < exact.image().size(); ++size) {
      ASSERT_NE(CheckOf(exact.image().Prefix(size)), Flaw::kNone);
    }
    const size_t least = full.header().body_at() + full.header().body_bytes();
    for (size_t size = least - 100; size < least; ++size) {
      ASSERT_EQ(CheckOf(full.image().Prefix(size)), Flaw::kSize);
    }
    Bytes image = exact.image();
    StoreU64(image.data() + 48, exact.header().room() + 1);
    EXPECT_EQ(CheckOf(image), Flaw::kParameters);
    StoreU64(image.data() + 48, 1);
    StoreU32(image.data() + 56, static_cast<uint32_t>(exact.header().state_limit() + 1));
    EXPECT_EQ(CheckOf(image), Flaw::kParameters);
    // Waiting keys in a filter that is too small to defer, more of them than there is
    // room for, a batch that is full, and bits without a meaning.
    image = exact.image();
    for (uint64_t field : {uint64_t{1} << 16, uint64_t{1}, uint64_t{1} << 48, ~uint64_t{0}}) {
      StoreU64(image.data() + 8, field);
      EXPECT_EQ(CheckOf(image), Flaw::kParameters) << field;
    }
    Filter large(PlanMemory(*method, DeferringMemory(*method), 0.01, variant.options));
    for (uint64_t key = 0; key < 20; ++key) large.Add(HashOf(key));
    image = large.image();
    const uint64_t free = large.header().room() - large.header().hashes();
    ASSERT_TRUE(free > 0 && free < kMaxDeferred);
    StoreU64(image.data() + 8, free << 16);
    // Exact filters that grow are small: they never defer.
    EXPECT_EQ(CheckOf(image), method->growth != nullptr ? Flaw::kParameters : Flaw::kNone);
    for (uint64_t field : {(free + 1) << 16, uint64_t{1}, uint64_t{1} << 48, ~uint64_t{0}}) {
      StoreU64(image.data() + 8, field);
      EXPECT_EQ(CheckOf(image), Flaw::kParameters) << field;
    }
    for (uint64_t key = 0; key <= HashesToDefer(large.header().shape); ++key)
      large.Add(HashOf(key));
    ASSERT_EQ(large.header().form, Form::kWorkingFull);
    image = large.image();
    const uint64_t shift = large.header().body_at() - kHeaderBytes;
    EXPECT_EQ(large.refused(), 0u) << variant.name;
    for (uint64_t waiting : {uint64_t{0}, uint64_t{1}, uint64_t{kMaxDeferred} - 1}) {
      StoreU64(image.data() + 8, shift | waiting << 16);
      EXPECT_EQ(CheckOf(image), Flaw::kNone) << waiting;
    }
    for (uint64_t field : {shift | uint64_t{kMaxDeferred} << 16, uint64_t{kMaxShift} + 1,
                           uint64_t{8} | 2 << 16, shift | uint64_t{1} << 48, ~uint64_t{0}}) {
      StoreU64(image.data() + 8, field);
      EXPECT_EQ(CheckOf(image), Flaw::kParameters) << field;
    }
  }
}

// CheckAgain() says what Check() says, whatever was looked at before: images of
// other filters, grown ones, damaged ones, and the same one with more keys.
TEST(CheckAgain, SaysWhatCheckSays) {
  Random random(1);
  std::vector<Bytes> images = SomeImages();
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 200, 0.1, variant.options);
    Filter filter(shape);
    for (uint64_t key = 0; key < HashesInBody(shape) + 100; ++key) {
      filter.Add(HashOf(key));
      if (key < 30 || random.OneIn(10)) images.push_back(filter.image());
    }
    Filter large(PlanMemory(*variant.method, 512 * 1024, 0.1, variant.options));
    for (uint64_t key = 0; key < 200; ++key) {
      large.AddDeferred(HashOf(key));
      if (key % 8 == 0) images.push_back(large.image());
    }
  }
  LastCheck last;
  uint64_t refused = 0;
  for (int i = 0; i < 200000 / static_cast<int>(kThin); ++i) {
    // Neighbours in the list are the same filter with a key more or less.
    static size_t at = 0;
    at = random.OneIn(4) ? random.Below(images.size())
                         : std::min(at + random.Below(2), images.size() - 1);
    Bytes& image = images[at];
    const size_t byte = random.Below(60);
    const uint8_t before = image[byte];
    if (random.OneIn(3)) {
      image[byte] =
          static_cast<uint8_t>(random.OneIn(2) ? before ^ 1u << random.Below(8) : random.Next());
    }
    Header header = {};
    const Flaw flaw = Check(image.data(), image.size(), &header);
    ASSERT_EQ(CheckAgain(image.data(), image.size(), &last), flaw);
    if (flaw == Flaw::kNone) {
      ASSERT_EQ(last.header.method, header.method);
      ASSERT_EQ(last.header.form, header.form);
      ASSERT_TRUE(last.header.shape == header.shape);
      ASSERT_EQ(last.header.counters.count, header.counters.count);
      ASSERT_EQ(last.header.counters.state, header.counters.state);
      ASSERT_TRUE(last.header.canonical() || last.header.working == header.working);
    }
    refused += flaw != Flaw::kNone;
    image[byte] = before;
  }
  EXPECT_GE(refused, 10000u / kThin);
}

// Too few bytes for a header are refused without looking at them, also at first,
// when there is nothing to compare with.
TEST(CheckAgain, ReadsNothingOfAnEmptyImage) {
  for (size_t size : {0, 1, 7, 8, 59}) {
    LastCheck last;
    const Bytes image(size);
    EXPECT_EQ(CheckAgain(image.data(), size, &last), Flaw::kNotAFilter);
  }
}

// Hashes that must be sorted and are not, or are there twice, are refused.
TEST(Flaws, OfOrderAreFound) {
  uint64_t sorted = 0;
  for (const Variant& variant : AllVariants()) {
    const Shape shape = PlanKeys(*variant.method, 50, 0.01, variant.options);
    if (variant.method->exact_order(shape) != ExactOrder::kSorted) continue;
    ++sorted;
    const size_t entry = variant.method->counts() ? 16 : 8;
    std::vector<uint8_t> payload(3 * entry);
    const auto flaw = [&](uint64_t a, uint64_t b, uint64_t c) {
      for (size_t i = 0; i < 3; ++i) payload[entry * i + entry - 8] = 1;  // a count
      StoreU64(payload.data(), a);
      StoreU64(payload.data() + entry, b);
      StoreU64(payload.data() + 2 * entry, c);
      return FlawOf(ImageOf(shape, 0, 3, 0, payload));
    };
    EXPECT_EQ(flaw(1, 2, 3), Flaw::kNone);
    EXPECT_EQ(flaw(0, 1, ~uint64_t{0}), Flaw::kNone);
    EXPECT_EQ(flaw(1, 1, 2), Flaw::kOrder);
    EXPECT_EQ(flaw(1, 3, 2), Flaw::kOrder);
    EXPECT_EQ(flaw(2, 1, 3), Flaw::kOrder);
    // Order is by number, not byte by byte.
    EXPECT_EQ(flaw(0x00ff, 0x0100, 0x0200), Flaw::kNone);
  }
  EXPECT_GE(sorted, 2u);
}

}  // namespace
}  // namespace dedup::test
