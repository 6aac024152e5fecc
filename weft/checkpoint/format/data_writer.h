// DataWriter: writes one rank's data file of a checkpoint, part after part, and knows what stands where.
//
// Memory: a chunk. A part on another device is copied to the host first.
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
  /// Begins `file` in the folder `checkpoint` of `files`, which must outlive the writer.
  DataWriter(DataFiles& files, const std::string& checkpoint, const std::string& file);
  ~DataWriter();

  /// Appends the part's elements; nothing of one that has none.
  void add(const StatePart& part);
  /// Makes the file durable and tells what is in it. The last call.
  CheckpointIndex close();

 private:
  class Chunks;
  std::string file_;
  std::unique_ptr<Chunks> out_;
  CheckpointIndex index_;
};

/// The runs as few pieces: those of one length that are evenly apart become one.
std::vector<ElementRuns> join_runs(const std::vector<StateRun>& runs);

}  // namespace weft
