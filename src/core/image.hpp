// The bytes of a filter: a header of 60 bytes, then the contents.
//
//   offset  bytes
//        0      1  0xDF
//        1      1  format version, 1
//        2      1  method code
//        3      1  form (below) in the low 4 bits; above them the number of the hash
//                  of the keys: 0 XXH3, 1 SipHash-2-4
//        4      4  M, the size of the method's body in bytes; for a body that grows,
//                  its largest size
//        8      8  canonical forms: checksum; working forms: WorkingState
//       16      8  seed of the key hash
//       24      8  keys: capacity or window; 0 for methods without a rate, and for
//                  filters that grow
//       32      8  fpr, an IEEE double; 0 for methods without a rate
//       40      8  the method's detail
//       48      8  exact forms: n, the number of hashes; else Counters::count
//       56      4  kWorkingExact: room, in hashes; kExact: 0; else Counters::state
//       60         the hashes, or the body
//
// Numbers are little-endian. There are four forms. Two are canonical: these are stored, and equal
// filters have equal bytes.
//   kExact         the 64-bit hashes themselves, while 8 n <= M (exact.hpp). Methods that
//                  count frequencies: each hash with its 64-bit count, while 16 n <= M.
//                  Filters that grow: while n <= Growth::exact_hashes.
//   kFull          the part of the method's body that is in use
// Two are working forms, for a filter that is being filled in memory. They have spare room and no
// checksum, and never leave the server's memory:
//   kWorkingExact  hashes with an index over them
//   kWorkingFull   the method's body, moved up to the start of a cache line by
//                  WorkingState::shift bytes
// Deferred hashes are keys that were added but not yet looked up and put where they belong. They
// wait so that this can be done in batches, with prefetch (Defer and Settle in filter.hpp). They
// are behind the header, in front of the body, or behind the n hashes of an exact image.
//
// Check() is O(1) and makes every later call memory-safe, whatever the other bytes hold. Validate()
// is for bytes from outside.
//
// This file has the functions that run for each key. The rest is in image.cpp.

#ifndef STREAMDEDUP_CORE_IMAGE_HPP_
#define STREAMDEDUP_CORE_IMAGE_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "bytes.hpp"
#include "method.hpp"

namespace dedup {

inline constexpr uint8_t kMagic = 0xDF;
inline constexpr uint8_t kFormatVersion = 1;
inline constexpr size_t kHeaderBytes = 60;

// Returns the bytes of an entry of a stored exact form: a hash, and its count if it has one.
inline constexpr size_t EntryBytes(bool counted) noexcept { return counted ? 16 : 8; }

enum class Form : uint8_t { kExact = 0, kFull = 1, kWorkingExact = 2, kWorkingFull = 3 };

// ---- the state of a working form --------------------------------------------------

// A working image has this state instead of a checksum.
struct WorkingState {
  uint16_t shift = 0;     // kWorkingFull: bytes between the header and the body
  uint16_t deferred = 0;  // number of deferred hashes
  uint16_t merged = 0;    // filters that were merged into this one, without the first

  bool operator==(const WorkingState&) const = default;
};

// Packs the state into 8 bytes: shift, deferred and merged from the low bits on, then 16 zeros.
inline constexpr uint64_t Pack(const WorkingState& working) noexcept {
  return working.shift | uint64_t{working.deferred} << 16 | uint64_t{working.merged} << 32;
}

// Returns false if no working image can have this field.
[[nodiscard]] inline constexpr bool Unpack(uint64_t field, WorkingState* working) noexcept {
  working->shift = static_cast<uint16_t>(field);
  working->deferred = static_cast<uint16_t>(field >> 16);
  working->merged = static_cast<uint16_t>(field >> 32);
  return field >> 48 == 0;
}

// ---- the header -------------------------------------------------------------------

struct Header {
  const Method* method;
  Shape shape;
  Form form;
  Counters counters;     // in exact forms: n, and the room
  uint64_t checksum;     // canonical forms: 0 if it was not computed; working forms: 0
  WorkingState working;  // working forms only; zeros in canonical ones

  bool exact() const noexcept { return form == Form::kExact || form == Form::kWorkingExact; }
  bool canonical() const noexcept { return form == Form::kExact || form == Form::kFull; }
  uint64_t hashes() const noexcept { return counters.count; }  // exact forms only
  uint64_t room() const noexcept {                             // exact forms only
    return form == Form::kExact ? counters.count : counters.state;
  }
  ExactOrder order() const noexcept { return method->exact_order(shape); }
  // Returns whether each hash of an exact form has a count.
  bool counted() const noexcept { return method->counts(); }
  size_t entry_bytes() const noexcept { return EntryBytes(counted()); }
  uint64_t exact_limit() const noexcept;
  uint64_t state_limit() const noexcept;
  size_t body_at() const noexcept { return kHeaderBytes + working.shift; }  // full forms only
  size_t used_bytes() const noexcept {  // full forms only: bytes of the body
    return method->used_bytes != nullptr ? method->used_bytes(shape, counters) : shape.bytes;
  }
  // Returns the size of the body in a full working form.
  size_t body_bytes() const noexcept {
    return method->growth != nullptr ? method->used_bytes(shape, counters) : shape.bytes;
  }
  // Returns whether a working form has room for deferred hashes.
  bool may_defer() const noexcept;
  // Returns the number of filters that were merged into this one, itself included.
  uint32_t parts() const noexcept { return uint32_t{1} + working.merged; }
  size_t deferred() const noexcept { return working.deferred; }
};

// ---- exact forms: how many hashes, how many bytes -----------------------------

// A working form up to this room is a plain list. A larger one has an index of two 4-byte slots a
// hash, and two 4-byte links a hash if the order is by last sight. Forms with counts, which have no
// order by last sight, have 8 bytes more a hash.
inline constexpr uint64_t kListRoom = 8;

// Working forms stay below PostgreSQL's limit of 1 GiB a value. Only filters of more than 340 MiB
// leave the exact form early because of it.
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

// Returns the most hashes that a filter keeps before its method takes over.
inline uint64_t ExactLimit(const Method& method, const Shape& shape, ExactOrder order) noexcept {
  if (method.growth != nullptr) return method.growth->exact_hashes;
  uint64_t limit = shape.bytes / EntryBytes(method.counts());
  if (method.exact_to_keys && limit > shape.keys) limit = shape.keys;
  const uint64_t most = MostHashes(order, method.counts());
  return limit < most ? limit : most;
}

// Returns the same limit for the states of partial aggregates, which will be merged. Windows stay
// exact for all the keys they are sized for, because only hashes can be merged without loss. Such a
// state leaves the exact form when it is made canonical.
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

// Returns the room for deferred hashes in front of a body, in hashes.
inline constexpr size_t DeferredRoom(size_t body_bytes) noexcept {
  return body_bytes >= kDeferFromBytes ? kMaxDeferred : 0;
}
inline constexpr size_t kMaxShift = 8 * kMaxDeferred + kLineBytes - 1;

// Returns the bytes of a full working image. The room before the body is large enough that the body
// can be moved to the start of a line at any address of the image.
inline constexpr uint64_t WorkingFullBytes(size_t body_bytes) noexcept {
  return kHeaderBytes + 8 * DeferredRoom(body_bytes) + (kLineBytes - 1) + body_bytes;
}

// The body of a full form starts behind the room for deferred hashes. An exact form of a filter
// that grows is small.
inline bool Header::may_defer() const noexcept {
  if (!exact()) return working.shift >= 8 * kMaxDeferred;
  return shape.bytes >= kDeferFromBytes && method->growth == nullptr;
}

// Returns whether a full image, or an exact image of n hashes with this room, can have `deferred`
// deferred hashes.
inline bool ValidDeferred(const Header& header, size_t deferred, uint64_t n,
                          uint64_t room) noexcept {
  if (deferred > 0 && (!header.may_defer() || deferred >= kMaxDeferred)) return false;
  return !header.exact() || n + deferred <= room;
}

// Returns whether the body can start at this shift.
inline bool ValidShift(const Header& header) noexcept {
  const size_t shift = header.working.shift;
  if (header.exact()) return shift == 0;
  const size_t least = 8 * DeferredRoom(header.body_bytes());
  return shift >= least && shift < least + kLineBytes;
}

// ---- reading and writing the header -------------------------------------------

// The places of fields that are read or written alone.
inline constexpr size_t kChecksumAt = 8;  // or the working state
inline constexpr size_t kSeedAt = 16;
inline constexpr size_t kCountAt = 48;
inline constexpr size_t kStateAt = 56;

inline void WriteWorkingState(uint8_t* image, const WorkingState& working) noexcept {
  StoreU64(image + kChecksumAt, Pack(working));
}

inline void WriteCount(uint8_t* image, uint64_t count) noexcept {
  StoreU64(image + kCountAt, count);
}

inline void WriteCounters(uint8_t* image, const Counters& counters) noexcept {
  WriteCount(image, counters.count);
  StoreU32(image + kStateAt, counters.state);
}

// Writes the header. A canonical form gets no checksum here: Seal() computes it afterwards. A
// working form gets its state.
inline void WriteHeader(uint8_t* image, const Shape& shape, Form form, const Counters& counters,
                        const WorkingState& working = {}) noexcept {
  image[0] = kMagic;
  image[1] = kFormatVersion;
  image[2] = shape.method;
  image[3] = static_cast<uint8_t>(static_cast<unsigned>(form) | unsigned{shape.hash} << 4);
  StoreU32(image + 4, shape.bytes);
  WriteWorkingState(image, working);
  StoreU64(image + kSeedAt, shape.seed);
  StoreU64(image + 24, shape.keys);
  StoreDouble(image + 32, shape.fpr);
  StoreU64(image + 40, shape.detail);
  WriteCounters(image, counters);
}

// The flaws that an image can have.
enum class Flaw {
  kNone,
  kNotAFilter,     // it is too short for a header, or has a wrong first byte
  kFutureVersion,  // the format version is a later one
  kUnknownMethod,  // the code may be of a later release
  kUnknownHash,    // the number may be of a later release
  kParameters,     // no filter can have these parameters
  kSize,           // the size does not agree with the header
  kWorking,        // it is a working form where only canonical ones are allowed
  kChecksum,
  kOrder,  // the exact hashes are not in order
  kBody,   // the method does not make such a body
};

// Returns the number of the hash of the keys, whether that hash is known or not.
inline unsigned HashNumberOf(const uint8_t* image) noexcept { return image[3] >> 4; }

// Reads and checks the header in O(1).
[[nodiscard]] Flaw Check(const uint8_t* image, size_t size, Header* header) noexcept;

// For images that are checked again and again and differ only in their counts: `raw` is the image
// at the last full check, and `header` is its header, kept up to date with the image that it
// belongs to.
struct LastCheck {
  Header header;
  size_t size = 0;
  uint8_t raw[kHeaderBytes] = {};
};

[[nodiscard]] inline Flaw CheckAgain(const uint8_t* image, size_t size, LastCheck* last) noexcept {
  Header& header = last->header;
  if (size >= kHeaderBytes && size == last->size && std::memcmp(image, last->raw, 8) == 0 &&
      std::memcmp(image + kSeedAt, last->raw + kSeedAt, kCountAt - kSeedAt) == 0 &&
      LoadU32(image + kStateAt) == header.counters.state) {
    const uint64_t count = LoadU64(image + kCountAt);
    const bool exact = header.form == Form::kWorkingExact;
    WorkingState working;
    if (!header.canonical() && (exact ? count <= header.room() : count == header.counters.count) &&
        Unpack(LoadU64(image + kChecksumAt), &working) && working.shift == header.working.shift &&
        ValidDeferred(header, working.deferred, count, header.room())) {
      header.counters.count = count;
      header.working = working;
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

// Returns whether the image has a body of the same shape, form and seed at the same place as at the
// last check. This is the cheapest check, for methods without counters.
inline bool SameBody(const uint8_t* image, size_t size, const LastCheck& last) noexcept {
  const auto differ = [&](size_t i) { return LoadU64(image + i) ^ LoadU64(last.raw + i); };
  return size == last.size && size >= kHeaderBytes &&
         (differ(0) | differ(kChecksumAt) | differ(kSeedAt) | differ(40)) == 0;
}

// Returns the checksum over all bytes of a canonical image except the checksum's own.
uint64_t Checksum(const uint8_t* image, size_t size) noexcept;
void Seal(uint8_t* image, size_t size) noexcept;
bool ChecksumHolds(const uint8_t* image, size_t size) noexcept;

// Checks bytes from outside. Checks what Check() checks, that the form is canonical, the checksum,
// the order of sorted hashes, and that each count is a valid one. Takes O(size).
[[nodiscard]] Flaw Validate(const uint8_t* image, size_t size, Header* header) noexcept;

// Writes the empty filter.
void WriteEmpty(const Shape& shape, uint8_t* image) noexcept;

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_IMAGE_HPP_
