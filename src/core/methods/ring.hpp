// ring: a window by first sight, in the bits of bytes, which can be merged by OR.
//
// Positions are cells of one byte (or two), and each bit of a cell is a generation. A key has K
// cells in one block. Adding it sets the bit of the current generation in all of them. A lookup
// ANDs them: if the result is not zero, the key was seen, and the remaining bits are its
// generations. After ceil(keys/(G-1)) keys that were reported as new, the generation ends: the
// oldest column is cleared and becomes the current one. (This is our method, an unsliced form of
// rotating Bloom filters.)
//
// Promise: a key that was reported as new is reported as a duplicate until at least `keys` further
// keys were reported as new. A key that was wrongly refused at its first sight (at most fpr of
// them) has no promise. A key that is found changes nothing, so a key that comes again and again is
// reported as new after the window has passed. With refresh=on, a key seen in an older generation
// is set in the current one too, and counts. The promise is then the last `keys` counted
// insertions.
// Cost: one block a key; 17 bits a key of the window at 0.01 and G = 8.
// State: the cells. Counters::count is the number of keys of the current generation,
// Counters::state the current column.

#ifndef STREAMDEDUP_CORE_METHODS_RING_HPP_
#define STREAMDEDUP_CORE_METHODS_RING_HPP_

#include <cstdio>

#include "../bytes.hpp"
#include "../method.hpp"
#include "../occupancy.hpp"
#include "../pause.hpp"
#include "../sizing.hpp"

namespace dedup::ring {

inline constexpr int kMaxK = 40;
inline constexpr unsigned kSmallBlockLog2 = 9;   // 512 bytes, for fpr >= 0.01
inline constexpr unsigned kLargeBlockLog2 = 12;  // 4096 bytes, for lower rates
inline constexpr double kSmallBlockFpr = 0.01;

struct Layout {
  unsigned k;
  unsigned generations;  // 8 or 16: bits of a cell
  unsigned block_log2;   // log2 of the bytes of a block
  bool refresh;

  unsigned cell_bytes() const noexcept { return generations / 8; }
  unsigned cells_log2() const noexcept { return block_log2 - (generations == 16); }
  unsigned cells() const noexcept { return 1u << cells_log2(); }
};

inline Layout LayoutOf(const Shape& shape) noexcept {
  return {static_cast<unsigned>(shape.detail & 0xff),
          static_cast<unsigned>(shape.detail >> 8 & 0xff),
          static_cast<unsigned>(shape.detail >> 16 & 0xff), (shape.detail >> 24 & 1) != 0};
}
inline uint64_t Blocks(const Shape& shape, const Layout& layout) noexcept {
  return shape.bytes >> layout.block_log2;
}

// Returns the number of keys after which a generation ends.
inline uint64_t GenerationKeys(uint64_t keys, unsigned generations) noexcept {
  return (keys + generations - 2) / (generations - 1);
}

inline constexpr int kGenerationsOption = 2;
inline constexpr int kRefreshOption = 3;
inline constexpr int kKOption = 4;
inline constexpr OptionSpec kOptions[] = {kFprOption,
                                          kKeysOption,
                                          {"generations", OptionKind::kMultipleOf8, 8, 16},
                                          {"refresh", OptionKind::kOnOff, 0, 1},
                                          {"k", OptionKind::kWhole, 1, kMaxK}};

// ---- sizes ------------------------------------------------------------------

// Returns the rate just before a generation ends, when all columns are full. The columns' loads of
// a block are independent.
inline double RateWith(double generation_keys, double blocks, const Layout& layout,
                       int k) noexcept {
  const double column = BlockedRate(generation_keys, blocks, layout.cells(), k);
  return 1 - IntPower(1 - column, static_cast<int>(layout.generations));
}

inline double ExpectedFpr(const Shape& shape, double keys) noexcept {
  const Layout layout = LayoutOf(shape);
  const double blocks = static_cast<double>(Blocks(shape, layout));
  const double full = static_cast<double>(GenerationKeys(shape.keys, layout.generations));
  double generations = keys / full;  // number of full columns; the last one may be full in part
  if (generations > layout.generations) generations = layout.generations;
  const double whole = std::floor(generations);
  const double of_full = BlockedRate(full, blocks, layout.cells(), static_cast<int>(layout.k));
  const double of_part =
      BlockedRate((generations - whole) * full, blocks, layout.cells(), static_cast<int>(layout.k));
  return 1 - IntPower(1 - of_full, static_cast<int>(whole)) * (1 - of_part);
}

inline PlanStatus Plan(const Request& request, Shape* shape) noexcept {
  Layout layout = {};
  const Options& options = request.options;
  layout.generations = options.given[kGenerationsOption]
                           ? static_cast<unsigned>(options.value[kGenerationsOption])
                           : 8;
  layout.refresh = options.given[kRefreshOption] && options.value[kRefreshOption] != 0;
  layout.block_log2 = request.fpr >= kSmallBlockFpr ? kSmallBlockLog2 : kLargeBlockLog2;

  const double column_rate = request.fpr / layout.generations;
  const KRange ks = WorthTrying(column_rate, kMaxK, options, kKOption);
  const BloomUnit block = {uint64_t{1} << layout.block_log2, layout.cells(), 1, column_rate, 1.05};
  uint64_t k = 0;
  const PlanStatus status = PlanBloom(
      request, GenerationKeys(request.keys, layout.generations), block, ks, shape, &k,
      [&](double keys, double blocks, int tried) { return RateWith(keys, blocks, layout, tried); });
  if (status != PlanStatus::kOk) return status;
  shape->keys = request.keys > 0 ? request.keys : shape->keys * (layout.generations - 1);
  shape->detail =
      k | layout.generations << 8 | layout.block_log2 << 16 | uint64_t{layout.refresh} << 24;
  return PlanStatus::kOk;
}

inline bool Valid(const Shape& shape, const Counters& counters) noexcept {
  const Layout layout = LayoutOf(shape);
  return shape.detail >> 25 == 0 && layout.k >= 1 && layout.k <= kMaxK &&
         (layout.generations == 8 || layout.generations == 16) &&
         (layout.block_log2 == kSmallBlockLog2 || layout.block_log2 == kLargeBlockLog2) &&
         Blocks(shape, layout) >= 1 && shape.bytes % (1u << layout.block_log2) == 0 &&
         counters.state < layout.generations &&
         counters.count < GenerationKeys(shape.keys, layout.generations);
}

inline void Describe(const Shape& shape, char* text, size_t size) noexcept {
  const Layout layout = LayoutOf(shape);
  std::snprintf(text, size, "k=%u generations=%u refresh=%s block_bytes=%u blocks=%llu", layout.k,
                layout.generations, layout.refresh ? "on" : "off", 1u << layout.block_log2,
                static_cast<unsigned long long>(Blocks(shape, layout)));
}

// ---- keys -------------------------------------------------------------------

// Reads a cell with room for up to 16 generations.
template <unsigned kCellBytes>
inline unsigned LoadCell(const uint8_t* block, unsigned cell) noexcept {
  if constexpr (kCellBytes == 1) {
    return block[cell];
  } else {
    return LoadLittle<uint16_t>(block + cell * 2);
  }
}

template <unsigned kCellBytes>
inline void OrCell(uint8_t* block, unsigned cell, unsigned bit) noexcept {
  if constexpr (kCellBytes == 1) {
    block[cell] = static_cast<uint8_t>(block[cell] | bit);
  } else {
    StoreLittle<uint16_t>(block + cell * 2, static_cast<uint16_t>(LoadCell<2>(block, cell) | bit));
  }
}

// Runs visit(cell) for the K cells of a key, until it returns false.
template <typename Visit>
DEDUP_ALWAYS_INLINE inline void ForEachCell(const Layout& layout, uint64_t hash,
                                            Visit visit) noexcept {
  const unsigned width = layout.cells_log2(), per_word = 64 / width, mask = layout.cells() - 1;
  uint64_t word = 0;
  for (unsigned i = 0, left = 0, derived = 0; i < layout.k; ++i, --left) {
    if (left == 0) {
      word = Derived(hash, derived++);
      left = per_word;
    }
    if (!visit(static_cast<unsigned>(word) & mask)) return;
    word >>= width;
  }
}

inline size_t BlockAt(const Layout& layout, uint64_t blocks, uint64_t hash) noexcept {
  return static_cast<size_t>(FastRange(hash, blocks)) << layout.block_log2;
}

// Returns the generations in which the key is set.
template <unsigned kCellBytes>
inline unsigned Ask(const Layout& layout, const uint8_t* block, uint64_t hash) noexcept {
  unsigned alive = (1u << layout.generations) - 1;
  ForEachCell(layout, hash, [&](unsigned cell) {
    alive &= LoadCell<kCellBytes>(block, cell);
    return alive != 0;
  });
  return alive;
}

// Makes the oldest column the current one, and clears it.
inline void StartGeneration(const Shape& shape, const Layout& layout, Counters* counters,
                            uint8_t* body) noexcept {
  counters->count = 0;
  counters->state = (counters->state + 1) % layout.generations;
  const uint64_t lanes = layout.cell_bytes() == 1 ? 0x0101010101010101u : 0x0001000100010001u;
  const uint64_t keep = ~(lanes << counters->state);
  ForWords(shape.bytes, [&](size_t i) { StoreU64(body + i, LoadU64(body + i) & keep); });
}

template <unsigned kCellBytes>
inline void Remember(const Shape& shape, const Layout& layout, Counters* counters, uint8_t* body,
                     size_t at, uint64_t hash) noexcept {
  const unsigned bit = 1u << counters->state;
  ForEachCell(layout, hash, [&](unsigned cell) {
    OrCell<kCellBytes>(body + at, cell, bit);
    return true;
  });
  if (++counters->count >= GenerationKeys(shape.keys, layout.generations)) {
    StartGeneration(shape, layout, counters, body);
  }
}

// Runs step(byte offset of the block, hash, i) for every key. A block is longer than a line, so the
// cells are prefetched, for fewer keys ahead.
template <typename Step>
inline void ForEachKey(const Layout& layout, const uint8_t* body, uint64_t blocks,
                       const uint64_t* hashes, size_t n, Step step) noexcept {
  InGroups<kKeysAhead>(
      n,
      [&](size_t i) DEDUP_ALWAYS_INLINE {
        const uint8_t* block = body + BlockAt(layout, blocks, hashes[i]);
        const unsigned bytes = layout.cell_bytes();
        ForEachCell(layout, hashes[i], [&](unsigned cell) DEDUP_ALWAYS_INLINE {
          PrefetchToWrite(block + cell * bytes);
          return true;
        });
      },
      [&](size_t i)
          DEDUP_ALWAYS_INLINE { step(BlockAt(layout, blocks, hashes[i]), hashes[i], i); });
}

template <unsigned kCellBytes>
void TestAndAddLoop(const Shape& shape, const Layout& layout, Counters* counters, uint8_t* body,
                    const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  ForEachKey(layout, body, Blocks(shape, layout), hashes, n,
             [&](size_t at, uint64_t hash, size_t i) {
               const unsigned alive = Ask<kCellBytes>(layout, body + at, hash);
               const bool found = alive != 0;
               const bool current = (alive >> counters->state & 1) != 0;
               if (!found || (layout.refresh && !current)) {
                 Remember<kCellBytes>(shape, layout, counters, body, at, hash);
               }
               if (seen != nullptr) seen[i] = found;
             });
}

inline size_t TestAndAdd(const Shape& shape, Counters* counters, uint8_t* body,
                         const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  if (layout.cell_bytes() == 1) {
    TestAndAddLoop<1>(shape, layout, counters, body, hashes, n, seen);
  } else {
    TestAndAddLoop<2>(shape, layout, counters, body, hashes, n, seen);
  }
  return n;
}

inline void Contains(const Shape& shape, const Counters&, const uint8_t* body,
                     const uint64_t* hashes, size_t n, uint8_t* seen) noexcept {
  const Layout layout = LayoutOf(shape);
  ForEachKey(layout, body, Blocks(shape, layout), hashes, n,
             [&](size_t at, uint64_t hash, size_t i) {
               const uint8_t* block = body + at;
               seen[i] = (layout.cell_bytes() == 1 ? Ask<1>(layout, block, hash)
                                                   : Ask<2>(layout, block, hash)) != 0;
             });
}

inline size_t Insert(const Shape& shape, Counters* counters, uint8_t* body, const uint64_t* hashes,
                     size_t n) noexcept {
  const Layout layout = LayoutOf(shape);
  ForEachKey(layout, body, Blocks(shape, layout), hashes, n, [&](size_t at, uint64_t hash, size_t) {
    if (layout.cell_bytes() == 1) {
      Remember<1>(shape, layout, counters, body, at, hash);
    } else {
      Remember<2>(shape, layout, counters, body, at, hash);
    }
  });
  return n;
}

// ---- whole filters ----------------------------------------------------------

// Merges by OR, with the newest generations aligned, and takes the larger counter. The merge drops
// nothing. The columns may be fuller than they were sized for, until generations pass.
inline bool Merge(const Shape& shape, Counters* counters, uint8_t* body,
                  const Counters& other_counters, const uint8_t* other, const Weights&) noexcept {
  const Layout layout = LayoutOf(shape);
  const unsigned width = layout.generations;
  const unsigned turn = (counters->state + width - other_counters.state) % width;
  const uint64_t lanes = width == 8 ? 0x0101010101010101u : 0x0001000100010001u;
  // the bits that remain in their cell after a rotation
  const uint64_t kept = lanes * LowMask(width - turn);
  ForWords(shape.bytes, [&](size_t i) {
    const uint64_t word = LoadU64(other + i);
    uint64_t turned = word;
    if (turn != 0) turned = (word & kept) << turn | (word & ~kept) >> (width - turn);
    StoreU64(body + i, LoadU64(body + i) | turned);
  });
  if (other_counters.count > counters->count) counters->count = other_counters.count;
  return true;
}

inline Reading Read(const Shape& shape, const Counters&, const uint8_t* body) noexcept {
  const Layout layout = LayoutOf(shape);
  const uint64_t blocks = Blocks(shape, layout);
  const unsigned generations = layout.generations;
  const size_t block_bytes = size_t{1} << layout.block_log2;
  const uint64_t lanes = generations == 8 ? 0x0101010101010101u : 0x0001000100010001u;
  const double cells = layout.cells();
  uint64_t totals[16] = {};
  uint64_t used = 0;  // number of cells with any generation set
  double rate = 0;
  const auto read_block = [&](uint64_t block) {
    unsigned set[16] = {};
    const uint8_t* bytes = body + block * block_bytes;
    for (size_t i = 0; i < block_bytes; i += 8) {
      const uint64_t word = LoadU64(bytes + i);
      uint64_t any = 0;
      for (unsigned g = 0; g < generations; ++g) {
        const uint64_t column = word >> g & lanes;
        any |= column;
        set[g] += static_cast<unsigned>(std::popcount(column));
      }
      used += static_cast<uint64_t>(std::popcount(any));
    }
    double none = 1;
    for (unsigned g = 0; g < generations; ++g) {
      totals[g] += set[g];
      none *= 1 - IntPower(set[g] / cells, static_cast<int>(layout.k));
    }
    rate += 1 - none;
  };
  ForUnits(blocks, 8 * block_bytes, [&](uint64_t from, uint64_t to) {
    for (uint64_t block = from; block < to; ++block) read_block(block);
  });
  const double all = cells * static_cast<double>(blocks);
  auto keys_of = [&](uint64_t set_cells) {
    return KeysFromClear(1 - static_cast<double>(set_cells) / all, static_cast<double>(blocks),
                         cells, static_cast<int>(layout.k));
  };
  Reading reading;
  for (unsigned g = 0; g < generations; ++g) reading.count += keys_of(totals[g]);
  // A key in several generations (refreshed, or in both inputs of a merge) was counted once in
  // each. The number of cells with any generation corrects this, unless nearly all cells are used.
  if (all - static_cast<double>(used) >= 100) {
    const double distinct = keys_of(used);
    if (distinct < 0.97 * reading.count) reading.count = distinct;
  }
  reading.fpr = rate / static_cast<double>(blocks);
  return reading;
}

extern const Method kMethod;

}  // namespace dedup::ring

#endif  // STREAMDEDUP_CORE_METHODS_RING_HPP_
