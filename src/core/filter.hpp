// A filter as a whole: exact while it is small, then its method. Every function works on an image
// (image.hpp) whose header the caller has read with Check(). New images are written into bytes that
// the caller provides.
//
// To fill a filter:   MakeWorking, then TestAndAdd; on kNoRoom, MakeWorking into
//                     the NextStep()'s bytes and AddNew; last, WriteCanonical.
// To add one key to a value that must not change: AddTo.
// Each function whose filter can be full reports that. After that, the caller must not use the
// filter as if it held the key.
//
// This file has the functions that run for each key, and those that take a callback. The rest is in
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

// ---- queries --------------------------------------------------------------------

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

// Looks up many hashes: seen[i] is 1 or 0. This is cheaper than one call for each hash if the
// filter is larger than the caches. An exact image whose hashes are neither sorted nor indexed is
// searched from end to end for each hash.
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

// Returns how often a key was seen, for a method that counts frequencies. The result is exact while
// the filter is.
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

// Returns the sum of all counts, up to kMaxCount, for a method that counts frequencies.
uint64_t TotalOf(const uint8_t* image, const Header& header) noexcept;

// Returns the estimated number of keys, and the rate at which a new key is reported as a duplicate
// now.
Reading Read(const uint8_t* image, const Header& header) noexcept;

// For methods that forget: the false-positive rate in the steady state.
inline double SteadyFpr(const Method& method, const Shape& shape) noexcept {
  return method.expected_fpr(shape, static_cast<double>(kMaxKeys));
}

// Returns whether a filter holds more than it was sized for, by more than the error of the
// estimate.
bool Overfull(const Header& header, const Reading& reading) noexcept;

// ---- filling --------------------------------------------------------------------

// The form and the room that a working image needs before it can take one more key.
struct Step {
  Form form;
  uint64_t room;  // number of hashes; for a body that grows, of keys; else 0
};

// Working exact images start with room for this many hashes. With PostgreSQL's length word they
// then take 120 bytes; with counts 128 bytes, and 192 bytes for up to 8 hashes.
inline constexpr uint64_t kFirstRoom = 7;
inline constexpr uint64_t kFirstCountedRoom = 4;
// The room doubles at first. From this many hashes on it grows fourfold, up to the limit: each
// growth of a large image builds the index anew, in new memory.
inline constexpr uint64_t kManyHashes = uint64_t{1} << 16;

// `limit` is the most hashes before the method takes over. It is Header::exact_limit() or less, or
// state_limit().
Step NextStep(const Header& header, uint64_t limit) noexcept;
inline Step NextStep(const Header& header) noexcept {
  return NextStep(header, header.exact_limit());
}

// Returns the form and the room for adding keys that the image may hold already. This is
// NextStep(), except that an exact image at its limit stays exact, and a body that grows keeps its
// size, until a new key comes.
Step FirstStep(const Header& header, uint64_t limit) noexcept;

size_t StepBytes(const Header& header, const Step& step) noexcept;

// Returns the size of a body for `keys` keys that also holds the keys of the filter. A body that
// grows never gets smaller.
uint32_t BodyBytesFor(const Header& header, uint64_t keys) noexcept;

// Returns by how many bytes the body (of `body_bytes` bytes) of a kWorkingFull image at this
// address is shifted, so that it starts a cache line and leaves room for deferred hashes.
inline size_t ShiftFor(const uint8_t* image, size_t body_bytes) noexcept {
  const size_t least = 8 * DeferredRoom(body_bytes);
  return least +
         (kLineBytes - (reinterpret_cast<uintptr_t>(image) + kHeaderBytes + least) % kLineBytes) %
             kLineBytes;
}

// Moves the body of a kWorkingFull image to the start of a cache line again, after the image was
// copied to another address.
void MoveBody(uint8_t* image, Header* header, size_t shift) noexcept;
inline void Align(uint8_t* image, Header* header) noexcept {
  if (header->form != Form::kWorkingFull) return;
  const uintptr_t body = reinterpret_cast<uintptr_t>(image) + header->body_at();
  if (__builtin_expect(body % kLineBytes == 0, 1)) return;
  MoveBody(image, header, ShiftFor(image, header->body_bytes()));
}

// Collects entries and passes them to visit(hashes, counts, n) in batches, so that it can prefetch.
// Pauses after each batch.
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

// Runs visit(hashes, counts, n) in batches over n sorted hashes that go into a body that grows and
// may become nearly full. The order is that of their places with the bits reversed, so that all
// lines fill alike. In sorted order, which is the order of lines, an entry that finds its line full
// goes into one of the next lines, and would fill that line before its own entries come.
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

// Does the same as InBatches(), for hashes that go into a body of their own. The bytes of a body
// that grows depend on the order of its keys. So its first keys are added in order of value: then
// the bytes do not depend on whether the image was stored between two keys.
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

// Adds distinct keys of an exact form to a body, each with its count if the method counts. Returns
// how many keys were taken, as Method::insert does.
inline size_t Replay(const Method& method, const Shape& shape, Counters* counters, uint8_t* body,
                     const uint64_t* hashes, const uint64_t* counts, size_t n) noexcept {
  if (!method.counts()) return method.insert(shape, counters, body, hashes, n);
  method.add_counts(shape, counters, body, hashes, counts, n);
  return n;
}

// Writes the method's body (of `bytes` bytes) and its counters for any image; exact hashes are
// replayed. Returns false if the method is full before the last hash.
[[nodiscard]] bool BodyTo(const uint8_t* image, const Header& header, uint32_t bytes,
                          Counters* counters, uint8_t* body) noexcept;

// Writes the working image that NextStep() chose to `out`, which has StepBytes() bytes. It holds
// all that `image` holds. Returns false if the method cannot hold that.
[[nodiscard]] bool MakeWorking(const uint8_t* image, const Header& header, const Step& step,
                               uint8_t* out) noexcept;

// Returns whether adding this key rewrites the body of a full image, which may take seconds. Keys
// that were chosen to meet in one place may cause a rewrite at any time; hashes that are spread do
// not.
inline bool WouldRewrite(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  return !header.exact() && header.method->grows_next != nullptr &&
         header.method->grows_next(header.shape, header.counters) && !Contains(image, header, hash);
}

// Returns whether the body of a full image must grow before it takes `more` keys, so that it keeps
// its rate.
inline bool HasToGrow(const Header& header, uint64_t more) noexcept {
  const Growth* growth = header.method->growth;
  if (__builtin_expect(growth == nullptr, 1) || header.exact()) return false;
  return header.counters.count + more > growth->limit(header.shape, header.counters);
}

enum class Outcome { kNew, kSeen, kNoRoom, kFull };

// Reports whether a key is new, and adds it to a working image. kNoRoom: the key is new and nothing
// has changed; the image must grow first. kFull: the key is new and no answer has changed; the
// image cannot take the key.
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
  // This is also done if the key was refused: the body may have grown in vain.
  WriteCounters(image, header->counters);
  if (taken == 0) return Outcome::kFull;
  return seen != 0 ? Outcome::kSeen : Outcome::kNew;
}

// Tests and adds several keys in turn: seen[i] is 1 or 0. This is cheaper than one call for each
// key if the filter is larger than the caches. Returns how many keys were tested. If it is fewer
// than n, TestAndAdd() of the next key returns kNoRoom or kFull.
[[nodiscard]] size_t TestAndAddAll(uint8_t* image, Header* header, const uint64_t* hashes, size_t n,
                                   uint8_t* seen) noexcept;

// Puts the deferred hashes where they belong. Must be called before every other function: these do
// not see hashes that are still deferred. Returns false if the method was full before the last of
// them.
[[nodiscard]] bool SettleDeferred(uint8_t* image, Header* header) noexcept;
[[nodiscard]] inline bool Settle(uint8_t* image, Header* header) noexcept {
  return header->deferred() == 0 || SettleDeferred(image, header);
}

// Adds a key to a working image if nobody waits for the answer. Large filters take such keys in
// batches, which hides most of the cache misses. kNoRoom: nothing has changed, except that deferred
// hashes were settled; the image must grow as for TestAndAdd, or it holds the key already. kFull:
// there was no room for this key or a deferred one. Any other result: the key was taken.
[[nodiscard]] inline Outcome Defer(uint8_t* image, Header* header, uint64_t hash) noexcept {
  const bool exact = header->form == Form::kWorkingExact;
  if (!header->may_defer()) return TestAndAdd(image, header, hash);
  size_t n = header->deferred();
  // The last keys before a body must grow are added one by one.
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

// The deferred hashes of a working image, and the place of the next one. Only for images that have
// room for deferred hashes (may_defer()).
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

  // Returns whether an image still has this list, and the list has hashes and room for one more.
  bool TakesMoreOf(const uint8_t* image) const noexcept {
    const auto n = static_cast<uint16_t>(field_ / kOne);
    return LoadU64(image + kChecksumAt) == field_ && n > 0 && n < most_;
  }
  // Adds a key to that image, as Defer() does. Headers that were read before still describe the old
  // list.
  void Add(uint8_t* image, uint64_t hash) noexcept {
    StoreU64(image + at_ + 8 * static_cast<uint16_t>(field_ / kOne), hash);
    field_ += kOne;
    StoreU64(image + kChecksumAt, field_);
  }

 private:
  static constexpr uint64_t kOne = Pack(WorkingState{.deferred = 1});
  uint64_t field_ = 0;
  uint32_t at_ = 0;    // of the first deferred hash in the image, which is smaller than 1 GiB
  uint32_t most_ = 0;  // the most deferred hashes
};

// Adds a key that is known to be new, after MakeWorking made room for it. It does not test first: a
// false positive of the method must not lose the key for which the exact filter became its method.
// If the method counts, adds `count` sights. Returns false if the method is full.
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

// Adds a key of another filter to a working image, as the youngest. In an exact image the result is
// exact. If the image is full, and merges of the method drop no key or add up, the key is added
// without a test, because a false positive must not lose it. Where the method counts, adds all
// sights that the other filter counted. The outcomes are those of TestAndAdd.
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

// Writes the canonical image, sealed, to `out`, which has CanonicalBytes() bytes. Only windows can
// have more hashes than a stored value may have, and windows are never full.
void WriteCanonical(const uint8_t* image, const Header& header, uint8_t* out) noexcept;

// Writes the header of a full canonical image whose body is in place. Returns the image's size.
size_t WriteFull(const Shape& shape, const Counters& counters, uint8_t* out) noexcept;

// ---- one key into a value ------------------------------------------------------------

// Returns the number of bytes that AddTo may need.
size_t AddToBytes(const Header& header) noexcept;

// Writes a canonical image with one more key to `out`, in one pass and without its checksum (Seal
// sets it). `image` is canonical, too. Returns the size, or 0 if the filter is full.
[[nodiscard]] size_t AddTo(const uint8_t* image, const Header& header, uint64_t hash,
                           uint8_t* out) noexcept;

// ---- one key out of a value -----------------------------------------------------------

// Returns the number of bytes that ForgetFrom may need. No method that counts frequencies can
// forget.
size_t ForgetBytes(const Header& header) noexcept;

// Writes a canonical image without one key, which must have been reported as new when it was added.
// `image` is canonical, of a method that can forget. Returns the size, or 0 if the key is not
// there.
[[nodiscard]] size_t ForgetFrom(const uint8_t* image, const Header& header, uint64_t hash,
                                uint8_t* out) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_FILTER_HPP_
