// Parses the option text of dedup_method(), "k=6 fpr=0.01 refresh=on", with the method's own list
// of options and hash=, which every method has.

#ifndef STREAMDEDUP_CORE_OPTIONS_HPP_
#define STREAMDEDUP_CORE_OPTIONS_HPP_

#include <charconv>
#include <cstddef>
#include <cstring>

#include "method.hpp"

namespace dedup {

enum class OptionStatus {
  kOk,
  kNoValue,  // a word without '='
  kUnknown,  // the method has no such option
  kTwice,
  kBadValue,  // it has the wrong type, or is out of range
};

struct OptionError {
  OptionStatus status = OptionStatus::kOk;
  const char* text = nullptr;  // the word with the error
  size_t length = 0;
  const OptionSpec* spec = nullptr;  // for kTwice and kBadValue
};

inline bool ParseOptionValue(const OptionSpec& spec, const char* from, const char* to,
                             double* value) noexcept {
  const auto is = [&](const char* word) {
    return static_cast<size_t>(to - from) == std::strlen(word) &&
           std::memcmp(from, word, static_cast<size_t>(to - from)) == 0;
  };
  if (spec.kind == OptionKind::kOnOff) {
    *value = is("on") || is("true");
    return *value != 0 || is("off") || is("false");
  }
  if (spec.kind == OptionKind::kWord) {
    int place = 0;
    for (const char* word = spec.words; *word != '\0'; ++place) {
      const char* bar = std::strchr(word, '|');
      const size_t length = bar != nullptr ? static_cast<size_t>(bar - word) : std::strlen(word);
      if (static_cast<size_t>(to - from) == length && std::memcmp(from, word, length) == 0) {
        *value = place;
        return true;
      }
      word += length + (bar != nullptr);
    }
    return false;
  }
  const bool whole = spec.kind != OptionKind::kReal;
  // Reads digits, a point and an exponent. Accepts no sign, no inf or nan, and no locale.
  double result = 0;
  int exponent = 0, digits = 0;
  const char* at = from;
  for (; at < to && *at >= '0' && *at <= '9'; ++at, ++digits) result = result * 10 + (*at - '0');
  if (!whole && at < to && *at == '.') {
    for (++at; at < to && *at >= '0' && *at <= '9'; ++at, ++digits, --exponent) {
      result = result * 10 + (*at - '0');
    }
  }
  if (digits == 0 || digits > 30) return false;
  if (!whole && at < to && (*at == 'e' || *at == 'E')) {
    int written = 0;
    if (++at < to && *at == '+' && at + 1 < to && at[1] != '-') ++at;
    const auto [end, error] = std::from_chars(at, to, written);
    if (error != std::errc() || written < -99 || written > 99) return false;
    exponent += written;
    at = end;
  }
  if (at != to) return false;
  // There is one division or multiplication by an exact power, so that "0.01" becomes exactly 0.01.
  double power = 1;
  for (int i = exponent < 0 ? -exponent : exponent; i > 0; --i) power *= 10;
  *value = exponent < 0 ? result / power : result * power;
  if (!(*value >= spec.min && *value <= spec.max)) return false;
  return spec.kind != OptionKind::kMultipleOf8 || static_cast<long>(*value) % 8 == 0;
}

// Reads words of the form name=value, separated by blanks or commas.
inline OptionError ParseOptions(const Method& method, const char* text, size_t length,
                                Options* options) noexcept {
  const auto blank = [](char c) { return c == ' ' || c == ',' || c == '\t' || c == '\n'; };
  const char* at = text;
  const char* end = text + length;
  while (true) {
    while (at < end && blank(*at)) ++at;
    if (at == end) return {};
    const char* word = at;
    while (at < end && !blank(*at)) ++at;
    const auto word_length = static_cast<size_t>(at - word);
    const auto* equals = static_cast<const char*>(std::memchr(word, '=', word_length));
    if (equals == nullptr) return {OptionStatus::kNoValue, word, word_length, nullptr};
    const auto name_length = static_cast<size_t>(equals - word);
    const auto named = [&](const OptionSpec& spec) {
      return std::strlen(spec.name) == name_length &&
             std::memcmp(spec.name, word, name_length) == 0;
    };
    const OptionSpec* found = nullptr;
    double* value = nullptr;
    bool* given = nullptr;
    for (int i = 0; i < method.option_count; ++i) {
      if (named(method.options[i])) {
        found = &method.options[i];
        value = &options->value[i];
        given = &options->given[i];
      }
    }
    if (found == nullptr && named(kHashOption)) {
      found = &kHashOption;
      value = &options->hash;
      given = &options->hash_given;
    }
    if (found == nullptr) return {OptionStatus::kUnknown, word, name_length, nullptr};
    if (*given) return {OptionStatus::kTwice, word, word_length, found};
    if (!ParseOptionValue(*found, equals + 1, at, value)) {
      return {OptionStatus::kBadValue, word, word_length, found};
    }
    *given = true;
  }
}

}  // namespace dedup

#endif  // STREAMDEDUP_CORE_OPTIONS_HPP_
