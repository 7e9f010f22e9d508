// The method that is shipped for filters without a number of keys, as a design beside the others:
// through the core's filter layer, as the extension uses it.

#ifndef STREAMDEDUP_TEST_BENCH_GROWING_SHIPPED_HPP_
#define STREAMDEDUP_TEST_BENCH_GROWING_SHIPPED_HPP_

#if __has_include("core/methods/infini.hpp")
#define STREAMDEDUP_BENCH_HAS_SHIPPED 1

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "../measure.hpp"
#include "core/filter.hpp"
#include "core/registry.hpp"

namespace dedup::bench {

class Shipped {
 public:
  static constexpr const char* kName = "infini";

  explicit Shipped(double fpr) {
    Request request;
    request.fpr = fpr;
    Shape shape;
    Require(PlanFilter(infini::kMethod, request, 0, &shape) == PlanStatus::kOk);
    image_ = std::make_unique<Memory>(kHeaderBytes);
    WriteEmpty(shape, image_->data);
    Require(Check(image_->data, kHeaderBytes, &header_) == Flaw::kNone);
    Grow();
  }

  void Add(const uint64_t* hashes, size_t n, uint8_t* seen) {
    while (n > 0) {
      // A batch that fits goes to the method at once. One key alone, or the first that does not
      // fit, goes the way of all keys.
      size_t taken = 1;
      if (n > 1 && !header_.exact() && Room() > 0) {
        taken = Room() < n ? static_cast<size_t>(Room()) : n;
        Require(header_.method->test_and_add(header_.shape, &header_.counters,
                                             image_->data + header_.body_at(), hashes, taken,
                                             seen) == taken);
        WriteCounters(image_->data, header_.counters);
      } else {
        *seen = !AddOne(*hashes);
      }
      hashes += taken;
      seen += taken;
      n -= taken;
    }
  }

  void Contains(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    if (n == 1) {
      *seen = dedup::Contains(image_->data, header_, *hashes);
    } else {
      ContainsAll(image_->data, header_, hashes, n, seen);
    }
  }

  uint64_t Bytes() const { return CanonicalBytes(header_); }
  // New keys that are taken before it grows, or, if it cannot, while the rate is kept.
  uint64_t UntilGrowth() const {
    const uint64_t most = header_.method->growth->most_keys(header_.shape);
    const uint64_t room = Room(), kept = most > Keys() ? most - Keys() : 0;
    return room < kept ? room : kept;
  }
  // Bytes() after it has grown. ~0: it cannot grow.
  uint64_t NextBytes() const {
    if (!CanGrow()) return ~uint64_t{0};
    return kHeaderBytes + BodyBytesFor(header_, Keys() + Room() + 1);
  }

 private:
  uint64_t Keys() const { return header_.counters.count; }
  bool CanGrow() const { return header_.exact() || header_.used_bytes() < kMaxBodyBytes; }
  // New keys until a larger body is needed.
  uint64_t Room() const {
    const uint64_t limit = header_.exact()
                               ? header_.exact_limit()
                               : header_.method->growth->limit(header_.shape, header_.counters);
    return limit > Keys() ? limit - Keys() : 0;
  }

  bool AddOne(uint64_t hash) {
    const Outcome outcome = TestAndAdd(image_->data, &header_, hash);
    if (outcome == Outcome::kSeen) return false;
    if (outcome == Outcome::kNoRoom) {
      Grow();
      Require(AddNew(image_->data, &header_, hash));
    } else {
      Require(outcome == Outcome::kNew);
    }
    return true;
  }

  void Grow() {
    const Step step = NextStep(header_);
    const size_t size = StepBytes(header_, step);
    auto grown = std::make_unique<Memory>(size, false);
    Require(MakeWorking(image_->data, header_, step, grown->data));
    Require(Check(grown->data, size, &header_) == Flaw::kNone);
    image_ = std::move(grown);
  }

  static void Require(bool holds) {
    if (holds) return;
    std::fprintf(stderr, "infini: a step of the filter layer has failed\n");
    std::abort();
  }

  std::unique_ptr<Memory> image_;
  Header header_;
};

}  // namespace dedup::bench

#endif  // __has_include

#endif  // STREAMDEDUP_TEST_BENCH_GROWING_SHIPPED_HPP_
