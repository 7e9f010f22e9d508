// The bytes of a filter: one header of 60 bytes, then what it holds.
//
//   offset  bytes
//        0      1  0xDF
//        1      1  format version, 1
//        2      1  method code
//        3      1  form (below) in the low 4 bits, and above them the number of the hash
//                  of the keys: 0 XXH3, 1 SipHash-2-4
//        4      4  M, the method's body in bytes
//        8      8  checksum; in working forms not one, see below
//       16      8  seed of the key hash
//       24      8  keys: capacity or window; 0 of methods without a rate
//       32      8  fpr, an IEEE double; the same
//       40      8  the method's detail
//       48      8  exact forms: n, the number of hashes; else Counters::count
//       56      4  kWorkingExact: room for so many hashes; kExact: 0; else
//                  Counters::state
//       60         the hashes, or the body
//
// Numbers are little-endian. There are four forms. Two are canonical: they are
// what is stored, and equal filters have equal bytes.
//   kExact         the 64-bit hashes themselves, while 8 n <= M (exact.hpp); of methods
//                  that tell frequencies each with its 64-bit count, while 16 n <= M
//   kFull          the method's body, as far as it is in use
// Two are working forms, for a filter that is being filled in memory; they have
// spare room, no checksum, and never leave the server's memory:
//   kWorkingExact  hashes with an index over them
//   kWorkingFull   the method's body, moved up to a cache line's start by as many
//                  bytes as the low 16 bits of the checksum field say
// The next 16 bits of that field count deferred hashes: keys that were added but not
// yet looked up and put where they belong, so that it can be done in batches, with
// prefetch (Defer and Settle in filter.hpp). They stand behind the header, in front
// of the body, or behind the n hashes of an exact image. The 16 bits above count the
// filters that were merged into it, without the first.
//
// Check() is O(1) and makes every later call memory-safe whatever the rest of
// the bytes hold. Validate() is for bytes from outside.

#ifndef STREAMDEDUP_CORE_IMAGE_HPP_
#define STREAMDEDUP_CORE_IMAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.hpp"
#include "method.hpp"
#include "pause.hpp"
#include "registry.hpp"
#include "xxh3.hpp"

namespace dedup {

inline constexpr uint8_t kMagic = 0xDF;
inline constexpr uint8_t kFormatVersion = 1;
inline constexpr size_t kHeaderBytes = 60;

// Of a stored exact form: a hash, and its count where it has one.
inline constexpr size_t EntryBytes(bool counted) noexcept { return counted ? 16 : 8; }

enum class Form : uint8_t { kExact = 0, kFull = 1, kWorkingExact = 2, kWorkingFull = 3 };

struct Header {
  const Method* method;
  Shape shape;
  Form form;
  Counters counters;  // in exact forms: n, and the room
  uint64_t checksum;  // in working forms: the body's shift, and deferred hashes

  bool exact() const noexcept { return form == Form::kExact || form == Form::kWorkingExact; }
  bool canonical() const noexcept { return form == Form::kExact || form == Form::kFull; }
  uint64_t hashes() const noexcept { return counters.count; }  // of exact forms
  uint64_t room() const noexcept {                             // of exact forms
    return form == Form::kExact ? counters.count : counters.state;
  }
  ExactOrder order() const noexcept { return method->exact_order(shape); }
  // Of exact forms: whether each hash has a count.
  bool counted() const noexcept { return method->counts(); }
  size_t entry_bytes() const noexcept { return EntryBytes(counted()); }
  uint64_t exact_limit() const noexcept;
  uint64_t state_limit() const noexcept;
  size_t body_at() const noexcept {  // of full forms
    return kHeaderBytes + (form == Form::kWorkingFull ? checksum & 0xffff : 0);
  }
  size_t used_bytes() const noexcept {  // of full forms: of the body
    return method->used_bytes != nullptr ? method->used_bytes(shape, counters) : shape.bytes;
  }
  // Filters that were merged into this one, itself included.
  uint32_t parts() const noexcept {
    return canonical() ? 1 : 1 + static_cast<uint32_t>(checksum >> 32 & 0xffff);
  }
  size_t deferred() const noexcept { return canonical() ? 0 : checksum >> 16 & 0xffff; }
};

// ---- exact forms: how many hashes, how many bytes -----------------------------

// A working form up to this room is a plain list; above, it has an index of two
// 4-byte slots a hash, and where order is by last sight two 4-byte links. With counts,
// which have no order by last sight, there are 8 bytes more a hash.
inline constexpr uint64_t kListRoom = 8;

// Working forms stay below PostgreSQL's limit of 1 GiB a value. That ends the
// exact form early only in filters of more than 340 MiB.
inline constexpr uint64_t kMaxWorkingBytes = (uint64_t{1} << 30) - 4096;

inline constexpr uint64_t WorkingExactBytes(uint64_t room, ExactOrder order,
                                            bool counted = false) noexcept {
  const uint64_t list = kHeaderBytes + EntryBytes(counted) * room;
  if (room <= kListRoom) return list;
  return list + 8 * room + (order == ExactOrder::kLastSight ? 8 * (room + 1) : 0);
}

inline constexpr uint64_t MostHashes(ExactOrder order, bool counted = false) noexcept {
  return (kMaxWorkingBytes - kHeaderBytes - 8) /
         (counted || order == ExactOrder::kLastSight ? 24 : 16);
}

// The most hashes that a filter keeps before it goes over to its method.
inline uint64_t ExactLimit(const Method& method, const Shape& shape, ExactOrder order) noexcept {
  uint64_t limit = shape.bytes / EntryBytes(method.counts());
  if (method.exact_to_keys && limit > shape.keys) limit = shape.keys;
  const uint64_t most = MostHashes(order, method.counts());
  return limit < most ? limit : most;
}

// The same for the states of partial aggregates, which are yet to be merged: windows
// stay exact for all the keys they are sized for, since only hashes can be merged
// without loss. Such a state becomes its method when it is made canonical.
inline uint64_t StateLimit(const Method& method, const Shape& shape, ExactOrder order) noexcept {
  const uint64_t limit = ExactLimit(method, shape, order);
  if (!method.forgets(shape) || shape.keys <= limit) return limit;
  return shape.keys < MostHashes(order) ? shape.keys : MostHashes(order);
}

inline uint64_t Header::exact_limit() const noexcept { return ExactLimit(*method, shape, order()); }
inline uint64_t Header::state_limit() const noexcept { return StateLimit(*method, shape, order()); }

// The most deferred hashes. Filters that fit the inner caches need none.
inline constexpr size_t kMaxDeferred = 64;
inline constexpr uint64_t kDeferFromBytes = 256 * 1024;

// Room for deferred hashes in front of a body, and the most that it is shifted.
inline constexpr size_t DeferredRoom(const Shape& shape) noexcept {
  return shape.bytes >= kDeferFromBytes ? kMaxDeferred : 0;
}
inline constexpr size_t kMaxShift = 8 * kMaxDeferred + kLineBytes - 1;

// Bytes of a full working image: its body may start at any of a line's bytes, so
// that it can be moved to a line's start wherever the image stands.
inline constexpr uint64_t WorkingFullBytes(const Shape& shape) noexcept {
  return kHeaderBytes + 8 * DeferredRoom(shape) + (kLineBytes - 1) + shape.bytes;
}

// Whether a working image's checksum field is one, in an exact image of n hashes
// with this room, or in a full one.
inline constexpr bool WorkingFieldValid(uint64_t field, const Shape& shape, bool exact, uint64_t n,
                                        uint64_t room) noexcept {
  const uint64_t shift = field & 0xffff, deferred = field >> 16 & 0xffff;
  if (field >> 48 != 0) return false;
  if (deferred > 0 && (shape.bytes < kDeferFromBytes || deferred >= kMaxDeferred)) return false;
  if (exact) return shift == 0 && n + deferred <= room;
  return shift >= 8 * DeferredRoom(shape) && shift < 8 * DeferredRoom(shape) + kLineBytes;
}

// ---- reading and writing the header -------------------------------------------

inline void WriteHeader(uint8_t* image, const Shape& shape, Form form, const Counters& counters,
                        uint64_t checksum) noexcept {
  image[0] = kMagic;
  image[1] = kFormatVersion;
  image[2] = shape.method;
  image[3] = static_cast<uint8_t>(static_cast<unsigned>(form) | unsigned{shape.hash} << 4);
  StoreU32(image + 4, shape.bytes);
  StoreU64(image + 8, checksum);
  StoreU64(image + 16, shape.seed);
  StoreU64(image + 24, shape.keys);
  StoreDouble(image + 32, shape.fpr);
  StoreU64(image + 40, shape.detail);
  StoreU64(image + 48, counters.count);
  StoreU32(image + 56, counters.state);
}

inline void WriteCounters(uint8_t* image, const Counters& counters) noexcept {
  StoreU64(image + 48, counters.count);
  StoreU32(image + 56, counters.state);
}

// What is wrong with an image.
enum class Flaw {
  kNone,
  kNotAFilter,     // too short for a header, or without the first byte
  kFutureVersion,  // of the format
  kUnknownMethod,  // maybe of a later release
  kUnknownHash,    // the same
  kParameters,     // that no filter can have
  kSize,           // does not agree with the header
  kWorking,        // a working form where only canonical ones may be
  kChecksum,
  kOrder,  // of exact hashes
  kBody,   // one that the method does not make
};

// The number of the hash of the keys, one that is known or not.
inline unsigned HashNumberOf(const uint8_t* image) noexcept { return image[3] >> 4; }

// Reads and checks the header in O(1).
[[nodiscard]] inline Flaw Check(const uint8_t* image, size_t size, Header* header) noexcept {
  if (size < kHeaderBytes || image[0] != kMagic) return Flaw::kNotAFilter;
  if (image[1] != kFormatVersion) return Flaw::kFutureVersion;
  const Method* method = MethodByCode(image[2]);
  if (method == nullptr) return Flaw::kUnknownMethod;
  const unsigned form = image[3] & 0xf, hash = HashNumberOf(image);
  if (form > static_cast<unsigned>(Form::kWorkingFull)) return Flaw::kParameters;
  if (hash >= kHashCount) return Flaw::kUnknownHash;
  header->method = method;
  header->form = static_cast<Form>(form);
  Shape& shape = header->shape;
  shape.method = image[2];
  shape.hash = static_cast<uint8_t>(hash);
  shape.bytes = LoadU32(image + 4);
  header->checksum = LoadU64(image + 8);
  shape.seed = LoadU64(image + 16);
  shape.keys = LoadU64(image + 24);
  shape.fpr = LoadDouble(image + 32);
  shape.detail = LoadU64(image + 40);
  header->counters.count = LoadU64(image + 48);
  header->counters.state = LoadU32(image + 56);

  if (shape.bytes == 0 || shape.bytes > kMaxBodyBytes) return Flaw::kParameters;
  if (method->has_rate() ? shape.keys < 1 || shape.keys > kMaxKeys ||
                               !(shape.fpr >= kMinFpr && shape.fpr <= kMaxFpr)
                         : shape.keys != 0 || LoadU64(image + 32) != 0) {
    return Flaw::kParameters;
  }
  if (!method->valid(shape, header->exact() ? Counters{} : header->counters))
    return Flaw::kParameters;
  switch (header->form) {
    case Form::kExact:
      if (header->counters.state != 0 || header->hashes() > header->state_limit()) {
        return Flaw::kParameters;
      }
      if (size != kHeaderBytes + header->entry_bytes() * header->hashes()) return Flaw::kSize;
      break;
    case Form::kWorkingExact:
      if (header->hashes() > header->room() || header->room() > header->state_limit() ||
          !WorkingFieldValid(header->checksum, shape, true, header->hashes(), header->room())) {
        return Flaw::kParameters;
      }
      if (size < WorkingExactBytes(header->room(), header->order(), header->counted())) {
        return Flaw::kSize;
      }
      break;
    case Form::kFull:
      if (size != kHeaderBytes + header->used_bytes()) return Flaw::kSize;
      break;
    case Form::kWorkingFull:
      if (!WorkingFieldValid(header->checksum, shape, false, 0, 0)) return Flaw::kParameters;
      if (size < WorkingFullBytes(shape)) return Flaw::kSize;
      break;
  }
  return Flaw::kNone;
}

// The same for images that are looked at again and again and differ in little but
// their counts: `raw` is the image of the last full check, `header` that header as
// it is now, changed along with the image that it belongs to.
struct LastCheck {
  Header header;
  size_t size = 0;
  uint8_t raw[kHeaderBytes] = {};
};

[[nodiscard]] inline Flaw CheckAgain(const uint8_t* image, size_t size, LastCheck* last) noexcept {
  Header& header = last->header;
  if (size >= kHeaderBytes && size == last->size && std::memcmp(image, last->raw, 8) == 0 &&
      std::memcmp(image + 16, last->raw + 16, 32) == 0 &&
      LoadU32(image + 56) == header.counters.state) {
    const uint64_t count = LoadU64(image + 48), checksum = LoadU64(image + 8);
    const bool exact = header.form == Form::kWorkingExact;
    if (!header.canonical() && (exact ? count <= header.room() : count == header.counters.count) &&
        (checksum & 0xffff) == (header.checksum & 0xffff) &&
        WorkingFieldValid(checksum, header.shape, exact, count, header.room())) {
      header.counters.count = count;
      header.checksum = checksum;
      return Flaw::kNone;
    }
  }
  last->size = 0;
  const Flaw flaw = Check(image, size, &header);
  if (flaw == Flaw::kNone) {
    last->size = size;
    std::memcpy(last->raw, image, kHeaderBytes);
  }
  return flaw;
}

// Whether a body of the same shape, form and seed stands at the same place in an image as
// at the last check: the cheapest question, for methods without counters.
inline bool SameBody(const uint8_t* image, size_t size, const LastCheck& last) noexcept {
  const auto differ = [&](size_t i) { return LoadU64(image + i) ^ LoadU64(last.raw + i); };
  return size == last.size && size >= kHeaderBytes &&
         (differ(0) | differ(8) | differ(16) | differ(40)) == 0;
}

// Over all bytes of a canonical image but the checksum's own.
inline uint64_t Checksum(const uint8_t* image, size_t size) noexcept {
  uint8_t head[kHeaderBytes];
  std::memcpy(head, image, kHeaderBytes);
  std::memset(head + 8, 0, 8);
  return Xxh3InPieces(image + kHeaderBytes, size - kHeaderBytes, Xxh3(head, kHeaderBytes, 0));
}

inline void Seal(uint8_t* image, size_t size) noexcept {
  StoreU64(image + 8, Checksum(image, size));
}

inline bool ChecksumHolds(const uint8_t* image, size_t size) noexcept {
  return LoadU64(image + 8) == Checksum(image, size);
}

// Checks bytes from outside: everything that Check() does, that the form is a
// canonical one, the checksum, the order of sorted hashes, and that each count is one.
// O(size).
[[nodiscard]] inline Flaw Validate(const uint8_t* image, size_t size, Header* header) noexcept {
  const Flaw flaw = Check(image, size, header);
  if (flaw != Flaw::kNone) return flaw;
  if (!header->canonical()) return Flaw::kWorking;
  if (header->exact() && header->hashes() > header->exact_limit()) return Flaw::kParameters;
  if (!ChecksumHolds(image, size)) return Flaw::kChecksum;
  const uint8_t* entries = image + kHeaderBytes;
  const size_t step = header->entry_bytes();
  if (header->exact() && header->order() == ExactOrder::kSorted) {
    bool rising = true;
    ForUnits(header->hashes(), 8 * step, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from > 0 ? from : 1; i < to && rising; ++i) {
        rising = LoadU64(entries + step * (i - 1)) < LoadU64(entries + step * i);
      }
    });
    if (!rising) return Flaw::kOrder;
  }
  if (header->exact() && header->counted()) {
    bool counts = true;
    ForUnits(header->hashes(), 8 * step, [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to && counts; ++i) {
        const uint64_t count = LoadU64(entries + step * i + 8);
        counts = count >= 1 && count <= kMaxCount;
      }
    });
    if (!counts) return Flaw::kBody;
  }
  if (header->form == Form::kFull && header->method->sound != nullptr &&
      !header->method->sound(header->shape, header->counters, image + kHeaderBytes)) {
    return Flaw::kBody;
  }
  return Flaw::kNone;
}

// ---- the empty filter -----------------------------------------------------------

inline void WriteEmpty(const Shape& shape, uint8_t* image) noexcept {
  WriteHeader(image, shape, Form::kExact, Counters{}, 0);
  Seal(image, kHeaderBytes);
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_IMAGE_HPP_
