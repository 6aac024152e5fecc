// parse_number: strict conversion of a whole text to a number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weft {

/// Parses the whole of `text` as a number, without blanks or a leading '+'. Returns result_out_of_range if the type is too
/// small, invalid_argument if the text is not a `Number` or has trailing characters.
template <class Number>
std::errc read_number(std::string_view text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop != end ? std::errc::invalid_argument : error;
}

/// Returns the number, or nullopt if read_number() fails.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  if (read_number(text, value) != std::errc()) return std::nullopt;
  return value;
}

}  // namespace weft
