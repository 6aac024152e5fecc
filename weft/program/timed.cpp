#include "weft/program/timed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/error.h"
#include "weft/program/check_program.h"

namespace weft {

void check_timed(const Program& program, const std::vector<TimedInstruction>& timed) {
  check_program(program);
  for (const TimedInstruction& t : timed) {
    const bool known =
        t.rank >= 0 && t.rank < program.world_size() && t.index >= 0 && t.index < static_cast<int>(program.of(t.rank).size());
    if (!known) {
      throw VerifyError(Defect::out_of_range, t.rank,
                        fmt::format("timed: rank {}, instruction {} is not in the program", t.rank, t.index));
    }
    if (std::isfinite(t.start_s) && std::isfinite(t.end_s)) continue;
    throw InputError(fmt::format("timed: rank {}, instruction {} from {} s to {} s: times must be finite", t.rank, t.index,
                                 t.start_s, t.end_s));
  }
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
  std::vector<double> free_s;  // by row
  for (int i : order) {
    const auto row = std::find_if(free_s.begin(), free_s.end(), [&](double free) { return free <= intervals[i].start_s; });
    rows[i] = static_cast<int>(row - free_s.begin());
    if (row == free_s.end()) free_s.push_back(0.0);
    free_s[rows[i]] = intervals[i].end_s;
  }
  return rows;
}

}  // namespace weft
