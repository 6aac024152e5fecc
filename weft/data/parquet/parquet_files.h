// ParquetFiles: a few columns of Parquet files, read a row group at a time, by Apache Arrow where weft is built with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/bad_data.h"
#include "weft/data/files/shard_files.h"

namespace weft {

/// What a column is to hold.
enum class ParquetContents {
  documents,  ///< text, or lists of whole numbers of any width
  images,     ///< bytes, or a struct in which 'bytes' is, as Hugging Face's datasets have it
  labels      ///< whole numbers of any width
};

/// A column that is asked for.
struct ParquetColumn {
  std::string name;          ///< as the files have it
  ParquetContents contents;  ///< what it is to hold
  std::string key;           ///< of a recipe, for errors: "data.column"
};

/// A row group that has rows.
struct ParquetGroup {
  size_t file = 0;   ///< among the files
  int number = 0;    ///< in its file, from 0
  int64_t rows = 0;  ///< above 0
  /// Of the first column: bytes that it takes up in memory, as the file notes them (of columns that repeat themselves, and are
  /// of a writer that notes no sizes, too few).
  int64_t bytes = 0;
  /// Of the first column, where it has no nulls and the file notes it: the bytes of all rows of text, the numbers of all lists.
  /// -1: not noted.
  int64_t noted = -1;
};

/// One column of a row group.
struct ParquetValues {
  std::vector<std::string_view> bytes;  ///< of text and images, by row
  std::vector<int64_t> numbers;         ///< labels by row; of lists those of all rows
  std::vector<int64_t> ends;            ///< of lists, by row: where its numbers end
  std::vector<int64_t> nulls;           ///< the rows that are null or hold one, in order
  std::shared_ptr<const void> memory;   ///< that `bytes` are views of
};

/// Columns by row groups. Thread-safe. Keeps the files' metadata in memory: some kilobytes a row group.
class ParquetFiles {
 public:
  virtual ~ParquetFiles() = default;
  /// Those that have rows, in the order of the files.
  virtual const std::vector<ParquetGroup>& groups() const = 0;
  /// "a.parquet, row group 3"
  virtual std::string name(size_t group) const = 0;
  /// Whether the first column is text, not lists.
  virtual bool is_text() const = 0;
  /// Reads one of the columns of a row group, in one piece. Throws BadDataError for one that is damaged; InputError where
  /// reading the file fails.
  virtual ParquetValues read(size_t group, size_t column) const = 0;
  /// As Dataset::left_out().
  virtual DataNotes left_out() const = 0;
  /// As ShardFiles::passed_over().
  virtual DataNotes passed_over() const = 0;
};

/// Reads the metadata of the files, no more. BadData::skip leaves out a file that is cut short or no Parquet. Throws InputError
/// that names the file: for such a one, for a column that is not there or holds something else, or text where another file has
/// lists; where there are no rows; and where weft is built without Arrow.
std::shared_ptr<const ParquetFiles> open_parquet(std::shared_ptr<const ShardFiles> files,
                                                 const std::vector<ParquetColumn>& columns, BadData bad);

}  // namespace weft
