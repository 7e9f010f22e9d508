// The option text of dedup_method(): what is read, and what is refused with which
// word.

#include "core/options.hpp"

#include <gtest/gtest.h>

#include <string>

#include "test_support.hpp"

namespace dedup::test {
namespace {

struct Parsed {
  OptionError error;
  Options options;
};

// Parses a copy of exactly the text's length, without a NUL behind it.
Parsed Parse(const char* method, const std::string& text) {
  Parsed parsed;
  const Bytes copy(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  parsed.error = ParseOptions(Named(method), reinterpret_cast<const char*>(copy.data()),
                              text.size(), &parsed.options);
  return parsed;
}

double Value(const char* method, const std::string& text, const std::string& option) {
  const Parsed parsed = Parse(method, text);
  EXPECT_EQ(parsed.error.status, OptionStatus::kOk) << text;
  for (int i = 0; i < Named(method).option_count; ++i) {
    if (Named(method).options[i].name == option) {
      EXPECT_TRUE(parsed.options.given[i]) << text;
      return parsed.options.value[i];
    }
  }
  ADD_FAILURE() << "no option " << option;
  return 0;
}

OptionStatus Status(const char* method, const std::string& text) {
  return Parse(method, text).error.status;
}

// The word at fault, as the error points to it.
std::string Fault(const char* method, const std::string& text) {
  // The copy must outlive the pointer into it.
  Options options;
  const OptionError error = ParseOptions(Named(method), text.data(), text.size(), &options);
  return error.text == nullptr ? "" : std::string(error.text, error.length);
}

// No options at all are fine, however much blank there is.
TEST(Options, MayBeEmpty) {
  for (const char* text : {"", " ", ",", " \t\n, ,"}) {
    const Parsed parsed = Parse("ring", text);
    EXPECT_EQ(parsed.error.status, OptionStatus::kOk);
    for (bool given : parsed.options.given) EXPECT_FALSE(given);
  }
}

// Real numbers: a point, an exponent, and nothing before or after the point. They
// are the doubles that the same text is in C.
TEST(Options, ReadRealNumbers) {
  struct Case {
    const char* text;
    double value;
  };
  for (const Case& c :
       {Case{"0.01", 0.01}, Case{"1e-3", 1e-3}, Case{".5", .5}, Case{"0.5", 0.5}, Case{"5e-1", 0.5},
        Case{"1E-9", 1e-9}, Case{"0.0001", 0.0001}, Case{"0.000000001", 1e-9}, Case{"3e-2", 3e-2},
        Case{"0.30", 0.3}, Case{"0.001", 0.001}, Case{"00.1", 0.1}, Case{"2.5e-4", 2.5e-4},
        Case{"0.00005e+2", 0.005}, Case{"0.123456789", 0.123456789}, Case{".1e0", .1}}) {
    EXPECT_EQ(Value("bloom", std::string("fpr=") + c.text, "fpr"), c.value) << c.text;
  }
}

// Whole numbers, switches, and several words separated by blanks or commas.
TEST(Options, ReadSeveralWords) {
  const std::string text = "fpr=0.001 keys=1000000,generations=16\trefresh=on\n k=7 ";
  EXPECT_EQ(Value("ring", text, "fpr"), 0.001);
  EXPECT_EQ(Value("ring", text, "keys"), 1000000);
  EXPECT_EQ(Value("ring", text, "generations"), 16);
  EXPECT_EQ(Value("ring", text, "refresh"), 1);
  EXPECT_EQ(Value("ring", text, "k"), 7);
  EXPECT_EQ(Value("ring", "refresh=true", "refresh"), 1);
  EXPECT_EQ(Value("ring", "refresh=off", "refresh"), 0);
  EXPECT_EQ(Value("ring", "refresh=false", "refresh"), 0);
  EXPECT_EQ(Value("recent", "keys=1099511627776", "keys"), 1099511627776.0);
}

// The ends of each range belong to it.
TEST(Options, HaveClosedRanges) {
  EXPECT_EQ(Value("bloom", "fpr=0.5", "fpr"), 0.5);
  EXPECT_EQ(Value("bloom", "fpr=1e-9", "fpr"), 1e-9);
  EXPECT_EQ(Value("bloom", "k=1", "k"), 1);
  EXPECT_EQ(Value("bloom", "k=32", "k"), 32);
  EXPECT_EQ(Value("blocked_bloom", "k=16", "k"), 16);
  for (const char* text : {"fpr=0.500001", "fpr=0.9e-9", "fpr=0", "fpr=0.0", "fpr=1", "k=0", "k=33",
                           "keys=0", "keys=1099511627777", "fpr=1e99", "fpr=1e-99"}) {
    EXPECT_EQ(Status("bloom", text), OptionStatus::kBadValue) << text;
  }
  EXPECT_EQ(Status("blocked_bloom", "k=17"), OptionStatus::kBadValue);
  EXPECT_EQ(Status("ring", "k=41"), OptionStatus::kBadValue);
}

// Text that is not a number of its kind is refused, and so is what only C reads.
TEST(Options, RefuseWhatIsNotANumber) {
  for (const char* value :
       {"",       "x",     "0.1x",   "0,1x",   "-0.1",           "+0.1", "nan",   "inf",
        "0x1p-3", ".",     "e",      "e-3",    ".e-3",           "1e",   "1e-",   "1e+",
        "1e+-3",  "1e--3", "1e-3.0", "1e-100", "1e-99999999999", "0..1", "1.1.1", "0.1e-1e-1"}) {
    EXPECT_EQ(Status("bloom", std::string("fpr=") + value), OptionStatus::kBadValue) << value;
  }
  for (const char* value : {"", "1.0", "1.5", "1e3", "-1", "+1", "0x10", "k", "1k",
                            "99999999999999999999999999999999"}) {
    EXPECT_EQ(Status("bloom", std::string("keys=") + value), OptionStatus::kBadValue) << value;
  }
  for (const char* value : {"", "1", "0", "yes", "ON", "onn", "o", "tru"}) {
    EXPECT_EQ(Status("ring", std::string("refresh=") + value), OptionStatus::kBadValue) << value;
  }
}

// Generations are 8 or 16; a number too large for an integer is refused, not
// converted.
TEST(Options, TakeOnlyMultiplesOfEight) {
  EXPECT_EQ(Value("ring", "generations=8", "generations"), 8);
  for (const char* value : {"0", "1", "7", "9", "12", "15", "17", "24", "64", "8.0",
                            "999999999999999999999999999999"}) {
    EXPECT_EQ(Status("ring", std::string("generations=") + value), OptionStatus::kBadValue)
        << value;
  }
}

// A method of which only the options matter, with words to choose from.
constexpr OptionSpec kWithWords[] = {kFprOption,
                                     kKeysOption,
                                     {"reading", OptionKind::kWord, 0, 0, "published|text|on"},
                                     {"one", OptionKind::kWord, 0, 0, "only"}};
OptionError ParseWords(const std::string& text, Options* options) {
  Method method = *kMethods[0];
  method.options = kWithWords;
  method.option_count = 4;
  const Bytes copy(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  return ParseOptions(method, reinterpret_cast<const char*>(copy.data()), text.size(), options);
}

// Words are read as their place in the list, whole and as they are written.
TEST(Options, ReadWords) {
  const auto value = [](const std::string& text, int option) {
    Options options;
    EXPECT_EQ(ParseWords(text, &options).status, OptionStatus::kOk) << text;
    EXPECT_TRUE(options.given[option]) << text;
    return options.value[option];
  };
  EXPECT_EQ(value("reading=published", 2), 0);
  EXPECT_EQ(value("reading=text", 2), 1);
  EXPECT_EQ(value("fpr=0.1 reading=on,keys=5", 2), 2);
  EXPECT_EQ(value("one=only", 3), 0);
  for (const char* word : {"", "Text", "tex", "texts", "publishedtext", "published|text", "|",
                           "text|", "|text", "0", "1", "on|", "reading", "only"}) {
    Options options;
    const OptionError error = ParseWords(std::string("reading=") + word, &options);
    EXPECT_EQ(error.status, OptionStatus::kBadValue) << word;
    EXPECT_STREQ(error.spec->name, "reading");
    EXPECT_FALSE(options.given[2]);
  }
  Options options;
  EXPECT_EQ(ParseWords("reading=text reading=text", &options).status, OptionStatus::kTwice);
  Options again;
  EXPECT_EQ(ParseWords("text", &again).status, OptionStatus::kNoValue);
}

// The same of every method that has words: each is read, and leads to a filter or to a
// conflict.
TEST(Options, OfWordsAreAllRead) {
  for (const Variant& variant : AllVariants()) {
    Options options;
    const OptionError error =
        ParseOptions(*variant.method, variant.options.data(), variant.options.size(), &options);
    EXPECT_EQ(error.status, OptionStatus::kOk) << variant.name;
    for (int i = 0; i < variant.method->option_count; ++i) {
      const OptionSpec& spec = variant.method->options[i];
      if (spec.kind != OptionKind::kWord) continue;
      const std::string bad = std::string(spec.name) + "=" + spec.words + "x";
      EXPECT_EQ(Status(variant.method->name, bad), OptionStatus::kBadValue) << bad;
    }
  }
}

// Each error names the word at fault, and the option where there is one.
TEST(Options, NameTheWordAtFault) {
  EXPECT_EQ(Status("bloom", "fpr=0.1 fast"), OptionStatus::kNoValue);
  EXPECT_EQ(Fault("bloom", "fpr=0.1 fast k=3"), "fast");
  EXPECT_EQ(Status("bloom", "r_prime=1"), OptionStatus::kUnknown);
  EXPECT_EQ(Fault("bloom", "k=3 r_prime=1"), "r_prime");
  EXPECT_EQ(Status("bloom", "=1"), OptionStatus::kUnknown);
  EXPECT_EQ(Fault("bloom", "=1"), "");
  EXPECT_EQ(Status("bloom", "K=1"), OptionStatus::kUnknown);
  EXPECT_EQ(Status("bloom", "fp=1"), OptionStatus::kUnknown);
  EXPECT_EQ(Status("bloom", "fprr=0.1"), OptionStatus::kUnknown);
  EXPECT_EQ(Status("recent", "k=3"), OptionStatus::kUnknown);
  EXPECT_EQ(Status("blocked_bloom", "refresh=on"), OptionStatus::kUnknown);
  EXPECT_EQ(Status("bloom", "k=3 k=3"), OptionStatus::kTwice);
  EXPECT_EQ(Fault("bloom", "k=3 fpr=0.1 k=4"), "k=4");
  EXPECT_EQ(Status("bloom", "k=99"), OptionStatus::kBadValue);
  EXPECT_EQ(Fault("bloom", "fpr=0.1,k=99"), "k=99");
  EXPECT_STREQ(Parse("bloom", "k=99").error.spec->name, "k");
  EXPECT_STREQ(Parse("bloom", "fpr=.1 fpr=.1").error.spec->name, "fpr");
  EXPECT_EQ(Parse("bloom", "x=1").error.spec, nullptr);
  EXPECT_EQ(Parse("bloom", "k").error.spec, nullptr);
  EXPECT_EQ(Status("bloom", "k = 3"), OptionStatus::kNoValue);
}

// Any bytes are read without looking beyond the text, and numbers out of any range
// are refused.
TEST(Options, AreSafeForAnyBytes) {
  Random random(1);
  const std::string letters = "fprkeysgnatio=.0123456789eE+-, \t\nonx";
  for (int i = 0; i < 100000 / static_cast<int>(kThin); ++i) {
    std::string text;
    for (uint64_t length = random.Below(40); length > 0; --length) {
      const uint64_t dice = random.Below(12);
      text += dice == 0   ? "fpr="
              : dice == 1 ? "keys="
              : dice == 2 ? "generations="
              : dice == 3 ? std::string(1, static_cast<char>(random.Next()))
                          : std::string(1, letters[random.Below(letters.size())]);
    }
    const Parsed parsed = Parse(kMethods[random.Below(kMethodCount)]->name, text);
    if (parsed.error.status == OptionStatus::kOk && parsed.options.given[kFpr]) {
      EXPECT_GE(parsed.options.value[kFpr], kMinFpr);
      EXPECT_LE(parsed.options.value[kFpr], kMaxFpr);
    }
  }
}

// A shape says whether other options than its size, rate and hash have made it.
TEST(Options, PlainShapesHaveNone) {
  const auto shape = [](const char* method, uint64_t keys, uint64_t memory,
                        const std::string& text) {
    const Parsed parsed = Parse(method, text);
    EXPECT_EQ(parsed.error.status, OptionStatus::kOk) << method << " " << text;
    Request request;
    request.keys = keys;
    request.memory = memory;
    request.options = parsed.options;
    if (parsed.options.given[kFpr]) request.fpr = parsed.options.value[kFpr];
    Shape made;
    EXPECT_EQ(PlanFilter(Named(method), request, 5, &made), PlanStatus::kOk)
        << method << " " << text;
    return made;
  };
  for (const Method* method : kMethods) {
    if (!method->has_rate()) continue;
    if (method->growth != nullptr) {
      for (const char* text : {"fpr=0.3", "fpr=0.00123 hash=sip", ""}) {
        const Shape grows = shape(method->name, 0, 0, text);
        EXPECT_TRUE(IsPlain(grows)) << method->name;
        EXPECT_FALSE(IsPlain(method->growth->state_shape(grows))) << method->name;
      }
      continue;
    }
    for (const char* text : {"fpr=0.3", "fpr=0.01", "fpr=0.00123 hash=sip", "fpr=0.0001"}) {
      for (const uint64_t keys : {10, 33, 1000, 12345, 1000000}) {
        EXPECT_TRUE(IsPlain(shape(method->name, keys, 0, text))) << method->name << " " << keys;
      }
      for (const uint64_t memory : {65536, 100000, 1048576}) {
        EXPECT_TRUE(IsPlain(shape(method->name, 0, memory, text))) << method->name << " " << memory;
      }
    }
  }
  EXPECT_TRUE(IsPlain(shape("ring", 1000, 0, "refresh=off generations=8")));
  EXPECT_FALSE(IsPlain(shape("ring", 1000, 0, "refresh=on")));
  EXPECT_FALSE(IsPlain(shape("ring", 0, 65536, "generations=16")));
  EXPECT_FALSE(IsPlain(shape("cuckoo", 0, 65536, "strict=on")));
  EXPECT_FALSE(IsPlain(shape("bloom", 1000, 0, "k=2")));
}

}  // namespace
}  // namespace dedup::test
