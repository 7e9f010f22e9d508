// Sorting the hashes of an exact form.

#include "exact.hpp"

#include <algorithm>
#include <utility>

#include "pause.hpp"

namespace dedup {
namespace {

// An entry of alignment 1, because entries may start at any address.
template <size_t kBytes>
struct UnalignedEntry {
  uint8_t bytes[kBytes];
  bool operator<(const UnalignedEntry& other) const noexcept {
    return LoadU64(bytes) < LoadU64(other.bytes);
  }
};

// The most entries that are sorted without a pause.
constexpr uint64_t kSortedAtOnce = uint64_t{1} << 15;

// Sorts in place by bit `shift` + 7 of the hashes and the bits below. More than kSortedAtOnce
// entries are first put in order of the byte at `shift`, in place and with pauses (McIlroy, Bostic
// and McIlroy, "Engineering Radix Sort", 1993: American flag sort). The recursion is at most 8
// calls deep.
template <size_t kBytes>
inline void SortByByte(UnalignedEntry<kBytes>* first, uint64_t n, unsigned shift) noexcept {
  if (n <= kSortedAtOnce) {
    std::sort(first, first + n);
    return;
  }
  const auto byte_of = [shift](const UnalignedEntry<kBytes>& entry) {
    return static_cast<unsigned>(LoadU64(entry.bytes) >> shift & 0xff);
  };
  uint64_t end[256] = {}, next[256];
  ForUnits(n, 8 * kBytes, [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) ++end[byte_of(first[i])];
  });
  uint64_t before = 0;
  for (unsigned i = 0; i < 256; ++i) {
    next[i] = before;
    before += end[i];
    end[i] = before;
  }
  uint64_t steps = 0;
  for (unsigned bucket = 0; bucket < 256; ++bucket) {
    for (; next[bucket] < end[bucket]; ++next[bucket]) {
      UnalignedEntry<kBytes> entry = first[next[bucket]];
      for (unsigned to = byte_of(entry); to != bucket; to = byte_of(entry)) {
        std::swap(entry, first[next[to]++]);
        PauseEvery<kProbesBetweenPauses>(&steps);
      }
      first[next[bucket]] = entry;
      PauseEvery<kProbesBetweenPauses>(&steps);
    }
  }
  if (shift == 0) return;
  for (unsigned bucket = 0; bucket < 256; ++bucket) {
    const uint64_t from = bucket == 0 ? 0 : end[bucket - 1];
    SortByByte(first + from, end[bucket] - from, shift - 8);
    Pause();
  }
}

}  // namespace

void SortEntries(uint8_t* entries, uint64_t n, bool counted) noexcept {
  if (counted) {
    SortByByte(reinterpret_cast<UnalignedEntry<16>*>(entries), n, 56);
  } else {
    SortByByte(reinterpret_cast<UnalignedEntry<8>*>(entries), n, 56);
  }
}

}  // namespace dedup
