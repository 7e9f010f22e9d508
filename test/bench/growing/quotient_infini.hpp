// A quotient filter whose fingerprints mark their own length, so that it grows. Not shipped: it is
// here to be measured beside the method that is.
//
// Papers: Dayan, Bercea, Reviriego and Pagh, "InfiniFilter: Expanding Filters to Infinity and
// Beyond" (SIGMOD 2023), and Dayan, Bercea and Pagh, "Aleph Filter: To Infinity in Constant Time"
// (VLDB 2024).
//
// The table is that of the method quotient: 2^q slots of r + 3 bits, a run for each quotient, the
// remainders of a run in order. Here a remainder is up to r - 1 bits of the hash, then a bit 1,
// then zeros. Such remainders are in order too, and the table doubles by shifting each quotient
// and its remainder to the left by one bit as if they were one number: the remainder's first bit
// becomes the quotient's last. An entry without bits goes to both new quotients.
//
// The rate is the sum of 2^-p over the entries, where p is the bits of quotient and remainder.
// Doubling does not change it, and the keys that come between two doublings add 0.45 * 2^(1 - r).

#ifndef STREAMDEDUP_TEST_BENCH_GROWING_QUOTIENT_INFINI_HPP_
#define STREAMDEDUP_TEST_BENCH_GROWING_QUOTIENT_INFINI_HPP_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "../measure.hpp"
#include "core/bytes.hpp"
#include "core/image.hpp"
#include "core/method.hpp"
#include "core/methods/quotient_table.hpp"

namespace dedup::bench {

class QuotientInfini {
 public:
  static constexpr const char* kName = "quotient_infini";

  explicit QuotientInfini(double fpr) : r_(RemainderBits(fpr)), table_(nullptr, kFirstBits, r_) {
    body_ = std::make_unique<Memory>(table_.size());
    table_ = quotient::Table(body_->data, kFirstBits, r_);
  }

  void Add(const uint64_t* hashes, size_t n, uint8_t* seen) {
    while (n > 0) {
      if (UntilGrowth() == 0 && CanGrow()) Grow();
      // Less than a batch may be left until it has to grow.
      const size_t taken = CanGrow() ? std::min<size_t>(n, UntilGrowth()) : n;
      InGroups(
          taken, [&](size_t i) DEDUP_ALWAYS_INLINE { table_.Fetch(FingerprintOf(hashes[i])); },
          [&](size_t i) DEDUP_ALWAYS_INLINE { seen[i] = !AddNew(FingerprintOf(hashes[i])); });
      hashes += taken;
      seen += taken;
      n -= taken;
    }
  }

  void Contains(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    InGroups(
        n, [&](size_t i) DEDUP_ALWAYS_INLINE { table_.Fetch(FingerprintOf(hashes[i])); },
        [&](size_t i) DEDUP_ALWAYS_INLINE { seen[i] = Has(FingerprintOf(hashes[i])); });
  }

  uint64_t Bytes() const { return kHeaderBytes + table_.size(); }
  // New keys that are taken before the table doubles, or, if it cannot, while the rate is kept.
  uint64_t UntilGrowth() const {
    const uint64_t limit = LimitOf(table_.q());
    return limit > entries_ ? limit - entries_ : 0;
  }
  // Bytes() after it has doubled. ~0: it cannot double.
  uint64_t NextBytes() const {
    return CanGrow() ? kHeaderBytes + quotient::TableBytes(table_.q() + 1, r_) : ~uint64_t{0};
  }

 private:
  static constexpr unsigned kFirstBits = 10;  // 921 keys: the shipped method is exact up to 512

  static uint64_t LimitOf(unsigned q) { return (uint64_t{9} << q) / 10; }

  // The least r that keeps the rate in the largest table.
  static unsigned RemainderBits(double fpr) {
    for (unsigned r = 2;; ++r) {
      unsigned doublings = 0;
      while (quotient::TableBytes(kFirstBits + doublings + 1, r) <= kMaxBodyBytes) ++doublings;
      if (std::ldexp(0.9 + 0.45 * doublings, 1 - static_cast<int>(r)) <= fpr) return r;
    }
  }

  bool CanGrow() const { return quotient::TableBytes(table_.q() + 1, r_) <= kMaxBodyBytes; }

  // Quotient and remainder of a new key: all r - 1 bits, then the mark.
  uint64_t FingerprintOf(uint64_t hash) const { return hash >> (65 - table_.q() - r_) << 1 | 1; }

  // Whether the bits of an entry above its mark are those of the key.
  static bool Matches(uint64_t entry, uint64_t remainder) {
    const uint64_t mark_and_below = entry ^ (entry - 1);
    return ((entry ^ remainder) & ~mark_and_below) == 0;
  }

  // Where the key's fingerprint would go, or that an entry of its run matches it.
  quotient::Spot Find(uint64_t fingerprint) const {
    const uint64_t remainder = fingerprint & LowMask(r_);
    // No remainder is 0, so this is the start of the run.
    quotient::Spot spot = table_.Locate(fingerprint - remainder);
    spot.fingerprint = fingerprint;
    if (!spot.occupied) return spot;
    for (uint64_t at = spot.run; at < table_.slots(); ++at) {
      const uint64_t slot = table_.Slot(at);
      if (at != spot.run && (slot & quotient::kContinuation) == 0) break;
      const uint64_t entry = slot >> quotient::kMetaBits;
      if (Matches(entry, remainder)) {
        spot.found = true;
        break;
      }
      if (entry < remainder) spot.at = at + 1;
    }
    return spot;
  }

  bool Has(uint64_t fingerprint) const {
    if ((table_.Slot(fingerprint >> r_) & quotient::kOccupied) == 0) return false;
    return Find(fingerprint).found;
  }

  // Returns whether the key is new.
  bool AddNew(uint64_t fingerprint) {
    const quotient::Spot spot = Find(fingerprint);
    if (spot.found) return false;
    if (!table_.Insert(spot)) Fail("a key does not fit");
    ++entries_;
    return true;
  }

  void Grow() {
    const unsigned q = table_.q() + 1;
    const uint64_t no_bits = uint64_t{1} << (r_ - 1);
    auto body = std::make_unique<Memory>(quotient::TableBytes(q, r_));
    quotient::Table grown(body->data, q, r_);
    quotient::Scanner scanner(table_);
    quotient::Placer placer(q, r_);
    std::vector<uint64_t> run;
    bool doubled = false;  // whether the run has an entry without bits
    entries_ = 0;
    const auto write_run = [&] {
      if (doubled) {
        std::sort(run.begin(), run.end());
        run.erase(std::unique(run.begin(), run.end()), run.end());
      }
      for (const uint64_t fingerprint : run) {
        if (!placer.Place(fingerprint)) Fail("a doubled table has no room");
        placer.Write(&grown);
      }
      entries_ += run.size();
      run.clear();
      doubled = false;
    };
    uint64_t quotient = 0, fingerprint = 0;
    while (scanner.Next(&fingerprint)) {
      if (fingerprint >> r_ != quotient) write_run();
      quotient = fingerprint >> r_;
      if ((fingerprint & LowMask(r_)) == no_bits) {
        run.push_back(quotient << (r_ + 1) | no_bits);
        run.push_back((quotient << 1 | 1) << r_ | no_bits);
        doubled = true;
      } else {
        run.push_back(fingerprint << 1);
      }
    }
    write_run();
    body_ = std::move(body);
    table_ = grown;
  }

  [[noreturn]] static void Fail(const char* what) {
    std::fprintf(stderr, "quotient_infini: %s\n", what);
    std::abort();
  }

  unsigned r_;
  uint64_t entries_ = 0;
  std::unique_ptr<Memory> body_;
  quotient::Table table_;
};

}  // namespace dedup::bench

#endif  // STREAMDEDUP_TEST_BENCH_GROWING_QUOTIENT_INFINI_HPP_
