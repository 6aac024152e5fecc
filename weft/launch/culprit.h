// Which rank made a run fail, and what to say about it: pure functions, so that every order of events can be tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/launch/error_pipe.h"

namespace weft {

/// What the launcher has seen of one rank.
struct RankOutcome {
  int rank = 0;
  std::string host = {};       ///< that it runs on; empty where there is but one
  std::string host_loss = {};  ///< why its host is no longer heard of, a whole line; empty: it is
  bool ended = false;
  int64_t ended_ns = 0;         ///< when the launcher noticed, CLOCK_MONOTONIC
  int wait_status = 0;          ///< as waitpid gives it
  bool ended_by_us = false;     ///< ended after the launcher had begun to end the group: no failure of its own
  bool stopped = false;         ///< was stopped (SIGSTOP) when the launcher last looked before that
  std::vector<RankError> said;  ///< its messages, in order
};

struct Verdict {
  bool failed = false;
  bool certain = false;  ///< false: only echoes so far (Blame::peer); the cause may show itself in a moment
  int status = 0;        ///< for the launcher's caller: the rank's exit status, 128 + signal when killed, never 0 if failed
  std::vector<int> lost = {};  ///< ranks of hosts that are lost, where nobody has told yet what he waited in for them
  std::string error;  ///< "rank 1[ on host b]: <its message, or how it ended>", or a message that begins with what it names
};

/// A host that is no longer heard of is to blame for all that ranks only tell of others; it counts from when it was heard last.
/// The first rank, by time, that failed on its own (a message of Blame::self, a signal, a status that is not 0). If there is
/// none but some failed in a collective: a rank that is stopped; else the first of them that names a rank, or that one, or whom
/// this one names in turn; else the first. A rank's time is that of its first message, else when it ended.
Verdict find_culprit(const std::vector<RankOutcome>& outcomes);

}  // namespace weft
