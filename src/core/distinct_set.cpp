// Growing a set and its links: the functions of distinct_set.hpp that are not inlined.

#include "distinct_set.hpp"

#include <cmath>

#include "bytes.hpp"
#include "method.hpp"
#include "methods/blocked_bloom.hpp"
#include "pause.hpp"
#include "registry.hpp"

namespace dedup {

void DistinctSet::Start(uint64_t budget, double fpr) noexcept {
  *this = DistinctSet{};
  budget_ = budget;
  fpr_ = fpr;
  most_slots_ = budget / 2 / 8;
  if (most_slots_ > uint64_t{1} << 31) most_slots_ = uint64_t{1} << 31;
}

uint8_t* DistinctSet::Give(uint8_t* bytes) noexcept {
  uint8_t* old = nullptr;
  if (links_ > 0) {
    AddLink(bytes);
  } else if (GrownSlots() > slots_) {
    old = table_;
    const uint64_t old_slots = slots_;
    table_ = bytes;
    slots_ = GrownSlots();
    // Sizing the links takes some time. A table of a sixteenth of the budget always fits the first
    // link.
    if (planned_ == 0 && 8 * slots_ > budget_ / 16) PlanLinks();
    limit_ = slots_ - slots_ / 4;
    if (planned_ > 0 && limit_ > shapes_[0].keys) limit_ = shapes_[0].keys;
    // The slot of a hash is its scaled value, so both tables are passed in order of address.
    ForUnits(old_slots, 64, [&](uint64_t from, uint64_t to) {
      for (uint64_t slot = from; slot < to; ++slot) {
        const uint64_t hash = LoadU64(old + 8 * slot);
        if (hash != 0) Place(hash);
      }
    });
  } else {
    old = table_;
    AddLink(bytes);
    Pour(old);
    table_ = nullptr;
    slots_ = 0;
  }
  return old;
}

double DistinctSet::fpr() const noexcept {
  if (exact()) return std::ldexp(static_cast<double>(keys_), -64);
  double rate = 0;
  for (int i = 0; i < links_; ++i) {
    rate += blocked_bloom::ExpectedFpr(shapes_[i], static_cast<double>(link_keys_[i]));
  }
  return rate;
}

uint64_t DistinctSet::GrownSlots() const noexcept {
  if (slots_ == 0) return kFirstSlots;
  if (planned_ > 0 && limit_ == shapes_[0].keys) return slots_;
  if (2 * slots_ <= most_slots_) return 2 * slots_;
  return most_slots_ - slots_ >= slots_ / 2 ? most_slots_ : slots_;
}

void DistinctSet::PlanLinks() noexcept {
  uint64_t left = budget_, size = budget_ / 7;
  while (left >= kLineBytes && planned_ < kMaxLinks) {
    if (size > kMaxBodyBytes) size = kMaxBodyBytes;
    if (size > left || planned_ == kMaxLinks - 1) size = left;
    if (size > kMaxBodyBytes) size = kMaxBodyBytes;
    Request request;
    request.memory = size / kLineBytes * kLineBytes;
    request.fpr = fpr_ * static_cast<double>(size) / static_cast<double>(budget_);
    // A link that is too small for its share of the rate is left out.
    if (PlanFilter(blocked_bloom::kMethod, request, 0, &shapes_[planned_]) != PlanStatus::kOk ||
        shapes_[planned_].keys < 2 * kMaxBatch) {
      break;
    }
    ++planned_;
    left -= size;
    size *= 2;
  }
}

void DistinctSet::AddLink(uint8_t* body) noexcept {
  youngest_ = links_++;
  bodies_[youngest_] = body;
  link_keys_[youngest_] = 0;
}

void DistinctSet::Pour(const uint8_t* table) noexcept {
  uint64_t batch[kMaxBatch];
  size_t n = 0;
  Counters none;
  ForUnits(slots_, 64, [&](uint64_t from, uint64_t to) {
    for (uint64_t slot = from; slot < to; ++slot) {
      const uint64_t hash = LoadU64(table + 8 * slot);
      if (hash == 0) continue;
      batch[n++] = hash;
      if (n == kMaxBatch) {
        blocked_bloom::Insert(shapes_[0], &none, bodies_[0], batch, n);
        n = 0;
      }
    }
  });
  blocked_bloom::Insert(shapes_[0], &none, bodies_[0], batch, n);
  link_keys_[0] = keys_;
}

bool DistinctSet::GiveUpOldest() noexcept {
  const bool kept = given_up_ > 0;
  youngest_ = youngest_ + 1 == links_ ? 0 : youngest_ + 1;  // the oldest
  given_up_ += link_keys_[youngest_];
  ClearInPieces(bodies_[youngest_], shapes_[youngest_].bytes);
  link_keys_[youngest_] = 0;
  return kept;
}

size_t DistinctSet::AskOlderLinks(const uint64_t* hashes, size_t n, uint8_t* seen, uint64_t* left,
                                  uint8_t* place) const noexcept {
  uint8_t answer[kMaxBatch];
  Counters none;
  for (size_t i = 0; i < n; ++i) {
    left[i] = NotZero(hashes[i]);
    place[i] = static_cast<uint8_t>(i);
    seen[i] = 1;
  }
  for (int link = 0; link < links_ && n > 0; ++link) {
    if (link == youngest_) continue;
    blocked_bloom::Contains(shapes_[link], none, bodies_[link], left, n, answer);
    size_t still = 0;
    for (size_t i = 0; i < n; ++i) {
      left[still] = left[i];
      place[still] = place[i];
      still += answer[i] == 0;
    }
    n = still;
  }
  return n;
}

bool DistinctSet::TestLinks(const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  bool kept = true;
  if (link_keys_[youngest_] + n > shapes_[youngest_].keys) kept = GiveUpOldest();
  // The youngest link is queried for the keys that the other links do not hold, and takes them.
  uint64_t left[kMaxBatch];
  uint8_t place[kMaxBatch], answer[kMaxBatch];
  Counters none;
  n = AskOlderLinks(hashes, n, seen, left, place);
  blocked_bloom::TestAndAdd(shapes_[youngest_], &none, bodies_[youngest_], left, n, answer);
  for (size_t i = 0; i < n; ++i) {
    seen[place[i]] = answer[i];
    link_keys_[youngest_] += answer[i] == 0;
    keys_ += answer[i] == 0;
  }
  return kept;
}

}  // namespace dedup
