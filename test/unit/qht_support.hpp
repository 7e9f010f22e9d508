// What the tests of qht, qhtd, qqht and qqhtd share.

#ifndef STREAMDEDUP_TEST_UNIT_QHT_SUPPORT_HPP_
#define STREAMDEDUP_TEST_UNIT_QHT_SUPPORT_HPP_

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "test_support.hpp"

namespace dedup::test::qht_test {

inline const std::vector<std::string> kNames = {"qht", "qhtd", "qqht", "qqhtd"};
inline bool Queue(const std::string& name) { return name.substr(0, 2) == "qq"; }
inline bool WithDuplicates(const std::string& name) { return name.back() == 'd'; }

// k and bits: rows of one word up to 57 bits, of 58 to 64, and wider ones.
inline const std::vector<std::pair<unsigned, unsigned>> kLayouts = {
    {1, 1},  {1, 3}, {1, 40},  {2, 2},  {2, 5},  {3, 2},  {4, 8},  {5, 9},  {3, 19},  {7, 3},
    {2, 29}, {7, 9}, {15, 4},  {8, 8},  {4, 16}, {5, 13}, {2, 33}, {16, 6}, {31, 5},  {32, 6},
    {3, 40}, {9, 8}, {32, 40}, {12, 5}, {2, 40}, {6, 10}, {10, 7}, {20, 5}, {17, 11}, {30, 32}};

inline std::string Options(unsigned k, unsigned bits) {
  return "k=" + std::to_string(k) + " bits=" + std::to_string(bits);
}
// Of one row.
inline uint64_t LeastBytes(unsigned k, unsigned bits) { return (uint64_t{k} * bits + 63) / 64 * 8; }

// Rate of full rows, by the paper: k/S without duplicates.
inline double FullRate(const std::string& name, unsigned k, unsigned bits) {
  const double values = std::ldexp(1.0, static_cast<int>(bits)) - 1;
  return WithDuplicates(name) ? 1 - std::pow(1 - 1 / values, k) : k / values;
}

// Adds the keys numbered first to last - 1, in batches; `hash` makes a key's hash of its
// number. Says how many were found.
template <typename Hash>
uint64_t Add(Body* body, uint64_t first, uint64_t last, Hash hash) {
  uint64_t hashes[512], found = 0;
  uint8_t seen[512];
  while (first < last) {
    size_t n = 0;
    while (n < 512 && first < last) hashes[n++] = hash(first++);
    body->TestAndAdd(hashes, n, seen);
    for (size_t i = 0; i < n; ++i) found += seen[i];
  }
  return found;
}
// The same of asking.
template <typename Hash>
uint64_t Ask(const Body& body, uint64_t first, uint64_t last, Hash hash) {
  uint64_t hashes[512], found = 0;
  uint8_t seen[512];
  while (first < last) {
    size_t n = 0;
    while (n < 512 && first < last) hashes[n++] = hash(first++);
    body.Contains(hashes, n, seen);
    for (size_t i = 0; i < n; ++i) found += seen[i];
  }
  return found;
}

// The cells of a body, row by row: bit by bit, the lowest first.
inline std::vector<uint64_t> CellsOf(const Body& body) {
  const unsigned k = body.shape().detail & 0xff, bits = body.shape().detail >> 8 & 0xff;
  std::vector<uint64_t> cells(uint64_t{body.shape().bytes} * 8 / (k * bits) * k);
  for (uint64_t i = 0; i < cells.size() * bits; ++i) {
    cells[i / bits] |= uint64_t{static_cast<unsigned>(body.bytes()[i / 8]) >> i % 8 & 1}
                       << i % bits;
  }
  return cells;
}

}  // namespace dedup::test::qht_test

#endif  // STREAMDEDUP_TEST_UNIT_QHT_SUPPORT_HPP_
