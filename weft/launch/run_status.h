// RunStatus: a launcher's view of its run, for readers in other threads (weft/cli/health/health_server.h).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "weft/base/run_figures.h"

namespace weft {

/// Current phase of the run.
enum class RunPhase {
  starting,    ///< waits for hosts, or starts ranks for the first time
  running,     ///< ranks are running
  restarting,  ///< ranks are being restarted
};

/// A host of the run.
struct HostStatus {
  std::string name;
  int node = 0;
  bool is_there = false;  ///< its agent has joined and is not lost
  int64_t heard_ns = 0;   ///< time of its last message, CLOCK_MONOTONIC
};

/// Snapshot of a run.
struct RunView {
  RunPhase state = RunPhase::starting;
  bool is_led = false;                 ///< another host's launcher leads and has the complete view
  bool is_custom_program = false;      ///< the ranks run a custom program: without steps they may still be healthy
  int ranks = 0;                       ///< of the current or last launch, on all hosts
  int local_ranks = 0;                 ///< on this host
  int restarts = 0;                    ///< so far
  int64_t begin_ns = 0;                ///< start of this launch, CLOCK_MONOTONIC; 0: no launch yet
  int64_t steps_done = 0;              ///< completed steps of the run
  int64_t step_ns = 0;                 ///< last change of steps_done, CLOCK_MONOTONIC; 0: never
  std::vector<HostStatus> hosts = {};  ///< if there are several
  RunFigures figures = {};             ///< on rank 0's host, once there was a step
};

/// A run's view, set by one thread and read by others.
class RunStatus {
 public:
  void set_running(int ranks);
  void set_restarting(int restarts);
  /// Sets this host's ranks in the next launch.
  void set_local_ranks(int ranks);
  /// Marks this process as an agent of another host's head.
  void set_led();
  /// Marks the ranks as a custom program, which may report no steps.
  void set_custom_program();
  /// Sets the completed steps, and the time if they changed. Cheap enough to call often.
  void set_steps(int64_t steps_done);
  void set_figures(const RunFigures& figures);
  void set_hosts(std::vector<HostStatus> hosts);
  RunView view() const;

 private:
  mutable std::mutex mutex_;
  RunView view_;
};

}  // namespace weft
