// Whole filters, filled the way filter.hpp says.

#ifndef STREAMDEDUP_TEST_UNIT_SUPPORT_FILTER_HPP_
#define STREAMDEDUP_TEST_UNIT_SUPPORT_FILTER_HPP_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/merge.hpp"
#include "methods.hpp"
#include "random.hpp"

namespace dedup::test {

// A filter in memory: an image in any form, and its header.
class Filter {
 public:
  explicit Filter(const Shape& shape) : image_(kHeaderBytes) {
    WriteEmpty(shape, image_.data());
    Recheck();
  }
  // From stored bytes, which must be accepted.
  explicit Filter(Bytes stored) : image_(std::move(stored)) {
    EXPECT_EQ(dedup::Validate(image_.data(), image_.size(), &header_), Flaw::kNone);
  }

  const Header& header() const { return header_; }
  const Bytes& image() const { return image_; }
  bool exact() const { return header_.exact(); }

  // Ends the exact form at other than its usual number of hashes.
  void SetLimit(uint64_t limit) { limit_ = limit; }

  // Test-and-add through the working forms; says whether the key was seen.
  bool Add(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    Settle();
    switch (TestAndAdd(image_.data(), &header_, hash)) {
      case Outcome::kNew:
        return false;
      case Outcome::kSeen:
        return true;
      case Outcome::kNoRoom:
        break;
      case Outcome::kFull:
        return Refuse();
    }
    if (!Grow(hash)) Refuse();
    return false;
  }

  // The same for several keys in turn.
  void AddAll(const std::vector<uint64_t>& hashes, std::vector<uint8_t>* seen) {
    seen->assign(hashes.size(), 2);
    for (size_t i = 0; i < hashes.size(); ++i) {
      if (header_.canonical()) MakeRoom();
      Settle();
      i += TestAndAddAll(image_.data(), &header_, hashes.data() + i, hashes.size() - i,
                         seen->data() + i);
      if (i < hashes.size()) (*seen)[i] = Add(hashes[i]);
    }
  }

  // How many keys found no room. Only filters that say "all" of what they remember
  // refuse keys.
  uint64_t refused() const { return refused_; }

  // The same where nobody waits for the answer: large filters take such keys in
  // batches, and every other call here puts them where they belong first.
  void AddDeferred(uint64_t hash) {
    if (header_.canonical()) MakeRoom();
    const Outcome outcome = Defer(image_.data(), &header_, hash);
    if (outcome == Outcome::kNoRoom) Add(hash);
    if (outcome == Outcome::kFull) Refuse();
  }
  // The same as aggregates do it: a key that follows another deferred one is only put on the list.
  void AddToList(uint64_t hash) {
    if (list_.TakesMoreOf(image_.data())) {
      list_.Add(image_.data(), hash);
      ASSERT_EQ(Check(image_.data(), image_.size(), &header_), Flaw::kNone);
      return;
    }
    AddDeferred(hash);
    list_ = header_.deferred() > 0 ? DeferredList(header_) : DeferredList();
  }
  void Settle() {
    if (!dedup::Settle(image_.data(), &header_)) Refuse();
  }

  // One key into a value: the whole image is written anew.
  void AddValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(AddToBytes(header_));
    const size_t size = AddTo(image_.data(), header_, hash, out.data());
    ASSERT_LE(size, out.size());
    if (size == 0) {
      Refuse();
      return;
    }
    Seal(out.data(), size);
    image_ = out.Prefix(size);
    Revalidate();
  }

  // One key out of a value. False: it is not there.
  bool ForgetValue(uint64_t hash) {
    MakeCanonical();
    Bytes out(ForgetBytes(header_));
    const size_t size = ForgetFrom(image_.data(), header_, hash, out.data());
    EXPECT_LE(size, out.size());
    if (size == 0) return false;
    Seal(out.data(), size);
    image_ = out.Prefix(size);
    Revalidate();
    return true;
  }

  bool Contains(uint64_t hash) const { return dedup::Contains(image_.data(), header_, hash); }
  Reading Read() const { return dedup::Read(image_.data(), header_); }

  Bytes Canonical() const {
    Bytes out(CanonicalBytes(header_));
    WriteCanonical(image_.data(), header_, out.data());
    return out;
  }

  void MakeCanonical() {
    if (header_.canonical()) return;
    image_ = Canonical();
    Revalidate();
  }

  // To the working form that holds what the filter holds.
  void MakeWorkingForm() {
    if (header_.canonical()) MakeRoom();
  }

  // The merge with another, as a new canonical filter; none if it would be full.
  std::optional<Filter> TryMerge(const Filter& other) const {
    const uint64_t limit = header_.exact_limit();
    const MergeBytes needs = MergeNeeds(header_, other.header_, limit);
    Bytes out(needs.out), scratch(needs.scratch);
    const size_t size = MergeTo(image_.data(), header_, other.image_.data(), other.header_, limit,
                                out.data(), scratch.data());
    EXPECT_LE(size, out.size());
    if (size == 0) {
      EXPECT_FALSE(header_.method->forgets(header_.shape)) << NameOf(header_.shape);
      return std::nullopt;
    }
    Seal(out.data(), size);
    return Filter(out.Prefix(size));
  }
  Filter MergedWith(const Filter& other) const {
    std::optional<Filter> merged = TryMerge(other);
    EXPECT_TRUE(merged.has_value()) << "full: " << NameOf(header_.shape);
    return merged.has_value() ? *merged : *this;
  }

  // Adds a key of another filter, as a merge does that takes keys one by one; where every
  // sight counts, so many sights of it.
  void AddTakenOver(uint64_t hash, uint64_t count = 1) {
    if (header_.canonical()) MakeRoom();
    Settle();
    const Outcome outcome = TakeOver(image_.data(), &header_, hash, count);
    if (outcome == Outcome::kFull) Refuse();
    if (outcome == Outcome::kNoRoom && !Grow(hash, count)) Refuse();
  }

  // Notes how many filters were merged into this one, which must be a working form.
  void SetParts(uint32_t parts) { dedup::SetParts(image_.data(), &header_, parts); }

  // Merges in place where that is possible.
  bool MergeInPlaceWith(const Filter& other) { return TryMergeInPlace(other) == Outcome::kNew; }
  Outcome TryMergeInPlace(const Filter& other) {
    return MergeInPlace(image_.data(), &header_, other.image_.data(), other.header_);
  }

 private:
  bool Refuse() {
    EXPECT_FALSE(header_.method->forgets(header_.shape)) << "full: " << NameOf(header_.shape);
    ++refused_;
    return false;
  }
  void MakeRoom() { EXPECT_TRUE(Grow()) << "full: " << NameOf(header_.shape); }
  // To the next working form, with one more key if one is given. False, with nothing
  // changed: the method cannot hold it.
  bool Grow(std::optional<uint64_t> hash = std::nullopt, uint64_t count = 1) {
    const uint64_t limit = limit_ == 0 ? header_.exact_limit() : limit_;
    const Step step = header_.canonical() ? FirstStep(header_, limit) : NextStep(header_, limit);
    Bytes grown(StepBytes(header_, step));
    if (!MakeWorking(image_.data(), header_, step, grown.data())) return false;
    Header header = {};
    EXPECT_EQ(dedup::Check(grown.data(), grown.size(), &header), Flaw::kNone);
    if (hash.has_value() && !AddNew(grown.data(), &header, *hash, count)) return false;
    image_ = std::move(grown);
    Recheck();
    return true;
  }
  void Recheck() { ASSERT_EQ(dedup::Check(image_.data(), image_.size(), &header_), Flaw::kNone); }
  void Revalidate() {
    ASSERT_EQ(dedup::Validate(image_.data(), image_.size(), &header_), Flaw::kNone);
  }

  Bytes image_;
  Header header_ = {};
  DeferredList list_;  // of AddToList()
  uint64_t limit_ = 0;
  uint64_t refused_ = 0;
};

// Whether two filters that took the same keys are the same. Of those that grow the bytes depend
// on the order in which exact hashes were replayed, but not what they hold.
inline bool Same(const Filter& a, const Filter& b) {
  if (a.header().method->growth == nullptr || a.exact() || b.exact()) {
    return a.Canonical() == b.Canonical();
  }
  return a.header().counters.count == b.header().counters.count &&
         a.header().counters.state == b.header().counters.state && a.Read().fpr == b.Read().fpr;
}

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_SUPPORT_FILTER_HPP_
