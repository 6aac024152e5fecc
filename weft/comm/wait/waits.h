// Who waits for whom, over all ranks of a world, and which rank all of them wait for in the end: pure functions, so that every
// order of events can be tested. comm/wait/rank_table.h gathers the rows.
//
// A rank that waits names the ranks that it waits for; they may wait themselves. The cause is found at the end of such a chain:
// a rank that has ended, is stopped, or waits for nobody (it computes, sleeps or hangs elsewhere). One that has failed already
// tells its own error, which then is everybody's. Where all reachable ranks wait, they wait in a circle: their calls do not
// match.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

enum class RankState {
  running,  ///< waits for nobody, as far as can be told
  waiting,
  failed,   ///< has thrown an error of communication, and is about to end
  stopped,  ///< by a signal (SIGSTOP) or a debugger
  ended,    ///< its process
};

/// One rank's row. All ranks are those of the world.
struct RankRow {
  RankState state = RankState::running;
  std::string process = {};  ///< "process 4711 on host a"

  // Of a wait.
  uint64_t group = 0;             ///< equal for ranks that have come to the same group
  uint64_t call = 0;              ///< its number there
  std::string axis = {};          ///< "dp+shard"; empty: the whole world's, before there are groups
  std::vector<int> members = {};  ///< of the axis, in its order
  std::vector<int> awaits = {};
  std::string doing = {};  ///< "all_reduce of 8 float32 \"gradients\""

  // Of a failure.
  int culprit = -1;
  std::string failure = {};
};

/// Why a wait is in vain.
struct Cause {
  RankState state = RankState::waiting;  ///< of the culprit; waiting: a circle
  int culprit = -1;                      ///< -1: a circle
  std::vector<int> chain = {};           ///< from the rank that asks to the culprit; of a circle, round it once
};

/// Why the wait of rank `from`, whose row says what it waits for, is in vain. Of several ends of chains one that has ended
/// comes first, then one that is stopped, has failed, runs; of those the nearest.
Cause find_cause(const std::vector<RankRow>& rows, int from);

/// A cause in words: "rank 3 (shard 1 of 2): its process 4711 on host a is stopped; waits: ...", or a failed culprit's own
/// error as it is. `waited_s` is the deadline that has passed; 0 for none.
std::string describe_cause(const std::vector<RankRow>& rows, const Cause& cause, double waited_s);
/// The rank that the text names, which for a failed one is the one that it named; -1 for none.
int blamed_rank(const std::vector<RankRow>& rows, const Cause& cause);

/// A rank's number with its place on an axis, "3 (shard 1 of 2)", or alone, "3", where it is not on that.
std::string rank_on_axis(int rank, const std::string& axis, const std::vector<int>& members);

}  // namespace weft
