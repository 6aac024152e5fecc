// Converts Arrow's arrays to values.
#pragma once

#include "weft/data/parquet/parquet_files.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace weft {

/// True if rows of the type are lists.
bool is_list_type(const arrow::DataType& type);

/// Appends the rows of an array, whose type must suit `contents`, to `values`, whose bytes are views into the array. Throws
/// parquet::ParquetException for any other type.
void append_values(const arrow::Array& array, ParquetContents contents, ParquetValues& values);

}  // namespace weft
