// parse_number: a number that a text is, and nothing besides.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft {

/// Reads the number that `text` is, and nothing besides, no blanks, no sign '+'. Returns result_out_of_range where the type is
/// too small for it, invalid_argument where it is no `Number`, or holds more.
template <class Number>
std::errc read_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop != end ? std::errc::invalid_argument : error;
}

/// The number that `text` is; none where read_number() finds none.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  if (read_number(text, value) != std::errc()) return std::nullopt;
  return value;
}

}  // namespace weft
