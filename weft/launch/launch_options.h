// What a launch is told, and what it tells in the end (launch/launcher.h).
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

/// What launch() starts, and how it ends it.
struct LaunchOptions {
  int num_ranks = 1;                 ///< on all hosts
  std::vector<std::string> command;  ///< argv of every rank
  /// Serves the store that ranks meet at (WEFT_STORE), on a socket that listens (on the loopback interface, on one host), for
  /// as long as what it returns lives: until all ranks have ended. Called once all have been started. Empty: they meet without
  /// weft's help.
  std::function<std::shared_ptr<void>(FileDescriptor socket)> serve = {};
  /// What ranks of a world of that size are known to wait in for these that are lost, in words; empty: nothing is known. Asked
  /// while what serve() returned lives; answers within a second.
  std::function<std::string(int world, const std::vector<int>& lost)> waits_for = {};
  double grace_s = 1.0;             ///< between SIGTERM and SIGKILL when the group is ended
  double interrupt_grace_s = 10.0;  ///< what ranks have for ending by themselves after the first Ctrl-C
  int end_signal = 0;               ///< that ends the others when a rank has failed; 0: SIGTERM, which they may heed first
  std::vector<int> inherited = {};  ///< descriptors that ranks of this host get under the same numbers
  std::vector<std::string> environment = {};  ///< "KEY=value" of ranks of this host, besides what launch() sets
  bool prefix = false;                        ///< each line of output begins with the rank (launch/output_prefix.h)
  Hosts* hosts = nullptr;                     ///< where ranks run; null: on this host alone
  RunBoard* board = nullptr;                  ///< what ranks of other hosts leave on theirs shows here; null: nowhere
  SignalWatch* signals = nullptr;             ///< whoever launches watches for signals already; null: nobody does
  RunStatus* status = nullptr;                ///< told what the run does; null: nobody is
  /// Told now and then, and asked whether ranks are to be sent SIGUSR1, once.
  std::function<bool()> ask_to_stop = {};
  int stopped_status = 0;  ///< of ranks that ended well because they were asked to, and then of launch(); 0: none
  int done_status = 0;    ///< of ranks that have done their work and said what they could not say; launch() then has 1; 0: none
  int flawed_status = 0;  ///< of ranks that ended well with something to tell by it, and then of launch(); 0: none
  int interrupted = 0;    ///< the signal by which the run was asked to end before these ranks were started; 0: none
  std::function<void(const std::string&)> tell = {};  ///< a line while ranks run; empty: nobody is told
};

/// What launch() tells beside its status.
struct LaunchOutcome {
  int status = 0;          ///< what launch() returns
  std::string error = {};  ///< what it leaves there
  int interrupted = 0;     ///< the signal to the launcher that ended the ranks; 0: none did
  bool at_once = false;    ///< because a second one came, or its deadline
  bool is_well = false;    ///< whatever the status: there is nothing to start again for
};

/// Of a run that a signal ended while no ranks were there.
LaunchOutcome interrupted_by(int signal);

}  // namespace weft
