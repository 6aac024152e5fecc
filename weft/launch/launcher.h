// Launcher: starts the ranks of a program on this host, watches them, and ends them all when one fails.
//
// Each rank is a child in its own process group with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT set; the listening socket of the rendezvous store is made here and handed to rank 0 (WEFT_STORE_FD), so no port
// is raced for. Ranks die with the launcher, even when it is killed with SIGKILL. Torch-free.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct LaunchOptions {
  int num_ranks = 1;
  std::vector<std::string> command;  ///< argv of every rank
  double grace_s = 1.0;              ///< between SIGTERM and SIGKILL when the group is ended
};

/// Runs until every rank has ended. Returns 0 if all succeeded, else the first failing rank's exit status (128 + signal when
/// killed). Forwards SIGINT and SIGTERM to the ranks; a second one kills them at once. Rank output passes through; the first
/// failing rank's last error line (what it wrote to the error pipe, WEFT_ERROR_FD) is left in `error`, prefixed with its rank.
int launch(const LaunchOptions& options, std::string& error);

}  // namespace weft
