#include "weft/program/timed.h"

#include <algorithm>
#include <numeric>

namespace weft {

std::vector<TimedInstruction> timed_instructions(const Program& program, const Simulation& simulation) {
  std::vector<TimedInstruction> timed;
  for (const SimulatedRank& rank : simulation.ranks) {
    const InstructionList& list = program.of(rank.rank);
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const Span& span = rank.spans[i];
      const double start_s = list[i].lane == Lane::compute ? span.start_s : span.begin_s;
      timed.push_back({.rank = rank.rank, .index = i, .start_s = start_s, .end_s = span.end_s, .alike = rank.count});
    }
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return timed;
}

double end_of(const std::vector<TimedInstruction>& timed) {
  double end = 0.0;
  for (const TimedInstruction& t : timed) end = std::max(end, t.end_s);
  return end;
}

std::vector<int> stack(const std::vector<Interval>& intervals) {
  std::vector<int> order(intervals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return intervals[a].start_s < intervals[b].start_s; });
  std::vector<int> rows(intervals.size(), 0);
  std::vector<double> free_s;  // of each row
  for (int i : order) {
    const auto row = std::find_if(free_s.begin(), free_s.end(), [&](double free) { return free <= intervals[i].start_s; });
    rows[i] = static_cast<int>(row - free_s.begin());
    if (row == free_s.end()) free_s.push_back(0.0);
    free_s[rows[i]] = intervals[i].end_s;
  }
  return rows;
}

}  // namespace weft
