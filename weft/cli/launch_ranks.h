// Starting ranks from the command line: launch(), and how its outcome is shown.
#pragma once

#include "weft/launch/launcher.h"
#include "weft/launch/restarts.h"

namespace weft {

/// Runs the ranks and serves their store, prints the culprit's error as the last line, returns the exit status.
int launch_ranks(LaunchOptions options);
/// The same, started again where they fail; a line on each failure goes to standard error.
int launch_ranks_again(LaunchOptions options, RestartOptions restarts);

}  // namespace weft
