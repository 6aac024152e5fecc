// What a training is asked to end by: SIGTERM and SIGUSR1, as SLURM and Kubernetes send them before they take a machine,
// Ctrl-C, and SIGHUP, of a terminal that goes.
#pragma once

#include <memory>

#include "weft/base/run_board.h"

namespace weft {

/// Unblocks all signals: what a parent blocked would reach neither this process nor the ranks that it starts. For the start of
/// the program.
void unblock_signals();

/// How a training takes them.
struct StopSignals {
  bool saves = false;       ///< it is asked to save first; false: it ends at once
  double deadline_s = 0.0;  ///< what it has for that; then it ends by SIGALRM
  bool tells = false;       ///< it says so on standard error; false: somebody else does
  bool is_rank = false;     ///< of a launcher, which says by which signal all have ended
};

/// From now on those signals are noted (but Ctrl-C and SIGHUP where they are ignored); a second Ctrl-C ends the process at
/// once. The line that tells so says by `board` what is not saved. A board that is stopping has asked already.
void note_stop_signals(const StopSignals& signals, std::shared_ptr<const RunBoard> board);
/// Whether one has come.
bool stop_was_asked();
/// What was asked for is saved: the deadline is over.
void end_stop_deadline();

}  // namespace weft
