// Reading, checking and sealing an image: the functions of image.hpp that are not inlined.

#include "image.hpp"

#include "pause.hpp"
#include "registry.hpp"
#include "xxh3.hpp"

namespace dedup {

Flaw Check(const uint8_t* image, size_t size, Header* header) noexcept {
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
  const uint64_t field = LoadU64(image + kChecksumAt);
  WorkingState& working = header->working;
  if (header->canonical()) {
    header->checksum = field;
    working = {};
  } else {
    header->checksum = 0;
    if (!Unpack(field, &working)) return Flaw::kParameters;
  }
  shape.seed = LoadU64(image + kSeedAt);
  shape.keys = LoadU64(image + 24);
  shape.fpr = LoadDouble(image + 32);
  shape.detail = LoadU64(image + 40);
  header->counters.count = LoadU64(image + kCountAt);
  header->counters.state = LoadU32(image + kStateAt);

  if (shape.bytes == 0 || shape.bytes > kMaxBodyBytes) return Flaw::kParameters;
  if (method->has_rate() ? !(shape.fpr >= kMinFpr && shape.fpr <= kMaxFpr)
                         : LoadU64(image + 32) != 0) {
    return Flaw::kParameters;
  }
  if (method->has_rate() && method->growth == nullptr ? shape.keys < 1 || shape.keys > kMaxKeys
                                                      : shape.keys != 0) {
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
          !ValidShift(*header) ||
          !ValidDeferred(*header, working.deferred, header->hashes(), header->room())) {
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
      if (!ValidShift(*header) || !ValidDeferred(*header, working.deferred, 0, 0)) {
        return Flaw::kParameters;
      }
      if (size < WorkingFullBytes(header->body_bytes())) return Flaw::kSize;
      break;
  }
  return Flaw::kNone;
}

uint64_t Checksum(const uint8_t* image, size_t size) noexcept {
  uint8_t head[kHeaderBytes];
  std::memcpy(head, image, kHeaderBytes);
  std::memset(head + kChecksumAt, 0, 8);
  return Xxh3InPieces(image + kHeaderBytes, size - kHeaderBytes, Xxh3(head, kHeaderBytes, 0));
}

void Seal(uint8_t* image, size_t size) noexcept {
  StoreU64(image + kChecksumAt, Checksum(image, size));
}

bool ChecksumHolds(const uint8_t* image, size_t size) noexcept {
  return LoadU64(image + kChecksumAt) == Checksum(image, size);
}

Flaw Validate(const uint8_t* image, size_t size, Header* header) noexcept {
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

void WriteEmpty(const Shape& shape, uint8_t* image) noexcept {
  WriteHeader(image, shape, Form::kExact, Counters{});
  Seal(image, kHeaderBytes);
}

}  // namespace dedup
