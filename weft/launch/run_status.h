// RunStatus: what a launcher tells of a run while it lasts, for whoever asks from another thread
// (weft/cli/health/health_server.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

/// What the run does now.
enum class RunPhase {
  starting,    ///< waits for hosts, or starts ranks for the first time
  running,     ///< ranks are there
  restarting,  ///< they are being started again
};

/// A host of the run.
struct HostStatus {
  std::string name;
  int node = 0;
  bool is_there = false;  ///< its agent has joined, and is heard of
  int64_t heard_ns = 0;   ///< when last, CLOCK_MONOTONIC
};

/// One look at a run.
struct RunView {
  RunPhase state = RunPhase::starting;
  bool is_led = false;                 ///< by another host, which knows more
  bool is_foreign = false;             ///< the ranks are any program's: without a step they may be well
  int ranks = 0;                       ///< of the launch that runs, or of the last, on all hosts
  int local_ranks = 0;                 ///< of these, those on this host
  int restarts = 0;                    ///< so far
  int64_t begin_ns = 0;                ///< of this launch, CLOCK_MONOTONIC; 0: there was none
  int64_t steps_done = 0;              ///< of the run
  int64_t step_ns = 0;                 ///< when that number was seen to change, CLOCK_MONOTONIC; 0: it has not
  std::vector<HostStatus> hosts = {};  ///< where there are several
};

/// A run's view, set by one thread and read by others.
class RunStatus {
 public:
  void set_running(int ranks);
  void set_restarting(int restarts);
  /// Of the launch that is about to run.
  void set_local_ranks(int ranks);
  /// This process is the agent of another host's head.
  void set_led();
  /// Of any program, which may count no steps.
  void set_foreign();
  /// Told often; notices when the number changes.
  void set_steps(int64_t steps_done);
  void set_hosts(std::vector<HostStatus> hosts);
  RunView view() const;

 private:
  mutable std::mutex mutex_;
  RunView view_;
};

}  // namespace weft
