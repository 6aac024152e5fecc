#include "weft/data/parquet/arrow_values.h"

#include <arrow/array.h>
#include <arrow/type.h>
#include <parquet/exception.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft {
namespace {

using arrow::Type;

template <class Array>
void append_views(const arrow::Array& from, ParquetValues& values) {
  const auto& array = static_cast<const Array&>(from);
  values.bytes.reserve(values.bytes.size() + static_cast<size_t>(array.length()));
  for (int64_t i = 0; i < array.length(); ++i) values.bytes.push_back(array.IsNull(i) ? std::string_view() : array.GetView(i));
}

void append_bytes(const arrow::Array& array, ParquetValues& values) {
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return append_views<arrow::BinaryArray>(array, values);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return append_views<arrow::LargeBinaryArray>(array, values);
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return append_views<arrow::BinaryViewArray>(array, values);
    default:
      throw parquet::ParquetException("unexpected type " + array.type()->ToString());
  }
}

template <class Array>
void append_each(const arrow::Array& from, ParquetValues& values) {
  const auto& array = static_cast<const Array&>(from);
  for (int64_t i = 0; i < array.length(); ++i) values.numbers.push_back(static_cast<int64_t>(array.Value(i)));
}

void append_numbers(const arrow::Array& array, ParquetValues& values) {
  switch (array.type_id()) {
    case Type::INT8:
      return append_each<arrow::Int8Array>(array, values);
    case Type::UINT8:
      return append_each<arrow::UInt8Array>(array, values);
    case Type::INT16:
      return append_each<arrow::Int16Array>(array, values);
    case Type::UINT16:
      return append_each<arrow::UInt16Array>(array, values);
    case Type::INT32:
      return append_each<arrow::Int32Array>(array, values);
    case Type::UINT32:
      return append_each<arrow::UInt32Array>(array, values);
    case Type::INT64:
      return append_each<arrow::Int64Array>(array, values);
    case Type::UINT64:
      return append_each<arrow::UInt64Array>(array, values);  // values from 2^63 become negative: invalid as label or id
    default:
      throw parquet::ParquetException("unexpected type " + array.type()->ToString());
  }
}

/// Returns for each row whether it contains a null.
template <class Array>
std::vector<bool> append_each_list(const arrow::Array& from, ParquetValues& values) {
  const auto& lists = static_cast<const Array&>(from);
  std::vector<bool> holds_null(static_cast<size_t>(lists.length()));
  for (int64_t i = 0; i < lists.length(); ++i) {
    if (lists.IsValid(i)) {
      const std::shared_ptr<arrow::Array> row = lists.value_slice(i);
      holds_null[static_cast<size_t>(i)] = row->null_count() > 0;
      append_numbers(*row, values);
    }
    values.ends.push_back(static_cast<int64_t>(values.numbers.size()));
  }
  return holds_null;
}

std::vector<bool> append_lists(const arrow::Array& array, ParquetValues& values) {
  if (array.type_id() == Type::LIST) return append_each_list<arrow::ListArray>(array, values);
  if (array.type_id() == Type::LARGE_LIST) return append_each_list<arrow::LargeListArray>(array, values);
  return append_each_list<arrow::FixedSizeListArray>(array, values);
}

}  // namespace

bool is_list_type(const arrow::DataType& type) {
  return type.id() == Type::LIST || type.id() == Type::LARGE_LIST || type.id() == Type::FIXED_SIZE_LIST;
}

void append_values(const arrow::Array& array, ParquetContents contents, ParquetValues& values) {
  const bool is_list = is_list_type(*array.type()), is_label = contents == ParquetContents::labels;
  const size_t first = is_label ? values.numbers.size() : is_list ? values.ends.size() : values.bytes.size();
  std::vector<bool> holds_null(static_cast<size_t>(array.length()));
  if (is_label) {
    append_numbers(array, values);
  } else if (is_list) {
    holds_null = append_lists(array, values);
  } else if (array.type_id() == Type::STRUCT) {
    const std::shared_ptr<arrow::Array> bytes = static_cast<const arrow::StructArray&>(array).field(0);  // the only child read
    append_bytes(*bytes, values);
    for (int64_t i = 0; i < array.length(); ++i) holds_null[static_cast<size_t>(i)] = bytes->IsNull(i);
  } else {
    append_bytes(array, values);
  }
  for (size_t i = 0; i < holds_null.size(); ++i) {
    if (holds_null[i] || array.IsNull(static_cast<int64_t>(i))) values.nulls.push_back(static_cast<int64_t>(first + i));
  }
}

}  // namespace weft
