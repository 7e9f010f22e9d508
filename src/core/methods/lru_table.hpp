// The common part of lru and fp_lru: a buffer of the last hashes seen, with an index over them and
// a list in order of sight.
//
// The body is 8 bytes, then `entries` nodes of 24 bytes: the hash (8), its links in the list
// {older, younger} (4 each), the next node of its chain (4), and the first node of the bucket with
// the node's number (4). The first 8 bytes are the links of the list's start, node 0. Nodes count
// from 1; 0 is no node. There are `entries` buckets, too. A hash's bucket is its scaled value, and
// a chain is in order of its hashes: the order in the index depends only on the keys.
//
// The papers count 64 bits an entry, and so does `memory`: M bytes buy M / 8 entries. The body is
// larger than M: three times M and 8 bytes. This is the only exception to the rule that a body is
// no larger than the requested memory. kMaxBodyBytes applies to the body, so there are at most 22
// million entries (170 MiB requested).
//
// A key that is found touches the line of its bucket, that of its node, and those of its two
// neighbours in the list. A new key touches the lines of the evicted entry instead. Node numbers
// are checked before they are used, and a chain ends where its hashes do not rise.

#ifndef STREAMDEDUP_CORE_METHODS_LRU_TABLE_HPP_
#define STREAMDEDUP_CORE_METHODS_LRU_TABLE_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../pause.hpp"

namespace dedup::lru_table {

inline constexpr uint32_t kGranule = 8;
inline constexpr uint64_t kEntryBytes = 8;  // the memory that an entry counts as
inline constexpr uint64_t kStartBytes = 8;
inline constexpr uint64_t kNodeBytes = 24;
inline constexpr uint64_t kMaxEntries = (kMaxBodyBytes - kStartBytes) / kNodeBytes;

inline uint64_t Entries(const Shape& shape) noexcept {
  return (shape.bytes - kStartBytes) / kNodeBytes;
}

// ---- the buffer ---------------------------------------------------------------

class Table {
 public:
  // `held` is the number of nodes in use, 1 to `held`. It is at most the number of entries.
  Table(const Shape& shape, uint32_t held, uint8_t* body) noexcept
      : body_(body), entries_(Entries(shape)), held_(held) {}
  // For reading only.
  Table(const Shape& shape, uint32_t held, const uint8_t* body) noexcept
      : Table(shape, held, const_cast<uint8_t*>(body)) {}

  uint32_t held() const noexcept { return held_; }

  // The place of a hash in its bucket's chain.
  struct Spot {
    uint32_t before;  // the last node with a smaller hash, or 0
    uint32_t at;      // the node with the hash, or 0
  };

  Spot Find(uint64_t hash) const noexcept {
    return Walk<false>(hash, First(Bucket(hash)), 0, {0, 0});
  }

  DEDUP_ALWAYS_INLINE void FetchBucket(uint64_t hash) const noexcept {
    PrefetchToWrite(body_ + FirstAt(Bucket(hash)));
  }
  // To be called after the bucket has arrived.
  DEDUP_ALWAYS_INLINE void FetchChain(uint64_t hash) const noexcept {
    PrefetchToWrite(body_ + NodeAt(First(Bucket(hash))));
  }

  // Makes the hash the youngest. If it is new and there is no room, evicts the oldest. Returns
  // whether the hash was there.
  bool See(uint64_t hash) noexcept {
    Spot spot = Find(hash);
    if (spot.at != 0) {
      if (Older(0) != spot.at) {
        Unlink(spot.at);
        LinkYoungest(spot.at);
      }
      return true;
    }
    uint32_t node;
    if (held_ < entries_) {
      node = ++held_;
    } else {
      node = Younger(0);
      if (node == 0) node = 1;  // the links are broken
      const bool same = Bucket(Hash(node)) == Bucket(hash);
      Unchain(node);
      Unlink(node);
      FetchNextOut();
      if (same) spot = Find(hash);
    }
    Chain(node, hash, spot.before);
    LinkYoungest(node);
    return false;
  }

  bool Forget(uint64_t hash) noexcept {
    const uint32_t node = Find(hash).at;
    if (node == 0) return false;
    Unchain(node);
    Unlink(node);
    if (node != held_) Move(held_, node);
    Free(held_--);
    return true;
  }

  // Merges this buffer and another of the same shape into their union. Both are walked from the
  // youngest key on: `weights.left` keys of this one to `weights.right` of the other, this one
  // first on ties. A key in both counts where it is met first. Keys that come after `entries` keys
  // were taken are dropped.
  //
  // The merge is done in place. A first walk marks the keys of this buffer that stay. A second walk
  // gives the other nodes to the other buffer's keys. It links the keys that it takes by their
  // `younger` link, and leaves `older` unchanged, because the walk needs it. At the end the
  // remaining links are set.
  void Merge(const Table& other, const Weights& weights) noexcept {
    const uint32_t held = held_;
    ForUnits(held, 8 * kNodeBytes, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) SetMark(static_cast<uint32_t>(i) + 1, false);
    });
    uint64_t taken = 0;
    Interleave(
        other, weights,
        [&](uint32_t node) {
          taken += !Marked(node);
          SetMark(node, true);
          return taken < entries_;
        },
        [&](uint64_t hash) {
          const uint32_t node = Find(hash).at;
          if (node == 0) {
            ++taken;
          } else {
            taken += !Marked(node);
            SetMark(node, true);
          }
          return taken < entries_;
        });

    uint32_t spare = 0;  // nodes to be used again, linked by `younger`
    ForPieces(held, kStepsBetweenPauses, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) {
        const uint32_t node = held - static_cast<uint32_t>(i);
        if (Marked(node)) continue;
        Unchain(node);
        SetYounger(node, spare);
        spare = node;
      }
    });

    uint32_t first = 0, last = 0;
    uint64_t linked = 0;
    auto take = [&](uint32_t node) {
      SetYounger(node, 0);
      if (last == 0) {
        first = node;
      } else {
        SetYounger(last, node);
      }
      last = node;
      return ++linked < entries_;
    };
    Interleave(
        other, weights,
        [&](uint32_t node) {
          if (!Marked(node)) return true;
          SetMark(node, false);
          return take(node);
        },
        [&](uint64_t hash) {
          const Spot spot = Find(hash);
          if (spot.at != 0) {
            if (!Marked(spot.at)) return true;
            SetMark(spot.at, false);
            return take(spot.at);
          }
          uint32_t node = spare;
          if (node != 0) {
            spare = Younger(node);
          } else if (held_ < entries_) {
            node = ++held_;
          } else {
            return false;  // the links are broken
          }
          Chain(node, hash, spot.before);
          return take(node);
        });

    uint32_t younger = 0;
    uint64_t steps = 0;
    for (uint32_t node = first; linked > 0 && node != 0; --linked) {
      PauseEvery<kStepsBetweenPauses>(&steps);
      const uint32_t older = Younger(node);
      SetLinks(node, older, younger);
      if (younger == 0) SetOlder(0, node);
      younger = node;
      node = older;
    }
    SetYounger(0, younger);
    if (younger == 0) SetOlder(0, 0);
  }

  // Returns whether the list goes through all nodes in use, in both directions, each of them is in
  // its bucket's chain, and the unused nodes are zero.
  bool Sound() const noexcept {
    uint32_t node = 0;
    uint64_t steps = 0;
    for (uint32_t i = 0; i <= held_; ++i) {
      PauseEvery<kStepsBetweenPauses>(&steps);
      const uint32_t younger = LoadU32(body_ + LinksAt(node) + 4);
      if (younger > held_ || (younger == 0) != (i == held_)) return false;
      if (LoadU32(body_ + LinksAt(younger)) != node) return false;
      node = younger;
    }
    uint64_t chained = 0;
    for (uint64_t bucket = 0; bucket < entries_; ++bucket) {
      PauseEvery<kStepsBetweenPauses>(&steps);
      uint64_t smaller = 0;
      bool start = true;
      uint32_t at = LoadU32(body_ + FirstAt(bucket));
      for (; at != 0; at = LoadU32(body_ + NextAt(at))) {
        if (at > held_ || Bucket(Hash(at)) != bucket) return false;
        if (!start && Hash(at) <= smaller) return false;
        smaller = Hash(at);
        start = false;
        ++chained;
        PauseEvery<kStepsBetweenPauses>(&steps);
      }
    }
    if (chained != held_) return false;
    for (uint64_t free = uint64_t{held_} + 1; free <= entries_; ++free) {
      PauseEvery<kProbesBetweenPauses>(&steps);
      const uint8_t* at = body_ + NodeAt(static_cast<uint32_t>(free));
      if ((LoadU64(at) | LoadU64(at + 8) | LoadU32(at + 16)) != 0) return false;
    }
    return true;
  }

 private:
  // A flag in `older`, above all node numbers: a merge keeps the node.
  static constexpr uint32_t kMark = uint32_t{1} << 31;

  // Only hashes that were chosen for it make longer chains.
  static constexpr unsigned kShortChain = 256;

  uint64_t Bucket(uint64_t hash) const noexcept { return FastRange(hash, entries_); }

  // Does Find() from this node on, which follows a node with the hash `smaller`. A long chain is
  // walked by another function, with pauses, so that the common case needs no call.
  template <bool kPauses>
  DEDUP_ALWAYS_INLINE Spot Walk(uint64_t hash, uint32_t node, uint64_t smaller,
                                Spot spot) const noexcept {
    uint64_t steps = 0;
    for (; node != 0; node = Next(node)) {
      if constexpr (kPauses) {
        PauseEvery<kProbesBetweenPauses>(&steps);
      } else {
        if (__builtin_expect(++steps > kShortChain, 0)) return WalkOn(hash, node, smaller, spot);
      }
      const uint64_t there = Hash(node);
      if (spot.before != 0 && there <= smaller) break;  // this is not a valid chain
      if (there >= hash) {
        if (there == hash) spot.at = node;
        break;
      }
      smaller = there;
      spot.before = node;
    }
    return spot;
  }
  __attribute__((noinline, cold)) Spot WalkOn(uint64_t hash, uint32_t node, uint64_t smaller,
                                              Spot spot) const noexcept {
    return Walk<true>(hash, node, smaller, spot);
  }

  static size_t NodeAt(uint32_t node) noexcept {  // of node 0: the start of the list
    return node == 0 ? 0 : kStartBytes + kNodeBytes * (size_t{node} - 1);
  }
  static size_t LinksAt(uint32_t node) noexcept { return node == 0 ? 0 : NodeAt(node) + 8; }
  static size_t NextAt(uint32_t node) noexcept { return NodeAt(node) + 16; }
  static size_t FirstAt(uint64_t bucket) noexcept { return kStartBytes + kNodeBytes * bucket + 20; }

  // Reads a node's number. Returns 0 if there is no such node.
  uint32_t Number(size_t at) const noexcept {
    const uint32_t node = LoadU32(body_ + at) & ~kMark;
    return node <= held_ ? node : 0;
  }
  uint64_t Hash(uint32_t node) const noexcept { return LoadU64(body_ + NodeAt(node)); }
  uint32_t Next(uint32_t node) const noexcept { return Number(NextAt(node)); }
  uint32_t First(uint64_t bucket) const noexcept { return Number(FirstAt(bucket)); }
  uint32_t Older(uint32_t node) const noexcept { return Number(LinksAt(node)); }
  uint32_t Younger(uint32_t node) const noexcept { return Number(LinksAt(node) + 4); }

  void SetOlder(uint32_t node, uint32_t to) noexcept { StoreU32(body_ + LinksAt(node), to); }
  void SetYounger(uint32_t node, uint32_t to) noexcept { StoreU32(body_ + LinksAt(node) + 4, to); }
  void SetLinks(uint32_t node, uint32_t older, uint32_t younger) noexcept {
    SetOlder(node, older);
    SetYounger(node, younger);
  }
  bool Marked(uint32_t node) const noexcept {
    return (LoadU32(body_ + LinksAt(node)) & kMark) != 0;
  }
  void SetMark(uint32_t node, bool mark) noexcept {
    const uint32_t older = LoadU32(body_ + LinksAt(node)) & ~kMark;
    SetOlder(node, mark ? older | kMark : older);
  }

  // Prefetches what evicting the next entry needs: its bucket, and the node after it. The node
  // itself was prefetched at the last eviction.
  void FetchNextOut() const noexcept {
    const uint32_t next = Younger(0);
    FetchBucket(Hash(next));
    PrefetchToWrite(body_ + NodeAt(Younger(next)));
  }

  void Unlink(uint32_t node) noexcept {
    const uint32_t older = Older(node), younger = Younger(node);
    SetYounger(older, younger);
    SetOlder(younger, older);
  }
  void LinkYoungest(uint32_t node) noexcept {
    const uint32_t second = Older(0);
    SetLinks(node, second, 0);
    SetYounger(second, node);
    SetOlder(0, node);
  }

  // Gives the node this hash and puts it behind `before` in the hash's chain.
  void Chain(uint32_t node, uint64_t hash, uint32_t before) noexcept {
    const size_t at = before == 0 ? FirstAt(Bucket(hash)) : NextAt(before);
    StoreU64(body_ + NodeAt(node), hash);
    StoreU32(body_ + NextAt(node), Number(at));
    StoreU32(body_ + at, node);
  }
  void Unchain(uint32_t node) noexcept {
    const uint64_t hash = Hash(node);
    const Spot spot = Find(hash);
    if (spot.at != node) return;  // the links are broken
    StoreU32(body_ + (spot.before == 0 ? FirstAt(Bucket(hash)) : NextAt(spot.before)), Next(node));
  }

  // Moves the contents of a node to a free one.
  void Move(uint32_t from, uint32_t to) noexcept {
    const uint64_t hash = Hash(from);
    const uint32_t older = Older(from), younger = Younger(from);
    Unchain(from);
    Chain(to, hash, Find(hash).before);
    SetLinks(to, older, younger);
    SetYounger(older, to);
    SetOlder(younger, to);
  }
  void Free(uint32_t node) noexcept {
    StoreU64(body_ + NodeAt(node), 0);
    SetLinks(node, 0, 0);
    StoreU32(body_ + NextAt(node), 0);
  }

  // Runs ours(node) and theirs(hash) over the keys of both from the youngest on, by age rank
  // divided by weight, until one of them returns false.
  template <typename Ours, typename Theirs>
  void Interleave(const Table& other, const Weights& weights, Ours ours, Theirs theirs) noexcept {
    const uint64_t held = held_;  // `theirs` may increase held_
    uint64_t rank = 0, other_rank = 0;
    uint32_t node = Older(0), other_node = other.Older(0);
    uint64_t steps = 0;
    while (true) {
      PauseEvery<kStepsBetweenPauses>(&steps);
      const bool left = node != 0 && rank < held;
      const bool right = other_node != 0 && other_rank < other.held_;
      if (!left && !right) return;
      if (left && (!right || rank * weights.right <= other_rank * weights.left)) {
        const uint32_t older = Older(node);
        if (!ours(node)) return;
        node = older;
        ++rank;
      } else {
        if (!theirs(other.Hash(other_node))) return;
        other_node = other.Older(other_node);
        ++other_rank;
      }
    }
  }

  uint8_t* body_;
  uint64_t entries_;
  uint32_t held_;
};

// ---- common functions of the two methods -----------------------------------------

// Fills bytes and keys: as many entries as keys, or as many hashes as fit into `memory`.
inline PlanStatus PlanEntries(const Request& request, Shape* shape) noexcept {
  const uint64_t entries = request.keys > 0 ? request.keys : request.memory / kEntryBytes;
  if (entries == 0) return PlanStatus::kMemoryTooSmall;
  if (entries > kMaxEntries) return PlanStatus::kTooLarge;
  shape->bytes = static_cast<uint32_t>(kStartBytes + kNodeBytes * entries);
  shape->keys = entries;
  return PlanStatus::kOk;
}

inline bool ValidEntries(const Shape& shape, const Counters& counters) noexcept {
  return shape.bytes >= kStartBytes + kNodeBytes && shape.bytes <= kMaxBodyBytes &&
         (shape.bytes - kStartBytes) % kNodeBytes == 0 && shape.keys == Entries(shape) &&
         counters.state <= Entries(shape);
}

// Describes the bytes that count as memory, and those that come in addition.
inline void DescribeEntries(const Shape& shape, char* text, size_t size) noexcept {
  const auto entries = static_cast<unsigned long long>(Entries(shape));
  std::snprintf(text, size, "entries=%llu entry_bytes=%llu index_and_list_bytes=%llu", entries,
                kEntryBytes * entries, shape.bytes - kEntryBytes * entries);
}

// Runs step(i) for every hash and prefetches what it reads: first the bucket, and half a group
// later the node that the bucket names.
template <typename Step>
DEDUP_ALWAYS_INLINE inline void ForEachKey(const Table& table, const uint64_t* hashes, size_t n,
                                           Step step) noexcept {
  constexpr size_t kLater = kGroup / 2;
  InGroups(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        table.FetchBucket(hashes[i]);
        if (i >= kLater) table.FetchChain(hashes[i - kLater]);
      },
      step);
}

inline void Contains(const Shape& shape, const Counters& counters, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Table table(shape, counters.state, body);
  ForEachKey(table, hashes, n, [&](size_t i) { seen[i] = table.Find(hashes[i]).at != 0; });
}

inline bool Forget(const Shape& shape, Counters* counters, uint8_t* body, uint64_t hash) noexcept {
  Table table(shape, counters->state, body);
  const bool forgotten = table.Forget(hash);
  counters->state = table.held();
  return forgotten;
}

// Merges by age rank: the last `keys` of both, taken in turn. Two full buffers without common keys
// keep the younger half of each (or the share of its weight). The kept keys stay in order, so one
// window later the result is the same as that of any other buffer.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other,
                  const Weights& weights) noexcept {
  Table table(shape, counters->state, body);
  table.Merge(Table(shape, other_counters.state, other), weights);
  counters->state = table.held();
  counters->count += other_counters.count;
  return true;
}

inline bool Sound(const Shape& shape, const Counters& counters, const uint8_t* body) noexcept {
  return Table(shape, counters.state, body).Sound();
}

inline double CountHeld(const Counters& counters) noexcept {
  return static_cast<double>(counters.state);
}

}  // namespace dedup::lru_table

#endif  // STREAMDEDUP_CORE_METHODS_LRU_TABLE_HPP_
