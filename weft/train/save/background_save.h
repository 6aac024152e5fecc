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

#include "weft/base/stopwatch.h"
#include "weft/checkpoint/format/data_writer.h"
#include "weft/report/report.h"
#include "weft/train/save/rank_meeting.h"

namespace weft {

/// A rank's save on its way.
class BackgroundSave {
 public:
  /// What is to be written.
  struct Job {
    std::string storage;                            ///< for open_storage()
    std::string checkpoint;                         ///< folder in it
    bool replace = false;                           ///< a checkpoint that is there already
    std::function<void(DataWriter&)> write = {};    ///< hands over this rank's parts, of memory that nothing else touches
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
  /// Writes one in this thread, before it returns; what comes after it has a thread all the same. wait() tells of it as of
  /// others.
  void run_now(Job job);
  bool is_under_way() const { return under_way_; }  ///< or its outcome has not been taken
  bool is_done() const { return done_; }            ///< wait() would not wait
  /// Waits for the save under way and returns what came of it; throws what it failed with.
  SaveReport wait();
  /// Ends its waits for other ranks: the training has failed.
  void abandon();

 private:
  void begin(Job job);
  void write();
  void run_after();

  Job job_;
  std::exception_ptr error_;
  std::atomic<bool> done_ = false;
  Stopwatch begin_;
  bool under_way_ = false;
  std::thread thread_;
};

}  // namespace weft
