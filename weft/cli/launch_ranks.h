// Starting ranks from the command line: launch(), and how its outcome is shown.
#pragma once

#include "weft/launch/launcher.h"

namespace weft {

/// Runs the ranks and serves their store, prints the culprit's error as the last line, returns the exit status.
int launch_ranks(LaunchOptions options);

}  // namespace weft
