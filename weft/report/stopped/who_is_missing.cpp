#include "weft/report/stopped/who_is_missing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/units.h"

namespace weft {
namespace {

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

const GroupEvidence* group_with(const RankEvidence& rank, const std::string& id) {
  const auto group =
      std::find_if(rank.groups.begin(), rank.groups.end(), [&](const GroupEvidence& one) { return one.id == id; });
  return group == rank.groups.end() ? nullptr : &*group;
}

/// The evidence with the first error that names a rank; without such, with the first error; null: none has one.
const RankEvidence* first_error(const Evidence& all) {
  const RankEvidence* first = nullptr;
  const auto key = [](const RankEvidence& one) { return std::tuple(one.culprit < 0, one.time_s); };
  for (const RankEvidence& one : all) {
    if (one.has_failed && (first == nullptr || key(one) < key(*first))) first = &one;
  }
  return first;
}

/// The rank that most ranks wait for, and that waits for none; -1: none.
int most_awaited(const Evidence& all) {
  std::map<int, int> waits;
  for (const RankEvidence& one : all) {
    for (const int rank : one.awaits) ++waits[rank];
  }
  int best = -1;
  for (const auto& [rank, count] : waits) {
    const RankEvidence* own = evidence_of(all, rank);
    if ((own == nullptr || own->awaits.empty()) && (best < 0 || count > waits[best])) best = rank;
  }
  return best;
}

/// Whether `rank` has not made this call, as far as is known.
bool misses(const Evidence& all, int rank, const std::string& group, const CallEvidence& call) {
  const RankEvidence* own = evidence_of(all, rank);
  const GroupEvidence* calls = own == nullptr ? nullptr : group_with(*own, group);
  return calls == nullptr ? own == nullptr : calls->collectives < call.number;
}

/// The call of `waiter` that needs the culprit and has not ended; null: there is none in this group.
const CallEvidence* call_that_needs(const GroupEvidence& group, int culprit, const Evidence& all) {
  for (const CallEvidence& call : group.calls) {
    if (call.is_ended()) continue;
    if (call.is_message() ? call.peer == culprit : misses(all, culprit, group.id, call)) return &call;
  }
  return nullptr;
}

std::optional<MissedCall> missed_call(const Evidence& all, int culprit) {
  std::optional<MissedCall> best;
  bool best_is_awaited = false;
  for (const RankEvidence& waiter : all) {
    for (const GroupEvidence& group : waiter.groups) {
      if (waiter.rank == culprit || !contains(group.ranks, culprit)) continue;
      const CallEvidence* call = call_that_needs(group, culprit, all);
      const bool is_awaited = contains(waiter.awaits, culprit) && waiter.wait_axis == group.axis;
      if (call == nullptr || (best && (best_is_awaited || !is_awaited))) continue;
      MissedCall missed{.axis = group.axis, .ranks = group.ranks, .call = *call, .waiting = {}, .missing = {}, .waited_s = 0.0};
      for (const int rank : group.ranks) {
        const RankEvidence* own = evidence_of(all, rank);
        const GroupEvidence* calls = own == nullptr ? nullptr : group_with(*own, group.id);
        if (call->is_message() ? rank == culprit : (rank == culprit || misses(all, rank, group.id, *call))) {
          missed.missing.push_back(rank);
        } else if (calls != nullptr && (!call->is_message() || rank == waiter.rank)) {
          for (const CallEvidence& theirs : calls->calls) {
            if (theirs.is_ended() || theirs.number != call->number || theirs.is_message() != call->is_message()) continue;
            if (call->is_message() && theirs.peer != call->peer) continue;
            missed.waiting.push_back(rank);
            missed.waited_s = std::max(missed.waited_s, own->time_s - theirs.begun_s);
            break;
          }
        }
      }
      best = std::move(missed);
      best_is_awaited = is_awaited;
    }
  }
  return best;
}

std::string name_of(int rank, const std::string& axis, const std::vector<int>& ranks) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank);
  if (axis.empty() || place == ranks.end()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({} {} of {})", rank, axis, place - ranks.begin(), ranks.size());
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr size_t kMost = 8;
  const std::vector<int> shown(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMost)));
  const std::string more = ranks.size() > kMost ? fmt::format(" and {} more", ranks.size() - kMost) : "";
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(shown, ", "), more);
}

/// "it is in forward of ..., waiting in ... for rank 1, in f()", of the rank so called.
std::string state_of(const RankEvidence& rank, const std::string& name) {
  const bool is_between = rank.activity.empty() && rank.operation.empty();
  std::string text = fmt::format("{} is {}{}", name, is_between ? "" : "in ", place_text(rank));
  if (!rank.waits_in.empty()) text += fmt::format(", waiting in {} for {}", rank.waits_in, ranks_text(rank.awaits));
  if (const std::string function = function_of(rank); !function.empty()) text += ", in " + function;
  return text;
}

}  // namespace

const RankEvidence* evidence_of(const Evidence& all, int rank) {
  const auto own = std::find_if(all.begin(), all.end(), [rank](const RankEvidence& one) { return one.rank == rank; });
  return own == all.end() ? nullptr : &*own;
}

std::string state_text(const Evidence& all, int rank) {
  if (const RankEvidence* own = evidence_of(all, rank)) return state_of(*own, "it");
  for (const RankEvidence& other : all) {
    for (const LostRankEvidence& lost : other.lost) {
      if (lost.rank != rank) continue;
      return lost.state == "stopped" ? fmt::format("its {} is stopped (kill -CONT resumes it)", lost.process)
                                     : fmt::format("its {} died", lost.process);
    }
  }
  return "it has left no evidence: does its host answer?";
}

HangVerdict who_is_missing(const Evidence& all) {
  HangVerdict verdict;
  if (all.empty()) return verdict;
  const RankEvidence* error = first_error(all);
  verdict.culprit = error != nullptr ? error->culprit : most_awaited(all);
  if (verdict.culprit < 0) {
    constexpr size_t kMost = 4;
    verdict.text = error != nullptr ? error->error : "no rank waits for another";
    for (size_t i = 0; i < std::min(all.size(), kMost); ++i) {
      verdict.text += "; " + state_of(all[i], fmt::format("rank {}", all[i].rank));
    }
    return verdict;
  }
  verdict.call = missed_call(all, verdict.culprit);
  const std::string state = state_text(all, verdict.culprit);
  if (verdict.call) {
    const MissedCall& call = *verdict.call;
    const std::string which = call.call.is_message() ? "" : fmt::format(" (call {} of {})", call.call.number, call.axis);
    // Without evidence it is not known which: a process may be stopped within a call.
    const char* missed =
        evidence_of(all, verdict.culprit) != nullptr ? "did not come to" : "did not come to, or did not finish,";
    verdict.text = fmt::format("{} {} {}{}, in which {} waited {:.1f} s: {}", name_of(verdict.culprit, call.axis, call.ranks),
                               missed, call_text(call.call), which,
                               ranks_text(call.waiting) + (call.waiting.size() == 1 ? " has" : " have"), call.waited_s, state);
    return verdict;
  }
  for (const RankEvidence& waiter : all) {
    if (waiter.rank == verdict.culprit || waiter.waits_in.empty() || !contains(waiter.awaits, verdict.culprit)) continue;
    verdict.text =
        fmt::format("{} did not come to {}, in which rank {} waits: {}",
                    name_of(verdict.culprit, waiter.wait_axis, waiter.wait_ranks), waiter.waits_in, waiter.rank, state);
    return verdict;
  }
  verdict.text =
      error != nullptr ? fmt::format("{}; {}", error->error, state) : fmt::format("rank {}: {}", verdict.culprit, state);
  return verdict;
}

std::vector<DifferingCalls> differing_calls(const Evidence& all) {
  std::map<std::string, DifferingCalls> groups;
  std::vector<std::string> order;
  for (const RankEvidence& one : all) {
    for (const GroupEvidence& group : one.groups) {
      auto [place, is_new] = groups.try_emplace(group.id);
      if (is_new) {
        order.push_back(group.id);
        place->second = {.axis = group.axis, .ranks = group.ranks, .last = std::vector<CallEvidence>(group.ranks.size())};
      }
      const std::vector<int>& ranks = place->second.ranks;
      const auto rank = std::find(ranks.begin(), ranks.end(), one.rank);
      if (rank == ranks.end()) continue;
      for (const CallEvidence& call : group.calls) {
        if (!call.is_message()) place->second.last[static_cast<size_t>(rank - ranks.begin())] = call;
      }
    }
  }
  std::vector<DifferingCalls> differing;
  for (const std::string& id : order) {
    const DifferingCalls& group = groups[id];
    const auto differs = [&](const CallEvidence& call) {
      const CallEvidence& first = group.last.front();
      return call.number != first.number || call_text(call) != call_text(first) || call.is_ended() != first.is_ended();
    };
    if (std::any_of(group.last.begin(), group.last.end(), differs)) differing.push_back(group);
  }
  return differing;
}

}  // namespace weft
