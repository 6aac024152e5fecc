#include "tests/support/parquet/write_parquet.h"

#include <arrow/array.h>
#include <arrow/array/builder_base.h>
#include <arrow/builder.h>
#include <arrow/io/memory.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>

#include <map>
#include <memory>
#include <stdexcept>

namespace weft::test {
namespace {

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

template <class T>
T take(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

std::shared_ptr<arrow::DataType> type_of(const std::string& name) {
  const auto inside = [&](const std::string& begin) {
    return type_of(name.substr(begin.size(), name.size() - begin.size() - 1));
  };
  if (name.starts_with("list<")) return arrow::list(inside("list<"));
  if (name.starts_with("pair<")) return arrow::fixed_size_list(inside("pair<"), 2);
  if (name.starts_with("large_list<")) return arrow::large_list(inside("large_list<"));
  if (name == "struct<bytes, path>") {
    return arrow::struct_({arrow::field("bytes", arrow::binary()), arrow::field("path", arrow::utf8())});
  }
  static const std::map<std::string, std::shared_ptr<arrow::DataType>> types = {
      {"string", arrow::utf8()},   {"large_string", arrow::large_utf8()},
      {"binary", arrow::binary()}, {"string_view", arrow::utf8_view()},
      {"int8", arrow::int8()},     {"uint8", arrow::uint8()},
      {"int16", arrow::int16()},   {"uint16", arrow::uint16()},
      {"int32", arrow::int32()},   {"uint32", arrow::uint32()},
      {"int64", arrow::int64()},   {"uint64", arrow::uint64()},
      {"float", arrow::float32()}};
  return types.at(name);
}

std::shared_ptr<arrow::Scalar> scalar_of(const std::shared_ptr<arrow::DataType>& type, const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) {
    const std::shared_ptr<arrow::Buffer> bytes = arrow::Buffer::FromString(*text);
    if (type->id() != arrow::Type::STRUCT) return take(arrow::MakeScalar(type, bytes));
    const auto path = arrow::MakeScalar(std::string("somewhere"));
    return std::make_shared<arrow::StructScalar>(
        arrow::StructScalar::ValueType{take(arrow::MakeScalar(arrow::binary(), bytes)), path}, type);
  }
  if (const auto* number = std::get_if<int64_t>(&cell)) return take(arrow::MakeScalar(type, *number));
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&cell)) {
    const auto& inner = static_cast<const arrow::BaseListType&>(*type).value_type();
    const std::unique_ptr<arrow::ArrayBuilder> builder = take(arrow::MakeBuilder(inner));
    for (const int64_t value : *numbers) {
      require(value == kNullNumber ? builder->AppendNull() : builder->AppendScalar(*take(arrow::MakeScalar(inner, value))));
    }
    const std::shared_ptr<arrow::Array> values = take(builder->Finish());
    if (type->id() == arrow::Type::LARGE_LIST) return std::make_shared<arrow::LargeListScalar>(values, type);
    if (type->id() == arrow::Type::FIXED_SIZE_LIST) return std::make_shared<arrow::FixedSizeListScalar>(values, type);
    return std::make_shared<arrow::ListScalar>(values, type);
  }
  return arrow::MakeNullScalar(type);
}

std::shared_ptr<arrow::Array> array_of(const Column& column) {
  const std::shared_ptr<arrow::DataType> type = type_of(column.type);
  const std::unique_ptr<arrow::ArrayBuilder> builder = take(arrow::MakeBuilder(type));
  for (const Cell& cell : column.cells) require(builder->AppendScalar(*scalar_of(type, cell)));
  return take(builder->Finish());
}

}  // namespace

std::string parquet_of(const std::vector<Column>& columns, const ParquetLayout& layout) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const Column& column : columns) {
    arrays.push_back(array_of(column));
    fields.push_back(arrow::field(column.name, arrays.back()->type()));
  }
  parquet::WriterProperties::Builder properties;
  properties.enable_page_checksum();
  if (!layout.notes_sizes) properties.disable_statistics()->set_size_statistics_level(parquet::SizeStatisticsLevel::None);
  const auto sink = take(arrow::io::BufferOutputStream::Create());
  require(parquet::arrow::WriteTable(*arrow::Table::Make(arrow::schema(fields), arrays), arrow::default_memory_pool(), sink,
                                     layout.rows_per_group, properties.build(),
                                     parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  return take(sink->Finish())->ToString();
}

}  // namespace weft::test
