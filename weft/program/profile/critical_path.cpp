#include "weft/program/profile/critical_path.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "weft/program/profile/waited_for.h"

namespace weft {
namespace {

constexpr double kNothing_s = 1e-9;  // the clock's resolution

using Doing = PathPiece::Doing;

/// Follows the path backwards, from (rank, index, time) to earlier ones.
class Walk {
 public:
  Walk(const Program& program, const Partners& partners, const MeasuredStep& step)
      : step_(step), waited_(program, partners, step) {}

  std::vector<PathPiece> from(int rank) {
    rank_ = rank;
    index_ = static_cast<int>(step_.ranks[rank].size());
    time_s_ = step_.end_s(rank);
    while (before()) {
    }
    add(Doing::hosts, index_, step_.first_begin_s());  // this rank began later
    std::reverse(pieces_.begin(), pieces_.end());
    return std::move(pieces_);
  }

 private:
  /// The time before instruction index_, then the one before it. Returns false at the step's begin.
  bool before() {
    const double begin = index_ > 0 ? step_.ranks[rank_][index_ - 1].issued_s : step_.begin_s(rank_);
    if (time_s_ > begin + kNothing_s) {
      const RankIdle idle = waited_.before(rank_, index_, begin, time_s_);
      add(Doing::hosts, index_, idle.until_s);
      if (idle.index >= 0 && meets(idle)) return true;
    }
    if (index_ == 0) return false;
    --index_;
    const MeasuredInstruction& x = step_.ranks[rank_][index_];
    time_s_ = std::min(time_s_, x.issued_s);
    if (time_s_ <= x.start_s + kNothing_s) return true;
    if (!waited_.holds_rank(rank_, index_)) {
      add(Doing::runs, index_, x.start_s);
    } else {
      meets(waited_.within(rank_, index_, x.start_s, time_s_));
    }
    return true;
  }

  /// Adds the bytes in flight; goes on with the rank that came last. Returns whether another one did.
  bool meets(const RankIdle& idle) {
    add(Doing::moves, idle.index, idle.arrival_s);
    if (idle.late.rank < 0) return false;
    rank_ = idle.late.rank;
    index_ = idle.late.index;
    return true;
  }

  void add(Doing doing, int index, double start_s) {
    if (time_s_ > start_s) pieces_.push_back({doing, rank_, index, start_s, time_s_});
    time_s_ = std::min(time_s_, start_s);
  }

  const MeasuredStep& step_;
  WaitedFor waited_;
  int rank_ = 0, index_ = 0;
  double time_s_ = 0.0;
  std::vector<PathPiece> pieces_;
};

/// The kind that took longest; empty: there is none.
std::string longest_of(const std::map<std::string, double>& kinds) {
  const auto longest =
      std::max_element(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == kinds.end() ? "" : longest->first;
}

/// What a rank ran longest from `begin_s` until its instruction `index`.
std::string ran_meanwhile(const std::vector<MeasuredInstruction>& times, const std::vector<std::string>& kinds, int index,
                          double begin_s) {
  std::map<std::string, double> ran;
  for (int i = index - 1; i >= 0 && times[i].issued_s > begin_s; --i) {
    ran[kinds[i]] += times[i].issued_s - std::max(begin_s, times[i].start_s);
  }
  return longest_of(ran);
}

}  // namespace

std::vector<PathPiece> critical_path(const Program& program, const Partners& partners, const MeasuredStep& step) {
  check_measured(program, step);
  int last = 0;
  for (int rank = 1; rank < program.world_size(); ++rank) {
    if (step.end_s(rank) > step.end_s(last)) last = rank;
  }
  return Walk(program, partners, step).from(last);
}

std::vector<RankWait> rank_waits(const Program& program, const Partners& partners, const MeasuredStep& step) {
  check_measured(program, step);
  const WaitedFor waited(program, partners, step);
  std::vector<std::vector<std::string>> kinds;
  kinds.reserve(program.lists.size());
  for (const InstructionList& list : program.lists) kinds.push_back(kinds_of(list));
  const auto kinds_of_rank = [&](int rank) -> const std::vector<std::string>& { return kinds[program.list_of_rank[rank]]; };
  std::vector<RankWait> all;
  for (int rank = 0; rank < program.world_size(); ++rank) {
    const auto& times = step.ranks[rank];
    std::map<std::pair<std::string, int>, RankWait> own;
    std::map<std::pair<std::string, int>, std::map<std::string, double>> late_kinds;
    const auto add = [&](const RankIdle& idle, double begin_s) {
      if (idle.index < 0) return;
      const std::pair key(kinds_of_rank(rank)[idle.index], idle.late.rank);
      RankWait& wait = own[key];
      wait.late_s += idle.arrival_s - begin_s;
      wait.moving_s += idle.until_s - idle.arrival_s;
      if (idle.late.rank < 0) return;
      const auto& late = idle.late;
      late_kinds[key][ran_meanwhile(step.ranks[late.rank], kinds_of_rank(late.rank), late.index, begin_s)] +=
          idle.arrival_s - begin_s;
    };
    for (int i = 0; i <= static_cast<int>(times.size()); ++i) {
      const double begin = i > 0 ? times[i - 1].issued_s : step.begin_s(rank);
      const double end = i < static_cast<int>(times.size()) ? times[i].start_s : step.end_s(rank);
      if (end > begin + kNothing_s) add(waited.before(rank, i, begin, end), begin);
      if (i == static_cast<int>(times.size()) || !waited.holds_rank(rank, i)) continue;
      if (times[i].issued_s > times[i].start_s)
        add(waited.within(rank, i, times[i].start_s, times[i].issued_s), times[i].start_s);
    }
    for (auto& [key, wait] : own) {
      wait.rank = rank;
      wait.kind = key.first;
      wait.late_rank = key.second;
      wait.late_kind = longest_of(late_kinds[key]);
      all.push_back(wait);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.late_s + a.moving_s > b.late_s + b.moving_s; });
  return all;
}

}  // namespace weft
