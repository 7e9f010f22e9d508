// Writes the seeds of the fuzzer: usage: make_corpus FOLDER
//
// One small image of each method in each form, with the byte in front that
// fuzz_filter.cpp takes for its mode, and some texts of options. Every machine and compiler
// writes the same bytes; test/check.sh fuzz compares them with test/fuzz/corpus.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "core/filter.hpp"
#include "core/image.hpp"
#include "core/methods/fifo.hpp"
#include "core/options.hpp"
#include "core/registry.hpp"

namespace dedup {
namespace {

// Memory that starts with a cache line. A working form tells its place within one, so without
// this its bytes would depend on malloc.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{kLineBytes};
  LineAllocator() = default;
  template <typename U>
  LineAllocator(const LineAllocator<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* at, size_t) { ::operator delete(at, kAlignment); }
  bool operator==(const LineAllocator&) const = default;
};

using Bytes = std::vector<uint8_t, LineAllocator<uint8_t>>;

bool Write(const std::string& folder, const std::string& name, int mode, const Bytes& bytes) {
  std::FILE* file = std::fopen((folder + "/" + name).c_str(), "wb");
  if (file == nullptr) return false;
  bool good = std::fputc(mode, file) != EOF;
  good = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && good;
  return std::fclose(file) == 0 && good;
}

// A filter of this shape with keys 0 to keys-1, or as many as it takes, in its working form.
Bytes Fill(const Shape& shape, uint64_t keys, Header* header) {
  Bytes image(kHeaderBytes);
  WriteEmpty(shape, image.data());
  if (Check(image.data(), image.size(), header) != Flaw::kNone) return {};
  for (uint64_t key = 0; key < keys; ++key) {
    const uint64_t hash = Derived(key, 0);
    if (header->canonical() || TestAndAdd(image.data(), header, hash) == Outcome::kNoRoom) {
      const Step step = NextStep(*header);
      Bytes grown(StepBytes(*header, step));
      if (!MakeWorking(image.data(), *header, step, grown.data())) break;
      image.swap(grown);
      if (Check(image.data(), image.size(), header) != Flaw::kNone) return {};
      if (!AddNew(image.data(), header, hash)) break;
    }
  }
  return image;
}

// The methods' options in text: none; then all switches on and all numbers of eight at their
// most; then each word.
std::vector<std::string> Texts(const Method& method) {
  std::vector<std::string> texts = {""};
  std::string all;
  for (int i = method.own_options(); i < method.option_count; ++i) {
    const OptionSpec& spec = method.options[i];
    if (spec.kind == OptionKind::kOnOff) all += std::string(" ") + spec.name + "=on";
    if (spec.kind == OptionKind::kMultipleOf8) {
      all += std::string(" ") + spec.name + "=" + std::to_string(static_cast<int>(spec.max));
    }
    if (spec.kind != OptionKind::kWord) continue;
    for (const char* word = spec.words; word != nullptr;) {
      const char* bar = std::strchr(word, '|');
      const std::string one = bar != nullptr ? std::string(word, bar) : std::string(word);
      texts.push_back(std::string(spec.name) + "=" + one);
      word = bar != nullptr ? bar + 1 : nullptr;
    }
  }
  if (!all.empty()) texts.insert(texts.begin() + 1, all.substr(1));
  return texts;
}

bool WriteImages(const std::string& folder) {
  bool good = true;
  for (const Method* method : kMethods) {
    const std::vector<std::string> texts = Texts(*method);
    for (size_t number = 0; number < texts.size(); ++number) {
      const char* const text = texts[number].c_str();
      Request request;
      // Room for 64 hashes, so for an index; one group of fifo for 824.
      request.memory = method->granule > 512 ? method->granule : 512;
      if (method->growth != nullptr) request.memory = 0;
      request.fpr = 0.05;
      Shape shape;
      if (ParseOptions(*method, text, std::strlen(text), &request.options).status !=
              OptionStatus::kOk ||
          PlanFilter(*method, request, 1, &shape) != PlanStatus::kOk) {
        return false;
      }
      // "16" is ring's of old.
      const std::string name = method->name + (number == 0   ? ""
                                               : number == 1 ? std::string("16")
                                                             : "-" + std::to_string(number));
      const uint64_t many =
          (method->growth != nullptr ? method->growth->exact_hashes : shape.bytes / 8) + 6;
      for (uint64_t keys : {uint64_t{0}, uint64_t{5}, uint64_t{30}, many}) {
        Header header;
        const Bytes working = Fill(shape, keys, &header);
        if (working.empty()) return false;
        Bytes stored(CanonicalBytes(header));
        WriteCanonical(working.data(), header, stored.data());
        const std::string what = name + (keys == 0    ? "-empty"
                                         : keys == 5  ? "-list"
                                         : keys == 30 ? "-indexed"
                                                      : "-full");
        good = Write(folder, what, 0, stored) && good;
        good = Write(folder, what + "-sealed", 1, stored) && good;
        good = Write(folder, what + "-working", 2, working) && good;
      }
    }
  }
  return good;
}

// A large filter of few keys, of which some wait to be looked up.
bool WriteWaiting(const std::string& folder) {
  bool good = true;
  for (const Method* method : kMethods) {
    // Filters that grow are exact while they are small, and wait only when they are too large here.
    if (method->growth != nullptr) continue;
    Request request;
    request.memory = (kDeferFromBytes + method->granule - 1) / method->granule * method->granule;
    Shape shape;
    if (PlanFilter(*method, request, 1, &shape) != PlanStatus::kOk) return false;
    // Not all bodies take all of the memory.
    while (shape.bytes < kDeferFromBytes) {
      request.memory += method->counts() ? 1 : request.memory;
      if (PlanFilter(*method, request, 1, &shape) != PlanStatus::kOk) return false;
    }
    Header header;
    Bytes working = Fill(shape, 20, &header);
    if (working.empty()) return false;
    for (uint64_t key = 15; key < 25; ++key) {
      const Outcome outcome = Defer(working.data(), &header, Derived(key, 0));
      if (outcome != Outcome::kNew && outcome != Outcome::kSeen) return false;
    }
    good = Write(folder, method->name + std::string("-waiting"), 2, working) && good;
  }
  return good;
}

// A window of four keys, of which hash 0, which the fuzzer asks for, is the next to go.
bool WriteSmall(const std::string& folder) {
  bool good = true;
  for (const Method* method : kMethods) {
    Request request;
    request.keys = 4;
    request.fpr = 0.001;
    Shape shape;
    if (!method->has_rate() || PlanFilter(*method, request, 1, &shape) != PlanStatus::kOk ||
        !method->forgets(shape)) {
      continue;
    }
    // From a full body on, so that the method decides what goes.
    Header header;
    Bytes working = Fill(shape, 200, &header);
    if (working.empty() || TestAndAdd(working.data(), &header, 0) == Outcome::kFull) return false;
    Bytes last = working;
    for (uint64_t key = 200; key < 1000 && Contains(working.data(), header, 0); ++key) {
      last = working;
      if (TestAndAdd(working.data(), &header, Derived(key, 0)) == Outcome::kFull) return false;
    }
    if (Check(last.data(), last.size(), &header) != Flaw::kNone) return false;
    Bytes stored(CanonicalBytes(header));
    WriteCanonical(last.data(), header, stored.data());
    good = Write(folder, method->name + std::string("-small"), 0, stored) && good;
  }
  return good;
}

// Filters that have grown three times, of slots of each width, and a state of a partial aggregate.
bool WriteGrown(const std::string& folder) {
  bool good = true;
  for (const Method* method : kMethods) {
    if (method->growth == nullptr) continue;
    for (const double fpr : {0.05, 0.0001, 1e-7, 1e-9, 0.5}) {
      Request request;
      request.fpr = fpr;
      Shape shape;
      if (PlanFilter(*method, request, 1, &shape) != PlanStatus::kOk) return false;
      if (fpr == 0.5) shape = method->growth->state_shape(shape);
      Header header;
      const Bytes working = Fill(shape, 2000, &header);
      if (working.empty()) return false;
      Bytes stored(CanonicalBytes(header));
      WriteCanonical(working.data(), header, stored.data());
      char name[100];
      std::snprintf(name, sizeof name, "%s-grown-%g", method->name, fpr);
      good = Write(folder, name, 0, stored) && good;
      good = Write(folder, name + std::string("-working"), 2, working) && good;
    }
  }
  return good;
}

// A full window by time, with its clock at generation 1000.
bool WriteTimed(const std::string& folder) {
  Shape shape;
  if (fifo::PlanTimed(500, 0.001, fifo::kMinGenerationUs, 1, &shape) != PlanStatus::kOk) {
    return false;
  }
  Header header;
  Bytes working = Fill(shape, shape.bytes / 8 + 6, &header);
  if (working.empty()) return false;
  header.counters.state = 1000;
  WriteCounters(working.data(), header.counters);
  Bytes stored(CanonicalBytes(header));
  WriteCanonical(working.data(), header, stored.data());
  return Write(folder, "fifo-timed", 0, stored) && Write(folder, "fifo-timed-sealed", 1, stored) &&
         Write(folder, "fifo-timed-working", 2, working);
}

bool WriteTexts(const std::string& folder) {
  const char* const texts[] = {
      "",     "fpr=0.001 keys=1000",        "fpr=1e-3,k=6", "generations=16 refresh=on fpr=.1",
      "k=99", "keys=1099511627776 fpr=0.5", "fast"};
  bool good = true;
  int number = 0;
  for (const char* text : texts) {
    Bytes bytes = {static_cast<uint8_t>(1 + number), 0, 0, 1, 0, 0, 0, 0, 0};
    bytes.insert(bytes.end(), text, text + std::strlen(text));
    good = Write(folder, "options-" + std::to_string(number++), 3, bytes) && good;
  }
  // Of every method each of its options, with its name for the fuzzer to try elsewhere.
  for (const Method* method : kMethods) {
    std::string text;
    for (int i = 0; i < method->option_count; ++i) {
      const OptionSpec& spec = method->options[i];
      text += std::string(i == 0 ? "" : " ") + spec.name + "=";
      if (spec.kind == OptionKind::kOnOff) {
        text += "on";
      } else if (spec.kind == OptionKind::kWord) {
        text += std::string(spec.words, std::strcspn(spec.words, "|"));
      } else {
        char value[40];
        std::snprintf(value, sizeof value, "%.9g", spec.min);
        text += value;
      }
    }
    Bytes bytes = {method->code, 0, 0, 1, 0, 0, 0, 0, 0};
    bytes.insert(bytes.end(), text.begin(), text.end());
    good = Write(folder, std::string("options-") + method->name, 3, bytes) && good;
  }
  return good;
}

}  // namespace
}  // namespace dedup

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  if (!dedup::WriteImages(argv[1]) || !dedup::WriteWaiting(argv[1]) ||
      !dedup::WriteSmall(argv[1]) || !dedup::WriteGrown(argv[1]) || !dedup::WriteTimed(argv[1]) ||
      !dedup::WriteTexts(argv[1])) {
    std::fprintf(stderr, "make_corpus: could not write to \"%s\"\n", argv[1]);
    return 1;
  }
  return 0;
}
