#include "weft/program/profile/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/program/profile/operator_table.h"
#include "weft/program/profile/replay.h"

namespace weft {
namespace {

constexpr size_t kMostOperators = 5;  // of which it is said what faster ones would win

using Kinds = std::vector<std::vector<std::string>>;  // by list

const MeasuredStep& median_step(const std::vector<MeasuredStep>& steps) {
  std::vector<const MeasuredStep*> order;
  order.reserve(steps.size());
  for (const MeasuredStep& step : steps) order.push_back(&step);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->seconds() < b->seconds(); });
  return *order[(order.size() - 1) / 2];
}

std::string share_name(const PathPiece& piece, const std::vector<std::string>& kinds) {
  if (piece.doing == PathPiece::Doing::hosts) return "host, between instructions";
  return piece.doing == PathPiece::Doing::runs ? kinds[piece.index] : kinds[piece.index] + ": bytes";
}

std::vector<PathShare> shares_of(const Program& program, const Kinds& kinds, const std::vector<PathPiece>& path) {
  std::map<std::pair<std::string, int>, double> sums;
  for (const PathPiece& piece : path) {
    sums[{share_name(piece, kinds[program.list_of_rank[piece.rank]]), piece.rank}] += piece.end_s - piece.start_s;
  }
  std::vector<PathShare> shares;
  shares.reserve(sums.size());
  for (const auto& [key, seconds] : sums) shares.push_back({key.first, key.second, seconds});
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return shares;
}

/// Takes `off`, 0 to 1, of what a change is about off an instruction's cost; returns the seconds that it is about.
using Part = std::function<double(int rank, int index, InstructionCost& cost, double off)>;

double take(double& cost, double seconds, double off) {
  cost = std::max(0.0, cost - off * seconds);
  return seconds;
}

/// The changes of a step and what each would win.
class Changes {
 public:
  Changes(const Program& program, const Partners& partners, const MeasuredStep& step)
      : program_(program), partners_(partners), step_(step), costs_(costs_of(program, partners, step)) {}

  double replayed() const { return replayed_seconds(program_, partners_, step_, costs_); }
  const StepCosts& costs() const { return costs_; }

  void add(const std::string& what, const Part& part) {
    FasterStep faster{.what = what};
    faster.half_s = with(part, 0.5, faster.seconds);
    if (faster.seconds <= 0.0) return;
    faster.nothing_s = with(part, 1.0, faster.seconds);
    all_.push_back(faster);
  }

  std::vector<FasterStep> take() {
    std::stable_sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) { return a.nothing_s < b.nothing_s; });
    return std::move(all_);
  }

 private:
  double with(const Part& part, double off, double& most) {
    StepCosts changed = costs_;
    most = 0.0;
    for (int rank = 0; rank < program_.world_size(); ++rank) {
      double own = 0.0;
      for (int i = 0; i < static_cast<int>(changed[rank].size()); ++i) own += part(rank, i, changed[rank][i], off);
      most = std::max(most, own);
    }
    return replayed_seconds(program_, partners_, step_, changed);
  }

  const Program& program_;
  const Partners& partners_;
  const MeasuredStep& step_;
  StepCosts costs_;
  std::vector<FasterStep> all_;
};

/// What the changes of a step are about.
class Causes {
 public:
  Causes(const Program& program, const Kinds& kinds, const MeasuredStep& step)
      : program_(program), kinds_(kinds), step_(step) {}

  /// Each kind of instruction that computes.
  void add_computing(Changes& changes) const {
    std::set<std::string> all;
    each([&](int rank, int i) {
      if (computes(rank, i)) all.insert(kind(rank, i));
    });
    for (const std::string& one : all) {
      changes.add(one, [&](int rank, int i, InstructionCost& cost, double off) {
        return computes(rank, i) && kind(rank, i) == one ? take(cost.runs_s, cost.runs_s, off) : 0.0;
      });
    }
  }

  /// Collectives by axes, messages, and what blocks wait for.
  void add_communication(Changes& changes) const {
    std::set<AxisSet> all;
    each([&](int rank, int i) {
      if (!computes(rank, i) && is_collective(at(rank, i))) all.insert(at(rank, i).axes);
    });
    const auto call = [](InstructionCost& cost, double off) {
      return take(cost.moves_s, cost.moves_s, off) + take(cost.runs_s, cost.runs_s, off);
    };
    for (const AxisSet along : all) {
      changes.add("communication over " + name(along), [&](int rank, int i, InstructionCost& cost, double off) {
        return at(rank, i).axes == along && !computes(rank, i) ? call(cost, off) : 0.0;
      });
    }
    changes.add("messages of the pipeline", [&](int rank, int i, InstructionCost& cost, double off) {
      return is_transfer(at(rank, i).op) ? call(cost, off) : 0.0;
    });
    changes.add("communication within blocks",
                [](int, int, InstructionCost& cost, double off) { return take(cost.inner_s, cost.inner_s, off); });
  }

  void add_host(Changes& changes) const {
    changes.add("host, between instructions",
                [](int, int, InstructionCost& cost, double off) { return take(cost.host_s, cost.host_s, off); });
  }

  /// The rank that computes longest.
  void add_slowest_rank(Changes& changes) const {
    std::vector<double> runs(step_.ranks.size(), 0.0);
    if (runs.size() < 2) return;
    each([&](int rank, int i) {
      if (computes(rank, i)) runs[rank] += changes.costs()[rank][i].runs_s;
    });
    const int slowest = static_cast<int>(std::max_element(runs.begin(), runs.end()) - runs.begin());
    changes.add(fmt::format("compute of rank {}", slowest), [&](int rank, int i, InstructionCost& cost, double off) {
      return rank == slowest && computes(rank, i) ? take(cost.runs_s, cost.runs_s, off) : 0.0;
    });
  }

  /// The operators that take most, by name.
  void add_operators(const std::vector<OperatorRow>& operators, Changes& changes) const {
    std::vector<std::string> names;
    for (const OperatorRow& row : operators) {
      if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
      if (names.size() == kMostOperators) break;
    }
    for (const std::string& one : names) {
      const std::vector<std::vector<double>> seconds = seconds_of(one);
      changes.add(one, [&](int rank, int i, InstructionCost& cost, double off) {
        return seconds[rank].empty() ? 0.0 : take(cost.runs_s, std::min(cost.runs_s, seconds[rank][i]), off);
      });
    }
  }

 private:
  const Instruction& at(int rank, int i) const { return program_.of(rank)[i]; }
  bool computes(int rank, int i) const { return at(rank, i).lane == Lane::compute; }
  const std::string& kind(int rank, int i) const { return kinds_[program_.list_of_rank[rank]][i]; }

  template <class Of>
  void each(const Of& of) const {
    for (int rank = 0; rank < program_.world_size(); ++rank) {
      for (int i = 0; i < static_cast<int>(program_.of(rank).size()); ++i) of(rank, i);
    }
  }

  /// Of an operator, by rank and instruction; empty for ranks whose operators are not known.
  std::vector<std::vector<double>> seconds_of(const std::string& operator_name) const {
    std::vector<std::vector<double>> seconds(step_.ranks.size());
    for (size_t rank = 0; rank < step_.operators.size(); ++rank) {
      seconds[rank].assign(step_.ranks[rank].size() + 1, 0.0);
      each_kernel(step_, static_cast<int>(rank), [&](int index, const MeasuredOperator& x) {
        if (x.name == operator_name) seconds[rank][index] += x.end_s - x.start_s;
      });
    }
    return seconds;
  }

  const Program& program_;
  const Kinds& kinds_;
  const MeasuredStep& step_;
};

std::vector<FasterStep> faster_steps(const Program& program, const Kinds& kinds, const MeasuredStep& step,
                                     const std::vector<OperatorRow>& operators, Changes changes) {
  const Causes causes(program, kinds, step);
  causes.add_computing(changes);
  causes.add_communication(changes);
  causes.add_host(changes);
  causes.add_slowest_rank(changes);
  causes.add_operators(operators, changes);
  return changes.take();
}

}  // namespace

StepProfile profile_of(const Program& program, const std::vector<MeasuredStep>& steps, const Hardware* hardware) {
  if (steps.empty()) throw InputError("profile: no step was measured");
  for (const MeasuredStep& step : steps) check_measured(program, step);
  if (hardware && !hardware->operators) hardware = nullptr;
  const MeasuredStep& step = median_step(steps);
  const Partners partners(program);
  Kinds kinds;
  kinds.reserve(program.lists.size());
  for (const InstructionList& list : program.lists) kinds.push_back(kinds_of(list));
  Changes changes(program, partners, step);
  StepProfile profile{.step = step.step, .step_s = step.seconds(), .replayed_s = changes.replayed()};
  for (const MeasuredStep& one : steps) profile.steps.push_back(one.step);
  profile.operators = operator_table(program, steps, hardware);
  if (hardware) profile.hardware = hardware->name;
  for (const OperatorRow& row : profile.operators) profile.kernels_s += row.seconds;
  double known = 0.0;
  for (int rank = 0; rank < static_cast<int>(step.operators.size()); ++rank) {
    if (step.operators[rank].empty()) continue;
    known += 1.0;
    for (int i = 0; i < static_cast<int>(step.ranks[rank].size()); ++i) {
      if (program.of(rank)[i].lane == Lane::compute) profile.compute_s += changes.costs()[rank][i].runs_s;
    }
  }
  if (known > 0.0) profile.compute_s /= known;
  profile.path = shares_of(program, kinds, critical_path(program, partners, step));
  profile.waits = rank_waits(program, partners, step);
  profile.faster = faster_steps(program, kinds, step, profile.operators, std::move(changes));
  return profile;
}

}  // namespace weft
