// Launcher: starts the ranks of a program, watches them, and ends them all when one fails.
//
// On this host, unless Hosts says otherwise. Each rank has RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT (a port that was free a moment ago) set, and OMP_NUM_THREADS = cores / ranks where it was unset. Rank 0 inherits
// a standard input that is no terminal; the others read nothing. Torch-free. docs/launching.md tells the whole of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_descriptor.h"

namespace weft {

class Hosts;
class RunBoard;
class RunStatus;

/// What launch() starts, and how it ends it.
struct LaunchOptions {
  int num_ranks = 1;                 ///< on all hosts
  std::vector<std::string> command;  ///< argv of every rank
  /// Serves the store that ranks meet at (WEFT_STORE), on a socket that listens (on the loopback interface, on one host), for as
  /// long as what it returns lives: until all ranks have ended. Called once all have been started. Empty: they meet without weft's help.
  std::function<std::shared_ptr<void>(FileDescriptor socket)> serve = {};
  double grace_s = 1.0;             ///< between SIGTERM and SIGKILL when the group is ended
  double interrupt_grace_s = 10.0;  ///< what ranks have for ending by themselves after the first Ctrl-C
  int end_signal = 0;               ///< that ends the others when a rank has failed; 0: SIGTERM, which they may heed first
  std::vector<int> inherited = {};  ///< descriptors that ranks of this host get under the same numbers
  std::vector<std::string> environment = {};  ///< "KEY=value" of ranks of this host, besides what launch() sets
  bool prefix = false;                        ///< each line of output begins with the rank (launch/output_prefix.h)
  Hosts* hosts = nullptr;                     ///< where ranks run; null: on this host alone
  RunBoard* board = nullptr;                  ///< what ranks of other hosts leave on theirs shows here; null: nowhere
  RunStatus* status = nullptr;                ///< told what the run does; null: nobody is
  /// Told now and then, and asked whether ranks are to be sent SIGUSR1, once.
  std::function<bool()> ask_to_stop = {};
  int stopped_status = 0;  ///< of ranks that ended well because they were asked to, and then of launch(); 0: none
};

/// Runs until every rank has ended. Returns 0 if all succeeded, else the first failing rank's exit status (128 + signal when
/// killed). Forwards SIGINT, SIGTERM, SIGHUP and SIGUSR1 to the ranks; a second one kills them at once. Rank output passes
/// through; the first failing rank's error line (what it wrote to the error pipe, WEFT_ERROR_FD, else how it ended) is left in
/// `error`, prefixed with its rank. Throws InputError when nothing can be started. The calling thread must outlive the call, as
/// the ranks die with it.
int launch(const LaunchOptions& options, std::string& error);

/// What launch() tells beside its status.
struct LaunchOutcome {
  int status = 0;            ///< what launch() returns
  std::string error = {};    ///< what it leaves there
  bool interrupted = false;  ///< a signal to the launcher ended the ranks, not a failure
};
/// launch(), with all that is known of the end.
LaunchOutcome launch_once(const LaunchOptions& options);

}  // namespace weft
