// Parquet files made for a test by Arrow's own writer.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace weft::test {

/// A value of a row: null, text, a number, or a list of numbers, in which INT64_MIN is null.
using Cell = std::variant<std::monostate, std::string, int64_t, std::vector<int64_t>>;
inline constexpr int64_t kNullNumber = INT64_MIN;

struct Column {
  std::string name;
  /// Arrow's name: "string", "large_string", "binary", "int8" to "uint64", "float", "list<int32>", "large_list<uint16>",
  /// "pair<int32>" (a fixed_size_list of two), "list<string>" (only null rows), and "struct<bytes, path>" of binary and string,
  /// as for images in Hugging Face's datasets.
  std::string type;
  std::vector<Cell> cells;
};

struct ParquetLayout {
  int64_t rows_per_group = 1 << 20;
  bool notes_sizes = true;  ///< records statistics, and the columns' sizes before encoding
};

/// Returns the bytes of a file.
std::string parquet_of(const std::vector<Column>& columns, const ParquetLayout& layout = {});

}  // namespace weft::test
