// One column of a row of JSON lines, found without reading the others.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Where the value of a column stands in a row, or what is wrong with the row.
struct JsonValue {
  std::string_view text;  ///< the value as it stands there, JSON of its own; empty: there is none, or the row is no object
  std::string wrong;      ///< "it is cut short, within 'text'"; empty: the row is an object with the column
};

/// Finds the last value of the key `column` in an object that is all of `row`. The row must be well formed and UTF-8, but for
/// what Python's json writes: NaN, Infinity and -Infinity are values, and so is a number of any size. Halves of surrogate pairs
/// (\ud83d alone) may stand in other columns; text for which no UTF-8 can be written.
JsonValue find_json_value(std::string_view row, const std::string& column);

}  // namespace weft
