// Parquet files, built with Apache Arrow.
//
// Each row group gets its own reader, made from the metadata that was read when the file was opened: readers are cheap and not
// thread-safe. A column of a row group is one read of the file.
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/data/parquet/arrow_values.h"
#include "weft/data/parquet/parquet_files.h"

namespace weft {
namespace {

using arrow::Type;

/// Converts a status to an exception, like Parquet's own errors.
template <class T>
T taken(arrow::Result<T> result) {
  if (!result.ok()) throw parquet::ParquetException(result.status().message());
  return std::move(result).ValueUnsafe();
}

/// One of the files as Arrow's input. Exceptions of its reads are stored, and rethrown after Arrow returns.
class ShardInput final : public arrow::io::RandomAccessFile {
 public:
  ShardInput(std::shared_ptr<const ShardFiles> files, size_t number) : files_(std::move(files)), number_(number) {}

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    const int64_t count = std::clamp<int64_t>(files_->size(number_) - position, 0, bytes);
    try {
      files_->read(number_, position, out, count);
    } catch (...) {
      error_ = std::current_exception();
      return arrow::Status::IOError("reading failed");
    }
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t bytes) override {
    const int64_t count = std::clamp<int64_t>(files_->size(number_) - position, 0, bytes);
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(count, arrow::system_memory_pool()));
    ARROW_RETURN_NOT_OK(ReadAt(position, count, buffer->mutable_data()).status());
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t count, ReadAt(at_, bytes, out));
    at_ += count;
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, ReadAt(at_, bytes));
    at_ += buffer->size();
    return buffer;
  }
  arrow::Result<int64_t> GetSize() override { return files_->size(number_); }
  arrow::Result<int64_t> Tell() const override { return at_; }
  arrow::Status Seek(int64_t position) override {
    at_ = position;
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

  /// Rethrows a read's exception, if there was one.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::shared_ptr<const ShardFiles> files_;
  size_t number_;
  int64_t at_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;
};

/// Runs an action; an exception from Arrow becomes a BadDataError that begins with `name`.
template <class Action>
auto guarded(const ShardInput& input, const std::string& name, const Action& action) {
  try {
    return action();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // Parquet's own, and those caused by damaged lengths
    input.rethrow();
    const std::string text = error.what();
    throw BadDataError(fmt::format("{}: {}", name, shortened(text.substr(0, text.find('\n')))));
  }
}

// --- which columns --------------------------------------------------------------------------------------------------------

/// Position of a column in a file.
struct Leaf {
  int index = 0;  ///< among the leaves of the schema
  bool is_list = false;
};

bool is_bytes(const arrow::DataType& type) {
  return arrow::is_base_binary_like(type.id()) || arrow::is_binary_view_like(type.id());
}

/// Returns the leaf that holds the contents asked for; nullptr if the type is different.
const parquet::arrow::SchemaField* leaf_of(const parquet::arrow::SchemaField& field, ParquetContents contents) {
  const arrow::DataType& type = *field.field->type();
  if (contents == ParquetContents::labels) return arrow::is_integer(type.id()) ? &field : nullptr;
  if (is_bytes(type)) return &field;
  if (contents == ParquetContents::documents) {
    return is_list_type(type) && arrow::is_integer(field.children.front().field->type()->id()) ? &field.children.front()
                                                                                               : nullptr;
  }
  if (type.id() != Type::STRUCT) return nullptr;
  for (const auto& child : field.children) {
    if (child.field->name() == "bytes" && is_bytes(*child.field->type())) return &child;
  }
  return nullptr;
}

const char* needs(ParquetContents contents) {
  switch (contents) {
    case ParquetContents::documents:
      return "text or a list of integers is";
    case ParquetContents::images:
      return "the bytes of images, or a struct with 'bytes', are";
    case ParquetContents::labels:
      return "an integer is";
  }
  return "";
}

Leaf find_leaf(const parquet::arrow::SchemaManifest& manifest, const ParquetColumn& column, const std::string& file) {
  std::vector<std::string> names;
  names.reserve(manifest.schema_fields.size());
  for (const auto& field : manifest.schema_fields) {
    names.push_back(field.field->name());
    if (names.back() != column.name) continue;
    const auto* leaf = leaf_of(field, column.contents);
    if (leaf != nullptr) return {leaf->column_index, is_list_type(*field.field->type())};
    throw InputError(fmt::format("{}: '{}' is {}, but {} needed; check {}", file, column.name,
                                 shortened(field.field->type()->ToString()), needs(column.contents), column.key));
  }
  const std::string all = shortened(fmt::format("{}", fmt::join(names, ", ")), 400);
  throw InputError(fmt::format("{}: no column '{}', only {}; set {}", file, column.name, all, column.key));
}

// --- files ----------------------------------------------------------------------------------------------------------------

/// Returns the bytes of all rows of text, or the numbers of all lists, if the file notes them and no row is null; -1 otherwise.
/// An empty list counts as null there.
int64_t noted(const parquet::ColumnChunkMetaData& chunk, bool is_text) {
  const std::shared_ptr<parquet::Statistics> statistics = chunk.statistics();
  if (!statistics || !statistics->HasNullCount() || statistics->null_count() != 0) return -1;
  if (!is_text) return chunk.num_values();
  const std::shared_ptr<parquet::SizeStatistics> sizes = chunk.size_statistics();
  return sizes ? sizes->unencoded_byte_array_data_bytes.value_or(-1) : -1;
}

parquet::ArrowReaderProperties reader_properties() {
  parquet::ArrowReaderProperties properties(/*use_threads=*/false);
  properties.set_pre_buffer(false);  // otherwise Arrow's own threads would read
  return properties;
}

class ArrowFiles final : public ParquetFiles {
 public:
  ArrowFiles(std::shared_ptr<const ShardFiles> files, const std::vector<ParquetColumn>& columns, BadData bad)
      : files_(std::move(files)), columns_(columns), properties_(arrow::system_memory_pool()), opened_(files_->count()) {
    properties_.set_page_checksum_verification(true);
    for (size_t file = 0; file < files_->count(); ++file) {
      try {
        add(file);
      } catch (const BadDataError& error) {
        const FileKind kind = kind_of(*files_, file);
        const std::string reason = kind && kind.what != "Parquet" ? fmt::format("it is {}; {}", kind.what, kind.advice) : "";
        const std::string what = reason.empty() ? fmt::format("{} (truncated, or not Parquet)", error.what())
                                                : fmt::format("{}: not Parquet: {}", files_->name(file), reason);
        if (bad == BadData::refuse) throw InputError(fmt::format("{}; get it again, {}", what, kOrSkip));
        left_out_.push_back(what);
      }
    }
    if (groups_.empty()) {
      throw InputError(fmt::format("{}: no rows in {}; check data.path", files_->count() > 0 ? files_->name(0) : "parquet",
                                   files_->count() > 1 ? "it and the other files" : "it"));
    }
  }

  const std::vector<ParquetGroup>& groups() const override { return groups_; }
  bool is_text() const override { return is_text_; }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override { return files_->passed_over(); }
  std::string name(size_t group) const override {
    return fmt::format("{}, row group {}", files_->name(groups_[group].file), groups_[group].number);
  }

  ParquetValues read(size_t number, size_t column) const override {
    const ParquetGroup& group = groups_[number];
    const Opened& opened = opened_[group.file];
    const auto input = std::make_shared<ShardInput>(files_, group.file);
    return guarded(*input, name(number), [&] {
      auto file = taken(parquet::arrow::FileReader::Make(arrow::system_memory_pool(),
                                                         parquet::ParquetFileReader::Open(input, properties_, opened.metadata),
                                                         reader_properties()));
      std::shared_ptr<arrow::Table> table = taken(file->ReadRowGroup(group.number, {opened.leaves[column].index}));
      if (table->num_rows() != group.rows || table->num_columns() != 1) {
        throw parquet::ParquetException(fmt::format("{} rows instead of {}", table->num_rows(), group.rows));
      }
      ParquetValues values;
      for (const auto& chunk : table->column(0)->chunks()) append_values(*chunk, columns_[column].contents, values);
      values.memory = std::move(table);
      return values;
    });
  }

 private:
  struct Opened {
    std::shared_ptr<parquet::FileMetaData> metadata;
    std::vector<Leaf> leaves = {};  ///< by column
  };

  void add(size_t file) {
    const std::string& name = files_->name(file);
    const auto input = std::make_shared<ShardInput>(files_, file);
    Opened opened;
    parquet::arrow::SchemaManifest manifest;
    guarded(*input, name, [&] {
      opened.metadata = parquet::ParquetFileReader::Open(input, properties_)->metadata();
      const arrow::Status status = parquet::arrow::SchemaManifest::Make(
          opened.metadata->schema(), opened.metadata->key_value_metadata(), reader_properties(), &manifest);
      if (!status.ok()) throw parquet::ParquetException(status.message());
    });
    opened.leaves.reserve(columns_.size());
    for (const ParquetColumn& column : columns_) opened.leaves.push_back(find_leaf(manifest, column, name));
    if (groups_.empty()) {
      is_text_ = !opened.leaves.front().is_list;
    } else if (is_text_ == opened.leaves.front().is_list) {
      throw InputError(fmt::format("{}: '{}' is {}, but {} in {}; the files must have one type", name, columns_.front().name,
                                   is_text_ ? "a list" : "text", is_text_ ? "text" : "a list",
                                   files_->name(groups_.front().file)));
    }
    guarded(*input, name, [&] { add_groups(file, opened); });
    opened_[file] = std::move(opened);
  }

  void add_groups(size_t file, const Opened& opened) {
    std::vector<ParquetGroup> added;  // all of a file's groups, or nothing
    for (int number = 0; number < opened.metadata->num_row_groups(); ++number) {
      const auto row_group = opened.metadata->RowGroup(number);
      if (row_group->num_rows() == 0) continue;
      const auto chunk = row_group->ColumnChunk(opened.leaves.front().index);
      const int64_t known = noted(*chunk, is_text_);
      ParquetGroup group{.file = file, .number = number, .rows = row_group->num_rows(), .noted = known};
      group.bytes = std::max(chunk->total_uncompressed_size(), is_text_ ? known : 0);
      added.push_back(group);
    }
    groups_.insert(groups_.end(), added.begin(), added.end());
  }

  const std::shared_ptr<const ShardFiles> files_;
  const std::vector<ParquetColumn> columns_;
  parquet::ReaderProperties properties_;
  std::vector<Opened> opened_;  ///< by file
  std::vector<ParquetGroup> groups_;
  DataNotes left_out_;
  bool is_text_ = false;
};

}  // namespace

std::shared_ptr<const ParquetFiles> open_parquet(std::shared_ptr<const ShardFiles> files,
                                                 const std::vector<ParquetColumn>& columns, BadData bad) {
  return std::make_shared<ArrowFiles>(std::move(files), columns, bad);
}

}  // namespace weft
