// Designs of filters that grow, side by side: the one that is shipped, and in growing/ those that
// are not. Each is compared with a blocked_bloom, which is made for a number of keys.
//
//   growing sizes [NAME=VALUE ...]  bytes beside a blocked_bloom for exactly that number of keys,
//                                   from 1,000 keys on in steps of 1.25
//   growing rates [NAME=VALUE ...]  the measured false-positive rate from one key on in steps of
//                                   2, with some seeds, and a check that no key is missed
//   growing speed [NAME=VALUE ...]  nanoseconds a key, beside a blocked_bloom of the same number
//                                   of bytes and one for the same number of keys
//
//   design=NAME   one design only
//   fpr=RATE      one rate only (of speed: 0.01 and 0.0001 without it)
//   keys=MOST     of sizes and rates: stop there (100,000,000 without it)
//   mib=SIZE      of speed: one size only (16 and 256 without it)
//   rounds=N      of speed: best of N rounds of adding (5 without it)
//   seeds=N       of rates: so many filters (3 without it)
//
// Speed: in each round every filter is filled from empty, with growth and with the memory it
// needs, one after the other. Then they are asked, as they are full, for keys that are in none.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/image.hpp"
#include "core/registry.hpp"
#include "growing/chain.hpp"
#include "growing/quotient_infini.hpp"
#include "growing/shipped.hpp"
#include "measure.hpp"

namespace {

using namespace dedup;
using namespace dedup::bench;

constexpr size_t kAskedARound = size_t{1} << 20;
constexpr int kAskingRounds = 5;
constexpr uint64_t kStrange = uint64_t{1} << 59;  // keys from here on are in no filter

struct Arguments {
  std::string mode;
  std::string design;
  double fpr = 0;
  double keys = 1e8;
  double mib = 0;
  double rounds = 5;
  double seeds = 3;
};

// A filter for a known number of keys.
class Fixed {
 public:
  explicit Fixed(const Shape& shape) : shape_(shape), body_(shape.bytes) {}
  void Add(const uint64_t* hashes, size_t n, uint8_t* seen) {
    blocked_bloom::kMethod.test_and_add(shape_, &counters_, body_.data, hashes, n, seen);
  }
  void Contains(const uint64_t* hashes, size_t n, uint8_t* seen) const {
    blocked_bloom::kMethod.contains(shape_, counters_, body_.data, hashes, n, seen);
  }

 private:
  Shape shape_;
  Counters counters_;
  Memory body_;
};

Shape FixedShape(double fpr, uint64_t keys, uint64_t memory) {
  Request request;
  request.fpr = fpr;
  request.keys = keys;
  request.memory = memory;
  Shape shape;
  if (PlanFilter(blocked_bloom::kMethod, request, 0, &shape) != PlanStatus::kOk) {
    std::fprintf(stderr, "no blocked_bloom has this size\n");
    std::exit(1);
  }
  return shape;
}

// Whether a design is at its largest and has as many keys as it keeps the rate for.
template <typename Design>
bool AtItsEnd(const Design& design) {
  return design.UntilGrowth() == 0 && design.NextBytes() == ~uint64_t{0};
}

// ---- sizes --------------------------------------------------------------------

template <typename Design>
void Sizes(double fpr, const Arguments& arguments) {
  Design design(fpr);
  uint64_t keys = 0;
  double sum = 0, most = 0, most_at = 0, bits = 0;
  int sizes = 0;
  for (double size = 1000; size < arguments.keys * 1.0001; size *= 1.25) {
    const auto next = static_cast<uint64_t>(size);
    AddKeys(&design, keys, next, 0);
    if (AtItsEnd(design)) break;
    keys = next;
    const uint64_t fixed = kHeaderBytes + FixedShape(fpr, keys, 0).bytes;
    const double ratio = static_cast<double>(design.Bytes()) / static_cast<double>(fixed);
    sum += ratio;
    bits += 8.0 * static_cast<double>(design.Bytes()) / size;
    ++sizes;
    if (ratio > most) {
      most = ratio;
      most_at = size;
    }
  }
  std::printf("%-16s %7g %6.2f %6.2f %12.0f %9.1f %12llu%s\n", Design::kName, fpr, sum / sizes,
              most, most_at, bits / sizes, static_cast<unsigned long long>(keys),
              AtItsEnd(design) ? " full" : "");
}

// ---- rates --------------------------------------------------------------------

template <typename Design>
void Rates(double fpr, const Arguments& arguments) {
  const auto seeds = static_cast<size_t>(arguments.seeds);
  // So many keys are asked that the standard error of a rate is 1/40 of the rate asked for.
  const double probes = std::ceil(1600 / fpr);
  std::vector<std::unique_ptr<Design>> designs(seeds);
  for (auto& design : designs) design = std::make_unique<Design>(fpr);
  double worst = 0, worst_at = 0, worst_mean = 0, worst_mean_at = 0;
  uint64_t keys = 0, missed = 0;
  bool full = false;
  for (double size = 1; size < arguments.keys * 2 && !full; size *= 2) {
    const auto next = static_cast<uint64_t>(size < arguments.keys ? size : arguments.keys);
    double sum = 0;
    for (size_t i = 0; i < seeds; ++i) {
      const uint64_t seed = i + 1;
      Design* design = designs[i].get();
      // At its end it has as many keys as keep the rate, and a batch more.
      for (uint64_t at = keys; at < next && !AtItsEnd(*design); at += kBatch) {
        AddKeys(design, at, at + kBatch < next ? at + kBatch : next, seed);
      }
      full = full || AtItsEnd(*design);
      const double positives = static_cast<double>(
          Found(*design, kStrange, kStrange + static_cast<uint64_t>(probes), seed));
      const double ratio = positives / probes / fpr;
      sum += ratio;
      if (ratio > worst) {
        worst = ratio;
        worst_at = static_cast<double>(next);
      }
      // A filter that is full did not take the last keys, so they are not missed.
      if (!full) missed += next - Found(*design, 0, next, seed);
    }
    if (!full) keys = next;
    if (sum / arguments.seeds > worst_mean) {
      worst_mean = sum / arguments.seeds;
      worst_mean_at = static_cast<double>(next);
    }
  }
  std::printf("%-16s %7g %6.3f %12.0f %6.3f %12.0f %12llu %8llu%s\n", Design::kName, fpr,
              worst_mean, worst_mean_at, worst, worst_at, static_cast<unsigned long long>(keys),
              static_cast<unsigned long long>(missed), full ? " full" : "");
  if (missed > 0) std::exit(1);
}

// ---- speed --------------------------------------------------------------------

// The least nanoseconds a key of the design, and of the two filters beside it.
struct Best {
  double design = 1e18, same_bytes = 1e18, same_keys = 1e18;
  static void Take(double ns, double* best) { *best = ns < *best ? ns : *best; }
  void Print(const char* name, double fpr, double mib, uint64_t keys, const char* what) const {
    std::printf("%-16s %7g %4.0f %11llu %-10s %8.1f %8.2f %8.2f\n", name, fpr, mib,
                static_cast<unsigned long long>(keys), what, design, design / same_bytes,
                design / same_keys);
    std::fflush(stdout);
  }
};

template <typename Design>
void Speed(double fpr, double mib, const Arguments& arguments) {
  const auto bytes = static_cast<uint64_t>(mib * 1048576);
  std::optional<Design> design;
  std::optional<Fixed> same_bytes, same_keys;
  Shape bytes_shape, keys_shape;
  uint64_t keys = 0;
  for (const bool batch : {true, false}) {
    Best best;
    for (int round = 0; round < static_cast<int>(arguments.rounds); ++round) {
      const double ns = Nanoseconds([&] {
        design.emplace(fpr);
        keys = FillTo(&*design, bytes, batch);
      });
      Best::Take(ns / static_cast<double>(keys), &best.design);
      if (round == 0) {
        bytes_shape = FixedShape(fpr, 0, design->Bytes() - kHeaderBytes);
        keys_shape = FixedShape(fpr, keys, 0);
      }
      const auto fill = [&](const Shape& shape, std::optional<Fixed>* fixed, double* least) {
        Best::Take(Round(shape.keys,
                         [&] {
                           fixed->emplace(shape);
                           AddKeys(&**fixed, 0, shape.keys, 0, batch);
                         }),
                   least);
      };
      fill(bytes_shape, &same_bytes, &best.same_bytes);
      fill(keys_shape, &same_keys, &best.same_keys);
    }
    best.Print(Design::kName, fpr, mib, keys, batch ? "add batch" : "add one");
  }
  uint64_t strange = kStrange;
  for (const bool batch : {true, false}) {
    Best best;
    uint64_t found = 0;
    const auto ask = [&](const auto& filter, double* least) {
      Best::Take(Round(kAskedARound,
                       [&] {
                         found += Found(filter, strange, strange + kAskedARound, 0, batch);
                         strange += kAskedARound;
                       }),
                 least);
    };
    for (int round = 0; round < kAskingRounds; ++round) {
      ask(*design, &best.design);
      ask(*same_bytes, &best.same_bytes);
      ask(*same_keys, &best.same_keys);
    }
    best.Print(Design::kName, fpr, mib, keys, batch ? "ask batch" : "ask one");
    // So that no answer can be left out.
    if (found == 0) std::printf("# no false positive\n");
  }
}

// ---- modes --------------------------------------------------------------------

template <typename Design>
void Run(const Arguments& arguments) {
  if (!arguments.design.empty() && arguments.design != Design::kName) return;
  for (const double fpr : {0.1, 0.01, 0.001, 0.0001}) {
    if (arguments.fpr != 0 && arguments.fpr != fpr) continue;
    if (arguments.mode == "sizes") Sizes<Design>(fpr, arguments);
    if (arguments.mode == "rates") Rates<Design>(fpr, arguments);
    if (arguments.mode == "speed" && (arguments.fpr != 0 || fpr == 0.01 || fpr == 0.0001)) {
      for (const double mib : {16.0, 256.0}) {
        if (arguments.mib == 0 || arguments.mib == mib) Speed<Design>(fpr, mib, arguments);
      }
    }
    std::fflush(stdout);
  }
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  if (argc < 2) return false;
  arguments->mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = argument.substr(0, equals), value = argument.substr(equals + 1);
    double* number = name == "fpr"      ? &arguments->fpr
                     : name == "keys"   ? &arguments->keys
                     : name == "mib"    ? &arguments->mib
                     : name == "rounds" ? &arguments->rounds
                     : name == "seeds"  ? &arguments->seeds
                                        : nullptr;
    if (name == "design") {
      arguments->design = value;
    } else if (number != nullptr) {
      *number = std::atof(value.c_str());
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  const char* columns = nullptr;
  if (Parse(argc, argv, &arguments)) {
    if (arguments.mode == "sizes") {
      columns =
          "design               fpr   mean   most      at keys  bits/key         keys   (times the "
          "bytes of a blocked_bloom)";
    } else if (arguments.mode == "rates") {
      columns =
          "design               fpr   mean      at keys  worst      at keys         keys   missed  "
          " (times the rate asked for; the mean of all seeds, and one)";
    } else if (arguments.mode == "speed") {
      columns =
          "design               fpr  MiB        keys operation    ns/key    bytes     keys   "
          "(times "
          "a blocked_bloom of the same bytes, for the same keys)";
    }
  }
  if (columns == nullptr) {
    std::fprintf(stderr,
                 "usage: growing sizes|rates|speed [design=NAME] [fpr=RATE] [keys=MOST] "
                 "[mib=SIZE] [rounds=N] [seeds=N]\n");
    return 2;
  }
  std::printf("%s\n", columns);
#ifdef STREAMDEDUP_BENCH_HAS_SHIPPED
  Run<Shipped>(arguments);
#endif
  Run<QuotientInfini>(arguments);
  Run<Chain>(arguments);
  return 0;
}
