// The methods once more, written for clarity from their descriptions: the same
// numbers choose the same places (Derived() and FastRange()), but the state is
// kept in plain containers, one element a bit, a slot or a hash. The tests ask
// both for the same answers and for the same bytes.

#ifndef STREAMDEDUP_TEST_UNIT_REFERENCE_HPP_
#define STREAMDEDUP_TEST_UNIT_REFERENCE_HPP_

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/bytes.hpp"
#include "core/method.hpp"
#include "core/xxh3.hpp"
#include "test_support.hpp"

namespace dedup::test {

// A method's body.
class ReferenceBody {
 public:
  virtual ~ReferenceBody() = default;
  virtual bool Contains(uint64_t hash) const = 0;
  virtual void Insert(uint64_t hash) = 0;  // without asking
  virtual bool TestAndAdd(uint64_t hash) {
    const bool seen = Contains(hash);
    if (!seen) Insert(hash);
    return seen;
  }
  virtual void Merge(const ReferenceBody& other) = 0;
  virtual std::vector<uint8_t> Bytes() const = 0;
  virtual Counters counters() const { return {}; }
  virtual std::unique_ptr<ReferenceBody> Clone() const = 0;
};

// Bits of a key, k of them: what blocked_bloom and bloom have in common.
class ReferenceBits : public ReferenceBody {
 public:
  explicit ReferenceBits(const Shape& shape) : shape_(shape), bits_(uint64_t{shape.bytes} * 8) {}
  bool Contains(uint64_t hash) const override {
    for (uint64_t position : Positions(hash)) {
      if (!bits_[position]) return false;
    }
    return true;
  }
  void Insert(uint64_t hash) override {
    for (uint64_t position : Positions(hash)) bits_[position] = true;
  }
  void Merge(const ReferenceBody& other) override {
    const auto& bits = dynamic_cast<const ReferenceBits&>(other).bits_;
    for (size_t i = 0; i < bits.size(); ++i) bits_[i] = bits_[i] || bits[i];
  }
  std::vector<uint8_t> Bytes() const override {
    std::vector<uint8_t> bytes(shape_.bytes);
    for (size_t i = 0; i < bits_.size(); ++i) {
      if (bits_[i]) bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | 1u << i % 8);
    }
    return bytes;
  }

 protected:
  virtual std::vector<uint64_t> Positions(uint64_t hash) const = 0;
  Shape shape_;
  std::vector<bool> bits_;
};

// The hash scaled onto the lines; then 9 bits a position, from the low end of
// derived words that give 7 positions each.
class ReferenceBlockedBloom : public ReferenceBits {
 public:
  using ReferenceBits::ReferenceBits;
  std::unique_ptr<ReferenceBody> Clone() const override {
    return std::make_unique<ReferenceBlockedBloom>(*this);
  }

 protected:
  std::vector<uint64_t> Positions(uint64_t hash) const override {
    std::vector<uint64_t> positions;
    const uint64_t line = FastRange(hash, shape_.bytes / 64);
    for (unsigned i = 0; i < shape_.detail; ++i) {
      positions.push_back(line * 512 + (Derived(hash, i / 7) >> (9 * (i % 7))) % 512);
    }
    return positions;
  }
};

// k derived numbers, each scaled onto all bits.
class ReferenceBloom : public ReferenceBits {
 public:
  using ReferenceBits::ReferenceBits;
  std::unique_ptr<ReferenceBody> Clone() const override {
    return std::make_unique<ReferenceBloom>(*this);
  }

 protected:
  std::vector<uint64_t> Positions(uint64_t hash) const override {
    std::vector<uint64_t> positions;
    for (unsigned i = 0; i < shape_.detail; ++i) {
      positions.push_back(FastRange(Derived(hash, i), uint64_t{shape_.bytes} * 8));
    }
    return positions;
  }
};

// Lines as lists of fingerprints, youngest first.
class ReferenceRecent : public ReferenceBody {
 public:
  explicit ReferenceRecent(const Shape& shape)
      : k_(shape.detail & 0xff), f_(shape.detail >> 8), lines_(shape.bytes / 64) {}

  bool Contains(uint64_t hash) const override {
    const Place place = PlaceOf(hash);
    return Holds(lines_[place.first], place.fingerprint) ||
           Holds(lines_[place.second], place.fingerprint);
  }
  void Insert(uint64_t hash) override {
    const Place place = PlaceOf(hash);
    // How far the first line's counter is ahead, as a signed byte.
    int lead = (lines_[place.first].insertions - lines_[place.second].insertions) & 255;
    if (lead > 127) lead -= 256;
    Line& line = lines_[lead > 0 ? place.second : place.first];
    line.slots.push_front(place.fingerprint);
    if (line.slots.size() > k_) line.slots.pop_back();
    line.insertions = (line.insertions + 1) & 255;
  }
  bool TestAndAdd(uint64_t hash) override {
    const Place place = PlaceOf(hash);
    for (uint64_t at : {place.first, place.second}) {
      auto& slots = lines_[at].slots;
      const auto found = std::find(slots.begin(), slots.end(), place.fingerprint);
      if (found == slots.end()) continue;
      slots.erase(found);
      slots.push_front(place.fingerprint);
      return true;
    }
    Insert(hash);
    return false;
  }
  // By age rank, the left the younger on ties, equal fingerprints once.
  void Merge(const ReferenceBody& other) override {
    const auto& others = dynamic_cast<const ReferenceRecent&>(other).lines_;
    for (size_t i = 0; i < lines_.size(); ++i) {
      std::deque<uint64_t> merged;
      auto take = [&](const Line& line, size_t age) {
        if (age >= line.slots.size() || merged.size() == k_) return;
        const uint64_t fingerprint = line.slots[age];
        if (std::find(merged.begin(), merged.end(), fingerprint) == merged.end()) {
          merged.push_back(fingerprint);
        }
      };
      for (size_t age = 0; age < k_; ++age) {
        take(lines_[i], age);
        take(others[i], age);
      }
      lines_[i].slots = merged;
      lines_[i].insertions = (lines_[i].insertions + others[i].insertions) & 255;
    }
  }
  // k low bytes, then k packed high parts, then one byte.
  std::vector<uint8_t> Bytes() const override {
    std::vector<uint8_t> bytes(lines_.size() * 64);
    for (size_t i = 0; i < lines_.size(); ++i) {
      uint8_t* line = &bytes[i * 64];
      for (size_t slot = 0; slot < lines_[i].slots.size(); ++slot) {
        const uint64_t fingerprint = lines_[i].slots[slot];
        line[slot] = static_cast<uint8_t>(fingerprint);
        for (unsigned bit = 8; bit < f_; ++bit) {
          const uint64_t at = k_ * 8 + slot * (f_ - 8) + (bit - 8);
          if (fingerprint >> bit & 1)
            line[at / 8] = static_cast<uint8_t>(line[at / 8] | 1u << at % 8);
        }
      }
      line[63] = static_cast<uint8_t>(lines_[i].insertions);
    }
    return bytes;
  }
  std::unique_ptr<ReferenceBody> Clone() const override {
    return std::make_unique<ReferenceRecent>(*this);
  }

 private:
  struct Line {
    std::deque<uint64_t> slots;
    int insertions = 0;
  };
  struct Place {
    uint64_t first, second, fingerprint;
  };
  Place PlaceOf(uint64_t hash) const {
    return {FastRange(hash, lines_.size()), FastRange(Derived(hash, 0), lines_.size()),
            1 + FastRange(Derived(hash, 1), (uint64_t{1} << f_) - 1)};
  }
  static bool Holds(const Line& line, uint64_t fingerprint) {
    return std::find(line.slots.begin(), line.slots.end(), fingerprint) != line.slots.end();
  }

  size_t k_;
  unsigned f_;
  std::vector<Line> lines_;
};

// One set of bits a generation, in a list, the current one first.
class ReferenceRing : public ReferenceBody {
 public:
  explicit ReferenceRing(const Shape& shape)
      : shape_(shape),
        k_(shape.detail & 0xff),
        generations_(shape.detail >> 8 & 0xff),
        block_bytes_(uint64_t{1} << (shape.detail >> 16 & 0xff)),
        refresh_((shape.detail >> 24 & 1) != 0),
        cell_bytes_(generations_ / 8),
        cells_(block_bytes_ / cell_bytes_),
        columns_(generations_, std::vector<bool>(shape.bytes / cell_bytes_)) {}

  bool Contains(uint64_t hash) const override {
    const std::vector<uint64_t> cells = Cells(hash);
    return std::any_of(columns_.begin(), columns_.end(),
                       [&](const auto& column) { return AllSet(column, cells); });
  }
  void Insert(uint64_t hash) override {
    for (uint64_t cell : Cells(hash)) columns_.front()[cell] = true;
    const uint64_t full = (shape_.keys + generations_ - 2) / (generations_ - 1);
    if (++count_ == full) {
      count_ = 0;
      current_ = (current_ + 1) % generations_;
      columns_.pop_back();
      columns_.emplace_front(shape_.bytes / cell_bytes_);
    }
  }
  bool TestAndAdd(uint64_t hash) override {
    const bool seen = Contains(hash);
    if (!seen || (refresh_ && !AllSet(columns_.front(), Cells(hash)))) Insert(hash);
    return seen;
  }
  // Generation by generation, newest with newest; the larger count.
  void Merge(const ReferenceBody& other) override {
    const auto& ring = dynamic_cast<const ReferenceRing&>(other);
    for (size_t age = 0; age < columns_.size(); ++age) {
      for (size_t i = 0; i < columns_[age].size(); ++i) {
        columns_[age][i] = columns_[age][i] || ring.columns_[age][i];
      }
    }
    count_ = std::max(count_, ring.count_);
  }
  std::vector<uint8_t> Bytes() const override {
    std::vector<uint8_t> bytes(shape_.bytes);
    for (unsigned age = 0; age < generations_; ++age) {
      const unsigned bit = (current_ + generations_ - age) % generations_;
      for (size_t cell = 0; cell < columns_[age].size(); ++cell) {
        if (!columns_[age][cell]) continue;
        uint8_t& byte = bytes[cell * cell_bytes_ + bit / 8];
        byte = static_cast<uint8_t>(byte | 1u << bit % 8);
      }
    }
    return bytes;
  }
  Counters counters() const override { return {count_, current_}; }
  std::unique_ptr<ReferenceBody> Clone() const override {
    return std::make_unique<ReferenceRing>(*this);
  }

 private:
  // The hash scaled onto the blocks; then as many bits a cell as number the
  // cells of a block, from the low end of derived words.
  std::vector<uint64_t> Cells(uint64_t hash) const {
    unsigned width = 0;
    while ((uint64_t{1} << width) < cells_) ++width;
    const unsigned per_word = 64 / width;
    const uint64_t block = FastRange(hash, shape_.bytes / block_bytes_);
    std::vector<uint64_t> cells;
    for (unsigned i = 0; i < k_; ++i) {
      cells.push_back(block * cells_ +
                      (Derived(hash, i / per_word) >> (width * (i % per_word))) % cells_);
    }
    return cells;
  }
  static bool AllSet(const std::vector<bool>& column, const std::vector<uint64_t>& cells) {
    return std::all_of(cells.begin(), cells.end(), [&](uint64_t cell) { return column[cell]; });
  }

  Shape shape_;
  unsigned k_, generations_;
  uint64_t block_bytes_;
  bool refresh_;
  unsigned cell_bytes_;
  uint64_t cells_;
  std::deque<std::vector<bool>> columns_;
  uint64_t count_ = 0;
  unsigned current_ = 0;
};

// Lines as lists of what was added, oldest first, and where in the line they begin.
class ReferenceFifo : public ReferenceBody {
 public:
  struct Slot {
    uint64_t fingerprint;
    uint32_t generation;
  };
  struct Line {
    size_t first = 0;
    std::deque<Slot> slots;
  };

  explicit ReferenceFifo(const Shape& shape)
      : slot_bits_((shape.detail & 0xff) == 1 ? 12u
                                              : 8 * static_cast<unsigned>(shape.detail & 0xff)),
        slots_(512 / slot_bits_),
        room_(slot_bits_ == 12 ? slots_ - 2 : slots_ - 1),
        timed_((shape.detail >> 8 & 1) != 0),
        lines_(shape.bytes / 64) {}

  bool Contains(uint64_t hash) const override {
    const auto [line, fingerprint] = PlaceOf(hash);
    const auto& slots = lines_[line].slots;
    return std::any_of(slots.begin(), slots.end(), [wanted = fingerprint](const Slot& slot) {
      return slot.fingerprint == wanted;
    });
  }
  void Insert(uint64_t hash) override {
    const auto [at, fingerprint] = PlaceOf(hash);
    Line& line = lines_[at];
    line.slots.push_back({fingerprint, clock_});
    if (line.slots.size() <= room_) return;
    line.slots.pop_front();
    line.first = (line.first + 1) % slots_;
  }
  // The later clock; what is 8 generations older goes.
  void Advance(uint32_t clock) {
    clock_ = std::max(clock_, clock);
    if (!timed_) return;
    for (Line& line : lines_) {
      const size_t before = line.slots.size();
      std::erase_if(line.slots, [&](const Slot& slot) { return clock_ - slot.generation > 7; });
      if (line.slots.size() < before) line.first = 0;
    }
  }
  void Merge(const ReferenceBody& other) override { Merge(other, 1, 1); }
  // The youngest: by generation, then by rank in it over weight, the left's on ties.
  void Merge(const ReferenceBody& other, uint64_t left_weight, uint64_t right_weight) {
    struct Candidate {
      Slot slot;
      uint64_t rank;  // times the other's weight
      bool right;
    };
    ReferenceFifo aligned = dynamic_cast<const ReferenceFifo&>(other);
    Advance(aligned.clock_);
    aligned.Advance(clock_);
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (aligned.lines_[i].slots.empty()) continue;
      if (lines_[i].slots.empty()) {
        lines_[i] = aligned.lines_[i];
        continue;
      }
      std::vector<Candidate> candidates;
      auto put = [&](const std::deque<Slot>& slots, uint64_t weight, bool right) {
        uint64_t rank = 0;
        for (size_t at = slots.size(); at-- > 0; ++rank) {
          if (at + 1 < slots.size() && slots[at].generation != slots[at + 1].generation) rank = 0;
          candidates.push_back({slots[at], rank * weight, right});
        }
      };
      put(lines_[i].slots, right_weight, false);
      put(aligned.lines_[i].slots, left_weight, true);
      std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        if (a.slot.generation != b.slot.generation) return a.slot.generation > b.slot.generation;
        return a.rank != b.rank ? a.rank < b.rank : a.right < b.right;
      });
      Line merged;
      for (const Candidate& candidate : candidates) {
        if (merged.slots.size() == room_) break;
        if (std::none_of(merged.slots.begin(), merged.slots.end(), [&](const Slot& slot) {
              return slot.fingerprint == candidate.slot.fingerprint;
            })) {
          merged.slots.push_front(candidate.slot);
        }
      }
      lines_[i] = merged;
    }
  }
  // Slots of whole bytes side by side; of 12 bits first the low 8 of all, then the high 4.
  std::vector<uint8_t> Bytes() const override {
    std::vector<uint8_t> bytes(lines_.size() * 64);
    for (size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      for (size_t at = 0; at < line.slots.size(); ++at) {
        const Slot& slot = line.slots[at];
        const uint64_t value =
            timed_ ? slot.fingerprint * 8 + slot.generation % 8 : slot.fingerprint;
        const size_t place = (line.first + at) % slots_;
        for (size_t bit = 0; bit < slot_bits_; ++bit) {
          const size_t to = slot_bits_ != 12 ? place * slot_bits_ + bit
                            : bit < 8        ? place * 8 + bit
                                             : slots_ * 8 + place * 4 + bit - 8;
          uint8_t& byte = bytes[i * 64 + to / 8];
          byte = static_cast<uint8_t>(byte | (value >> bit & 1) << to % 8);
        }
      }
    }
    return bytes;
  }
  Counters counters() const override { return {0, clock_}; }
  std::unique_ptr<ReferenceBody> Clone() const override {
    return std::make_unique<ReferenceFifo>(*this);
  }

  const std::vector<Line>& lines() const { return lines_; }

 private:
  struct Place {
    size_t line;
    uint64_t fingerprint;
  };
  // The hash as a fraction, scaled onto the groups; what is left of it onto the 103
  // lines; of what is left then the highest bits are the fingerprint, 1 in place of 0.
  Place PlaceOf(uint64_t hash) const {
    using Wide = unsigned __int128;
    const Wide in_groups = Wide{hash} * (lines_.size() / 103);
    const Wide in_lines = Wide{static_cast<uint64_t>(in_groups)} * 103;
    const unsigned bits = std::min<unsigned>(37, slot_bits_ - (timed_ ? 3 : 0));
    const auto fingerprint = static_cast<uint64_t>(in_lines) / (uint64_t{1} << (64 - bits));
    return {static_cast<size_t>(in_groups >> 64) * 103 + static_cast<size_t>(in_lines >> 64),
            fingerprint == 0 ? 1 : fingerprint};
  }

  unsigned slot_bits_;
  size_t slots_, room_;
  bool timed_;
  std::vector<Line> lines_;
  uint32_t clock_ = 0;
};

inline std::unique_ptr<ReferenceBody> MakeReferenceBody(const Shape& shape) {
  const std::string name = MethodByCode(shape.method)->name;
  if (name == "blocked_bloom") return std::make_unique<ReferenceBlockedBloom>(shape);
  if (name == "bloom") return std::make_unique<ReferenceBloom>(shape);
  if (name == "recent") return std::make_unique<ReferenceRecent>(shape);
  if (name == "fifo") return std::make_unique<ReferenceFifo>(shape);
  return std::make_unique<ReferenceRing>(shape);
}

// A stored image, written field by field from the format's description.
inline Bytes ImageOf(const Shape& shape, uint8_t form, uint64_t count, uint32_t state,
                     const std::vector<uint8_t>& payload) {
  Bytes image(60 + payload.size());
  auto put = [&](size_t at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) image[at + i] = static_cast<uint8_t>(value >> (8 * i));
  };
  uint64_t fpr_bits;
  std::memcpy(&fpr_bits, &shape.fpr, 8);
  put(0, 0xdf, 1);
  put(1, 1, 1);
  put(2, shape.method, 1);
  put(3, form, 1);
  put(4, shape.bytes, 4);
  put(16, shape.seed, 8);
  put(24, shape.keys, 8);
  put(32, fpr_bits, 8);
  put(40, shape.detail, 8);
  put(48, count, 8);
  put(56, state, 4);
  if (!payload.empty()) std::memcpy(image.data() + 60, payload.data(), payload.size());
  // The payload's XXH3, seeded with that of the header without its checksum.
  put(8, Xxh3(payload.data(), payload.size(), Xxh3(image.data(), 60, 0)), 8);
  return image;
}

// A whole filter: a list of hashes while they take no more bytes than the method.
class ReferenceFilter {
 public:
  explicit ReferenceFilter(const Shape& shape) : shape_(shape) {
    const std::string name = MethodByCode(shape.method)->name;
    sorted_ = name == "blocked_bloom" || name == "bloom";
    last_sight_ = name == "recent" || (name == "ring" && (shape.detail >> 24 & 1) != 0);
  }
  ReferenceFilter(const ReferenceFilter& other) { *this = other; }
  ReferenceFilter& operator=(const ReferenceFilter& other) {
    shape_ = other.shape_;
    sorted_ = other.sorted_;
    last_sight_ = other.last_sight_;
    hashes_ = other.hashes_;
    body_ = other.body_ == nullptr ? nullptr : other.body_->Clone();
    return *this;
  }

  bool exact() const { return body_ == nullptr; }
  const std::vector<uint64_t>& hashes() const { return hashes_; }

  bool Add(uint64_t hash) {
    if (!exact()) return body_->TestAndAdd(hash);
    const auto found = std::find(hashes_.begin(), hashes_.end(), hash);
    const bool seen = found != hashes_.end();
    if (seen) {
      if (last_sight_) std::rotate(found, found + 1, hashes_.end());
      return true;
    }
    hashes_.push_back(hash);
    Settle();
    return false;
  }

  bool Contains(uint64_t hash) const {
    return exact() ? std::find(hashes_.begin(), hashes_.end(), hash) != hashes_.end()
                   : body_->Contains(hash);
  }

  void Merge(const ReferenceFilter& other) {
    if (exact() && other.exact()) {
      // Both from the youngest on, the left first; what is already there is older.
      std::vector<uint64_t> youngest_first;
      auto take = [&](const std::vector<uint64_t>& from, size_t age) {
        if (age >= from.size()) return;
        const uint64_t hash = from[from.size() - 1 - age];
        if (std::find(youngest_first.begin(), youngest_first.end(), hash) == youngest_first.end()) {
          youngest_first.push_back(hash);
        }
      };
      for (size_t age = 0; age < std::max(hashes_.size(), other.hashes_.size()); ++age) {
        take(hashes_, age);
        take(other.hashes_, age);
      }
      // Of more keys than its window a ring would lose the older ones of each, so it
      // merges as full ones do.
      const bool ring = shape_.method == 4;
      const bool fits = 8 * youngest_first.size() <= shape_.bytes;
      if (fits || !ring || youngest_first.size() <= shape_.keys) {
        hashes_.assign(youngest_first.rbegin(), youngest_first.rend());
        Settle();
        return;
      }
    }
    if (exact()) GoOver();
    ReferenceFilter right(other);
    if (right.exact()) right.GoOver();
    body_->Merge(*right.body_);
  }

  Bytes Canonical() const {
    std::vector<uint8_t> payload;
    if (!exact())
      return ImageOf(shape_, 1, body_->counters().count, body_->counters().state, body_->Bytes());
    for (uint64_t hash : hashes_) {
      for (int i = 0; i < 8; ++i) payload.push_back(static_cast<uint8_t>(hash >> (8 * i)));
    }
    return ImageOf(shape_, 0, hashes_.size(), 0, payload);
  }

 private:
  void Settle() {
    if (sorted_) std::sort(hashes_.begin(), hashes_.end());
    if (8 * hashes_.size() > shape_.bytes) GoOver();
  }
  void GoOver() {
    body_ = MakeReferenceBody(shape_);
    for (uint64_t hash : hashes_) body_->Insert(hash);
    hashes_.clear();
  }

  Shape shape_;
  bool sorted_ = false, last_sight_ = false;
  std::vector<uint64_t> hashes_;
  std::unique_ptr<ReferenceBody> body_;
};

}  // namespace dedup::test

#endif  // STREAMDEDUP_TEST_UNIT_REFERENCE_HPP_
