// DataReader: fills parts of tensors from a checkpoint's data files and checks the bytes it reads.
//
// Reads only the chunks that a part needs, each once. Memory: 8 MiB, plus a host copy of a part on another device.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/checkpoint/storage/data_files.h"

namespace weft {

/// Reads tensors of a checkpoint.
class DataReader {
 public:
  /// Reads the folder `checkpoint` in `files`. `files` and `index` must outlive the reader.
  DataReader(DataFiles& files, std::string checkpoint, const CheckpointIndex& index);

  /// Fills the part's memory. Throws InputError, naming file, tensor and elements, for a tensor that the checkpoint lacks or
  /// has in another shape or type, and for damaged bytes.
  void read(const StatePart& part);
  /// Reads and checks all bytes of a tensor without keeping them. Throws as read() does.
  void check(const std::string& name);
  int64_t bytes_read() const { return bytes_read_; }  ///< total so far, from data files

 private:
  struct Copy;
  void read_piece(const StatePart& part, const StoredPiece& piece, const std::vector<Copy>& copies, char* to);
  void read_checked(const std::string& tensor, const StoredPiece& piece, int64_t begin, char* data, int64_t bytes);
  StorageReader& open(const std::string& file);
  [[noreturn]] void fail(const std::string& tensor, const StoredPiece& piece, const std::string& what) const;

  DataFiles& data_files_;
  std::string checkpoint_;
  const CheckpointIndex& index_;
  std::map<std::string, std::unique_ptr<StorageReader>> files_;
  std::vector<char> buffer_;
  int64_t bytes_read_ = 0;
};

}  // namespace weft
