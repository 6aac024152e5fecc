// Finds the rank that made a run fail, and the error to print. Pure functions, so that every order of events can be tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/launch/error_pipe.h"

namespace weft {

/// The launcher's observations of one rank.
struct RankOutcome {
  int rank = 0;
  std::string host = {};       ///< its host; empty if there is only one
  std::string host_loss = {};  ///< why contact with its host was lost, a whole line; empty: not lost
  bool ended = false;
  int64_t ended_ns = 0;         ///< when the launcher noticed, CLOCK_MONOTONIC
  int wait_status = 0;          ///< as returned by waitpid
  bool ended_by_us = false;     ///< ended after the launcher began to end the group: not a failure of its own
  bool stopped = false;         ///< was stopped (SIGSTOP) when the launcher last looked before its end
  std::vector<RankError> said;  ///< its messages, in order
};

struct Verdict {
  bool failed = false;
  bool killed = false;         ///< by a signal, and has said nothing
  bool certain = false;        ///< false: only echoes so far (Blame::peer); the cause may still appear
  int status = 0;              ///< for the launcher's caller: the rank's exit status, 128 + signal if killed, never 0 if failed
  std::vector<int> lost = {};  ///< ranks on lost hosts, if no rank has reported yet which operation waited for them
  std::string error;  ///< "rank 1[ on host b]: <its message, or how it ended>", or a message that begins with its subject
};

/// Blames the first rank, by time, that failed on its own: a message of Blame::self, a signal, a nonzero status, or the loss of
/// its host (at its last message). If there are only echoes: a stopped rank, else the end of the chain of named ranks from the
/// first echo that names one, else the first echo. A rank's time is that of its first message, else of its end.
Verdict find_culprit(const std::vector<RankOutcome>& outcomes);

}  // namespace weft
