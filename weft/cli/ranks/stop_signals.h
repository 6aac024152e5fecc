// Signals that stop a training: SIGTERM and SIGUSR1, which SLURM and Kubernetes send before they take a machine, Ctrl-C, and
// SIGHUP of a closed terminal.
#pragma once

#include <memory>

#include "weft/base/run_board.h"

namespace weft {

/// Unblocks all signals at program start: signals blocked by the parent would reach neither this process nor the ranks that it
/// starts.
void unblock_signals();

/// How a training reacts to them.
struct StopSignals {
  bool saves = false;       ///< save first; false: end at once
  double deadline_s = 0.0;  ///< time for saving, after which SIGALRM ends the process
  bool prints = false;      ///< print to standard error; false: another process does
  bool is_rank = false;     ///< started by a launcher, which prints the signal that ended all
  bool has_words = false;   ///< say_last_words() first where it ends at once; another Ctrl-C does not wait for that
  bool tells = true;        ///< they say why; false: a launcher does
};

/// Records those signals from now on (except Ctrl-C and SIGHUP where they are ignored); a second Ctrl-C ends the process at
/// once. The printed line lists what `board` has not saved. A board that is already stopping counts as a request.
void note_stop_signals(const StopSignals& signals, std::shared_ptr<const RunBoard> board);
/// Returns true once a stop signal has arrived.
bool stop_was_asked();
/// Cancels the deadline, once the requested save is complete.
void end_stop_deadline();

}  // namespace weft
