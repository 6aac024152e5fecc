// Launcher: starts the ranks of a program, watches them, and ends them all when one fails.
//
// On this host, unless Hosts says otherwise. Each rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT (a port that was free a moment ago) set, and OMP_NUM_THREADS = cores / ranks where it was unset. Rank 0 inherits
// a standard input that is no terminal; the others read nothing. Torch-free. docs/launching.md tells the whole of it.
#pragma once

#include <string>

#include "weft/launch/launch_options.h"

namespace weft {

/// Runs until every rank has ended. Returns 0 if all succeeded, else the first failing rank's exit status (128 + signal when
/// killed). Forwards SIGINT, SIGTERM, SIGHUP and SIGUSR1 to the ranks; a second one kills them at once. Rank output passes
/// through; the first failing rank's error line (what it wrote to the error pipe, WEFT_ERROR_FD, else how it ended) is left in
/// `error`, prefixed with its rank. Throws InputError when nothing can be started. The calling thread must outlive the call, as
/// the ranks die with it.
int launch(const LaunchOptions& options, std::string& error);

/// launch(), with all that is known of the end.
LaunchOutcome launch_once(const LaunchOptions& options);

}  // namespace weft
