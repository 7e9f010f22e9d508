// Every function of the core over large images of a filter, for what measures the pauses
// of each: pause_test.cpp (bytes between two) and ../bench/pauses.cpp (time between two).

#ifndef STREAMDEDUP_TEST_UNIT_PAUSE_CASES_HPP_
#define STREAMDEDUP_TEST_UNIT_PAUSE_CASES_HPP_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/merge.hpp"
#include "core/pause.hpp"
#include "core/registry.hpp"

namespace dedup::pauses {

inline constexpr size_t kPageBytes = 4096;

// Memory of its own pages, given out from the front.
class Arena {
 public:
  explicit Arena(size_t size) : size_(size) {
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      std::perror("mmap");
      std::exit(2);
    }
    base_ = static_cast<uint8_t*>(at);
    // The kernel changes the protection of large pages much faster; it splits those of which
    // only a part is protected. Without them everything only takes longer.
    (void)madvise(at, size, MADV_HUGEPAGE);
  }
  ~Arena() { munmap(base_, size_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // An image's place: 4 bytes into a page, as behind a varlena's length.
  uint8_t* Allocate(size_t size) {
    uint8_t* at = base_ + used_ + 4;
    used_ += (size + 4 + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (used_ > size_) {
      std::fprintf(stderr, "the arena is too small\n");
      std::exit(2);
    }
    return at;
  }
  // Gives all back; the pages are zero again.
  void Reset() {
    madvise(base_, used_, MADV_DONTNEED);
    used_ = 0;
  }
  uint8_t* base() const { return base_; }
  size_t used() const { return used_; }

 private:
  uint8_t* base_;
  size_t size_;
  size_t used_ = 0;
};

// `prepare` makes what `run` works on, without being measured. `pure`: run() writes nothing
// but `out` and scratch.
struct Case {
  std::string name;
  bool pure;
  std::function<void()> prepare;
  std::function<void()> run;
};

// What a pure case leaves: compared after abandoned calls.
struct Output {
  uint8_t* bytes;
  size_t size;
};

inline uint64_t Mixed(uint64_t key) { return Derived(key * kGolden, 7); }

class Subject {
 public:
  // Full images get `keys` keys, exact ones so many hashes (at most what may be exact).
  // Of filters that grow, full ones have `growing_bytes` at least.
  Subject(const Shape& shape, uint64_t keys, uint64_t hashes, Arena* arena,
          uint64_t growing_bytes = uint64_t{18} << 20)
      : shape_(shape), method_(*MethodByCode(shape.method)), arena_(arena) {
    body_bytes_ = shape.bytes;
    if (method_.growth != nullptr) {
      uint64_t room = keys;
      const auto bytes_for = [&] { return method_.growth->bytes_for(shape, room); };
      while ((body_bytes_ = bytes_for()) < growing_bytes) room += room / 8 + 1;
      start_ = method_.growth->start(body_bytes_);
      grown_keys_ = method_.growth->limit(shape, start_) + 1;
    }
    const ExactOrder order = method_.exact_order(shape);
    const bool counted = method_.counts();
    n_ = hashes < ExactLimit(method_, shape, order) ? hashes : ExactLimit(method_, shape, order);
    exact_size_ = kHeaderBytes + EntryBytes(counted) * n_;
    full_size_ = kHeaderBytes + body_bytes_;
    working_exact_size_ = WorkingExactBytes(n_ + 128, order, counted);
    working_full_size_ = WorkingFullBytes(body_bytes_);
    const uint64_t stated = StateLimit(method_, shape, order);
    room_ = n_ + 128 < stated ? n_ + 128 : stated;

    exact_ = MakeExact(0);
    other_exact_ = MakeExact(1);
    exact_header_ = HeaderOf(exact_, exact_size_);
    other_exact_header_ = HeaderOf(other_exact_, exact_size_);
    full_ = MakeFull(keys, 0, &full_header_);
    other_full_ = MakeFull(keys, keys / 2, &other_full_header_);
    working_exact_ = arena->Allocate(working_exact_size_);
    (void)MakeWorking(exact_, exact_header_, {Form::kWorkingExact, room_}, working_exact_);
    working_exact_header_ = HeaderOf(working_exact_, working_exact_size_);
    working_full_ = arena->Allocate(working_full_size_);
    (void)MakeWorking(full_, full_header_, {Form::kWorkingFull, 0}, working_full_);
    working_full_header_ = HeaderOf(working_full_, working_full_size_);

    const MergeBytes needs = MergeNeeds(exact_header_, other_exact_header_);
    inputs_ = arena->used();
    out_size_ = full_size_;
    // Of one that grows: a body of twice the keys.
    if (method_.growth != nullptr) {
      out_size_ = WorkingFullBytes(method_.growth->bytes_for(shape, 2 * grown_keys_)) + kLineBytes;
    }
    for (size_t size : {needs.out, working_full_size_ + kLineBytes, working_exact_size_,
                        exact_size_ + 16 * (n_ + 1), EntryBytes(true) * n_ + kHeaderBytes}) {
      if (size > out_size_) out_size_ = size;
    }
    out_ = arena->Allocate(out_size_);
    scratch_size_ = needs.scratch > body_bytes_ ? needs.scratch : body_bytes_;
    scratch_ = arena->Allocate(scratch_size_);
  }

  // The bytes of the arena that pure cases only read, and where they write.
  size_t inputs() const { return inputs_; }
  Output output() const { return {out_, out_size_}; }

  std::vector<Case> Cases() {
    std::vector<Case> cases;
    const auto pure = [&](const char* name, std::function<void()> run) {
      cases.push_back({name, true, [] {}, std::move(run)});
    };
    const auto changing = [&](const char* name, std::function<void()> prepare,
                              std::function<void()> run) {
      cases.push_back({name, false, std::move(prepare), std::move(run)});
    };
    // ---- canonical bytes, and bytes from outside
    pure("Validate exact", [this] { Keep(Validate(exact_, exact_size_, &header_)); });
    pure("Validate full", [this] { Keep(Validate(full_, FullSize(full_header_), &header_)); });
    pure("WriteCanonical exact", [this] { WriteCanonical(exact_, exact_header_, out_); });
    pure("WriteCanonical working exact",
         [this] { WriteCanonical(working_exact_, working_exact_header_, out_); });
    pure("WriteCanonical full", [this] { WriteCanonical(full_, full_header_, out_); });
    pure("WriteCanonical working full",
         [this] { WriteCanonical(working_full_, working_full_header_, out_); });
    // ---- growing
    pure("MakeWorking exact", [this] {
      Keep(MakeWorking(exact_, exact_header_, {Form::kWorkingExact, room_}, out_));
    });
    pure("MakeWorking working exact", [this] {
      Keep(MakeWorking(working_exact_, working_exact_header_, {Form::kWorkingExact, room_}, out_));
    });
    pure("MakeWorking exact to full", [this] {
      Keep(MakeWorking(exact_, exact_header_, {Form::kWorkingFull, 0}, out_));
    });
    pure("MakeWorking full", [this] {
      Keep(MakeWorking(full_, full_header_, {Form::kWorkingFull, 0}, out_));
    });
    if (method_.growth != nullptr) {
      for (uint64_t times : {1, 2}) {
        pure(times == 1 ? "MakeWorking full by a step" : "MakeWorking full of twice the keys",
             [=, this] {
               Keep(MakeWorking(full_, full_header_, {Form::kWorkingFull, times * grown_keys_},
                                out_));
             });
      }
    }
    // ---- one key into a value, and out of one
    const uint64_t there = HashAt(exact_, n_ / 2, EntryBytes(method_.counts()));
    const uint64_t absent = Mixed(uint64_t{1} << 60);
    pure("AddTo exact", [=, this] { Keep(AddTo(exact_, exact_header_, absent, out_)); });
    pure("AddTo exact again", [=, this] { Keep(AddTo(exact_, exact_header_, there, out_)); });
    pure("AddTo full", [=, this] { Keep(AddTo(full_, full_header_, absent, out_)); });
    if (method_.can_forget(shape_)) {
      pure("ForgetFrom exact", [=, this] { Keep(ForgetFrom(exact_, exact_header_, there, out_)); });
      pure("ForgetFrom full", [=, this] { Keep(ForgetFrom(full_, full_header_, Mixed(0), out_)); });
      changing(
          "forget the last key",
          [this] {
            CopyFull(Counters{1, full_header_.counters.state});
          },
          [this] { Keep(method_.forget(shape_, &counters_, out_ + kHeaderBytes, Mixed(1))); });
    }
    // ---- asking
    pure("Contains exact", [=, this] { Keep(Contains(exact_, exact_header_, absent)); });
    pure("ContainsAll exact", [this] {
      Ask(exact_, exact_header_, exact_header_.order() == ExactOrder::kSorted ? kAsked : 16);
    });
    pure("ContainsAll working exact",
         [this] { Ask(working_exact_, working_exact_header_, kAsked); });
    pure("ContainsAll full", [this] { Ask(full_, full_header_, kAsked); });
    pure("Read exact", [this] { Keep(Read(exact_, exact_header_).count); });
    pure("Read full", [this] { Keep(Read(full_, full_header_).count); });
    if (method_.counts()) {
      pure("FrequencyOf", [=, this] {
        Keep(FrequencyOf(exact_, exact_header_, absent).count +
             FrequencyOf(full_, full_header_, absent).count);
      });
      pure("TotalOf", [this] {
        Keep(TotalOf(exact_, exact_header_) + TotalOf(working_exact_, working_exact_header_));
      });
    }
    // ---- merges
    if (method_.merge != nullptr) {
      pure("MergeTo exact exact", [this] {
        Keep(MergeTo(exact_, exact_header_, other_exact_, other_exact_header_, out_, scratch_));
      });
      pure("MergeTo working exact exact", [this] {
        // The scratch that this takes depends on the forms.
        if (MergeNeeds(working_exact_header_, other_exact_header_).scratch > scratch_size_) return;
        Keep(MergeTo(working_exact_, working_exact_header_, other_exact_, other_exact_header_, out_,
                     scratch_));
      });
      pure("MergeTo exact exact past a limit", [this] {
        Keep(MergeTo(exact_, exact_header_, other_exact_, other_exact_header_, n_, out_, scratch_));
      });
      pure("MergeTo full exact",
           [this] { Keep(MergeTo(full_, full_header_, exact_, exact_header_, out_, scratch_)); });
      pure("MergeTo exact full",
           [this] { Keep(MergeTo(exact_, exact_header_, full_, full_header_, out_, scratch_)); });
      pure("MergeTo full full", [this] {
        Keep(MergeTo(full_, full_header_, other_full_, other_full_header_, out_, scratch_));
      });
      changing(
          "MergeInPlace full", [this] { CopyWorking(); },
          [this] { Keep(MergeInPlace(out_, &header_, other_full_, other_full_header_)); });
      changing(
          "MergeInPlace exact", [this] { CopyWorking(); },
          [this] { Keep(MergeInPlace(out_, &header_, exact_, exact_header_)); });
    }
    const Shape less = Reduced();
    if (Reducible(full_header_, less)) {
      pure("ReduceTo exact", [=, this] { ReduceTo(exact_, exact_header_, less, out_); });
      pure("ReduceTo full", [=, this] { ReduceTo(full_, full_header_, less, out_); });
    }
    if (MergesToPlain(full_header_, other_full_header_, less)) {
      const uint64_t keys = full_header_.counters.count + other_full_header_.counters.count;
      const uint32_t bytes = PlainBytes(full_header_, less, keys);
      pure("PlainKeys", [=, this] {
        Keep(PlainKeys(full_, full_header_, other_full_, other_full_header_, less));
      });
      pure("MergeToPlain", [=, this] {
        Keep(MergeToPlain(full_, full_header_, other_full_, other_full_header_, less, bytes, out_));
      });
    }
    // ---- working images
    changing(
        "TakeOver exact to exact",
        [this] {
          const Step step = {Form::kWorkingExact, room_};
          Keep(MakeWorking(exact_, exact_header_, step, out_));
          header_ = HeaderOf(out_, out_size_);
        },
        [this] { TakeOverAll(); });
    changing(
        "TakeOver exact to full", [this] { CopyWorking(); }, [this] { TakeOverAll(); });
    changing(
        "Align",
        [this] {
          std::memmove(out_ + 8, working_full_, working_full_size_);
          header_ = working_full_header_;
        },
        [this] { Align(out_ + 8, &header_); });
    changing(
        "Defer and Settle", [this] { CopyWorking(); },
        [this] {
          for (uint64_t i = 0; i + 1 < kMaxDeferred; ++i) Keep(Defer(out_, &header_, Fresh(i)));
          Keep(Settle(out_, &header_));
        });
    changing(
        "TestAndAdd exact",
        [this] {
          std::memcpy(out_, working_exact_, working_exact_size_);
          header_ = working_exact_header_;
        },
        [this] {
          for (uint64_t i = 0; i < 64; ++i) Keep(TestAndAdd(out_, &header_, Fresh(i)));
        });
    // ---- keys that sweep the whole body: those that find the counters at their end
    Counters last = full_header_.counters;
    last.count = LargestCount(last.state);
    for (const char* name : {"test_and_add", "insert"}) {
      const bool asks = name[0] == 't';
      changing(
          name, [=, this] { CopyFull(last); },
          [=, this] {
            uint64_t hashes[kKeysBetweenPauses];
            for (uint64_t i = 0; i < kKeysBetweenPauses; ++i) hashes[i] = Fresh(i);
            Keep((asks ? method_.test_and_add(shape_, &counters_, out_ + kHeaderBytes, hashes,
                                              kKeysBetweenPauses, nullptr)
                       : method_.insert(shape_, &counters_, out_ + kHeaderBytes, hashes,
                                        kKeysBetweenPauses)));
          });
    }
    return cases;
  }

 private:
  static constexpr size_t kAsked = 4096;

  template <typename T>
  static void Keep(T value) {
    volatile bool kept = value == T{};
    (void)kept;
  }
  static uint64_t Fresh(uint64_t i) { return Mixed((uint64_t{1} << 50) + i); }

  static Header HeaderOf(const uint8_t* image, size_t size) {
    Header header;
    const Flaw flaw = Check(image, size, &header);
    if (flaw != Flaw::kNone && flaw != Flaw::kSize) {
      std::fprintf(stderr, "an image of the test is none: %d\n", static_cast<int>(flaw));
      std::abort();
    }
    return header;
  }

  static size_t FullSize(const Header& header) { return kHeaderBytes + header.used_bytes(); }

  // Hashes over the whole range, of which lists 0 and 1 have each second one in common;
  // sorted, or in an order that jumps.
  uint8_t* MakeExact(uint64_t list) {
    uint8_t* image = arena_->Allocate(exact_size_);
    const bool counted = method_.counts();
    const bool sorted = method_.exact_order(shape_) == ExactOrder::kSorted;
    const uint64_t step = ~uint64_t{0} / (n_ > 0 ? n_ : 1);
    uint8_t* to = image + kHeaderBytes;
    uint64_t jump = n_ / 3 * 2 + 1;
    while (Gcd(jump, n_) > 1) jump += 2;
    for (uint64_t i = 0, at = 0; i < n_; ++i, at = (at + jump) % n_) {
      const uint64_t place = sorted ? i : at;
      const uint64_t hash = place * step + FastRange(Mixed(place * 2 + place % 2 * list), step);
      StoreU64(to, hash);
      if (counted) StoreU64(to + 8, 1 + i % 3);
      to += EntryBytes(counted);
    }
    WriteHeader(image, shape_, Form::kExact, Counters{n_, 0});
    Seal(image, exact_size_);
    return image;
  }

  static uint64_t Gcd(uint64_t a, uint64_t b) { return b == 0 ? a : Gcd(b, a % b); }

  uint8_t* MakeFull(uint64_t keys, uint64_t from, Header* header) {
    uint8_t* image = arena_->Allocate(full_size_);
    Counters counters = start_;
    uint64_t hashes[kKeysBetweenPauses];
    for (uint64_t key = 0; key < keys; key += kKeysBetweenPauses) {
      for (uint64_t i = 0; i < kKeysBetweenPauses; ++i) hashes[i] = Mixed(from + key + i);
      if (method_.test_and_add(shape_, &counters, image + kHeaderBytes, hashes, kKeysBetweenPauses,
                               nullptr) < kKeysBetweenPauses) {
        break;
      }
    }
    WriteHeader(image, shape_, Form::kFull, counters);
    *header = HeaderOf(image, full_size_);
    Seal(image, FullSize(*header));
    header->checksum = LoadU64(image + kChecksumAt);
    return image;
  }

  // The largest count that the method accepts, or what there is if it accepts any.
  uint64_t LargestCount(uint32_t state) const {
    uint64_t low = full_header_.counters.count, high = uint64_t{1} << 62;
    if (method_.valid(shape_, Counters{high, state})) return low;
    while (high - low > 1) {
      const uint64_t middle = low + (high - low) / 2;
      (method_.valid(shape_, Counters{middle, state}) ? low : high) = middle;
    }
    return low;
  }

  // A shape to which this one may be reduced: of half the body.
  Shape Reduced() const {
    Shape less = shape_;
    if (method_.reducible == nullptr) return less;
    Request request;
    if (method_.growth == nullptr) request.memory = shape_.bytes / 2;
    if (method_.has_rate()) request.fpr = shape_.fpr;
    (void)PlanFilter(method_, request, shape_.seed, &less);
    return less;
  }

  void CopyFull(const Counters& counters) {
    std::memcpy(out_, full_, full_size_);
    counters_ = counters;
  }
  void CopyWorking() {
    // To the same place within a line: nothing has to be aligned again.
    Keep(MakeWorking(full_, full_header_, {Form::kWorkingFull, 0}, out_));
    header_ = HeaderOf(out_, out_size_);
  }
  void TakeOverAll() {
    bool taken = true;
    ForEachEntry(other_exact_, other_exact_header_, [&](uint64_t hash, uint64_t count) {
      if (!taken) return;
      const Outcome outcome = TakeOver(out_, &header_, hash, count);
      taken = outcome == Outcome::kNew || outcome == Outcome::kSeen;
    });
  }
  void Ask(const uint8_t* image, const Header& header, size_t n) {
    static uint64_t hashes[kAsked];
    static uint8_t seen[kAsked];
    for (size_t i = 0; i < n; ++i) hashes[i] = Mixed(i * 3);
    ContainsAll(image, header, hashes, n, seen);
  }

  Shape shape_;
  const Method& method_;
  Arena* arena_;
  uint64_t n_;
  uint64_t room_;
  uint32_t body_bytes_;
  Counters start_;           // of an empty body
  uint64_t grown_keys_ = 0;  // for which a body grows
  size_t exact_size_, full_size_, working_exact_size_, working_full_size_;
  uint8_t *exact_, *other_exact_, *full_, *other_full_, *working_exact_, *working_full_;
  Header exact_header_, other_exact_header_, full_header_, other_full_header_;
  Header working_exact_header_, working_full_header_;
  size_t inputs_;
  uint8_t *out_, *scratch_;
  size_t out_size_, scratch_size_;
  Header header_;
  Counters counters_;
};

}  // namespace dedup::pauses

#endif  // STREAMDEDUP_TEST_UNIT_PAUSE_CASES_HPP_
