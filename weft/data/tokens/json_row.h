// Finds one column in a row of JSON lines without parsing the others.
#pragma once

#include <string>
#include <string_view>

namespace weft {

/// Value of a column in a row, or what is wrong with the row.
struct JsonValue {
  std::string_view text;  ///< the value as written, itself JSON; empty: absent, or the row is not an object
  std::string wrong;      ///< "it is truncated, within 'text'"; empty: the row is an object with the column
};

/// Finds the last value of the key `column` in `row`, which must be one JSON object in UTF-8. As in what Python's json writes,
/// NaN, Infinity and -Infinity are values, and numbers may have any size. Halves of surrogate pairs (\ud83d alone), text that
/// UTF-8 cannot represent, are allowed in other columns.
JsonValue find_json_value(std::string_view row, const std::string& column);

}  // namespace weft
