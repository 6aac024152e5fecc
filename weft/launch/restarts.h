// Restarts: repeats a failed launch until the run is done or may not be restarted.
#pragma once

#include <functional>
#include <string>

#include "weft/launch/launcher.h"
#include "weft/launch/restart_rules.h"

namespace weft {

/// How a run is restarted.
struct RestartOptions {
  RestartLimits limits = {};
  bool counts_steps = true;  ///< ranks are weft's and report their steps; otherwise output does not mention steps
  bool keeps_state = false;  ///< ranks may leave copies of their state on the board (base/run_board.h)
  /// Throws InputError with the reason why the run cannot be laid out on that many ranks, if RestartLimits::fits rejected them.
  std::function<void(int ranks)> check = {};
  double grow_after_s = 600.0;  ///< on fewer ranks: how long until all are tried again; doubles each time
  std::function<void(const std::string&)> report = {};  ///< receives a line on each failure and the response to it
};

/// Calls launch_once() as often as needed, with the command and ranks of `options`; `num_ranks` follows the limits. Signals to
/// this process end the run, as they end a launch. Returns the last outcome.
///
/// With several hosts (LaunchOptions::hosts), limits of 0 follow the hosts present at each start: the maximum is all their
/// ranks, the minimum those of the fewest hosts allowed. A start waits for missing hosts only if the present ones have room for
/// fewer ranks than the minimum. A host that joins later is treated like ranks that may be tried again.
LaunchOutcome launch_again(LaunchOptions options, const RestartOptions& restarts);

}  // namespace weft
