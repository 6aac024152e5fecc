// Launcher: starts the ranks of a program, watches them, and ends them all when one fails.
//
// Ranks run on this host unless LaunchOptions::hosts is set. Sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT (a port that was free a moment ago) for each rank, and OMP_NUM_THREADS = cores / ranks unless set. Rank 0
// inherits standard input unless it is a terminal; other ranks' is empty. Does not use Torch. See docs/launching.md.
#pragma once

#include <string>

#include "weft/launch/launch_options.h"

namespace weft {

/// Runs until every rank has ended. Returns 0 if all succeeded, otherwise the first failing rank's exit status (128 + signal if
/// killed). Forwards SIGINT, SIGTERM, SIGHUP and SIGUSR1 to the ranks; a second one kills them at once. Rank output passes
/// through. `error` receives the first failing rank's error line, prefixed with its rank: its message on the error pipe
/// (WEFT_ERROR_FD), or how it ended. Throws InputError if nothing can be started. The calling thread must outlive the call,
/// because the ranks die with it.
int launch(const LaunchOptions& options, std::string& error);

/// launch(), with the full outcome.
LaunchOutcome launch_once(const LaunchOptions& options);

}  // namespace weft
