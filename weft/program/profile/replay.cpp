#include "weft/program/profile/replay.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/program/profile/waited_for.h"

namespace weft {
namespace {

constexpr double kNotStarted = -std::numeric_limits<double>::infinity();
constexpr double kNoticed_s = 20e-6;  // a shorter wait may be none

/// Ranks run as far as they can, in turns, until all are done.
class Replay {
 public:
  Replay(const Program& program, const Partners& partners, const StepCosts& costs)
      : program_(program), partners_(partners), costs_(costs), places_(costs.size()) {
    for (size_t rank = 0; rank < costs.size(); ++rank) {
      places_[rank].starts.assign(costs[rank].size(), kNotStarted);
      places_[rank].time_s = 0.0;
    }
  }

  double seconds(const std::vector<double>& begins) {
    for (size_t rank = 0; rank < begins.size(); ++rank) places_[rank].time_s = begins[rank];
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    double last = 0.0;
    for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank) {
      const Place& place = places_[rank];
      if (place.next < costs_[rank].size())
        throw Error("profile: the measured step cannot be replayed: its ranks wait for one another");
      last = std::max(last, place.time_s);
      for (size_t i = 0; i < costs_[rank].size(); ++i) last = std::max(last, end_of_instruction(rank, static_cast<int>(i)));
    }
    return last - *std::min_element(begins.begin(), begins.end());
  }

 private:
  struct Place {
    size_t next = 0;
    double time_s = 0.0;
    std::vector<double> starts;  // by instruction
  };

  /// kNotStarted while a rank that it meets has not come.
  double end_of_instruction(int rank, int index) const {
    const InstructionCost& cost = costs_[rank][index];
    const double start = places_[rank].starts[index];
    if (start == kNotStarted) return kNotStarted;
    double come = start;
    if (cost.meets) {
      for (const RankInstruction& member : partners_.of(rank, index)) {
        const double other = places_[member.rank].starts[member.index];
        if (other == kNotStarted) return kNotStarted;
        come = std::max(come, other);
      }
    }
    return come + cost.moves_s + cost.runs_s + cost.inner_s;
  }

  bool advance(int rank) {
    Place& place = places_[rank];
    if (place.next == costs_[rank].size()) return false;
    const int index = static_cast<int>(place.next);
    const InstructionCost& cost = costs_[rank][index];
    if (place.starts[index] == kNotStarted) {
      double start = place.time_s;
      for (const int awaited : program_.of(rank)[index].waits) {
        const double end = end_of_instruction(rank, awaited);
        if (end == kNotStarted) return false;
        start = std::max(start, end);
      }
      place.starts[index] = start + cost.host_s;
    }
    double issued = place.starts[index] + cost.runs_s + cost.inner_s;
    if (cost.holds_rank) issued = end_of_instruction(rank, index);
    if (issued == kNotStarted) return false;
    place.time_s = issued;
    ++place.next;
    return true;
  }

  const Program& program_;
  const Partners& partners_;
  const StepCosts& costs_;
  std::vector<Place> places_;
};

}  // namespace

StepCosts costs_of(const Program& program, const Partners& partners, const MeasuredStep& step) {
  check_measured(program, step);
  const WaitedFor waited(program, partners, step);
  StepCosts costs(step.ranks.size());
  for (int rank = 0; rank < program.world_size(); ++rank) {
    const InstructionList& list = program.of(rank);
    const auto& times = step.ranks[rank];
    std::vector<bool> is_waited(list.size(), false);
    costs[rank].resize(list.size());
    for (int i = 0; i <= static_cast<int>(list.size()); ++i) {
      const double begin = i > 0 ? times[i - 1].issued_s : step.begin_s(rank);
      const double end = i < static_cast<int>(list.size()) ? times[i].start_s : step.end_s(rank);
      const RankIdle idle = waited.before(rank, i, begin, end);
      if (idle.index >= 0 && idle.until_s - begin > kNoticed_s) is_waited[idle.index] = true;
      if (i < static_cast<int>(list.size()))
        costs[rank][i].host_s = std::max(0.0, end - (idle.index >= 0 ? idle.until_s : begin));
    }
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      InstructionCost& cost = costs[rank][i];
      const MeasuredInstruction& x = times[i];
      double come = x.start_s;
      for (const RankInstruction& member : partners.of(rank, i)) {
        come = std::max(come, step.ranks[member.rank][member.index].start_s);
      }
      cost.meets = come <= x.end_s;
      if (!cost.meets) come = x.start_s;
      const double moves = std::max(0.0, x.end_s - come);
      cost.holds_rank = waited.holds_rank(rank, i) && x.end_s - x.issued_s < kNoticed_s && x.issued_s - x.start_s > kNoticed_s;
      if (cost.holds_rank) {
        cost.moves_s = moves;
      } else {
        cost.inner_s = std::min(x.inner_s, x.issued_s - x.start_s);
        cost.runs_s = x.issued_s - x.start_s - cost.inner_s;
        if (is_waited[i]) cost.moves_s = std::max(0.0, moves - cost.runs_s);
      }
    }
  }
  return costs;
}

double replayed_seconds(const Program& program, const Partners& partners, const MeasuredStep& step, const StepCosts& costs) {
  std::vector<double> begins;
  begins.reserve(step.ranks.size());
  for (int rank = 0; rank < program.world_size(); ++rank) begins.push_back(step.begin_s(rank));
  return Replay(program, partners, costs).seconds(begins);
}

}  // namespace weft
