// BackgroundSave: a rank's part in a save that goes on beside training, on a thread of its own. What it writes was copied
// before.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/checkpoint/format/state_part.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {

/// What a save of all ranks came to.
struct SaveReport {
  std::string path;       ///< the checkpoint's folder
  int64_t bytes = 0;      ///< of all data files; on rank 0
  double seconds = 0.0;   ///< from its begin till it was durable
  double copied_s = 0.0;  ///< of them, what steps stood still for the copy
  double waited_s = 0.0;  ///< what the save waited for an earlier one before it began
};

/// A rank's save on its way.
class BackgroundSave {
 public:
  /// What is to be written.
  struct Job {
    std::string storage;                            ///< for open_storage()
    std::string checkpoint;                         ///< folder in it
    std::vector<StatePart> parts = {};              ///< in memory that nothing else touches
    std::map<std::string, std::string> texts = {};  ///< of the index
    std::unique_ptr<RankMeeting> meeting = {};      ///< of all ranks
    std::function<void()> after = {};               ///< run on rank 0's thread once the checkpoint is whole
    SaveReport report = {};                         ///< what is known of it so far
  };

  BackgroundSave() = default;
  /// Waits for the save; or ends it, where abandon() was called.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Begins one; none is under way.
  void start(Job job);
  bool is_under_way() const { return thread_.joinable(); }  ///< or its outcome has not been taken
  bool is_done() const { return done_; }                    ///< wait() would not wait
  /// Waits for the save under way and returns what came of it; throws what it failed with.
  SaveReport wait();
  /// Ends its waits for other ranks: the training has failed.
  void abandon();

 private:
  void run();

  Job job_;
  std::thread thread_;
  std::exception_ptr error_;
  std::atomic<bool> done_ = false;
  Stopwatch begin_;
};

}  // namespace weft
