// CheckpointWrite: one rank's part in writing a checkpoint that all ranks write together.
//
// Rank 0 makes room (what an earlier save left half done goes), each rank writes its data file, rank 0 gathers what stands
// where (through the store, some 100 bytes a piece), writes the index and, last, the marker. A rank that fails tells the
// others, and nothing is left that could be taken for a checkpoint. May run on a thread of its own, whose storage is its own
// too.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/storage/storage.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {

/// Writes a rank's data, and with the others makes a checkpoint of it.
class CheckpointWrite {
 public:
  /// `checkpoint` is the folder within the storage; one that is whole already is refused, or replaced. Storage and meeting must
  /// outlive it.
  CheckpointWrite(Storage& storage, std::string checkpoint, RankMeeting& meeting, bool replace);

  /// Runs `write`, which hands this rank's parts to the writer; then the rest. `texts` of rank 0 are the index's. Throws on all
  /// ranks what failed on one; returns the bytes of all data files on rank 0.
  int64_t run(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts);

 private:
  int64_t run_all(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts);
  void make_room();
  void clean_up() noexcept;

  Storage& storage_;
  std::string checkpoint_;
  RankMeeting& meeting_;
  bool replace_;
  bool has_room_ = false;  ///< what is in the folder from then on is this save's
  bool has_told_ = false;  ///< what is in this rank's file: from then on it is rank 0's to keep or remove
};

}  // namespace weft
