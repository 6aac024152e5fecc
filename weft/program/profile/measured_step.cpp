#include "weft/program/profile/measured_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "weft/base/error.h"

namespace weft {

double MeasuredStep::begin_s(int rank) const { return ranks[rank].empty() ? 0.0 : ranks[rank].front().start_s; }

double MeasuredStep::end_s(int rank) const {
  double end = begin_s(rank);
  for (const MeasuredInstruction& x : ranks[rank]) end = std::max({end, x.issued_s, x.end_s});
  return end;
}

double MeasuredStep::first_begin_s() const {
  double begin = ranks.empty() ? 0.0 : begin_s(0);
  for (int rank = 1; rank < static_cast<int>(ranks.size()); ++rank) begin = std::min(begin, begin_s(rank));
  return begin;
}

double MeasuredStep::seconds() const {
  double end = first_begin_s();
  for (int rank = 0; rank < static_cast<int>(ranks.size()); ++rank) end = std::max(end, end_s(rank));
  return end - first_begin_s();
}

void check_measured(const Program& program, const MeasuredStep& step) {
  if (static_cast<int>(step.ranks.size()) != program.world_size()) {
    throw InputError(fmt::format("profile: step {} has times of {} ranks, the program has {}", step.step, step.ranks.size(),
                                 program.world_size()));
  }
  for (int rank = 0; rank < program.world_size(); ++rank) {
    const auto& times = step.ranks[rank];
    if (times.size() != program.of(rank).size()) {
      throw InputError(fmt::format("profile: step {} has {} instructions of rank {}, its program has {}", step.step,
                                   times.size(), rank, program.of(rank).size()));
    }
    const auto is_right = [](const MeasuredInstruction& x) {
      return std::isfinite(x.start_s) && x.issued_s >= x.start_s && x.end_s >= x.start_s && x.inner_s >= 0.0;
    };
    const auto wrong = std::find_if_not(times.begin(), times.end(), is_right);
    if (wrong == times.end()) continue;
    throw InputError(
        fmt::format("profile: step {}, rank {}, instruction {} ends before it starts", step.step, rank, wrong - times.begin()));
  }
}

std::vector<std::string> kinds_of(const InstructionList& list) {
  std::vector<std::string> kinds;
  std::set<std::pair<int, int>> seen;  // blocks and micro-batches whose forward has run
  for (const Instruction& x : list) {
    std::string kind(name(x.op));
    if (x.op == Op::forward && !seen.emplace(x.first, x.micro).second) kind = "recompute";
    if (is_collective(x)) kind += " over " + name(x.axes);
    if (x.what != Payload::none) kind += " " + std::string(name(x.what));
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace weft
