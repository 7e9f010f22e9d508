// The figures behind the plots and tables of docs/papers.md and docs/methods*.md, as
// tab-separated lines with a heading:
//
//   curves streams DIR   FPR, FNR, and the duplicates missed within 25, 50, 75 and 90 %
//                        of the nominal window, for every method at equal memory, on the
//                        click and request streams of a folder (those of the list below
//                        that are there) and on two made ones
//   curves ages          share of keys missed against the number of keys since they came,
//                        at equal memory
//   curves bits          bits a key against the false-positive rate
//   curves merges        what a merge keeps of two filters of distinct keys, half full and
//                        full, at what rate, at once and a window later
//   curves frequencies DIR   by how much frequencies are too high, plain and with
//                        conservative update, on the streams of `streams`, and the time of
//                        a sight

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

#include "streams.hpp"

namespace {

using namespace dedup::bench;
using dedup::Method;
using dedup::Remembers;
using dedup::Shape;

struct Variant {
  std::string label;
  const char* method;
  const char* options;
};

// Options that a method's paper recommends, where they are not those by default. With a label
// of their own they are measured beside the method as it is, else instead of it.
constexpr struct {
  const char* method;
  const char* label;
  const char* options;
} kRecommended[] = {
    {"sbf", "sbf 10 %", "d=1 k=2 p=4"},
    {"sqf", "sqf k=1 r=2", "k=1 r=2 r_prime=1"},
    {"qht", "qht 3 bits", "k=1 bits=3"},
    {"qhtd", "qhtd", "k=4"},
    {"qqht", "qqht", "k=4"},
    {"qqhtd", "qqhtd", "k=4"},
};

// Every method that answers whether a key was seen: as it is by default, in its other
// variant, as "ring refresh", and as its paper recommends it.
std::vector<Variant> Variants() {
  std::vector<Variant> all;
  for (const Method* method : dedup::kMethods) {
    if (!method->has_rate()) continue;
    const size_t usual = all.size();
    all.push_back({method->name, method->name, ""});
    if (method->variant != nullptr) {
      const std::string options = method->variant;
      all.push_back({method->name + (" " + options.substr(0, options.find('='))), method->name,
                     method->variant});
    }
    for (const auto& other : kRecommended) {
      if (std::strcmp(other.method, method->name) != 0) continue;
      if (std::strcmp(other.label, method->name) == 0) {
        all[usual].options = other.options;
      } else {
        all.push_back({other.label, method->name, other.options});
      }
    }
  }
  return all;
}

// ---- streams ----------------------------------------------------------------------

struct Stream {
  std::string name;
  std::vector<uint64_t> keys;
  std::vector<uint32_t> distance;  // distinct keys since the last of this; 0: none before
  uint64_t distinct = 0;
};

// Fills the distances: a tree of counts over the places that are their key's last.
void Measure(Stream* stream) {
  const size_t n = stream->keys.size();
  std::vector<uint32_t> tree(n + 1);
  const auto add = [&](size_t at, uint32_t by) {
    for (++at; at <= n; at += at & (~at + 1)) tree[at] += by;
  };
  const auto before = [&](size_t at) {
    uint32_t sum = 0;
    for (; at > 0; at -= at & (~at + 1)) sum += tree[at];
    return sum;
  };
  std::unordered_map<uint64_t, size_t> last;
  stream->distance.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const auto [at, fresh] = last.try_emplace(stream->keys[i], i);
    if (!fresh) {
      stream->distance[i] = 1 + before(i) - before(at->second + 1);
      add(at->second, ~uint32_t{0});
      at->second = i;
    }
    add(i, 1);
  }
  stream->distinct = last.size();
}

struct Source {
  const char* name;
  const char* file;
  bool heading;
  std::vector<int> columns;
};

bool ReadStream(const std::string& folder, const Source& source, Stream* stream) {
  const std::string path = folder + "/" + source.file;
  if (FILE* there = std::fopen(path.c_str(), "r")) {
    std::fclose(there);
  } else {
    return false;
  }
  const bool zstd = path.size() > 4 && path.compare(path.size() - 4, 4, ".zst") == 0;
  FILE* pipe = popen(((zstd ? "zstd -dcq '" : "gzip -dc '") + path + "'").c_str(), "r");
  if (pipe == nullptr) return false;
  stream->name = source.name;
  char* line = nullptr;
  size_t room = 0;
  bool skip = source.heading;
  for (ssize_t length; (length = getline(&line, &room, pipe)) > 0;) {
    if (skip) {
      skip = false;
      continue;
    }
    if (line[length - 1] == '\n') line[--length] = '\0';
    uint64_t key = 0;
    for (int column : source.columns) {
      const char* from = line;
      for (int i = 0; i < column && from != nullptr; ++i) {
        from = std::strchr(from, '\t');
        if (from != nullptr) ++from;
      }
      if (from == nullptr) from = "";
      const char* to = std::strchr(from, '\t');
      key = dedup::Xxh3(from, to != nullptr ? static_cast<size_t>(to - from) : std::strlen(from),
                        key + 1);
    }
    stream->keys.push_back(key);
  }
  std::free(line);
  return pclose(pipe) == 0 && !stream->keys.empty();
}

std::vector<Stream> Streams(const std::string& folder, bool measure) {
  const Source sources[] = {
      {"web07 pages", "shop_web07.txt.gz", false, {0}},
      {"web12 pages", "shop_web12.txt.gz", false, {0}},
      {"orm objects", "shop_orm_busy.txt.zst", false, {0}},
      {"apache ip+url", "apache_logs_10k.tsv.gz", true, {1, 3}},
      {"zeek flows", "zeek_wrccdc_flows.tsv.gz", true, {2, 3, 4, 5}},
      {"nasa host+url", "nasa_19950801.tsv.gz", true, {1, 3}},
  };
  std::vector<Stream> streams;
  for (const Source& source : sources) {
    Stream stream;
    if (!folder.empty() && ReadStream(folder, source, &stream)) {
      streams.push_back(std::move(stream));
    } else {
      std::fprintf(stderr, "%s is left out: no %s\n", source.name, source.file);
    }
  }
  Random random(1);
  Stream uniform, skewed;
  uniform.name = "uniform";
  skewed.name = "zipf";
  const Zipf zipf(1 << 20);
  for (int i = 0; i < 1000000; ++i) {
    uniform.keys.push_back(random.Below(1 << 20));
    skewed.keys.push_back(zipf.Next(&random));
  }
  streams.push_back(std::move(uniform));
  streams.push_back(std::move(skewed));
  for (Stream& stream : streams) {
    if (measure) Measure(&stream);
  }
  return streams;
}

constexpr double kWithin[] = {0.25, 0.5, 0.75, 0.9};

void PrintStreams(const std::string& folder) {
  std::printf(
      "stream\telements\tdistinct\tmethod\tbits_a_distinct_key\tbytes\twindow\tFPR\tFNR\t"
      "missed25\tmissed50\tmissed75\tmissed90\n");
  for (const Stream& stream : Streams(folder, true)) {
    for (const double bits : {0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      const auto memory = static_cast<uint64_t>(bits * static_cast<double>(stream.distinct) / 8);
      for (const Variant& variant : Variants()) {
        Shape shape;
        if (!TryPlan(variant.method, memory, 0, 0.01, variant.options, 1, &shape)) continue;
        Filter filter(shape);
        size_t at = 0;
        uint64_t near[4] = {}, missed[4] = {};
        // Answers are needed one by one, beside the distances.
        Rates rates;
        for (; at < stream.keys.size(); ++at) {
          const uint64_t hash = HashKey(stream.keys[at], shape.seed);
          uint8_t seen = 0;
          if (!filter.Add(&hash, 1, &seen)) {
            rates.full = true;
            break;
          }
          const uint32_t distance = stream.distance[at];
          if (distance == 0) {
            ++rates.fresh;
            rates.false_positive += seen;
            continue;
          }
          ++rates.repeated;
          rates.false_negative += seen == 0;
          for (int i = 0; i < 4; ++i) {
            if (distance > kWithin[i] * static_cast<double>(shape.keys)) continue;
            ++near[i];
            missed[i] += seen == 0;
          }
        }
        if (rates.full) continue;
        std::printf("%s\t%zu\t%llu\t%s\t%g\t%u\t%llu\t%.4f\t%.4f", stream.name.c_str(),
                    stream.keys.size(), static_cast<unsigned long long>(stream.distinct),
                    variant.label.c_str(), bits, shape.bytes,
                    static_cast<unsigned long long>(shape.keys), rates.Fpr(), rates.Fnr());
        for (int i = 0; i < 4; ++i) {
          std::printf("\t%.4f", 100.0 * static_cast<double>(missed[i]) / Rates::Per(near[i]));
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  }
}

// ---- ages ------------------------------------------------------------------------

void PrintAges() {
  constexpr uint64_t kMemory = 256 * 1024;
  constexpr uint64_t kStep = 4096;  // keys
  std::printf("method\tbytes\twindow\tage\tmissed\n");
  for (const Variant& variant : Variants()) {
    Shape shape;
    if (!TryPlan(variant.method, kMemory, 0, 0.01, variant.options, 1, &shape)) continue;
    const Method& method = *dedup::MethodByCode(shape.method);
    if (!method.forgets(shape)) continue;
    Filter filter(shape);
    constexpr uint64_t kOldest = 64 * kStep;
    // Distinct keys, until ages of all phases of a filter's turns have been asked.
    constexpr uint64_t kKeys = 16 * kOldest;
    std::vector<uint64_t> asked(65), missed(65);
    uint8_t seen[64];
    uint64_t hashes[64];
    for (uint64_t key = 0; key < kKeys; key += 64) {
      for (uint64_t i = 0; i < 64; ++i) hashes[i] = HashKey(key + i, shape.seed);
      filter.Add(hashes, 64, seen);
      if (key < 4 * kOldest) continue;
      for (uint64_t step = 1; step <= 64; ++step) {
        const uint64_t hash = HashKey(key + 63 - step * kStep + 1, shape.seed);
        filter.Ask(&hash, 1, seen);
        ++asked[step];
        missed[step] += seen[0] == 0;
      }
    }
    for (uint64_t step = 1; step <= 64; ++step) {
      std::printf("%s\t%u\t%llu\t%llu\t%.5f\n", variant.label.c_str(), shape.bytes,
                  static_cast<unsigned long long>(shape.keys),
                  static_cast<unsigned long long>(step * kStep),
                  100.0 * static_cast<double>(missed[step]) / Rates::Per(asked[step]));
    }
    std::fflush(stdout);
  }
}

// ---- bits a key --------------------------------------------------------------------

void PrintBits() {
  constexpr uint64_t kKeys = 200000;
  std::printf("method\tkind\tasked\tbits_a_key\tFPR\n");
  for (const Variant& variant : Variants()) {
    for (const double fpr : {0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001, 0.00001}) {
      Shape shape;
      if (!TryPlan(variant.method, 0, kKeys, fpr, variant.options, 1, &shape)) continue;
      const Method& method = *dedup::MethodByCode(shape.method);
      Filter filter(shape);
      const uint64_t adds = method.forgets(shape) ? 8 * kKeys : kKeys;
      uint64_t hashes[250];
      uint8_t seen[250];
      bool full = false;
      for (uint64_t key = 0; key < adds && !full; key += 250) {
        for (uint64_t i = 0; i < 250; ++i) hashes[i] = HashKey(key + i, shape.seed);
        full = !filter.Add(hashes, 250, seen);
      }
      if (full) continue;
      uint64_t positive = 0;
      constexpr uint64_t kAsked = 4000000;
      for (uint64_t key = 0; key < kAsked; key += 250) {
        for (uint64_t i = 0; i < 250; ++i) {
          hashes[i] = HashKey((uint64_t{1} << 40) + key + i, shape.seed);
        }
        filter.Ask(hashes, 250, seen);
        for (const uint8_t answer : seen) positive += answer;
      }
      std::printf("%s\t%s\t%g\t%.3f\t%.3g\n", variant.label.c_str(),
                  method.forgets(shape) ? "window" : "set", fpr,
                  8.0 * shape.bytes / static_cast<double>(kKeys),
                  static_cast<double>(positive) / kAsked);
      std::fflush(stdout);
    }
  }
}

// ---- merges -----------------------------------------------------------------------

constexpr uint64_t kChunk = 250;

// Adds keys first .. first + n - 1. False: it is full.
bool AddKeys(Filter* filter, uint64_t first, uint64_t n) {
  uint64_t hashes[kChunk];
  uint8_t seen[kChunk];
  for (uint64_t done = 0; done < n; done += kChunk) {
    const uint64_t chunk = n - done < kChunk ? n - done : kChunk;
    for (uint64_t i = 0; i < chunk; ++i) {
      hashes[i] = HashKey(first + done + i, filter->shape().seed);
    }
    if (!filter->Add(hashes, chunk, seen)) return false;
  }
  return true;
}

// Share of the keys first .. first + n - 1 that are found.
double Found(const Filter& filter, uint64_t first, uint64_t n) {
  uint64_t hashes[kChunk];
  uint8_t seen[kChunk];
  uint64_t found = 0;
  for (uint64_t done = 0; done < n; done += kChunk) {
    const uint64_t chunk = n - done < kChunk ? n - done : kChunk;
    for (uint64_t i = 0; i < chunk; ++i) {
      hashes[i] = HashKey(first + done + i, filter.shape().seed);
    }
    filter.Ask(hashes, chunk, seen);
    for (uint64_t i = 0; i < chunk; ++i) found += seen[i];
  }
  return static_cast<double>(found) / static_cast<double>(n);
}

void PrintMerges() {
  constexpr uint64_t kKeys = 50000, kOther = uint64_t{1} << 40, kNew = uint64_t{1} << 41;
  constexpr uint64_t kStrange = uint64_t{1} << 42, kStrangers = 400000;
  std::printf(
      "method\tfill\tfound_before\tFPR_before\tfound_left\tfound_right\tFPR_at_once\t"
      "FPR_later\tfound_new\n");
  for (const Variant& variant : Variants()) {
    Shape shape;
    if (!TryPlan(variant.method, 0, kKeys, 0.01, variant.options, 1, &shape)) continue;
    const Method& method = *dedup::MethodByCode(shape.method);
    if (method.merge == nullptr) continue;
    const bool window = method.forgets(shape);
    for (const bool full : {false, true}) {
      // Full windows, which stand differently in their turns.
      const uint64_t n = full ? kKeys : kKeys / 2;
      const uint64_t left = full && window ? 4 * n : n, right = full && window ? 4 * n + 7777 : n;
      Filter a(shape), b(shape);
      if (!AddKeys(&a, 0, left) || !AddKeys(&b, kOther, right)) continue;
      const double before = Found(a, left - n, n), rate = Found(a, kStrange, kStrangers);
      std::printf("%s\t%s\t%.4f\t%.3f", variant.label.c_str(), full ? "full" : "half", before,
                  100 * rate);
      if (!a.Merge(b)) {
        std::printf("\trefused\n");
        continue;
      }
      std::printf("\t%.4f\t%.4f\t%.3f", Found(a, left - n, n), Found(a, kOther + right - n, n),
                  100 * Found(a, kStrange, kStrangers));
      if (window && AddKeys(&a, kNew, kKeys)) {
        std::printf("\t%.3f\t%.4f", 100 * Found(a, kStrange, kStrangers), Found(a, kNew, kKeys));
      }
      std::printf("\n");
    }
  }
}

// ---- frequencies ------------------------------------------------------------------

// Of count_min as it is after its first key: the exact form would have no error. Errors are
// those of distinct keys, each once, over ten seeds; the time is the best of ten.
void PrintFrequencies(const std::string& folder) {
  std::printf(
      "stream\telements\tdistinct\tepsilon\tdelta\tconservative\tbytes\tbound\tmean\tp50\tp99\tmax"
      "\t"
      "over\tns\n");
  for (const Stream& stream : Streams(folder, false)) {
    std::unordered_map<uint64_t, uint64_t> truth;
    for (uint64_t key : stream.keys) ++truth[key];
    for (const double epsilon : {0.01, 0.001, 0.0001}) {
      for (const double delta : {0.1, 0.01}) {
        for (const char* conservative : {"off", "on"}) {
          char options[100];
          std::snprintf(options, sizeof options, "epsilon=%g delta=%g conservative=%s", epsilon,
                        delta, conservative);
          const double bound = epsilon * static_cast<double>(stream.keys.size());
          std::vector<uint64_t> errors;
          uint32_t bytes = 0;
          double best = 1e9;
          for (uint64_t seed = 1; seed <= 10; ++seed) {
            Shape shape;
            if (!TryPlan("count_min", 0, 0, 0, options, seed, &shape)) std::exit(1);
            bytes = shape.bytes;
            Filter filter(shape);
            std::vector<uint64_t> hashes;
            for (uint64_t key : stream.keys) hashes.push_back(HashKey(key, seed));
            const auto start = std::chrono::steady_clock::now();
            for (size_t at = 0; at < hashes.size(); at += 64) {
              filter.Add(&hashes[at], std::min<size_t>(64, hashes.size() - at), nullptr);
            }
            const std::chrono::duration<double, std::nano> took =
                std::chrono::steady_clock::now() - start;
            best = std::min(best, took.count() / static_cast<double>(hashes.size()));
            for (const auto& [key, count] : truth) {
              const uint64_t told = filter.Frequency(HashKey(key, seed));
              if (told < count) {
                std::fprintf(stderr, "a frequency is too low\n");
                std::exit(1);
              }
              errors.push_back(told - count);
            }
          }
          std::sort(errors.begin(), errors.end());
          double sum = 0;
          for (uint64_t error : errors) sum += static_cast<double>(error);
          const double over = static_cast<double>(
              errors.end() - std::upper_bound(errors.begin(), errors.end(), bound));
          const double n = static_cast<double>(errors.size());
          std::printf("%s\t%zu\t%zu\t%g\t%g\t%s\t%u\t%.0f\t%.3f\t%llu\t%llu\t%llu\t%.6f\t%.1f\n",
                      stream.name.c_str(), stream.keys.size(), truth.size(), epsilon, delta,
                      conservative, bytes, bound, sum / n,
                      static_cast<unsigned long long>(errors[errors.size() / 2]),
                      static_cast<unsigned long long>(errors[errors.size() * 99 / 100]),
                      static_cast<unsigned long long>(errors.back()), over / n, best);
          std::fflush(stdout);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "streams" && argc <= 3) {
    PrintStreams(argc == 3 ? argv[2] : "");
  } else if (what == "ages" && argc == 2) {
    PrintAges();
  } else if (what == "bits" && argc == 2) {
    PrintBits();
  } else if (what == "merges" && argc == 2) {
    PrintMerges();
  } else if (what == "frequencies" && argc <= 3) {
    PrintFrequencies(argc == 3 ? argv[2] : "");
  } else {
    std::fprintf(stderr,
                 "usage: curves streams [DIR] | ages | bits | merges | frequencies [DIR]\n");
    return 2;
  }
  return 0;
}
