// A filter as a whole: exact while small, then its method. Every function works
// on an image (image.hpp) whose header the caller has read with Check(); images
// that are made are written into bytes the caller provides.
//
// To fill a filter:   MakeWorking, then TestAndAdd; on kNoRoom, MakeWorking into
//                     the NextStep()'s bytes and AddNew; last, WriteCanonical.
// To add one key to a value that must not change: AddTo.
// Where a filter can be full, each of these says so; a filter that could not take a
// key must not be used as if it had.
//
// Here is what runs once a key, and what takes a function of the caller; the rest is in
// filter.cpp.

#ifndef STREAMDEDUP_CORE_FILTER_HPP_
#define STREAMDEDUP_CORE_FILTER_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "bytes.hpp"
#include "exact.hpp"
#include "image.hpp"
#include "method.hpp"
#include "pause.hpp"

namespace dedup {

// ---- asking ---------------------------------------------------------------------

inline bool Contains(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  switch (header.form) {
    case Form::kExact:
      return FindCanonical(image, header, hash) != kNowhere;
    case Form::kWorkingExact:
      return WorkingExact(const_cast<uint8_t*>(image), header).Find(hash) != kNowhere;
    default: {
      uint8_t seen = 0;
      header.method->contains(header.shape, header.counters, image + header.body_at(), &hash, 1,
                              &seen);
      return seen != 0;
    }
  }
}

// The same for many hashes at once, seen[i] = 1 or 0: cheaper than one by one where the
// filter is larger than the caches. An exact image whose hashes are neither sorted nor
// indexed is searched from end to end for each.
inline void ContainsAll(const uint8_t* image, const Header& header, const uint64_t* hashes,
                        size_t n, uint8_t* seen) noexcept {
  if (!header.exact()) {
    ForKeys(n, [&](size_t from, size_t to) {
      header.method->contains(header.shape, header.counters, image + header.body_at(),
                              hashes + from, to - from, seen + from);
    });
    return;
  }
  if (header.form == Form::kExact) {
    ForKeys(n, [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        seen[i] = FindCanonical(image, header, hashes[i]) != kNowhere;
      }
    });
    return;
  }
  const WorkingExact exact(const_cast<uint8_t*>(image), header);
  constexpr size_t kAhead = 64;
  for (size_t i = 0; i < n && i < kAhead; ++i) exact.PrefetchIndex(hashes[i]);
  ForKeys(n, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (i + kAhead < n) exact.PrefetchIndex(hashes[i + kAhead]);
      seen[i] = exact.Find(hashes[i]) != kNowhere;
    }
  });
}

// How often a key was seen; of a method that tells frequencies. Exact while the filter is.
inline Frequency FrequencyOf(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  if (!header.exact()) {
    return header.method->frequency(header.shape, header.counters, image + header.body_at(), hash);
  }
  uint64_t count = 0;
  if (header.form == Form::kExact) {
    const uint64_t place = FindCanonical(image, header, hash);
    if (place != kNowhere) count = CountAt(image, place);
  } else {
    const WorkingExact exact(const_cast<uint8_t*>(image), header);
    const uint64_t place = exact.Find(hash);
    if (place != kNowhere) count = exact.count_at(place);
  }
  return {count, count >= kMaxCount};
}

// How many sights all counts together are, up to kMaxCount; of such a method.
uint64_t TotalOf(const uint8_t* image, const Header& header) noexcept;

// Estimated keys, and the rate at which a new key is called a duplicate now.
Reading Read(const uint8_t* image, const Header& header) noexcept;

// The rate to expect of a filter of a method that forgets, however long its stream is.
inline double SteadyFpr(const Method& method, const Shape& shape) noexcept {
  return method.expected_fpr(shape, static_cast<double>(kMaxKeys));
}

// Whether a filter holds more than it was sized for, beyond what the estimate's
// own error explains.
bool Overfull(const Header& header, const Reading& reading) noexcept;

// ---- filling --------------------------------------------------------------------

// The form and the room that a working image needs to take one more key.
struct Step {
  Form form;
  uint64_t room;  // in hashes; of a body that grows, keys; else 0
};

// Working exact images start with room for this many hashes: with PostgreSQL's
// own length word they take 120 bytes. With counts 128, and for up to 8 hashes 192.
inline constexpr uint64_t kFirstRoom = 7;
inline constexpr uint64_t kFirstCountedRoom = 4;
// Their room doubles, but from this many hashes on it grows fourfold, up to the most that there
// may be: of a large one each time means to make the index anew, in memory that is new too.
inline constexpr uint64_t kManyHashes = uint64_t{1} << 16;

// `limit` is the most hashes before the method takes over: Header::exact_limit(),
// or less, or state_limit().
Step NextStep(const Header& header, uint64_t limit) noexcept;
inline Step NextStep(const Header& header) noexcept {
  return NextStep(header, header.exact_limit());
}

// The form and the room in which to go on filling an image with keys that may be there already.
// Returns NextStep(), except that an exact image at its limit stays exact, and a body that grows
// keeps its size, until a key comes that is new.
Step FirstStep(const Header& header, uint64_t limit) noexcept;

size_t StepBytes(const Header& header, const Step& step) noexcept;

// The size of a body for so many keys that holds what the filter has: of one that grows, at
// least what it is now.
uint32_t BodyBytesFor(const Header& header, uint64_t keys) noexcept;

// By how much the body, of so many bytes, of a kWorkingFull image at this address is shifted,
// so that it starts a cache line, behind the room for deferred hashes.
inline size_t ShiftFor(const uint8_t* image, size_t body_bytes) noexcept {
  const size_t least = 8 * DeferredRoom(body_bytes);
  return least +
         (kLineBytes - (reinterpret_cast<uintptr_t>(image) + kHeaderBytes + least) % kLineBytes) %
             kLineBytes;
}

// Moves the body of a kWorkingFull image that was copied to another address to the
// start of a cache line again.
void MoveBody(uint8_t* image, Header* header, size_t shift) noexcept;
inline void Align(uint8_t* image, Header* header) noexcept {
  if (header->form != Form::kWorkingFull) return;
  const uintptr_t body = reinterpret_cast<uintptr_t>(image) + header->body_at();
  if (__builtin_expect(body % kLineBytes == 0, 1)) return;
  MoveBody(image, header, ShiftFor(image, header->body_bytes()));
}

// Entries on their way to visit(hashes, counts, n) in batches, so that it can prefetch,
// with a pause after each.
class Batches {
 public:
  template <typename Visit>
  void Add(uint64_t hash, uint64_t count, Visit& visit) noexcept {
    hashes_[n_] = hash;
    counts_[n_++] = count;
    if (n_ < kKeysBetweenPauses) return;
    visit(hashes_, counts_, n_);
    n_ = 0;
    Pause();
  }
  template <typename Visit>
  void Finish(Visit& visit) noexcept {
    if (n_ > 0) visit(hashes_, counts_, n_);
  }

 private:
  uint64_t hashes_[kKeysBetweenPauses];
  uint64_t counts_[kKeysBetweenPauses];
  size_t n_ = 0;
};

// Runs visit(hashes, counts, n) over an exact image in batches.
template <typename Visit>
inline void InBatches(const uint8_t* image, const Header& header, Visit visit) noexcept {
  Batches batches;
  ForEachEntry(image, header,
               [&](uint64_t hash, uint64_t count) { batches.Add(hash, count, visit); });
  batches.Finish(visit);
}

// Runs visit(hashes, counts, n) in batches over n hashes that are sorted, on their way into a body
// that grows and may be nearly full then. Not in their order, which is that of lines: an entry that
// finds its line full goes into one of the next, and those would be full before their own
// entries come. In the order of their places with the bits reversed all lines fill alike.
template <typename Visit>
inline void InBatchesSpread(const uint8_t* sorted, uint64_t n, Visit visit) noexcept {
  if (n == 0) return;
  const int bits = static_cast<int>(std::bit_width(n - 1));
  Batches batches;
  for (uint64_t i = 0; i >> bits == 0; ++i) {
    uint64_t place = 0;
    for (int bit = 0; bit < bits; ++bit) place |= (i >> bit & 1) << (bits - 1 - bit);
    if (place < n) batches.Add(LoadU64(sorted + 8 * place), 1, visit);
  }
  batches.Finish(visit);
}

// Writes the hashes of an exact image, in order of value, to `out`.
inline void WriteSorted(const uint8_t* image, const Header& header, uint8_t* out) noexcept {
  uint8_t* to = out;
  ForEachHash(image, header, [&](uint64_t hash) {
    StoreU64(to, hash);
    to += 8;
  });
  if (header.form != Form::kExact) SortEntries(out, header.hashes(), false);
}

// InBatches() for hashes on their way into a body of their own. The bytes of a body that grows
// depend on the order of its keys, so its first ones come in order of value: whether an image was
// stored between two keys does not matter.
template <typename Visit>
inline void InBatchesForBody(const uint8_t* image, const Header& header, Visit visit) noexcept {
  const Growth* growth = header.method->growth;
  const uint64_t n = header.hashes();
  if (growth == nullptr || header.form == Form::kExact || n > kMostExactOfGrowing) {
    InBatches(image, header, visit);
    return;
  }
  uint8_t sorted[8 * kMostExactOfGrowing];
  WriteSorted(image, header, sorted);
  Batches batches;
  for (uint64_t i = 0; i < n; ++i) batches.Add(LoadU64(sorted + 8 * i), 1, visit);
  batches.Finish(visit);
}

// Takes distinct keys of an exact form into a body, each with its count where every sight
// counts. Returns how many were taken, as Method::insert.
inline size_t Replay(const Method& method, const Shape& shape, Counters* counters, uint8_t* body,
                     const uint64_t* hashes, const uint64_t* counts, size_t n) noexcept {
  if (!method.counts()) return method.insert(shape, counters, body, hashes, n);
  method.add_counts(shape, counters, body, hashes, counts, n);
  return n;
}

// Writes the method's body, of so many bytes, of any image, exact hashes replayed, and its
// counters. False: the method is full before the last of the hashes.
[[nodiscard]] bool BodyTo(const uint8_t* image, const Header& header, uint32_t bytes,
                          Counters* counters, uint8_t* body) noexcept;

// Writes the working image that NextStep() chose, with all that `image` holds,
// to `out`, which has StepBytes() bytes. False: the method cannot hold it.
[[nodiscard]] bool MakeWorking(const uint8_t* image, const Header& header, const Step& step,
                               uint8_t* out) noexcept;

// Whether a full image's body is rewritten if this key is added, which may take seconds. (Keys
// that crowd in one place may cause that at any time; hashes that are spread do not.)
inline bool WouldRewrite(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  return !header.exact() && header.method->grows_next != nullptr &&
         header.method->grows_next(header.shape, header.counters) && !Contains(image, header, hash);
}

// Whether a full image has so many keys that with `more` of them its body has to grow first, or
// its rate would not be kept.
inline bool HasToGrow(const Header& header, uint64_t more) noexcept {
  const Growth* growth = header.method->growth;
  if (__builtin_expect(growth == nullptr, 1) || header.exact()) return false;
  return header.counters.count + more > growth->limit(header.shape, header.counters);
}

enum class Outcome { kNew, kSeen, kNoRoom, kFull };

// Test-and-add on a working image: says whether the key is new, and remembers it.
// kNoRoom: the key is new and nothing has changed; the image has to grow first.
// kFull: the key is new and no answer has changed; the image cannot take it.
[[nodiscard]] inline Outcome TestAndAdd(uint8_t* image, Header* header, uint64_t hash) noexcept {
  if (header->form == Form::kWorkingExact) {
    WorkingExact exact(image, *header);
    uint64_t free;
    const uint64_t place = exact.Find(hash, &free);
    if (place != kNowhere) {
      exact.Touch(place);
      return Outcome::kSeen;
    }
    if (exact.full()) return Outcome::kNoRoom;
    exact.AppendAt(free, hash);
    header->counters.count = exact.n();
    return Outcome::kNew;
  }
  if (HasToGrow(*header, 1)) {
    return Contains(image, *header, hash) ? Outcome::kSeen : Outcome::kNoRoom;
  }
  uint8_t seen = 0;
  const size_t taken = header->method->test_and_add(header->shape, &header->counters,
                                                    image + header->body_at(), &hash, 1, &seen);
  // If the key was refused too: the body may have grown in vain.
  WriteCounters(image, header->counters);
  if (taken == 0) return Outcome::kFull;
  return seen != 0 ? Outcome::kSeen : Outcome::kNew;
}

// Test-and-add of several keys in turn, cheaper than one by one where the filter is larger
// than the caches: seen[i] = 1 or 0. Returns how many were tested. Fewer than n: the next is
// one for which TestAndAdd() returns kNoRoom or kFull.
[[nodiscard]] size_t TestAndAddAll(uint8_t* image, Header* header, const uint64_t* hashes, size_t n,
                                   uint8_t* seen) noexcept;

// Puts the deferred hashes where they belong. Every other function wants that done:
// the hashes still deferred are none of the filter's keys to it. False: the method was
// full before the last of them.
[[nodiscard]] bool SettleDeferred(uint8_t* image, Header* header) noexcept;
[[nodiscard]] inline bool Settle(uint8_t* image, Header* header) noexcept {
  return header->deferred() == 0 || SettleDeferred(image, header);
}

// Adds a key to a working image where nobody waits for the answer: large filters
// take keys in batches, which hides most of the cache misses. kNoRoom, with nothing
// changed but settled: as of TestAndAdd, or the key is there already. kFull: this key
// or one that was deferred found no room. Anything else: it was taken.
[[nodiscard]] inline Outcome Defer(uint8_t* image, Header* header, uint64_t hash) noexcept {
  const bool exact = header->form == Form::kWorkingExact;
  if (!header->may_defer()) return TestAndAdd(image, header, hash);
  size_t n = header->deferred();
  // The last keys before a body has to grow are added one by one.
  if (n == 0 && HasToGrow(*header, kMaxDeferred)) {
    return HasToGrow(*header, 1) ? Outcome::kNoRoom : TestAndAdd(image, header, hash);
  }
  if (exact && header->hashes() + n >= header->room()) {
    if (!Settle(image, header)) return Outcome::kFull;
    n = 0;
    if (header->hashes() >= header->room()) return Outcome::kNoRoom;
  }
  const uint64_t before = exact ? header->hashes() : 0;
  StoreU64(image + kHeaderBytes + 8 * (before + n), hash);
  header->working.deferred = static_cast<uint16_t>(n + 1);
  WriteWorkingState(image, header->working);
  if (n + 1 >= kMaxDeferred && !Settle(image, header)) return Outcome::kFull;
  return Outcome::kNew;
}

// The deferred hashes of a working image, with the place of the next one. Only for images that
// have room for them (may_defer()).
class DeferredList {
 public:
  DeferredList() = default;
  explicit DeferredList(const Header& header) noexcept
      : field_(Pack(header.working)),
        at_(static_cast<uint32_t>(kHeaderBytes)),
        most_(static_cast<uint32_t>(kMaxDeferred - 1)) {
    if (!header.exact()) return;
    const uint64_t free = header.room() - header.hashes();
    at_ += static_cast<uint32_t>(8 * header.hashes());
    if (most_ > free) most_ = static_cast<uint32_t>(free);
  }

  // Whether an image still has this list, which has hashes and room for one more.
  bool TakesMoreOf(const uint8_t* image) const noexcept {
    const auto n = static_cast<uint16_t>(field_ / kOne);
    return LoadU64(image + kChecksumAt) == field_ && n > 0 && n < most_;
  }
  // Adds a key to that image, as Defer(). Headers that were read before have the old list.
  void Add(uint8_t* image, uint64_t hash) noexcept {
    StoreU64(image + at_ + 8 * static_cast<uint16_t>(field_ / kOne), hash);
    field_ += kOne;
    StoreU64(image + kChecksumAt, field_);
  }

 private:
  static constexpr uint64_t kOne = Pack(WorkingState{.deferred = 1});
  uint64_t field_ = 0;
  uint32_t at_ = 0;    // of the first of them in the image, which is smaller than 1 GiB
  uint32_t most_ = 0;  // that may wait
};

// Adds a key that is known to be new, after MakeWorking made room for it. Never by
// test-and-add: a false positive of the method must not lose the key by which an
// exact filter went over to it. Where every sight counts, so many sights of it. False: the
// method is full.
[[nodiscard]] inline bool AddNew(uint8_t* image, Header* header, uint64_t hash,
                                 uint64_t count = 1) noexcept {
  if (header->form == Form::kWorkingExact) {
    WorkingExact exact(image, *header);
    exact.Append(hash, count);
    header->counters.count = exact.n();
    return true;
  }
  const size_t taken = Replay(*header->method, header->shape, &header->counters,
                              image + header->body_at(), &hash, &count, 1);
  WriteCounters(image, header->counters);
  return taken != 0;
}

// Adds a key of another filter to a working image, as the youngest. In an exact
// image that is exact; a full one of a window whose merges drop no key takes it
// without asking, since a false positive must not lose it, and so does one whose merges
// add up. Where every sight counts, all those that the other filter counted. Outcomes as
// of TestAndAdd.
[[nodiscard]] inline Outcome TakeOver(uint8_t* image, Header* header, uint64_t hash,
                                      uint64_t count = 1) noexcept {
  const Method& method = *header->method;
  if (header->counted()) {
    if (header->form == Form::kWorkingExact) {
      WorkingExact exact(image, *header);
      const uint64_t place = exact.Find(hash);
      if (place != kNowhere) {
        exact.Touch(place, count);
        return Outcome::kSeen;
      }
      if (exact.full()) return Outcome::kNoRoom;
    }
    return AddNew(image, header, hash, count) ? Outcome::kNew : Outcome::kFull;
  }
  const bool keeps = method.forgets(header->shape) && method.merge_keeps_all;
  if (header->form == Form::kWorkingFull && (keeps || method.merge_adds)) {
    return AddNew(image, header, hash) ? Outcome::kNew : Outcome::kFull;
  }
  return TestAndAdd(image, header, hash);
}

// ---- canonical bytes --------------------------------------------------------------

inline bool StaysExact(const Header& header) noexcept {
  return header.exact() && header.hashes() <= header.exact_limit();
}

size_t CanonicalBytes(const Header& header) noexcept;

// Writes the canonical image, sealed, to `out`, which has CanonicalBytes() bytes. Only
// windows have more hashes than they may as values, and those are never full.
void WriteCanonical(const uint8_t* image, const Header& header, uint8_t* out) noexcept;

// The header of a full canonical image whose body is in place, and the image's size.
size_t WriteFull(const Shape& shape, const Counters& counters, uint8_t* out) noexcept;

// ---- one key into a value ------------------------------------------------------------

// Bytes that AddTo may need.
size_t AddToBytes(const Header& header) noexcept;

// Writes the canonical image of `image`, a canonical one, with one more key to
// `out`, in one pass and without its checksum (Seal sets it). Returns its size, or 0 if
// the filter is full.
[[nodiscard]] size_t AddTo(const uint8_t* image, const Header& header, uint64_t hash,
                           uint8_t* out) noexcept;

// ---- one key out of a value -----------------------------------------------------------

// Bytes that ForgetFrom may need. No method that tells frequencies can forget.
size_t ForgetBytes(const Header& header) noexcept;

// Writes the canonical image of `image`, a canonical one of a method that can forget,
// without one key that was answered new when it was added. Returns its size, or 0 if
// the key is not there.
[[nodiscard]] size_t ForgetFrom(const uint8_t* image, const Header& header, uint64_t hash,
                                uint8_t* out) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_FILTER_HPP_
