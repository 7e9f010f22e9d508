// Every function of the core and every method touch at most kMostBetweenPauses bytes between
// two pauses (pause_meter.hpp), and an abandoned call leaves what it read as it was.

#include "core/pause.hpp"

#include "core/distinct_set.hpp"
#include "core/methods/quotient.hpp"
#include "core/xxh3.hpp"
#include "pause_cases.hpp"
#include "pause_meter.hpp"
#include "test_support.hpp"

namespace dedup::test {
namespace {

using pauses::Subject;

// Larger than the bound, so that one span that is passed without a pause exceeds it.
constexpr uint64_t kBodyBytes = uint64_t{kQuick > 1 ? 18 : 48} << 20;

// Every method, in the thorough run with every variant, and those whose options make one key
// touch most.
std::vector<Variant> PausingVariants() {
  std::vector<Variant> all = AllVariants();
  if (kQuick > 1) std::erase_if(all, [](const Variant& v) { return !v.options.empty(); });
  for (const auto& [name, options] : {std::pair{"sbf", "d=8 p=1048576"},
                                      {"bloom", "k=32"},
                                      {"apbf", "k=16 l=32"},
                                      {"cuckoo", "kicks=1000"}}) {
    all.push_back({&Named(name), options, std::string(name) + "_most"});
  }
  return all;
}

// Of a body of kBodyBytes, or as large as the method's can be.
Shape LargeShape(const Variant& variant, uint64_t bytes = kBodyBytes) {
  const uint64_t most = MostMemory(*variant.method, 0.01, variant.options);
  if (bytes > most) bytes = most;
  const Shape shape = PlanMemory(*variant.method, bytes, 0.01, variant.options);
  if (shape.bytes <= bytes) return shape;
  // A method whose memory does not count all bytes of the body.
  return PlanMemory(*variant.method, bytes * bytes / shape.bytes, 0.01, variant.options);
}

// ---- the bound --------------------------------------------------------------------------

class EveryMethodPauses : public ::testing::TestWithParam<Variant> {};

// Full images of kBodyBytes, and exact ones of a few hashes.
TEST_P(EveryMethodPauses, WhileItsBodyIsLarge) {
  if (kSanitize) GTEST_SKIP() << kSkipped;
  Arena arena(size_t{2} << 30);
  const Shape shape = LargeShape(GetParam());
  // A key of some options changes as many bytes as a piece.
  const bool slow = shape.detail >> 16 == uint64_t{1} << 20;
  std::vector<Shape> shapes = {shape};
  const Growth* growth = GetParam().method->growth;
  if (growth != nullptr) shapes.push_back(growth->state_shape(shape));
  for (const Shape& one : shapes) {
    arena.Reset();
    Subject subject(one, slow ? 128 : 50000, slow ? 128 : 5000, &arena, kBodyBytes);
    Meter meter(&arena);
    for (const Case& measured : subject.Cases()) ExpectPauses(&meter, measured, GetParam().name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryMethodPauses, ::testing::ValuesIn(PausingVariants()),
                         VariantName);

// Exact images of as many hashes as the body has room for, in each order and with counts.
struct Kind {
  ExactOrder order;
  bool counted;
};

class ExactPauses : public ::testing::TestWithParam<Kind> {};

TEST_P(ExactPauses, WhileItHasManyHashes) {
  if (kSanitize) GTEST_SKIP() << kSkipped;
  for (const Variant& variant : AllVariants()) {
    const Shape shape = LargeShape(variant);
    const Method& method = *variant.method;
    if (method.merge == nullptr || shape.bytes < kBodyBytes / 8 * 7 ||
        method.exact_order(shape) != GetParam().order || method.counts() != GetParam().counted) {
      continue;
    }
    Arena arena(size_t{2} << 30);
    Subject subject(shape, 1000, kBodyBytes / 8, &arena);
    Meter meter(&arena);
    for (const Case& measured : subject.Cases()) {
      if (measured.name.find("exact") == std::string::npos) continue;
      ExpectPauses(&meter, measured, variant.name);
    }
    return;
  }
  FAIL() << "no method has such images";
}

std::string KindName(const ::testing::TestParamInfo<Kind>& info) {
  const char* const orders[] = {"Sorted", "FirstSight", "LastSight"};
  return std::string(orders[static_cast<int>(info.param.order)]) +
         (info.param.counted ? "Counted" : "");
}

constexpr Kind kKinds[] = {{ExactOrder::kSorted, false},
                           {ExactOrder::kFirstSight, false},
                           {ExactOrder::kLastSight, false},
                           {ExactOrder::kSorted, true},
                           {ExactOrder::kFirstSight, true}};
INSTANTIATE_TEST_SUITE_P(All, ExactPauses, ::testing::ValuesIn(kKinds), KindName);

// A table that has grown to its largest, and doubles to it.
TEST(Quotient, PausesWhileItsTableIsRewritten) {
  if (kSanitize) GTEST_SKIP() << kSkipped;
  const Method& method = Named("quotient");
  const Shape shape = PlanMemory(method, 40 << 20, 0.01);
  const quotient::Layout layout = quotient::LayoutOf(shape);
  Arena arena(size_t{1} << 30);
  uint8_t* body = arena.Allocate(shape.bytes);
  uint8_t* other = arena.Allocate(shape.bytes);
  Counters counters, others;
  for (uint64_t key = 0; key < 100000; ++key) {
    const uint64_t hash = HashOf(key), another = HashOf(key, 1);
    ASSERT_EQ(method.insert(shape, &counters, body, &hash, 1), 1u);
    ASSERT_EQ(method.insert(shape, &others, other, &another, 1), 1u);
  }
  const auto grow = [&](uint8_t* table, Counters* of, unsigned q) {
    const unsigned from = quotient::QOf(layout, *of);
    ASSERT_TRUE(quotient::Rewrite(table, layout.p, from, q, nullptr));
    of->state = q - layout.start;
  };
  grow(body, &counters, layout.top - 1);
  grow(other, &others, layout.top);
  ASSERT_GT(quotient::UsedBytes(shape, others), kMostBetweenPauses);

  const std::vector<uint8_t> start(body, body + shape.bytes);
  Counters now;
  const auto prepare = [&] {
    std::memcpy(body, start.data(), shape.bytes);
    now = counters;
  };
  Meter meter(&arena);
  ExpectPauses(&meter,
               {"merge", false, prepare,
                [&] { ASSERT_TRUE(method.merge(shape, &now, body, others, other, Weights{})); }},
               "quotient");
  EXPECT_TRUE(method.sound(shape, now, body));
  ExpectPauses(&meter,
               {"sound", false, [] {}, [&] { ASSERT_TRUE(method.sound(shape, others, other)); }},
               "quotient");
  ExpectPauses(&meter,
               {"double", false,
                [&] {
                  prepare();
                  now.count = quotient::Limit(quotient::QOf(layout, now));
                },
                [&] {
                  const uint64_t hash = HashOf(1, 2);
                  ASSERT_EQ(method.insert(shape, &now, body, &hash, 1), 1u);
                }},
               "quotient");
  EXPECT_EQ(quotient::QOf(layout, now), layout.top);
  ExpectPauses(&meter,
               {"forget the last", false,
                [&] {
                  std::memcpy(body, other, shape.bytes);
                  now = {1, others.state};
                },
                [&] { ASSERT_TRUE(method.forget(shape, &now, body, HashOf(7, 1))); }},
               "quotient");
}

// A table is rewritten only by keys of which WouldRewrite() says so.
TEST(Quotient, TellsWhatRewritesItsTable) {
  const Shape shape = PlanMemory(Named("quotient"), 1 << 20, 0.01);
  std::vector<uint8_t> image(WorkingFullBytes(shape.bytes));
  const size_t shift = ShiftFor(image.data(), shape.bytes);
  WriteHeader(image.data(), shape, Form::kWorkingFull, Counters{},
              WorkingState{.shift = static_cast<uint16_t>(shift)});
  Header header;
  ASSERT_EQ(Check(image.data(), image.size(), &header), Flaw::kNone);
  uint64_t told = 0;
  for (uint64_t key = 0; key < shape.keys * 9 / 10; ++key) {
    const uint32_t doubled = header.counters.state;
    const bool rewrites = WouldRewrite(image.data(), header, HashOf(key));
    ASSERT_NE(TestAndAdd(image.data(), &header, HashOf(key)), Outcome::kFull);
    ASSERT_EQ(header.counters.state != doubled, rewrites) << key;
    ASSERT_FALSE(WouldRewrite(image.data(), header, HashOf(key)));
    told += rewrites;
  }
  EXPECT_GE(told, 5u);
}

// An exact image of hashes that were chosen to fall on one place of an index: each walks over
// all others.
const uint8_t* MakeRun(const Shape& shape, uint64_t hashes, Arena* arena, Header* header) {
  uint8_t* image = arena->Allocate(kHeaderBytes + 8 * hashes);
  for (uint64_t i = 0; i < hashes; ++i) StoreU64(image + kHeaderBytes + 8 * i, i + 1);
  WriteHeader(image, shape, Form::kExact, Counters{hashes, 0});
  EXPECT_EQ(Check(image, kHeaderBytes + 8 * hashes, header), Flaw::kNone);
  return image;
}

TEST(Exact, PausesInLongRuns) {
  const Shape shape = PlanMemory(Named("recent"), 8 << 20, 0.01);
  constexpr uint64_t kHashes = 20000;
  Arena arena(size_t{1} << 28);
  Header header;
  const uint8_t* image = MakeRun(shape, kHashes, &arena, &header);
  uint8_t* out = arena.Allocate(WorkingExactBytes(kHashes, header.order()));
  static uint64_t steps;
  steps = 0;
  pause_function = [] { ++steps; };
  EXPECT_TRUE(MakeWorking(image, header, {Form::kWorkingExact, kHashes}, out));
  pause_function = nullptr;
  // Appending walks over 2 * 10^8 slots of 4 bytes.
  EXPECT_GT(steps, kHashes / kKeysBetweenPauses + 1000);
}

// ---- sorting -----------------------------------------------------------------------------

enum class Spread { kRandom, kSorted, kLowBytes, kOneByte, kEqual };

class Sorting : public ::testing::TestWithParam<Spread> {};

TEST_P(Sorting, PausesAndSorts) {
  // With the sanitizers, which only look at the same steps, too few to reach the bound.
  constexpr uint64_t kEntries = kSanitize ? 300000 : 3000000;
  Arena arena(size_t{1} << 28);
  for (const bool counted : {false, true}) {
    const size_t entry = EntryBytes(counted);
    uint8_t* entries = arena.Allocate(entry * kEntries);
    std::vector<uint64_t> expected(kEntries);
    const auto hash_of = [](uint64_t i) -> uint64_t {
      switch (GetParam()) {
        case Spread::kRandom:
          return HashOf(i);
        case Spread::kSorted:
          return i << 40;
        case Spread::kLowBytes:
          return HashOf(i) & 0xffffffff;
        case Spread::kOneByte:
          return HashOf(i) & 0xff0000000000;
        default:
          return 5;
      }
    };
    const auto prepare = [&] {
      for (uint64_t i = 0; i < kEntries; ++i) {
        StoreU64(entries + entry * i, hash_of(i));
        if (counted) StoreU64(entries + entry * i + 8, hash_of(i) + 1);
      }
    };
    for (uint64_t i = 0; i < kEntries; ++i) expected[i] = hash_of(i);
    std::sort(expected.begin(), expected.end());
    Meter meter(&arena);
    ExpectPauses(&meter,
                 {"SortEntries", false, prepare, [&] { SortEntries(entries, kEntries, counted); }},
                 "sort");
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kEntries; ++i) {
      wrong += LoadU64(entries + entry * i) != expected[i];
      if (counted) wrong += LoadU64(entries + entry * i + 8) != expected[i] + 1;
    }
    EXPECT_EQ(wrong, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sorting,
                         ::testing::Values(Spread::kRandom, Spread::kSorted, Spread::kLowBytes,
                                           Spread::kOneByte, Spread::kEqual));

// ---- the set of a DISTINCT -----------------------------------------------------------------

TEST(DistinctSet, PausesWhileItGrows) {
  if (kSanitize) GTEST_SKIP() << kSkipped;
  constexpr uint64_t kBudget = uint64_t{80} << 20;
  Arena arena(size_t{1} << 30);
  Meter meter(&arena);
  DistinctSet set;
  set.Start(kBudget, 0.01);
  uint64_t key = 0;
  std::vector<uint8_t> seen(DistinctSet::kMaxBatch);
  uint64_t hashes[DistinctSet::kMaxBatch];
  size_t measured = 0, emptied = 0;
  // Until the oldest link was given up.
  while (set.given_up() == 0) {
    const size_t bytes = set.Wants(DistinctSet::kMaxBatch);
    if (bytes > kMostBetweenPauses) {
      uint8_t* given = nullptr;
      const DistinctSet before = set;
      ExpectPauses(&meter,
                   {"Give", false,
                    [&] {
                      set = before;
                      given = arena.Allocate(bytes) + kLineBytes - 4;
                    },
                    [&] { set.Give(given); }},
                   "DistinctSet");
      ++measured;
    } else if (bytes > 0) {
      set.Give(arena.Allocate(bytes) + kLineBytes - 4);
    }
    for (uint64_t& hash : hashes) hash = HashOf(key++);
    set.TestAndAdd(hashes, DistinctSet::kMaxBatch, seen.data());
  }
  // And once more, where the next oldest is emptied.
  for (const uint64_t before = set.given_up(); set.given_up() == before;) {
    for (uint64_t& hash : hashes) hash = HashOf(key++);
    static uint64_t pauses;
    pauses = 0;
    pause_function = [] { ++pauses; };
    set.TestAndAdd(hashes, DistinctSet::kMaxBatch, seen.data());
    pause_function = nullptr;
    if (set.given_up() != before) {
      // A link of 22 MB is cleared.
      EXPECT_GT(pauses, 20u);
      ++emptied;
    }
  }
  EXPECT_GE(measured, 3u);
  EXPECT_EQ(emptied, 1u);
}

// ---- calls that are abandoned -----------------------------------------------------------------

class EveryMethodAbandoned : public ::testing::TestWithParam<Variant> {};

// The inputs are in memory that cannot be written to. What is written after an abandoned
// call is what would have been without it.
TEST_P(EveryMethodAbandoned, LeavesItsInputsAsTheyWere) {
  Arena arena(size_t{1} << 28);
  const Growth* growth = GetParam().method->growth;
  const Shape shape = LargeShape(GetParam(), 5 << 18);
  Subject subject(growth != nullptr ? growth->state_shape(shape) : shape, 5000, 2000, &arena,
                  5 << 18);
  const auto out = subject.output();
  for (const Case& abandoned : subject.Cases()) {
    if (!abandoned.pure) continue;
    mprotect(arena.base(), subject.inputs(), PROT_READ);
    std::memset(out.bytes, 0, out.size);
    abandoned.run();
    const std::vector<uint8_t> expected(out.bytes, out.bytes + out.size);
    std::memset(out.bytes, 0, out.size);
    uint64_t n = 1;
    for (; RunTo(abandoned, n); n += 1 + n / 2) {
    }
    std::memset(out.bytes, 0, out.size);
    abandoned.run();
    EXPECT_EQ(std::memcmp(expected.data(), out.bytes, out.size), 0)
        << GetParam().name << ", " << abandoned.name;
    mprotect(arena.base(), subject.inputs(), PROT_READ | PROT_WRITE);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryMethodAbandoned, ::testing::ValuesIn(AllVariants()),
                         VariantName);

// Finding a place for a key pauses before the image is changed: an exact image whose key was
// abandoned is one without it.
TEST(Exact, IsWholeWhenAKeyIsAbandoned) {
  const Shape shape = PlanMemory(Named("recent"), 8 << 20, 0.01);
  constexpr uint64_t kHashes = 40000;
  Arena arena(size_t{1} << 28);
  Header header;
  const uint8_t* image = MakeRun(shape, kHashes, &arena, &header);
  const size_t size = WorkingExactBytes(kHashes + 8, header.order());
  uint8_t* out = arena.Allocate(size);
  ASSERT_TRUE(MakeWorking(image, header, {Form::kWorkingExact, kHashes + 8}, out));
  const std::vector<uint8_t> before(out, out + size);
  uint64_t n = 1;
  for (;; ++n) {
    Header working;
    ASSERT_EQ(Check(out, size, &working), Flaw::kNone);
    const Case add = {"TestAndAdd", false, [] {},
                      [&] { EXPECT_EQ(TestAndAdd(out, &working, 0), Outcome::kNew); }};
    if (!RunTo(add, n)) break;
    ASSERT_EQ(std::memcmp(before.data(), out, size), 0) << n;
  }
  EXPECT_GE(n, 3u);  // the run is longer than two pauses
}

// ---- pieces ---------------------------------------------------------------------------------

TEST(Pieces, ChecksumsAreThoseOfTheWhole) {
  std::vector<uint8_t> bytes(3 * kPieceBytes + 100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(HashOf(i));
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    for (const size_t size : {size_t{0}, size_t{100}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 1,
                              2 * kPieceBytes, 2 * kPieceBytes + 1, 3 * kPieceBytes + 100}) {
      EXPECT_EQ(Xxh3InPieces(bytes.data(), size, seed), Xxh3(bytes.data(), size, seed)) << size;
    }
  }
}

TEST(Pieces, MoveAndCopyAsTheWholeWould) {
  std::vector<uint8_t> bytes(3 * kPieceBytes + 100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(HashOf(i));
  for (const size_t to : {size_t{0}, size_t{1}, size_t{5000}, kPieceBytes + 7}) {
    for (const size_t from : {size_t{0}, size_t{1}, size_t{5000}, kPieceBytes + 7}) {
      std::vector<uint8_t> expected = bytes, moved = bytes;
      const size_t size = bytes.size() - (to > from ? to : from);
      std::memmove(expected.data() + to, expected.data() + from, size);
      MoveInPieces(moved.data() + to, moved.data() + from, size);
      EXPECT_EQ(moved, expected) << to << " from " << from;
    }
  }
  std::vector<uint8_t> copy(bytes.size());
  CopyInPieces(copy.data(), bytes.data(), bytes.size());
  EXPECT_EQ(copy, bytes);
  ClearInPieces(copy.data() + 1, copy.size() - 2);
  EXPECT_EQ(std::count(copy.begin(), copy.end(), 0),
            static_cast<long>(copy.size() - (copy.front() != 0) - (copy.back() != 0)));
}

}  // namespace
}  // namespace dedup::test
