// Reading, growing, copying and settling a filter: the functions of filter.hpp that are not
// inlined.

#include "filter.hpp"

#include <cmath>

#include "bytes.hpp"
#include "exact.hpp"
#include "image.hpp"
#include "method.hpp"
#include "pause.hpp"
#include "registry.hpp"

namespace dedup {

uint64_t TotalOf(const uint8_t* image, const Header& header) noexcept {
  if (!header.exact()) return header.counters.count;
  uint64_t total = 0;
  ForEachEntry(image, header, [&](uint64_t, uint64_t count) { total = SumOfCounts(total, count); });
  return total;
}

Reading Read(const uint8_t* image, const Header& header) noexcept {
  if (header.exact()) {
    const double n = static_cast<double>(header.hashes());
    return {n, std::ldexp(n, -64)};
  }
  return header.method->read(header.shape, header.counters, image + header.body_at());
}

bool Overfull(const Header& header, const Reading& reading) noexcept {
  if (header.exact() || !header.method->has_rate()) return false;
  if (header.method->growth != nullptr) {
    return header.counters.count > header.method->growth->most_keys(header.shape);
  }
  if (header.method->forgets(header.shape)) {
    // This is the common case. It avoids computing the expected rate.
    if (reading.fpr <= 1.2 * header.shape.fpr) return false;
    // Some published methods exceed the requested rate by design. Their steady-state rate can be
    // higher again than the rate at `keys` keys.
    const double settled = SteadyFpr(*header.method, header.shape);
    const double at_keys = static_cast<double>(header.shape.keys);
    const double usual =
        settled <= kMaxFpr ? settled : header.method->expected_fpr(header.shape, at_keys);
    return reading.fpr > 1.2 * usual;
  }
  const double keys = static_cast<double>(header.shape.keys);
  return reading.count > keys * (1.02 + 1 / std::sqrt(keys));
}

Step NextStep(const Header& header, uint64_t limit) noexcept {
  const uint64_t n = header.counters.count;
  if (!header.exact() || n >= limit) {
    return {Form::kWorkingFull, header.method->growth != nullptr ? n + 1 : 0};
  }
  uint64_t room = header.counted() ? kFirstCountedRoom : kFirstRoom;
  if (n >= kManyHashes) {
    room = limit;
    while (room / 4 > n) room /= 4;
  } else if (n >= room) {
    room = header.counted() && n < kListRoom ? kListRoom : 2 * kListRoom;
    while (room <= n) room *= 2;
  }
  return {Form::kWorkingExact, room < limit ? room : limit};
}

Step FirstStep(const Header& header, uint64_t limit) noexcept {
  if (header.exact() && header.hashes() >= limit) return {Form::kWorkingExact, header.hashes()};
  Step step = NextStep(header, limit);
  if (!header.exact() && header.method->growth != nullptr) step.room = header.counters.count;
  return step;
}

size_t StepBytes(const Header& header, const Step& step) noexcept {
  if (step.form == Form::kWorkingExact) {
    return WorkingExactBytes(step.room, header.order(), header.counted());
  }
  return WorkingFullBytes(BodyBytesFor(header, step.room));
}

uint32_t BodyBytesFor(const Header& header, uint64_t keys) noexcept {
  if (header.method->growth == nullptr) return header.shape.bytes;
  const uint32_t bytes = header.method->growth->bytes_for(header.shape, keys);
  const size_t now = header.exact() ? 0 : header.used_bytes();
  return bytes > now ? bytes : static_cast<uint32_t>(now);
}

void MoveBody(uint8_t* image, Header* header, size_t shift) noexcept {
  MoveInPieces(image + kHeaderBytes + shift, image + header->body_at(), header->body_bytes());
  header->working.shift = static_cast<uint16_t>(shift);
  WriteWorkingState(image, header->working);
}

bool BodyTo(const uint8_t* image, const Header& header, uint32_t bytes, Counters* counters,
            uint8_t* body) noexcept {
  const Growth* growth = header.method->growth;
  if (!header.exact()) {
    const size_t used = header.used_bytes();
    if (growth != nullptr && bytes > used) {
      growth->grow(header.shape, header.counters, image + header.body_at(), bytes, counters, body);
      return true;
    }
    *counters = header.counters;
    CopyInPieces(body, image + header.body_at(), used);
    ClearInPieces(body + used, bytes - used);
    return true;
  }
  bool taken = true;
  *counters = growth != nullptr ? growth->start(bytes) : Counters{};
  ClearInPieces(body, bytes);
  InBatchesForBody(image, header, [&](const uint64_t* hashes, const uint64_t* counts, size_t n) {
    taken = taken && Replay(*header.method, header.shape, counters, body, hashes, counts, n) == n;
  });
  return taken;
}

// Flattened, because a call for each hash makes the loops over hashes slower by half.
[[gnu::flatten]] bool MakeWorking(const uint8_t* image, const Header& header, const Step& step,
                                  uint8_t* out) noexcept {
  if (step.form == Form::kWorkingExact) {
    WorkingExact grown(out, 0, step.room, header.order(), header.counted());
    grown.Clear(header.shape);
    InBatches(image, header, [&](const uint64_t* hashes, const uint64_t* counts, size_t n) {
      for (size_t i = 0; i < n; ++i) grown.PrefetchIndex(hashes[i]);
      for (size_t i = 0; i < n && !grown.full(); ++i) grown.Append(hashes[i], counts[i]);
    });
    return true;
  }
  const uint32_t bytes = BodyBytesFor(header, step.room);
  const size_t shift = ShiftFor(out, bytes);
  Counters counters;
  const bool taken = BodyTo(image, header, bytes, &counters, out + kHeaderBytes + shift);
  WriteHeader(out, header.shape, Form::kWorkingFull, counters,
              WorkingState{.shift = static_cast<uint16_t>(shift)});
  return taken;
}

[[gnu::flatten]] size_t TestAndAddAll(uint8_t* image, Header* header, const uint64_t* hashes,
                                      size_t n, uint8_t* seen) noexcept {
  size_t i = 0;
  if (header->form == Form::kWorkingExact) {
    WorkingExact exact(image, *header);
    for (size_t j = 0; j < n; ++j) exact.PrefetchIndex(hashes[j]);
    for (; i < n; ++i) {
      uint64_t free;
      const uint64_t place = exact.Find(hashes[i], &free);
      seen[i] = place != kNowhere;
      if (place != kNowhere) {
        exact.Touch(place);
      } else if (exact.full()) {
        break;
      } else {
        exact.AppendAt(free, hashes[i]);
      }
    }
    header->counters.count = exact.n();
    return i;
  }
  if (HasToGrow(*header, n)) {
    for (; i < n; ++i) {
      const Outcome outcome = TestAndAdd(image, header, hashes[i]);
      if (outcome == Outcome::kNoRoom || outcome == Outcome::kFull) break;
      seen[i] = outcome == Outcome::kSeen;
    }
    return i;
  }
  i = header->method->test_and_add(header->shape, &header->counters, image + header->body_at(),
                                   hashes, n, seen);
  // This is also right if a key was refused: the body may have grown in vain.
  WriteCounters(image, header->counters);
  return i;
}

[[gnu::flatten]] bool SettleDeferred(uint8_t* image, Header* header) noexcept {
  const size_t n = header->deferred();
  size_t taken = n;
  uint64_t hashes[kMaxDeferred];
  if (header->form == Form::kWorkingExact) {
    WorkingExact exact(image, *header);
    const uint8_t* from = image + kHeaderBytes + 8 * exact.n();
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = LoadU64(from + 8 * i);
      exact.PrefetchIndex(hashes[i]);
    }
    for (size_t i = 0; i < n; ++i) {
      uint64_t free;
      const uint64_t place = exact.Find(hashes[i], &free);
      if (place != kNowhere) {
        exact.Touch(place);
      } else {
        exact.AppendAt(free, hashes[i]);
      }
    }
    header->counters.count = exact.n();
  } else {
    for (size_t i = 0; i < n; ++i) hashes[i] = LoadU64(image + kHeaderBytes + 8 * i);
    taken = header->method->test_and_add(header->shape, &header->counters,
                                         image + header->body_at(), hashes, n, nullptr);
    WriteCounters(image, header->counters);
  }
  header->working.deferred = 0;
  WriteWorkingState(image, header->working);
  return taken == n;
}

size_t CanonicalBytes(const Header& header) noexcept {
  if (StaysExact(header)) return kHeaderBytes + header.entry_bytes() * header.hashes();
  return kHeaderBytes +
         (header.exact() ? BodyBytesFor(header, header.hashes()) : header.used_bytes());
}

void WriteCanonical(const uint8_t* image, const Header& header, uint8_t* out) noexcept {
  const size_t size = CanonicalBytes(header);
  if (StaysExact(header)) {
    const bool counted = header.counted();
    uint8_t* to = out + kHeaderBytes;
    ForEachEntry(image, header, [&](uint64_t hash, uint64_t count) {
      StoreU64(to, hash);
      if (counted) StoreU64(to + 8, count);
      to += EntryBytes(counted);
    });
    if (to < out + size) {  // The links are broken: keep the bytes defined.
      ClearInPieces(to, static_cast<size_t>(out + size - to));
    }
    if (header.form == Form::kWorkingExact && header.order() == ExactOrder::kSorted) {
      SortEntries(out + kHeaderBytes, header.hashes(), counted);
    }
    WriteHeader(out, header.shape, Form::kExact, Counters{header.hashes(), 0});
  } else if (header.exact()) {
    Counters counters;
    (void)BodyTo(image, header, BodyBytesFor(header, header.hashes()), &counters,
                 out + kHeaderBytes);
    WriteHeader(out, header.shape, Form::kFull, counters);
  } else {
    CopyInPieces(out + kHeaderBytes, image + header.body_at(), size - kHeaderBytes);
    WriteHeader(out, header.shape, Form::kFull, header.counters);
  }
  Seal(out, size);
}

size_t WriteFull(const Shape& shape, const Counters& counters, uint8_t* out) noexcept {
  WriteHeader(out, shape, Form::kFull, counters);
  const Method* method = MethodByCode(shape.method);
  return kHeaderBytes +
         (method->used_bytes != nullptr ? method->used_bytes(shape, counters) : shape.bytes);
}

size_t AddToBytes(const Header& header) noexcept {
  if (!header.exact()) return kHeaderBytes + BodyBytesFor(header, header.counters.count + 1);
  const size_t same = kHeaderBytes + header.entry_bytes() * header.hashes();
  if (header.hashes() >= header.exact_limit()) {
    const size_t full = kHeaderBytes + BodyBytesFor(header, header.hashes() + 1);
    return full > same ? full : same;
  }
  return same + header.entry_bytes();
}

size_t AddTo(const uint8_t* image, const Header& header, uint64_t hash, uint8_t* out) noexcept {
  const Shape& shape = header.shape;
  if (header.form == Form::kFull) {
    Counters counters;
    // A key that is there already does not make a body grow.
    const bool grows = HasToGrow(header, 1) && !Contains(image, header, hash);
    const uint32_t bytes = BodyBytesFor(header, header.counters.count + grows);
    uint8_t* body = out + kHeaderBytes;
    if (!BodyTo(image, header, bytes, &counters, body)) return 0;
    // A key for which the body grew is new, even if the larger body reports it as seen.
    const size_t taken =
        grows ? header.method->insert(shape, &counters, body, &hash, 1)
              : header.method->test_and_add(shape, &counters, body, &hash, 1, nullptr);
    if (taken == 0) return 0;
    return WriteFull(shape, counters, out);
  }
  const uint64_t n = header.hashes();
  const ExactOrder order = header.order();
  const size_t entry = header.entry_bytes();
  const uint8_t* from = image + kHeaderBytes;
  uint8_t* to = out + kHeaderBytes;
  uint64_t place = FindCanonical(image, header, hash);
  uint64_t size = n;
  if (place != kNowhere) {
    CopyInPieces(to, from, entry * n);
    if (header.counted()) {
      StoreU64(to + entry * place + 8, SumOfCounts(CountAt(image, place), 1));
    } else if (order == ExactOrder::kLastSight) {
      MoveInPieces(to + 8 * place, to + 8 * (place + 1), 8 * (n - place - 1));
      StoreU64(to + 8 * (n - 1), hash);
    }
  } else if (n < header.exact_limit()) {
    place = order == ExactOrder::kSorted ? LowerBound(image, header, hash) : n;
    CopyInPieces(to, from, entry * place);
    StoreU64(to + entry * place, hash);
    if (header.counted()) StoreU64(to + entry * place + 8, 1);
    CopyInPieces(to + entry * (place + 1), from + entry * place, entry * (n - place));
    size = n + 1;
  } else {
    Counters counters;
    const uint64_t once = 1;
    if (!BodyTo(image, header, BodyBytesFor(header, n + 1), &counters, to) ||
        Replay(*header.method, shape, &counters, to, &hash, &once, 1) == 0) {
      return 0;
    }
    return WriteFull(shape, counters, out);
  }
  WriteHeader(out, shape, Form::kExact, Counters{size, 0});
  return kHeaderBytes + entry * size;
}

size_t ForgetBytes(const Header& header) noexcept {
  return kHeaderBytes + (header.exact() ? 8 * header.hashes() : header.shape.bytes);
}

size_t ForgetFrom(const uint8_t* image, const Header& header, uint64_t hash,
                  uint8_t* out) noexcept {
  const Shape& shape = header.shape;
  if (!header.exact()) {
    Counters counters;
    if (!BodyTo(image, header, header.shape.bytes, &counters, out + kHeaderBytes) ||
        !header.method->forget(shape, &counters, out + kHeaderBytes, hash)) {
      return 0;
    }
    return WriteFull(shape, counters, out);
  }
  const uint64_t place = FindCanonical(image, header, hash), n = header.hashes();
  if (place == kNowhere) return 0;
  const uint8_t* from = image + kHeaderBytes;
  uint8_t* to = out + kHeaderBytes;
  CopyInPieces(to, from, 8 * place);
  CopyInPieces(to + 8 * place, from + 8 * (place + 1), 8 * (n - place - 1));
  WriteHeader(out, shape, Form::kExact, Counters{n - 1, 0});
  return kHeaderBytes + 8 * (n - 1);
}

}  // namespace dedup
