// What a training is asked to save and end by: SIGTERM and SIGUSR1, as SLURM and Kubernetes send them before they take a
// machine.
#pragma once

namespace weft {

/// From now on those signals are noted, and do not end this process; but SIGALRM does, when it has not ended by itself
/// `deadline_s` after the first of them; then it says so first, where it `tells`.
void note_stop_signals(double deadline_s, bool tells);
/// Whether one has come.
bool stop_was_asked();

}  // namespace weft
