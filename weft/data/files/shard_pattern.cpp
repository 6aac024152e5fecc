#include "weft/data/files/shard_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr size_t kMostNames = 1'000'000;

bool is_number(std::string_view text) {
  constexpr size_t kMostDigits = 15;
  return !text.empty() && text.size() <= kMostDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int64_t number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

[[noreturn]] void refuse(const std::string& pattern, const char* why) {
  throw InputError(fmt::format("'{}': {}; write train-{{0000..0146}}.tar or {{a,b}}.tar", pattern, why));
}

/// Returns the alternatives written between two braces.
std::vector<std::string> choices(const std::string& pattern, const std::string& inside) {
  const size_t dots = inside.find("..");
  std::vector<std::string> out;
  if (dots == std::string::npos) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = inside.find(',', begin);
      out.push_back(inside.substr(begin, end - begin));
    }
    return out;
  }
  const std::string first = inside.substr(0, dots), last = inside.substr(dots + 2);
  if (!is_number(first) || !is_number(last) || number(first) > number(last)) refuse(pattern, "its range must be a..b, a <= b");
  if (number(last) - number(first) >= static_cast<int64_t>(kMostNames)) refuse(pattern, "it stands for too many names");
  for (int64_t i = number(first); i <= number(last); ++i) out.push_back(fmt::format("{:0{}}", i, first.size()));
  return out;
}

}  // namespace

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> names = {""};
  size_t at = 0;
  while (true) {
    const size_t open = pattern.find('{', at);
    for (std::string& name : names) name += pattern.substr(at, open - at);
    if (open == std::string::npos) return names;
    const size_t close = pattern.find('}', open);
    if (close == std::string::npos) refuse(pattern, "a brace is not closed");
    const std::vector<std::string> parts = choices(pattern, pattern.substr(open + 1, close - open - 1));
    if (names.size() * parts.size() > kMostNames) refuse(pattern, "it stands for too many names");
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& part : parts) longer.push_back(name + part);
    }
    names = std::move(longer);
    at = close + 1;
  }
}

bool is_glob(std::string_view name) { return name.find_first_of("*?") != std::string_view::npos; }

bool fits_glob(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0, star = std::string_view::npos, from = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++n, ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++, from = n;
    } else if (star != std::string_view::npos) {
      p = star + 1, n = ++from;  // the star matches one more
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace weft
