#include "weft/program/profile/waited_for.h"

#include <algorithm>
#include <numeric>

namespace weft {

RankIdle WaitedFor::before(int rank, int index, double begin_s, double end_s) const {
  const InstructionList& list = program_.of(rank);
  std::vector<int> awaited;
  if (index < static_cast<int>(list.size())) {
    awaited = list[index].waits;
  } else {  // the end of a step waits for all
    awaited.resize(list.size());
    std::iota(awaited.begin(), awaited.end(), 0);
  }
  int last = -1;
  for (const int i : awaited) {
    const double end = step_.ranks[rank][i].end_s;
    if (end > begin_s && (last < 0 || end >= step_.ranks[rank][last].end_s)) last = i;
  }
  if (last < 0) return {.arrival_s = begin_s, .until_s = begin_s};
  return within(rank, last, begin_s, std::min(end_s, step_.ranks[rank][last].end_s));
}

RankIdle WaitedFor::within(int rank, int index, double begin_s, double end_s) const {
  RankIdle idle{.index = index, .arrival_s = begin_s, .until_s = end_s};
  for (const RankInstruction& member : partners_.of(rank, index)) {
    const double start = step_.ranks[member.rank][member.index].start_s;
    if (member.rank == rank || start <= idle.arrival_s || start >= end_s) continue;
    idle.late = member;
    idle.arrival_s = start;
  }
  return idle;
}

bool WaitedFor::holds_rank(int rank, int index) const {
  return !partners_.of(rank, index).empty() && program_.of(rank)[index].lane != Lane::compute;
}

}  // namespace weft
