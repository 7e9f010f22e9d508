// Merging two filters: the functions of merge.hpp that are not inlined.

#include "merge.hpp"

#include "bytes.hpp"
#include "exact.hpp"
#include "filter.hpp"
#include "image.hpp"
#include "pause.hpp"

namespace dedup {
namespace {

// Returns whether both filters are exact with their hashes in order of value, so that one pass over
// both lists can merge them.
bool BothSorted(const Header& a, const Header& b) noexcept {
  return a.form == Form::kExact && b.form == Form::kExact && a.order() == ExactOrder::kSorted &&
         !a.method->forgets(a.shape);
}

// Returns the most bytes that the merge of two exact filters with `hashes` hashes may need.
size_t LargestOf(const Header& header, uint64_t hashes, uint64_t limit) noexcept {
  const size_t full = kHeaderBytes + BodyBytesFor(header, hashes), entry = header.entry_bytes();
  if (hashes <= limit) return kHeaderBytes + entry * hashes;
  const size_t most = kHeaderBytes + entry * limit;
  return full > most ? full : most;
}

// Adds the hashes of an exact filter to a body for which the order of keys does not matter. If the
// body can forget keys and merges do not add up, a key that is there already is not stored again.
// Then two hashes that share a fingerprint share one copy, and forgetting one of the keys forgets
// both. A key that is there is also not stored again if the body counts its keys to know when to
// grow. Returns false if the body would be full.
bool AddHashes(const Header& header, const uint8_t* image, Counters* counters,
               uint8_t* body) noexcept {
  const Method& method = *header.method;
  const bool ask =
      (method.can_forget(header.shape) && !method.merge_adds) || method.growth != nullptr;
  bool taken = true;
  const auto add = [&](const uint64_t* hashes, const uint64_t* counts, size_t n) {
    if (!taken) return;
    taken = (ask ? method.test_and_add(header.shape, counters, body, hashes, n, nullptr)
                 : Replay(method, header.shape, counters, body, hashes, counts, n)) == n;
  };
  if (method.growth != nullptr && header.hashes() <= kMostExactOfGrowing) {
    uint8_t sorted[8 * kMostExactOfGrowing];
    WriteSorted(image, header, sorted);
    InBatchesSpread(sorted, header.hashes(), add);
  } else {
    InBatches(image, header, add);
  }
  return taken;
}

// Returns how many keys a full filter has after the hashes of an exact one are added. For filters
// that grow, counts the hashes that the full filter does not hold. For other filters the number
// does not matter.
uint64_t KeysWith(const uint8_t* full, const Header& full_header, const uint8_t* exact,
                  const Header& exact_header) noexcept {
  uint64_t keys = full_header.counters.count;
  if (full_header.method->growth == nullptr) return keys;
  InBatches(exact, exact_header, [&](const uint64_t* hashes, const uint64_t*, size_t n) {
    uint8_t seen[kKeysBetweenPauses];
    full_header.method->contains(full_header.shape, full_header.counters,
                                 full + full_header.body_at(), hashes, n, seen);
    for (size_t i = 0; i < n; ++i) keys += seen[i] == 0;
  });
  return keys;
}

// Runs visit(hash, count) over the union of two sorted lists, in order. The counts of a hash in
// both lists are added.
template <typename Visit>
inline void ForEachOfBoth(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                          Visit visit) noexcept {
  const uint64_t na = ha.hashes(), nb = hb.hashes();
  const size_t entry = ha.entry_bytes();
  const bool counted = ha.counted();
  uint64_t i = 0, j = 0;
  // Each step reads an entry of one list or of both.
  ForPieces(na + nb, kProbesBetweenPauses, [&](uint64_t from, uint64_t to) {
    for (uint64_t step = from; step < to && (i < na || j < nb); ++step) {
      const uint64_t left = i < na ? HashAt(a, i, entry) : 0;
      const uint64_t right = j < nb ? HashAt(b, j, entry) : 0;
      const bool of_left = j == nb || (i < na && left <= right);
      const bool of_right = i == na || (j < nb && right <= left);
      uint64_t count = 1;
      if (counted) {
        count = SumOfCounts(of_left ? CountAt(a, i) : 0, of_right ? CountAt(b, j) : 0);
      }
      i += of_left;
      j += of_right;
      visit(of_left ? left : right, count);
    }
  });
}

// Merges two sorted lists into their union.
size_t MergeSorted(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                   uint64_t limit, uint8_t* out) noexcept {
  const bool counted = ha.counted();
  const size_t entry = ha.entry_bytes();
  uint64_t n = 0;
  ForEachOfBoth(a, ha, b, hb, [&](uint64_t, uint64_t) { ++n; });
  uint8_t* to = out + kHeaderBytes;
  if (n <= limit) {
    ForEachOfBoth(a, ha, b, hb, [&](uint64_t hash, uint64_t count) {
      StoreU64(to, hash);
      if (counted) StoreU64(to + 8, count);
      to += entry;
    });
    WriteHeader(out, ha.shape, Form::kExact, Counters{n, 0});
    return kHeaderBytes + entry * n;
  }
  const uint32_t bytes = BodyBytesFor(ha, n);
  Counters counters;
  if (ha.method->growth != nullptr) counters = ha.method->growth->start(bytes);
  ClearInPieces(to, bytes);
  Batches batches;
  bool taken = true;
  const auto replay = [&](const uint64_t* hashes, const uint64_t* counts, size_t size) {
    taken = taken && Replay(*ha.method, ha.shape, &counters, to, hashes, counts, size) == size;
  };
  if (ha.method->growth != nullptr && n <= 2 * kMostExactOfGrowing) {
    uint8_t sorted[16 * kMostExactOfGrowing];
    uint64_t written = 0;
    ForEachOfBoth(a, ha, b, hb,
                  [&](uint64_t hash, uint64_t) { StoreU64(sorted + 8 * written++, hash); });
    InBatchesSpread(sorted, n, replay);
  } else {
    ForEachOfBoth(a, ha, b, hb,
                  [&](uint64_t hash, uint64_t count) { batches.Add(hash, count, replay); });
    batches.Finish(replay);
  }
  return taken ? WriteFull(ha.shape, counters, out) : 0;
}

// Merges two exact filters into their union, by age rank from the youngest. On ties, the left
// filter's key is the younger. A key in both filters keeps the younger of its two ages, and the sum
// of its counts.
size_t MergeExact(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                  uint64_t limit, uint8_t* out, uint8_t* scratch) noexcept {
  if (BothSorted(ha, hb)) return MergeSorted(a, ha, b, hb, limit, out);
  const Shape& shape = ha.shape;
  const uint64_t na = ha.hashes(), nb = hb.hashes(), both = na + nb;
  // Scratch holds the two lists oldest first, then a set that takes them youngest first.
  uint8_t* lists = scratch;
  uint64_t written = 0;
  const bool counted = ha.counted();
  const size_t entry = ha.entry_bytes();
  auto list = [&](uint64_t hash, uint64_t count) {
    uint8_t* to = lists + entry * written++;
    StoreU64(to, hash);
    if (counted) StoreU64(to + 8, count);
  };
  ForEachEntry(a, ha, list);
  const uint64_t taken_a = written;
  ForEachEntry(b, hb, list);
  const uint64_t taken_b = written - taken_a;

  WorkingExact merged(scratch + entry * both, 0, both, ExactOrder::kFirstSight, counted);
  merged.Clear(shape);
  auto take = [&](uint64_t listed) {
    const uint8_t* from = lists + entry * listed;
    const uint64_t hash = LoadU64(from), count = counted ? LoadU64(from + 8) : 1;
    const uint64_t place = merged.Find(hash);
    if (place == kNowhere) {
      merged.Append(hash, count);
    } else {
      merged.Touch(place, count);
    }
  };
  ForPieces(taken_a > taken_b ? taken_a : taken_b, kStepsBetweenPauses,
            [&](uint64_t from, uint64_t to) {
              for (uint64_t age = from; age < to; ++age) {
                if (age < taken_a) take(taken_a - 1 - age);
                if (age < taken_b) take(taken_a + taken_b - 1 - age);
              }
            });

  const uint64_t n = merged.n();
  uint8_t* to = out + kHeaderBytes;
  if (n <= limit) {
    ForUnits(n, 8 * entry, [&](uint64_t from, uint64_t end) {
      for (uint64_t i = from; i < end; ++i) {
        StoreU64(to + entry * i, merged.at(n - 1 - i));
        if (counted) StoreU64(to + entry * i + 8, merged.count_at(n - 1 - i));
      }
    });
    if (ha.order() == ExactOrder::kSorted) SortEntries(to, n, counted);
    WriteHeader(out, shape, Form::kExact, Counters{n, 0});
    return kHeaderBytes + entry * n;
  }
  Counters counters;
  if (ha.method->forgets(shape) && ha.method->merge_keeps_all && n > shape.keys) {
    // If there are more keys than the window holds, replaying one list would lose the older keys of
    // one filter.
    Counters replayed;
    if (!BodyTo(a, ha, shape.bytes, &counters, to) ||
        !BodyTo(b, hb, shape.bytes, &replayed, scratch) ||
        !ha.method->merge(shape, &counters, to, replayed, scratch, Weights{})) {
      return 0;
    }
    return WriteFull(shape, counters, out);
  }
  const uint32_t bytes = BodyBytesFor(ha, n);
  if (ha.method->growth != nullptr) counters = ha.method->growth->start(bytes);
  ClearInPieces(to, bytes);
  bool taken = true;
  if (ha.method->growth != nullptr) {
    // This gives the same bytes as merging stored filters.
    for (uint64_t i = 0; i < n; ++i) StoreU64(lists + 8 * i, merged.at(i));
    SortEntries(lists, n, false);
    InBatchesSpread(lists, n, [&](const uint64_t* hashes, const uint64_t* counts, size_t size) {
      taken = taken && Replay(*ha.method, shape, &counters, to, hashes, counts, size) == size;
    });
  } else {
    ForKeys(n, [&](uint64_t from, uint64_t end) {
      for (uint64_t i = from; i < end && taken; ++i) {
        const uint64_t hash = merged.at(n - 1 - i), count = merged.count_at(n - 1 - i);
        taken = Replay(*ha.method, shape, &counters, to, &hash, &count, 1) != 0;
      }
    });
  }
  if (!taken) return 0;
  return WriteFull(shape, counters, out);
}

}  // namespace

MergeBytes MergeNeeds(const Header& a, const Header& b, uint64_t limit) noexcept {
  const uint64_t keys = a.counters.count + b.counters.count;
  const uint32_t left = BodyBytesFor(a, keys), right = BodyBytesFor(b, keys);
  const size_t full = kHeaderBytes + (left > right ? left : right);
  const bool ordered = !AnyOrder(a);
  if (!a.exact() || !b.exact()) {
    return {full, a.exact() != b.exact() && ordered ? size_t{a.shape.bytes} : 0};
  }
  const uint64_t both = a.hashes() + b.hashes();
  const size_t entry = a.entry_bytes();
  if (BothSorted(a, b)) return {LargestOf(a, both, limit), 0};
  size_t scratch = WorkingExactBytes(both, ExactOrder::kFirstSight, a.counted()) + entry * both;
  // Each filter of a window may be replayed on its own.
  if (a.method->growth == nullptr && scratch < a.shape.bytes) scratch = a.shape.bytes;
  return {LargestOf(a, both, limit), scratch};
}

size_t MergeTo(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
               uint64_t limit, uint8_t* out, uint8_t* scratch) noexcept {
  const Weights weights = {ha.parts(), hb.parts()};
  if (ha.exact() && hb.exact()) return MergeExact(a, ha, b, hb, limit, out, scratch);
  const Shape& shape = ha.shape;
  const Method* method = ha.method;
  uint8_t* body = out + kHeaderBytes;
  Counters counters;
  if (AnyOrder(ha) && ha.exact() != hb.exact()) {
    // The order of the hashes does not matter, so they go straight into the body of the full
    // filter.
    const bool left_full = hb.exact();
    const uint8_t* full = left_full ? a : b;
    const Header& full_header = left_full ? ha : hb;
    const uint64_t keys = left_full ? KeysWith(a, ha, b, hb) : KeysWith(b, hb, a, ha);
    if (!BodyTo(full, full_header, BodyBytesFor(full_header, keys), &counters, body) ||
        !AddHashes(left_full ? hb : ha, left_full ? b : a, &counters, body)) {
      return 0;
    }
  } else if (method->growth != nullptr) {
    // The smaller one is merged into a copy of the larger one.
    const bool left_larger = ha.used_bytes() >= hb.used_bytes();
    const uint8_t* larger = left_larger ? a : b;
    const uint8_t* smaller = left_larger ? b : a;
    const Header& hl = left_larger ? ha : hb;
    const Header& hs = left_larger ? hb : ha;
    const uint8_t* other = smaller + hs.body_at();
    const uint64_t keys =
        method->growth->union_keys(shape, hl.counters, larger + hl.body_at(), hs.counters, other);
    if (!BodyTo(larger, hl, BodyBytesFor(hl, keys), &counters, body) ||
        !method->merge(shape, &counters, body, hs.counters, other, weights)) {
      return 0;
    }
  } else {
    if (!BodyTo(a, ha, shape.bytes, &counters, body)) return 0;
    Counters replayed = hb.counters;
    const uint8_t* right = b + hb.body_at();
    if (hb.exact()) {
      if (!BodyTo(b, hb, shape.bytes, &replayed, scratch)) return 0;
      right = scratch;
    }
    if (!method->merge(shape, &counters, body, replayed, right, weights)) return 0;
  }
  return WriteFull(shape, counters, out);
}

bool Reducible(const Header& header, const Shape& to) noexcept {
  return header.method->reducible != nullptr && header.method->reducible(header.shape, to);
}

size_t ReducedBytes(const Header& header, const Shape& to) noexcept {
  if (header.exact() && header.hashes() <= ExactLimit(*header.method, to, header.order())) {
    return kHeaderBytes + 8 * header.hashes();
  }
  const Growth* growth = header.method->growth;
  return kHeaderBytes +
         (growth != nullptr ? growth->bytes_for(to, header.counters.count) : to.bytes);
}

void ReduceTo(const uint8_t* image, const Header& header, const Shape& to, uint8_t* out) noexcept {
  const size_t size = ReducedBytes(header, to);
  if (header.exact()) {
    // Exact filters differ in their shape only, so the filter is written with the new shape.
    Header same = header;
    same.shape = to;
    WriteCanonical(image, same, out);
    return;
  }
  Counters counters;
  header.method->reduce(header.shape, header.counters, image + header.body_at(), to,
                        static_cast<uint32_t>(size - kHeaderBytes), &counters, out + kHeaderBytes);
  WriteHeader(out, to, Form::kFull, counters);
  Seal(out, size);
}

// Two keys with the same entry become one entry: they are joined. A body has the right size if at
// most this many keys were joined, plus one key in some thousands.
static constexpr uint64_t kFewJoined = 4;

bool MergesToPlain(const Header& a, const Header& b, const Shape& to) noexcept {
  return b.method->growth != nullptr && !a.exact() && !b.exact() && Reducible(b, to) &&
         (a.shape == b.shape || a.shape == to);
}

uint64_t PlainKeys(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                   const Shape& to) noexcept {
  // Lookups are cheaper in the larger filter. The keys of a plain filter cannot be looked up in a
  // state.
  const bool in_left = ha.shape == to || ha.used_bytes() >= hb.used_bytes();
  const uint8_t* larger = in_left ? a : b;
  const uint8_t* state = in_left ? b : a;
  const Header& hl = in_left ? ha : hb;
  const Header& hs = in_left ? hb : ha;
  return ha.method->growth->keys_with_state(hl.shape, hl.counters, larger + hl.body_at(), hs.shape,
                                            hs.counters, state + hs.body_at());
}

uint32_t PlainBytes(const Header& ha, const Shape& to, uint64_t keys) noexcept {
  return ha.shape == to ? BodyBytesFor(ha, keys) : ha.method->growth->bytes_for(to, keys);
}

size_t MergeToPlain(const uint8_t* a, const Header& ha, const uint8_t* b, const Header& hb,
                    const Shape& to, uint32_t bytes, uint8_t* out) noexcept {
  const Growth* growth = ha.method->growth;
  uint8_t* body = out + kHeaderBytes;
  Counters counters;
  uint64_t joined = 0;
  if (ha.shape == to) {
    if (!BodyTo(a, ha, bytes, &counters, body)) return 0;
  } else {
    counters = growth->start(bytes);
    ClearInPieces(body, bytes);
    joined = growth->take_state(to, &counters, body, ha.shape, ha.counters, a + ha.body_at());
  }
  joined += growth->take_state(to, &counters, body, hb.shape, hb.counters, b + hb.body_at());
  // Keys that are joined by chance do not count here. A larger body would not help if keys were
  // chosen to meet in few lines.
  if (bytes < PlainBytes(ha, to, ha.counters.count + hb.counters.count) &&
      (counters.count > growth->limit(to, counters) ||
       joined > kFewJoined + counters.count / 4096)) {
    return 0;
  }
  return WriteFull(to, counters, out);
}

void SetParts(uint8_t* image, Header* header, uint32_t parts) noexcept {
  header->working.merged = static_cast<uint16_t>(parts - 1 < 0xffff ? parts - 1 : 0xffff);
  WriteWorkingState(image, header->working);
}

Outcome MergeInPlace(uint8_t* a, Header* ha, const uint8_t* b, const Header& hb) noexcept {
  if (ha->exact()) return Outcome::kNoRoom;
  bool taken = true;
  uint8_t* body = a + ha->body_at();
  const Growth* growth = ha->method->growth;
  if (growth != nullptr) {
    uint64_t keys = 0;
    if (hb.exact()) {
      keys = KeysWith(a, *ha, b, hb);
    } else {
      if (hb.used_bytes() > ha->used_bytes()) return Outcome::kNoRoom;
      keys = growth->union_keys(ha->shape, ha->counters, body, hb.counters, b + hb.body_at());
    }
    if (BodyBytesFor(*ha, keys) > ha->used_bytes()) return Outcome::kNoRoom;
  }
  if (!hb.exact()) {
    taken = ha->method->merge(ha->shape, &ha->counters, body, hb.counters, b + hb.body_at(),
                              Weights{ha->parts(), hb.parts()});
  } else if (AnyOrder(*ha)) {
    taken = AddHashes(hb, b, &ha->counters, body);
  } else {
    return Outcome::kNoRoom;
  }
  WriteCounters(a, ha->counters);
  return taken ? Outcome::kNew : Outcome::kFull;
}

}  // namespace dedup
