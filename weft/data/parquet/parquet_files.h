// ParquetFiles: a few columns of Parquet files, read by row group, with Apache Arrow if weft is built with it.
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

/// Contents required of a column.
enum class ParquetContents {
  documents,  ///< text, or lists of whole numbers of any width
  images,     ///< bytes, or a struct with 'bytes', as in Hugging Face's datasets
  labels      ///< whole numbers of any width
};

/// Requested column.
struct ParquetColumn {
  std::string name;          ///< in the files
  ParquetContents contents;  ///< required contents
  std::string key;           ///< key of a recipe, for errors: "data.column"
};

/// Row group with at least one row.
struct ParquetGroup {
  size_t file = 0;   ///< index among the files
  int number = 0;    ///< in its file, from 0
  int64_t rows = 0;  ///< above 0
  /// Memory in bytes of the first column's values, according to the file (too low for repetitive columns from a writer that
  /// does not record sizes).
  int64_t bytes = 0;
  /// For the first column, if it has no nulls and the file records it: bytes of all rows of text, or numbers in all lists. -1:
  /// not recorded.
  int64_t noted = -1;
};

/// One column of a row group.
struct ParquetValues {
  std::vector<std::string_view> bytes;  ///< text and images, by row
  std::vector<int64_t> numbers;         ///< labels by row, or the numbers of all rows' lists
  std::vector<int64_t> ends;            ///< for lists, by row: end of its numbers
  std::vector<int64_t> nulls;           ///< rows that are null or contain a null, in order
  std::shared_ptr<const void> memory;   ///< owns the memory of `bytes`
};

/// Columns by row group. Thread-safe. Keeps the files' metadata in memory: some kilobytes per row group.
class ParquetFiles {
 public:
  virtual ~ParquetFiles() = default;
  /// Row groups with rows, in file order.
  virtual const std::vector<ParquetGroup>& groups() const = 0;
  /// "a.parquet, row group 3"
  virtual std::string name(size_t group) const = 0;
  /// True if the first column is text, false for lists.
  virtual bool is_text() const = 0;
  /// Reads one column of a row group in one piece. Throws BadDataError for damaged data; InputError if reading the file fails.
  virtual ParquetValues read(size_t group, size_t column) const = 0;
  /// See Dataset::left_out().
  virtual DataNotes left_out() const = 0;
  /// See ShardFiles::passed_over().
  virtual DataNotes passed_over() const = 0;
};

/// Reads only the metadata of the files. BadData::skip leaves out a file that is truncated or not Parquet. Throws InputError,
/// naming the file, for such a file, for a column that is missing or holds something else, or is text where another file has
/// lists; if there are no rows; and if weft is built without Arrow.
std::shared_ptr<const ParquetFiles> open_parquet(std::shared_ptr<const ShardFiles> files,
                                                 const std::vector<ParquetColumn>& columns, BadData bad);

}  // namespace weft
