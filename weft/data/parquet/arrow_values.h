// From Arrow's arrays to values.
#pragma once

#include "weft/data/parquet/parquet_files.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace weft {

/// Whether rows of the type are lists.
bool is_list_type(const arrow::DataType& type);

/// Adds the rows of an array, of a type that the contents may have, to `values`, whose bytes are views of it. Throws
/// parquet::ParquetException for one of another type.
void append_values(const arrow::Array& array, ParquetContents contents, ParquetValues& values);

}  // namespace weft
