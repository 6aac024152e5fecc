// DataWriter: writes one rank's data file of a checkpoint, part by part, and returns an index of it.
//
// Memory: one chunk, plus a host copy of a part on another device.
#pragma once

#include <memory>
#include <string>

#include "weft/checkpoint/format/index.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/checkpoint/storage/data_files.h"

namespace weft {

/// Writes a data file.
class DataWriter {
 public:
  /// Starts `file` in the folder `checkpoint` of `files`, which must outlive the writer.
  DataWriter(DataFiles& files, const std::string& checkpoint, const std::string& file);
  ~DataWriter();

  /// Appends the part's elements, if it has any.
  void add(const StatePart& part);
  /// Makes the file durable and returns its index. Call last.
  CheckpointIndex close();

 private:
  class Chunks;
  std::string file_;
  std::unique_ptr<Chunks> out_;
  CheckpointIndex index_;
};

/// Merges runs into few pieces: evenly spaced runs of equal length become one.
std::vector<ElementRuns> join_runs(const std::vector<StateRun>& runs);

}  // namespace weft
