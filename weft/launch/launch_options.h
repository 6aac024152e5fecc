// Options and outcome of a launch (launch/launcher.h).
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
class SignalWatch;

/// What launch() starts, and how it ends the ranks.
struct LaunchOptions {
  int num_ranks = 1;                 ///< on all hosts
  std::vector<std::string> command;  ///< argv of every rank
  /// Serves the store through which ranks meet (WEFT_STORE) on a listening socket (on the loopback interface if there is one
  /// host), as long as the result lives: until all ranks have ended. Called once all ranks have started. Empty: ranks meet
  /// without weft's help.
  std::function<std::shared_ptr<void>(FileDescriptor socket)> serve = {};
  /// Describes the operation in which ranks of a world of that size wait for the `lost` ones; empty: unknown. Called while the
  /// result of serve() lives; answers within a second.
  std::function<std::string(int world, const std::vector<int>& lost)> waits_for = {};
  /// After a signal has killed a rank, how long the others go on at most, to find out and to leave evidence before they end;
  /// after a rank has failed, at most a second of it.
  double evidence_s = 0.0;
  double grace_s = 1.0;             ///< between SIGTERM and SIGKILL when the group is ended
  double interrupt_grace_s = 10.0;  ///< time for ranks to end by themselves after the first Ctrl-C
  int end_signal = 0;               ///< signal for the other ranks after one has failed; 0: SIGTERM, which they may handle
  std::vector<int> inherited = {};  ///< descriptors that ranks on this host get under the same numbers
  std::vector<std::string> environment = {};  ///< "KEY=value" for ranks on this host, in addition to what launch() sets
  bool prefix = false;                        ///< prefix each output line with the rank (launch/output_prefix.h)
  Hosts* hosts = nullptr;                     ///< where ranks run; null: only on this host
  RunBoard* board = nullptr;                  ///< receives what ranks on other hosts write to their boards, unless null
  SignalWatch* signals = nullptr;             ///< the caller's signal watch; null: the launch creates one
  RunStatus* status = nullptr;                ///< receives the run's status, unless null
  /// Called now and then; once it returns true, ranks are sent SIGUSR1, one time.
  std::function<bool()> ask_to_stop = {};
  int stopped_status = 0;  ///< exit status of ranks that stopped on request; launch() returns it too; 0: no such status
  int done_status = 0;     ///< exit status of ranks that finished but lost some output; launch() returns 1; 0: no such status
  int flawed_status = 0;   ///< exit status of ranks that finished with a warning; launch() returns it too; 0: no such status
  int interrupted = 0;     ///< signal that asked the run to end before these ranks started; 0: no signal
  std::function<void(const std::string&)> report = {};  ///< receives a line while ranks run; empty: lines are dropped
};

/// Outcome of a launch.
struct LaunchOutcome {
  int status = 0;          ///< return value of launch()
  std::string error = {};  ///< error text of launch()
  int interrupted = 0;     ///< signal to the launcher that ended the ranks; 0: no signal
  bool at_once = false;    ///< ended by a second signal, or because the first one's grace period was over
  bool is_well = false;    ///< regardless of status: no restart needed
};

/// Returns the outcome of a run that a signal ended while no ranks were running.
LaunchOutcome interrupted_by(int signal);

}  // namespace weft
