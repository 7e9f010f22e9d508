// The lists of dsqf: each row's chain of buckets, and the ring of rows in order of their last
// access. Every link is checked against the number of its targets, and every walk is bounded, so
// that bits that are not valid lists do no harm.

#ifndef STREAMDEDUP_CORE_METHODS_DSQF_LISTS_HPP_
#define STREAMDEDUP_CORE_METHODS_DSQF_LISTS_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../packed.hpp"
#include "../pause.hpp"
#include "../random.hpp"
#include "quotient_signature.hpp"

namespace dedup::dsqf {

using quotient_signature::Form;

inline constexpr uint32_t kKUnit = 256;  // k is kept in 256ths

// Returns the bits of a link: one of `count` targets, or none.
inline constexpr unsigned LinkBits(uint64_t count) noexcept {
  return static_cast<unsigned>(std::bit_width(count));
}

inline constexpr uint64_t BucketsOf(uint64_t rows, uint32_t k256) noexcept {
  return rows * k256 / kKUnit;
}

inline uint64_t BitsOf(uint64_t rows, const Form& form, uint32_t k256) noexcept {
  const uint64_t buckets = BucketsOf(rows, k256);
  return rows * (LinkBits(buckets) + 2 * LinkBits(rows)) +
         buckets * (form.bits() + LinkBits(buckets));
}

// Returns the most rows that fit.
inline uint64_t RowsIn(uint64_t bytes, const Form& form, uint32_t k256, bool pow2) noexcept {
  uint64_t fit = 0;
  for (uint64_t step = uint64_t{1} << 31; step > 0; step >>= 1) {
    if (BitsOf(fit + step, form, k256) <= bytes * 8) fit += step;
  }
  return pow2 ? std::bit_floor(fit) : fit;
}

struct Detailed {
  uint64_t rows;
  uint32_t k256;
  Form form;
  bool pow2;

  static Detailed Of(uint64_t detail) noexcept {
    return {
        detail & 0xffffffffu,
        static_cast<uint32_t>(detail >> 32 & 0x7fff),
        {static_cast<unsigned>(detail >> 48 & 0x3f), static_cast<unsigned>(detail >> 54 & 0x3f)},
        (detail >> 60 & 1) != 0};
  }
};

inline uint64_t Detail(const Form& form, uint32_t k256, bool pow2, uint64_t rows) noexcept {
  return rows | uint64_t{k256} << 32 | uint64_t{form.r} << 48 | uint64_t{form.r_prime} << 54 |
         uint64_t{pow2} << 60;
}

struct Layout {
  Form form;
  uint64_t rows;
  uint64_t buckets;
  unsigned to_bucket;    // bits of a link to a bucket
  unsigned to_row;       // bits of a link to a row
  unsigned row_bits;     // first bucket, older row, younger row
  unsigned code_bits;    // of a signature
  unsigned bucket_bits;  // signature, next bucket
  uint64_t buckets_at;   // first bit of the buckets
  uint64_t longest;      // the most buckets of a chain that are searched
};

// A chain has each signature once, and k buckets on average; few rows have more than 8 k. A chain
// becomes longer than this limit only by repeats of some of its keys, or by bits that no keys have
// made. Its older buckets are then not found any more. So a key costs no more than this many steps,
// and a merge no more than this many steps for each bucket.
inline constexpr uint64_t kLongest = 1024;

inline Layout LayoutOf(const Shape& shape) noexcept {
  const Detailed detail = Detailed::Of(shape.detail);
  Layout layout;
  layout.form = detail.form;
  layout.rows = detail.rows;
  layout.buckets = BucketsOf(detail.rows, detail.k256);
  layout.to_bucket = LinkBits(layout.buckets);
  layout.to_row = LinkBits(layout.rows);
  layout.row_bits = layout.to_bucket + 2 * layout.to_row;
  layout.code_bits = layout.form.bits();
  layout.bucket_bits = layout.code_bits + layout.to_bucket;
  layout.buckets_at = layout.rows * layout.row_bits;
  const uint64_t signatures = uint64_t{layout.form.others() + 1} << layout.form.r_prime;
  layout.longest = layout.buckets < signatures ? layout.buckets : signatures;
  if (layout.longest > kLongest) layout.longest = kLongest;
  return layout;
}

// A body as lists. Link 0 is none, and links out of range are read as none.
template <typename Byte>
class Lists {
 public:
  Lists(const Layout& layout, Byte* body, size_t bytes) noexcept
      : layout_(layout), body_(body), bytes_(bytes) {}

  const Layout& layout() const noexcept { return layout_; }

  uint64_t First(uint64_t row) const noexcept {
    return Bounded(Load(row * layout_.row_bits, layout_.to_bucket), layout_.buckets);
  }
  uint64_t Older(uint64_t row) const noexcept {
    return Bounded(Load(OlderAt(row), layout_.to_row), layout_.rows);
  }
  uint64_t Younger(uint64_t row) const noexcept {
    return Bounded(Load(OlderAt(row) + layout_.to_row, layout_.to_row), layout_.rows);
  }
  uint64_t Code(uint64_t bucket) const noexcept {
    return Load(BucketAt(bucket), layout_.code_bits);
  }
  uint64_t Next(uint64_t bucket) const noexcept {
    return Bounded(Load(BucketAt(bucket) + layout_.code_bits, layout_.to_bucket), layout_.buckets);
  }

  // Returns whether a row's bits are those of a row without buckets.
  bool Clear(uint64_t row) const noexcept {
    return First(row) == 0 && Load(OlderAt(row), layout_.to_row) == 0 &&
           Load(OlderAt(row) + layout_.to_row, layout_.to_row) == 0;
  }

  void SetFirst(uint64_t row, uint64_t link) noexcept {
    Store(row * layout_.row_bits, layout_.to_bucket, link);
  }
  void SetOlder(uint64_t row, uint64_t link) noexcept { Store(OlderAt(row), layout_.to_row, link); }
  void SetYounger(uint64_t row, uint64_t link) noexcept {
    Store(OlderAt(row) + layout_.to_row, layout_.to_row, link);
  }
  void SetCode(uint64_t bucket, uint64_t code) noexcept {
    Store(BucketAt(bucket), layout_.code_bits, code);
  }
  void SetNext(uint64_t bucket, uint64_t link) noexcept {
    Store(BucketAt(bucket) + layout_.code_bits, layout_.to_bucket, link);
  }

  // Returns whether the searched part of the chain from this link on has the signature.
  bool Find(uint64_t link, uint64_t code) const noexcept {
    for (uint64_t left = layout_.longest; link != 0 && left > 0; --left) {
      if (Code(link - 1) == code) return true;
      link = Next(link - 1);
    }
    return false;
  }

  DEDUP_ALWAYS_INLINE void FetchRow(uint64_t row) const noexcept {
    const uint64_t bit = row * layout_.row_bits;
    PrefetchToWrite(body_ + bit / 8);
    PrefetchToWrite(body_ + (bit + layout_.row_bits - 1) / 8);
  }
  DEDUP_ALWAYS_INLINE void FetchBucket(uint64_t link) const noexcept {
    if (link != 0) PrefetchToWrite(body_ + BucketAt(link - 1) / 8);
  }
  DEDUP_ALWAYS_INLINE void FetchFirst(uint64_t row) const noexcept { FetchBucket(First(row)); }
  DEDUP_ALWAYS_INLINE void FetchNeighbours(uint64_t row) const noexcept {
    const uint64_t older = Older(row), younger = Younger(row);
    if (older != 0) FetchRow(older - 1);
    if (younger != 0) FetchRow(younger - 1);
  }
  // To be called after the first bucket has arrived.
  DEDUP_ALWAYS_INLINE void FetchSecond(uint64_t row) const noexcept {
    const uint64_t first = First(row);
    if (first != 0) FetchBucket(Next(first - 1));
  }

 private:
  static uint64_t Bounded(uint64_t link, uint64_t count) noexcept {
    return link <= count ? link : 0;
  }
  uint64_t OlderAt(uint64_t row) const noexcept {
    return row * layout_.row_bits + layout_.to_bucket;
  }
  uint64_t BucketAt(uint64_t bucket) const noexcept {
    return layout_.buckets_at + bucket * layout_.bucket_bits;
  }
  uint64_t Load(uint64_t bit, unsigned width) const noexcept {
    return LoadField(body_, bytes_, bit, width);
  }
  void Store(uint64_t bit, unsigned width, uint64_t value) noexcept {
    StoreField(body_, bytes_, bit, width, value);
  }

  const Layout layout_;
  Byte* body_;
  size_t bytes_;
};

// ---- the ring of rows ---------------------------------------------------------

// Puts a row that is in no ring in front of the ring. `youngest` is the link to the youngest row.
inline void PutInFront(Lists<uint8_t>& lists, uint32_t* youngest, uint64_t row) noexcept {
  const uint64_t link = row + 1;
  const uint64_t before = *youngest;
  const uint64_t oldest = before == 0 ? 0 : lists.Younger(before - 1);
  if (oldest == 0) {
    lists.SetOlder(row, link);
    lists.SetYounger(row, link);
  } else {
    lists.SetOlder(row, before);
    lists.SetYounger(row, oldest);
    lists.SetYounger(before - 1, link);
    lists.SetOlder(oldest - 1, link);
  }
  *youngest = static_cast<uint32_t>(link);
}

// Makes a row of the ring the youngest.
inline void Touch(Lists<uint8_t>& lists, uint32_t* youngest, uint64_t row) noexcept {
  if (*youngest == row + 1 || *youngest == 0) return;
  const uint64_t older = lists.Older(row), younger = lists.Younger(row);
  if (older == *youngest) {  // it is the oldest, so the ring turns by one
    *youngest = static_cast<uint32_t>(row + 1);
    return;
  }
  if (older == 0 || younger == 0) return;
  lists.SetYounger(older - 1, younger);
  lists.SetOlder(younger - 1, older);
  PutInFront(lists, youngest, row);
}

// Takes a row out of the ring and clears it.
inline void TakeOut(Lists<uint8_t>& lists, uint32_t* youngest, uint64_t row) noexcept {
  const uint64_t older = lists.Older(row), younger = lists.Younger(row);
  if (older != 0 && younger != 0) {
    lists.SetYounger(older - 1, younger);
    lists.SetOlder(younger - 1, older);
  }
  if (*youngest == row + 1) *youngest = static_cast<uint32_t>(older == row + 1 ? 0 : older);
  lists.SetFirst(row, 0);
  lists.SetOlder(row, 0);
  lists.SetYounger(row, 0);
}

// ---- buckets --------------------------------------------------------------------

// Takes a random bucket out of a row's chain. Returns its link, or 0 if there is none.
inline uint64_t Unchain(Lists<uint8_t>& lists, StepRandom random, uint64_t row) noexcept {
  const uint64_t first = lists.First(row);
  uint64_t length = 0;
  for (uint64_t link = first; link != 0 && length < lists.layout().longest; ++length) {
    link = lists.Next(link - 1);
  }
  if (length == 0) return 0;
  uint64_t skip = length == 1 ? 0 : random.Below(length);
  if (skip == 0) {
    lists.SetFirst(row, lists.Next(first - 1));
    return first;
  }
  uint64_t before = first;
  for (; skip > 1; --skip) before = lists.Next(before - 1);
  const uint64_t bucket = lists.Next(before - 1);
  lists.SetNext(before - 1, lists.Next(bucket - 1));
  return bucket;
}

// Puts a bucket with this signature first in a row.
inline void Chain(Lists<uint8_t>& lists, uint64_t bucket, uint64_t row, uint64_t code) noexcept {
  lists.SetCode(bucket, code);
  lists.SetNext(bucket, lists.First(row));
  lists.SetFirst(row, bucket + 1);
}

// Returns the link of a bucket for one more signature: from the pool, or one that the oldest row
// gives up. Returns 0 if the ring is not valid.
inline uint64_t BucketFor(Lists<uint8_t>& lists, uint64_t seed, uint32_t* youngest,
                          uint64_t count) noexcept {
  if (count < lists.layout().buckets) return count + 1;
  if (*youngest == 0) return 0;
  const uint64_t oldest = lists.Younger(*youngest - 1);
  if (oldest == 0) return 0;
  const uint64_t bucket = Unchain(lists, StepRandom(seed, count), oldest - 1);
  if (bucket == 0) return 0;
  // The row after the oldest one is next: prefetch its buckets.
  const uint64_t next = lists.Younger(oldest - 1);
  if (lists.First(oldest - 1) != 0) {
    if (next != 0) lists.FetchSecond(next - 1);
    return bucket;
  }
  TakeOut(lists, youngest, oldest - 1);
  if (next != 0) {
    const uint64_t after = lists.Younger(next - 1);
    if (after != 0) {
      lists.FetchFirst(after - 1);
      lists.FetchNeighbours(after - 1);
    }
  }
  return bucket;
}

// Counts a bucket that was taken. Once there is a bucket, the count never becomes 0 again.
inline void CountOne(Counters* counters) noexcept {
  if (counters->count != ~uint64_t{0}) ++counters->count;
}

// Adds a signature that its row does not have. The row is the youngest, unless it is empty.
inline void Add(Lists<uint8_t>& lists, uint64_t seed, Counters* counters, uint64_t row,
                uint64_t code) noexcept {
  const uint64_t bucket = BucketFor(lists, seed, &counters->state, counters->count);
  CountOne(counters);
  if (bucket == 0) return;
  const bool was_empty = lists.First(row) == 0;
  Chain(lists, bucket - 1, row, code);
  if (was_empty || counters->state == 0) PutInFront(lists, &counters->state, row);
}

// ---- whole bodies ---------------------------------------------------------------

// Returns the number of rows in the ring.
template <typename Byte>
inline uint64_t RingRows(const Lists<Byte>& lists, uint32_t youngest) noexcept {
  uint64_t count = 0, steps = 0;
  for (uint64_t link = youngest; link != 0 && count < lists.layout().rows;) {
    PauseEvery<kStepsBetweenPauses>(&steps);
    ++count;
    link = lists.Younger(link - 1);
    if (link == youngest) break;
  }
  return count;
}

// Adds the signatures of another filter, whose youngest row is `from_youngest`. The rows of both
// filters take turns by age rank, from the oldest to the youngest. Each row is put in front of a
// new ring and takes over the other filter's signatures for it. A row of both filters is moved at
// the second of its turns. So buckets are always given up by the oldest of all rows.
//
// Rows of this filter that are not in the new ring yet stay chained by their links to the younger
// row. They are marked by their link to the older row: it is none, or, after the first turn of a
// row of both filters, the row itself.
inline void Interleave(Lists<uint8_t>& lists, uint64_t seed, Counters* counters,
                       const Lists<const uint8_t>& from, uint32_t from_youngest,
                       const Weights& weights) noexcept {
  uint64_t own_left = RingRows(lists, counters->state);
  uint64_t from_left = RingRows(from, from_youngest);
  if (from_left == 0) return;
  uint64_t own = counters->state == 0 ? 0 : lists.Younger(counters->state - 1);
  uint64_t theirs = from.Younger(from_youngest - 1);
  uint64_t link = own, steps = 0;
  for (uint64_t i = 0; i < own_left && link != 0; ++i) {
    PauseEvery<kStepsBetweenPauses>(&steps);
    lists.SetOlder(link - 1, 0);
    link = lists.Younger(link - 1);
  }
  uint32_t youngest = 0;  // of the new ring
  // Chains that run into each other would have more.
  uint64_t buckets_left = from.layout().buckets;
  const auto waits = [&](uint64_t row) {
    const uint64_t older = lists.Older(row);
    return lists.First(row) != 0 && (older == 0 || (older == row + 1 && youngest != row + 1));
  };
  const auto take_over = [&](uint64_t row, uint64_t code) {
    PauseEvery<kKeysBetweenPauses>(&steps);
    if (lists.Find(lists.First(row), code)) return;
    // There is no bucket left and no row in the ring, so this row is the oldest of all.
    const uint64_t bucket = BucketFor(lists, seed, &youngest, counters->count);
    if (bucket == 0) return;
    CountOne(counters);
    const bool enters = lists.First(row) == 0;
    Chain(lists, bucket - 1, row, code);
    if (enters) PutInFront(lists, &youngest, row);
  };
  const auto turn = [&](uint64_t row) {
    uint64_t bucket = from.First(row);
    if (waits(row)) {
      if (bucket != 0 && lists.Older(row) == 0) {
        lists.SetOlder(row, row + 1);
        return;
      }
      PutInFront(lists, &youngest, row);
    }
    for (uint64_t i = 0; i < from.layout().longest && bucket != 0 && buckets_left > 0; ++i) {
      --buckets_left;
      take_over(row, from.Code(bucket - 1));
      bucket = from.Next(bucket - 1);
    }
  };
  while (own_left > 0 || from_left > 0) {
    PauseEvery<kKeysBetweenPauses>(&steps);
    // The n-th youngest row of a filter is as old as n divided by the filter's weight. The older
    // row comes first.
    if (from_left == 0 || (own_left > 0 && own_left * weights.right > from_left * weights.left)) {
      --own_left;
      if (own == 0) continue;
      const uint64_t row = own - 1;
      own = lists.Younger(row);
      turn(row);
    } else {
      --from_left;
      if (theirs == 0) continue;
      const uint64_t row = theirs - 1;
      theirs = from.Younger(row);
      turn(row);
    }
  }
  // In valid lists there is a youngest row if there was any key.
  counters->state = counters->count == 0 ? 0 : (youngest == 0 ? 1 : youngest);
}

// Returns whether keys can have made these lists.
inline bool HoldTogether(const Lists<const uint8_t>& lists, const Counters& counters) noexcept {
  const Layout& layout = lists.layout();
  const uint64_t used = counters.count < layout.buckets ? counters.count : layout.buckets;
  // Links that agree in both directions pass each row once. So these are all rows with buckets if
  // their number is the same.
  uint64_t ring = 0, steps = 0;
  if (counters.state != 0) {
    uint64_t row = counters.state - 1;
    do {
      PauseEvery<kStepsBetweenPauses>(&steps);
      const uint64_t next = lists.Younger(row);
      if (next == 0 || lists.Older(next - 1) != row + 1 || lists.First(row) == 0) return false;
      row = next - 1;
    } while (++ring < layout.rows && row + 1 != counters.state);
    if (row + 1 != counters.state) return false;
  }
  // The chains pass as many buckets as are in use. The sum of a hash of their numbers shows that
  // these are the used buckets, each once.
  uint64_t passed = 0, mixes = 0;
  for (uint64_t row = 0; row < layout.rows; ++row) {
    PauseEvery<kStepsBetweenPauses>(&steps);
    uint64_t link = lists.First(row);
    if (link == 0) {
      if (!lists.Clear(row)) return false;
      continue;
    }
    if (ring-- == 0) return false;
    for (; link != 0; link = lists.Next(link - 1)) {
      if (++passed > used) return false;
      PauseEvery<kStepsBetweenPauses>(&steps);
      mixes += Derived(link, 0);
    }
  }
  ForPieces(used, kPieceBytes, [&](uint64_t from, uint64_t to) {
    for (uint64_t bucket = from; bucket < to; ++bucket) mixes -= Derived(bucket + 1, 0);
  });
  return ring == 0 && passed == used && mixes == 0;
}

}  // namespace dedup::dsqf

#endif  // STREAMDEDUP_CORE_METHODS_DSQF_LISTS_HPP_
