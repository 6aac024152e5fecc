// The chains of waits between all ranks of a world, and the rank at their end: pure functions, so every order of events can be
// tested. comm/wait/rank_table.h gathers the rows.
//
// A waiting rank names the ranks it waits for, which may be waiting themselves. The cause is at the end of such a chain: a rank
// that has ended, is stopped, or waits for no other rank (it computes, sleeps or hangs elsewhere). A failed rank provides its
// own error, which becomes everyone's. If all reachable ranks wait, they form a cycle: their calls do not match.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

enum class RankState {
  running,  ///< waits for no rank, as far as known
  waiting,
  failed,   ///< has thrown a communication error, and is about to end
  stopped,  ///< by a signal (SIGSTOP) or a debugger
  ended,    ///< its process has ended
};

/// One rank's row. All ranks are world ranks.
struct RankRow {
  RankState state = RankState::running;
  std::string process = {};  ///< "process 4711 on host a"

  // For a wait:
  uint64_t group = 0;             ///< equal for ranks in the same group
  uint64_t call = 0;              ///< number of the call in the group
  std::string axis = {};          ///< "dp+shard"; empty: the whole world, before there are groups
  std::vector<int> members = {};  ///< ranks of the axis, in its order
  std::vector<int> awaits = {};
  std::string doing = {};  ///< "all_reduce of 8 float32 \"gradients\""

  // For a failure:
  int culprit = -1;
  std::string failure = {};
};

/// Cause of a failed wait.
struct Cause {
  RankState state = RankState::waiting;  ///< of the culprit; waiting: a cycle
  int culprit = -1;                      ///< -1: a cycle
  std::vector<int> chain = {};           ///< from the asking rank to the culprit; for a cycle, all its ranks once
};

/// Finds the cause of rank `from`'s wait, starting from its row. If several chains end, an ended rank takes precedence, then a
/// stopped, a failed and a running one; among equals, the nearest.
Cause find_cause(const std::vector<RankRow>& rows, int from);

/// Describes a cause: "rank 3 (shard 1 of 2): its process 4711 on host a is stopped; waits: ...", or a failed culprit's own
/// error unchanged. `waited_s` is the deadline that has passed, or 0.
std::string describe_cause(const std::vector<RankRow>& rows, const Cause& cause, double waited_s);
/// Returns the rank that describe_cause() names; for a failed culprit, the rank that its own error names. -1: it names none.
int blamed_rank(const std::vector<RankRow>& rows, const Cause& cause);

/// Formats a rank with its place on an axis, "3 (shard 1 of 2)", or alone, "3", if it is not on the axis.
std::string rank_on_axis(int rank, const std::string& axis, const std::vector<int>& members);

}  // namespace weft
