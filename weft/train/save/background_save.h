// BackgroundSave: a rank's part in a save that overlaps training, on its own thread. It writes copies made in advance.
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

/// A rank's save in progress.
class BackgroundSave {
 public:
  /// The data to write.
  struct Job {
    std::string storage;                            ///< for open_storage()
    std::string checkpoint;                         ///< folder in it
    bool replace = false;                           ///< replaces an existing checkpoint
    std::function<void(DataWriter&)> write = {};    ///< hands over this rank's parts, in memory that nothing else touches
    std::map<std::string, std::string> texts = {};  ///< entries for the index
    std::unique_ptr<RankMeeting> meeting = {};      ///< meeting point of all ranks
    std::function<void()> after = {};               ///< run on rank 0's thread once the checkpoint is complete
    SaveReport report = {};                         ///< the part known so far
  };

  BackgroundSave() = default;
  /// Waits for the save, which ends early after abandon().
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Starts a save; none may be in progress.
  void start(Job job);
  /// Writes in the calling thread; only Job::after still runs on its own thread. wait() returns the report, as after start().
  void run_now(Job job);
  bool is_under_way() const { return under_way_; }  ///< true until wait() has taken the result
  bool is_done() const { return done_; }            ///< wait() would return at once
  /// Waits for the save in progress and returns its report; throws its error.
  SaveReport wait();
  /// Ends its waits for other ranks, once the training has failed.
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
