// Restarts: a launch that is started again when it fails, until the run is done or nothing helps.
#pragma once

#include <functional>
#include <string>

#include "weft/launch/launcher.h"
#include "weft/launch/restart_rules.h"

namespace weft {

/// How a run is started again.
struct RestartOptions {
  RestartLimits limits = {};
  bool counts_steps = true;  ///< ranks are weft's and tell their steps; of others nothing is said of steps
  bool keeps_state = false;  ///< ranks may leave copies of their state on the board (base/run_board.h)
  /// Throws InputError that says why the run cannot be laid out on so many ranks, where RestartLimits::fits says that it
  /// cannot.
  std::function<void(int ranks)> check = {};
  double grow_after_s = 600.0;  ///< on fewer ranks than there were: how long until all are tried again; twice as long each time
  std::function<void(const std::string&)> tell = {};  ///< a line on each failure and what is done about it
};

/// Of a launch over several hosts (LaunchOptions::hosts), limits that are 0 are what the hosts bear that are there at each
/// start: all their ranks, and those of the fewest hosts that there may be. Each start waits for hosts that are missing only
/// where those that are there do not bear the fewest ranks; a host that comes later counts like ranks that may be tried again.
///
/// Runs launch_once() as often as it takes, its command and ranks being those of `options`; `num_ranks` is what the limits say.
/// Signals to this process end the run, as they end a launch. The outcome is that of the last one.
LaunchOutcome launch_again(LaunchOptions options, const RestartOptions& restarts);

}  // namespace weft
