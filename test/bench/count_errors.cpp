// Standard error and bias of exaloglog's counts: usage: count_errors [RUNS]
//
// Up to 10^6 keys by filters of 16 kB that are given so many random hashes, one filter a
// run, at each of the numbers of the table; above by register states that are drawn as so
// many keys leave them. Truth is known in both, RUNS is 1000. Takes a minute.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/methods/exaloglog.hpp"
#include "core/registry.hpp"

namespace {

using namespace dedup;

constexpr unsigned kP = 12;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Derived(seed, 0)) {}
  uint64_t Next() { return Derived(state_ += kGolden, 1); }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

struct Sums {
  double sum = 0, squares = 0;
  void Add(double error) {
    sum += error;
    squares += error * error;
  }
};

void Print(double n, const char* how, const Sums& sums, int runs) {
  const double rmse = std::sqrt(sums.squares / runs);
  std::printf("%.10g\t%s\t%.3f\t%+.4f\t%.4f\n", n, how, 100 * rmse, 100 * sums.sum / runs,
              100 * rmse / std::sqrt(runs));
}

// In each register each value comes at Poisson's rate n/m times its probability.
void Draw(const Shape& shape, double n, Random* random, std::vector<uint8_t>* body) {
  const unsigned most = exaloglog::MostValue(kP);
  const double m = static_cast<double>(uint64_t{1} << kP);
  std::vector<double> comes(most + 1);
  for (unsigned k = 1; k <= most; ++k) {
    const auto exponent = static_cast<int>(exaloglog::Exponent(kP, (k - 1) / 4));
    comes[k] = -std::expm1(-n / m * std::ldexp(1, -exponent));
  }
  unsigned first = most;
  while (first > 1 && comes[first] * m < 1e-9) --first;
  body->assign(shape.bytes, 0);
  for (uint64_t at = 0; at < uint64_t{1} << kP; ++at) {
    uint32_t value = 0;
    unsigned u = 0;
    for (unsigned k = first; k >= 1 && (u == 0 || u - k <= exaloglog::kD); --k) {
      if (random->Unit() >= comes[k]) continue;
      if (u == 0) u = k;
      value |= u == k ? u << exaloglog::kD : exaloglog::kWindow >> (u - k);
    }
    exaloglog::StoreRegister(body->data(), at, value);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 1000;
  Request request;
  request.memory = 16 * 1024;
  Shape shape;
  if (runs < 1 || PlanFilter(CountMethod(), request, 0, &shape) != PlanStatus::kOk) return 1;
  std::printf("keys\tby\tstandard error %%\tbias %%\t+- %%\n");

  const double at[] = {1,    10,  100, 1000, 1792, 1793, 2000, 3000,
                       5000, 1e4, 2e4, 5e4,  1e5,  2e5,  5e5,  1e6};
  constexpr size_t kPlaces = sizeof at / sizeof at[0];
  Sums sums[kPlaces];
  const uint64_t exact = shape.bytes / 8;
  for (int run = 0; run < runs; ++run) {
    Random random(static_cast<uint64_t>(run));
    std::vector<uint8_t> body(shape.bytes);
    Counters counters;
    uint64_t keys = 0;
    for (size_t place = 0; place < kPlaces; ++place) {
      for (; keys < at[place]; ++keys) {
        const uint64_t hash = random.Next();
        CountMethod().insert(shape, &counters, body.data(), &hash, 1);
      }
      // Until there it is the hashes themselves that are kept.
      const double count = keys <= exact ? static_cast<double>(keys)
                                         : CountMethod().read(shape, counters, body.data()).count;
      sums[place].Add(count / at[place] - 1);
    }
  }
  for (size_t place = 0; place < kPlaces; ++place) Print(at[place], "keys", sums[place], runs);

  for (double n : {1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e15}) {
    Sums drawn;
    Random random(static_cast<uint64_t>(n));
    std::vector<uint8_t> body;
    for (int run = 0; run < runs; ++run) {
      Draw(shape, n, &random, &body);
      drawn.Add(CountMethod().read(shape, Counters{}, body.data()).count / n - 1);
    }
    Print(n, "draws", drawn, runs);
  }
  return 0;
}
