// How long a call works between two pauses: the longest time until a cancelled statement
// ends, for every function of the core and every method, with filters of 512 MB.
//
// Each function is called once. The time from each pause to the next is taken, the start and
// the end of the call included; so a page that is touched for the first time counts too. The
// table has the longest of these and the whole call, in milliseconds.
//
//   pauses [METHOD ...]

#include <chrono>
#include <cstdio>
#include <cstring>

#include "../unit/pause_cases.hpp"
#include "core/options.hpp"

namespace {

using namespace dedup;
using Clock = std::chrono::steady_clock;

Clock::time_point last;
double longest;

void Take() {
  const Clock::time_point now = Clock::now();
  const double gap = std::chrono::duration<double, std::milli>(now - last).count();
  if (gap > longest) longest = gap;
  last = now;
}

// The shape of the largest body up to so many bytes.
Shape LargestShape(const Method& method, uint64_t bytes) {
  Shape shape;
  for (uint64_t memory = bytes; memory > 0; memory -= bytes / 64) {
    Request request;
    request.memory = memory;
    if (PlanFilter(method, request, 0, &shape) == PlanStatus::kOk) break;
  }
  return shape;
}

// Whether it is the first method whose exact images are of this order.
bool FirstOfItsOrder(const Method& method, const Shape& shape) {
  for (const Method* other : kMethods) {
    if (other == &method) return true;
    const Shape others = LargestShape(*other, kMaxBodyBytes);
    if (other->exact_order(others) == method.exact_order(shape) &&
        other->counts() == method.counts()) {
      return false;
    }
  }
  return true;
}

void Run(const Method& method) {
  const Shape shape = LargestShape(method, kMaxBodyBytes);
  // As many keys as make the quotient filter's table grow to its largest.
  const uint64_t most = method.used_bytes != nullptr ? shape.keys : 20000000;
  const uint64_t keys = method.counts() || most > shape.keys + 1000000 ? 1000000 : most;
  pauses::Arena arena(size_t{12} << 30);
  // Exact images of one order differ in nothing but what their keys are replayed into.
  const uint64_t hashes = FirstOfItsOrder(method, shape) ? uint64_t{1} << 26 : uint64_t{1} << 22;
  pauses::Subject subject(shape, keys, hashes, &arena);
  std::printf("%s, %.0f MB, %.0f million hashes\n", method.name, shape.bytes / 1048576.0,
              static_cast<double>(hashes) / 1e6);
  for (const pauses::Case& one : subject.Cases()) {
    one.prepare();
    longest = 0;
    pause_function = Take;
    const Clock::time_point start = last = Clock::now();
    one.run();
    Take();
    pause_function = nullptr;
    std::printf("  %-32s %8.2f %10.1f\n", one.name.c_str(), longest,
                std::chrono::duration<double, std::milli>(last - start).count());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const Method* method : kMethods) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], method->name) == 0;
    if (wanted) Run(*method);
  }
  return 0;
}
