// CheckpointWrite: one rank's part in writing a checkpoint jointly with all ranks.
//
// Rank 0 makes room (removes an unfinished earlier save), each rank writes its data file, rank 0 gathers the positions (through
// the store, some 100 bytes per piece), writes the index and finally the marker. A failing rank informs the others, and nothing
// is left that looks like a checkpoint. May run on its own thread, with its own storage.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "weft/checkpoint/format/data_writer.h"
#include "weft/checkpoint/storage/storage.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {

/// Writes a rank's data, and jointly makes a checkpoint of it.
class CheckpointWrite {
 public:
  /// `checkpoint` is the folder within the storage named `place`; an existing complete one is rejected, or replaced. The
  /// meeting must outlive it.
  CheckpointWrite(std::string place, std::string checkpoint, RankMeeting& meeting, bool replace);

  /// Runs `write`, which hands this rank's parts to the writer; then the rest. Rank 0's `texts` go to the index. Throws one
  /// rank's error on all; returns the bytes of all data files on rank 0.
  int64_t run(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts);

 private:
  int64_t run_all(const std::function<void(DataWriter&)>& write, const std::map<std::string, std::string>& texts);
  void make_room();
  void clean_up() noexcept;

  std::string place_, checkpoint_;
  std::unique_ptr<Storage> storage_;  ///< opened by run(), whose errors reach all ranks
  RankMeeting& meeting_;
  bool replace_;
  bool has_room_ = false;      ///< if so, the folder's contents belong to this save
  bool has_reported_ = false;  ///< reported its file's contents; rank 0 then keeps or removes the file
};

}  // namespace weft
