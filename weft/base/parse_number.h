// parse_number: a number that a text is, and nothing besides.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft {

/// The number that `text` is: none where it is no `Number`, holds more than that, or where the type is too small for it. No
/// blanks, no sign '+'.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace weft
