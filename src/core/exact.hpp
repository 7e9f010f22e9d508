// The exact form: the hashes themselves, as long as they take no more bytes than the method.
//
// The canonical form (kExact) is the header and 8 n bytes, in the method's ExactOrder. For methods
// that count frequencies it has 16 n bytes: each hash with the number of its sights, 1 to
// kMaxCount. The working form (kWorkingExact), with room for `room` hashes, has these parts:
//   8 room       the hashes, in order of arrival and, if room > kListRoom,
//   4 * 2 room   an index: open addressing from a hash's scaled value, with
//                linear probing. An entry is 1 + the hash's place in the low
//                bits, and bits of the hash above, so that few other hashes
//                are read. 0 is free.
//   8 (room+1)   where the order is by last sight: links {older, younger} of a
//                circle through every place + 1, in order of sight. 0 is the
//                start of the circle.
//   8 room       for methods that count frequencies, which never have links: the
//                counts, in the order of the hashes
// So a key costs O(1), found or not, and the working form takes at most three times the stored
// bytes. Places that are read from an index or a link are checked against n before use: no bytes
// can make the code read outside the image.

#ifndef STREAMDEDUP_CORE_EXACT_HPP_
#define STREAMDEDUP_CORE_EXACT_HPP_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.hpp"
#include "image.hpp"
#include "pause.hpp"

namespace dedup {

// For a canonical image whose entries have `entry_bytes` bytes.
inline uint64_t HashAt(const uint8_t* image, uint64_t place, size_t entry_bytes = 8) noexcept {
  return LoadU64(image + kHeaderBytes + entry_bytes * place);
}

inline uint64_t CountAt(const uint8_t* image, uint64_t place) noexcept {
  return LoadU64(image + kHeaderBytes + EntryBytes(true) * place + 8);
}

inline constexpr uint64_t kNowhere = ~uint64_t{0};

// A working exact image. The header's n is kept here and written by Store().
class WorkingExact {
 public:
  WorkingExact(uint8_t* image, const Header& header) noexcept
      : WorkingExact(image, header.hashes(), header.room(), header.order(), header.counted()) {}

  WorkingExact(uint8_t* image, uint64_t n, uint64_t room, ExactOrder order,
               bool counted = false) noexcept
      : image_(image),
        hashes_(image + kHeaderBytes),
        index_(hashes_ + 8 * room),
        links_(index_ + 8 * room),
        n_(n),
        room_(room),
        place_bits_(static_cast<unsigned>(std::bit_width(room))),
        last_sight_(order == ExactOrder::kLastSight),
        counted_(counted) {}

  uint64_t n() const noexcept { return n_; }
  bool full() const noexcept { return n_ >= room_; }
  uint64_t at(uint64_t place) const noexcept { return LoadU64(hashes_ + 8 * place); }
  uint64_t count_at(uint64_t place) const noexcept {
    return counted_ ? LoadU64(counts() + 8 * place) : 1;
  }

  // Makes the bytes behind the header an empty working image, and writes the header.
  void Clear(const Shape& shape) noexcept {
    n_ = 0;
    if (indexed()) {
      ClearInPieces(index_, 8 * room_);
      if (last_sight_) SetLink(0, 0, 0);
    }
    WriteHeader(image_, shape, Form::kWorkingExact, Counters{0, static_cast<uint32_t>(room_)});
  }

  // Returns the place of a hash, or kNowhere. If it is kNowhere, `*free` is the slot of the index
  // where Append() would put the hash.
  uint64_t Find(uint64_t hash, uint64_t* free) const noexcept {
    *free = 0;
    if (!indexed()) {
      for (uint64_t i = 0; i < n_; ++i) {
        if (at(i) == hash) return i;
      }
      return kNowhere;
    }
    const uint64_t slots = 2 * room_;
    const uint32_t tag = Tag(hash);
    uint64_t slot = FastRange(hash, slots);
    for (uint64_t step = 0; step < slots; ++step) {
      const uint32_t entry = LoadU32(index_ + 4 * slot);
      if (entry == 0) break;
      if (uint64_t{entry ^ tag} >> place_bits_ == 0) {
        const uint64_t place = (entry & LowMask(place_bits_)) - 1;
        if (place < n_ && at(place) == hash) return place;
      }
      if (++slot == slots) slot = 0;
      PauseInRun(step);
    }
    *free = slot;
    return kNowhere;
  }
  uint64_t Find(uint64_t hash) const noexcept {
    uint64_t free;
    return Find(hash, &free);
  }

  // Prefetches what Find() and Append() of this hash read.
  void PrefetchIndex(uint64_t hash) const noexcept {
    if (indexed()) PrefetchToWrite(index_ + 4 * FastRange(hash, 2 * room_));
  }

  // Adds a hash that the image does not hold, as the youngest. There must be room. Pauses only
  // before the first change.
  void Append(uint64_t hash, uint64_t count = 1) noexcept {
    AppendAt(indexed() ? FreeSlot(hash) : 0, hash, count);
  }
  // Does the same, with the slot that Find() has set.
  void AppendAt(uint64_t slot, uint64_t hash, uint64_t count = 1) noexcept {
    const uint64_t place = n_++;
    StoreU64(hashes_ + 8 * place, hash);
    WriteCount(image_, n_);
    if (counted_) StoreU64(counts() + 8 * place, count);
    if (!indexed()) return;
    StoreU32(index_ + 4 * slot, Tag(hash) | static_cast<uint32_t>(place + 1));
    if (last_sight_) LinkYoungest(place + 1);
  }

  // Records that the hash at this place was seen `count` more times.
  void Touch(uint64_t place, uint64_t count = 1) noexcept {
    if (counted_) {
      StoreU64(counts() + 8 * place, SumOfCounts(count_at(place), count));
    } else if (last_sight_) {
      MakeYoungest(place);
    }
  }

  // Runs visit(hash, count) from the oldest to the youngest. Without counts, each count is 1.
  template <typename Visit>
  void ForEach(Visit visit) const noexcept {
    if (!indexed() || !last_sight_) {
      ForPieces(n_, kStepsBetweenPauses, [&](uint64_t from, uint64_t to) {
        for (uint64_t i = from; i < to; ++i) visit(at(i), count_at(i));
      });
      return;
    }
    uint64_t node = Younger(0);
    ForPieces(n_, kStepsBetweenPauses, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to && node != 0; ++i, node = Younger(node)) {
        visit(at(node - 1), 1);
      }
    });
  }

 private:
  void MakeYoungest(uint64_t place) noexcept {
    if (!indexed()) {
      const uint64_t hash = at(place);
      std::memmove(hashes_ + 8 * place, hashes_ + 8 * (place + 1), 8 * (n_ - place - 1));
      StoreU64(hashes_ + 8 * (n_ - 1), hash);
      return;
    }
    const uint64_t node = place + 1;
    if (Older(0) == node) return;  // it is the youngest already
    const uint64_t older = Older(node), younger = Younger(node);
    SetYounger(older, younger);
    SetOlder(younger, older);
    LinkYoungest(node);
  }

  uint32_t Tag(uint64_t hash) const noexcept { return static_cast<uint32_t>(hash << place_bits_); }

  bool indexed() const noexcept { return room_ > kListRoom; }
  uint8_t* counts() const noexcept { return indexed() ? links_ : index_; }

  // Only hashes that were chosen for it make long runs.
  static void PauseInRun(uint64_t step) noexcept {
    if (step % kProbesBetweenPauses == kProbesBetweenPauses - 1) Pause();
  }

  uint64_t FreeSlot(uint64_t hash) const noexcept {
    const uint64_t slots = 2 * room_;
    uint64_t slot = FastRange(hash, slots);
    for (uint64_t step = 0; step < slots; ++step) {
      if (LoadU32(index_ + 4 * slot) == 0) break;
      if (++slot == slots) slot = 0;
      PauseInRun(step);
    }
    return slot;
  }

  // Links. A node out of bounds is read as the start of the circle.
  uint64_t Node(uint64_t at) const noexcept {
    const uint64_t node = LoadU32(links_ + at);
    return node <= n_ ? node : 0;
  }
  uint64_t Older(uint64_t node) const noexcept { return Node(8 * node); }
  uint64_t Younger(uint64_t node) const noexcept { return Node(8 * node + 4); }
  void SetOlder(uint64_t node, uint64_t to) noexcept {
    StoreU32(links_ + 8 * node, static_cast<uint32_t>(to));
  }
  void SetYounger(uint64_t node, uint64_t to) noexcept {
    StoreU32(links_ + 8 * node + 4, static_cast<uint32_t>(to));
  }
  void SetLink(uint64_t node, uint64_t older, uint64_t younger) noexcept {
    SetOlder(node, older);
    SetYounger(node, younger);
  }
  void LinkYoungest(uint64_t node) noexcept {
    const uint64_t before = Older(0);
    SetLink(node, before, 0);
    SetYounger(before, node);
    SetOlder(0, node);
  }

  uint8_t* image_;
  uint8_t* hashes_;
  uint8_t* index_;
  uint8_t* links_;
  uint64_t n_;
  uint64_t room_;
  unsigned place_bits_;  // of an index entry; at most 32, because rooms are below 2^32
  bool last_sight_;
  bool counted_;
};

// Runs visit(hash, count) over any settled exact image, oldest first if the image has an order,
// with a pause after each kStepsBetweenPauses. Without counts, each count is 1.
template <typename Visit>
inline void ForEachEntry(const uint8_t* image, const Header& header, Visit visit) noexcept {
  if (header.form == Form::kExact) {
    const bool counted = header.counted();
    const size_t entry = header.entry_bytes();
    ForPieces(header.hashes(), kStepsBetweenPauses, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) {
        visit(HashAt(image, i, entry), counted ? CountAt(image, i) : 1);
      }
    });
    return;
  }
  // This only reads, in spite of the const_cast.
  WorkingExact(const_cast<uint8_t*>(image), header).ForEach(visit);
}

// Does the same for visit(hash).
template <typename Visit>
inline void ForEachHash(const uint8_t* image, const Header& header, Visit visit) noexcept {
  ForEachEntry(image, header, [&](uint64_t hash, uint64_t) { visit(hash); });
}

// Returns the first place of a canonical, sorted exact image whose hash is not below `hash`.
inline uint64_t LowerBound(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  uint64_t low = 0, high = header.hashes();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (HashAt(image, middle, header.entry_bytes()) < hash) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Returns the place of a hash in a canonical exact image, or kNowhere. Takes O(log n) for sorted
// hashes, else O(n). Use MakeWorking for a filter that is queried often: it makes an index.
inline uint64_t FindCanonical(const uint8_t* image, const Header& header, uint64_t hash) noexcept {
  const uint64_t n = header.hashes();
  const size_t entry = header.entry_bytes();
  if (header.order() == ExactOrder::kSorted) {
    const uint64_t place = LowerBound(image, header, hash);
    return place < n && HashAt(image, place, entry) == hash ? place : kNowhere;
  }
  uint64_t place = kNowhere;
  ForUnits(n, 8 * entry, [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to && place == kNowhere; ++i) {
      if (HashAt(image, i, entry) == hash) place = i;
    }
  });
  return place;
}

// Sorts `n` little-endian hashes, or hashes with their counts, in place.
void SortEntries(uint8_t* entries, uint64_t n, bool counted) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_EXACT_HPP_
