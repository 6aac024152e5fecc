#include "weft/report/stopped/blame_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/local_time.h"

namespace weft {
namespace {

int num_ranks(const Evidence& all) {
  int ranks = 0;
  for (const RankEvidence& one : all) ranks = std::max({ranks, one.ranks, one.rank + 1});
  return ranks;
}

/// Since when its oldest call that has not ended waits; 0: none does.
double waited_s(const RankEvidence& rank) {
  double longest = 0.0;
  for (const GroupEvidence& group : rank.groups) {
    for (const CallEvidence& call : group.calls) {
      if (call.state == "started") longest = std::max(longest, rank.time_s - call.begun_s);
    }
  }
  return longest;
}

std::string wait_text(const RankEvidence& rank) {
  if (rank.waits_in.empty()) return "waits for no rank";
  const double seconds = waited_s(rank);
  return fmt::format("waits in {} for {}{}", rank.waits_in, fmt::join(rank.awaits, ", "),
                     seconds > 0.0 ? fmt::format(" since {:.1f} s", seconds) : "");
}

std::string lost_text(const Evidence& all, int rank) {
  for (const RankEvidence& other : all) {
    for (const LostRankEvidence& lost : other.lost) {
      if (lost.rank == rank)
        return fmt::format("no evidence: {} {}", lost.process, lost.state == "stopped" ? "is stopped" : "died");
    }
  }
  return "no evidence";
}

std::string last_text(const CallEvidence& call) {
  if (call.number == 0) return "none known";
  return fmt::format("{} {} ({})", call.number, call_text(call), call.state);
}

/// The thread to show for the culprit: its main thread, or what it has.
std::vector<std::string> stack_of(const Evidence& all, int rank) {
  const RankEvidence* own = evidence_of(all, rank);
  if (own == nullptr) return {};
  const ThreadEvidence* main = main_thread(*own);
  return main == nullptr ? std::vector<std::string>() : main->functions;
}

}  // namespace

std::string blame_text(const Evidence& all, const std::vector<std::string>& problems) {
  const HangVerdict verdict = who_is_missing(all);
  std::string text = verdict.text.empty() ? "" : verdict.text + "\n";
  const int ranks = num_ranks(all);
  constexpr int kMostRows = 64;
  int shown = 0;
  text += "\n";
  for (int rank = 0; rank < ranks; ++rank) {
    const RankEvidence* own = evidence_of(all, rank);
    const bool matters = rank == verdict.culprit || ranks <= kMostRows || shown < kMostRows;
    if (!matters) continue;
    ++shown;
    if (own == nullptr) {
      text += fmt::format("rank {:<4} {}\n", rank, lost_text(all, rank));
    } else {
      text += fmt::format("rank {:<4} {}; {}\n", rank, place_text(*own), wait_text(*own));
    }
  }
  if (shown < ranks) text += fmt::format("... {} more ranks: --json has them\n", ranks - shown);
  for (const DifferingCalls& group : differing_calls(all)) {
    text += fmt::format("\nlast calls of {}:\n", group.axis);
    for (size_t i = 0; i < std::min<size_t>(group.ranks.size(), kMostRows); ++i) {
      text += fmt::format("  rank {:<4} {}\n", group.ranks[i], last_text(group.last[i]));
    }
  }
  const std::vector<std::string> stack = stack_of(all, verdict.culprit);
  if (!stack.empty()) text += fmt::format("\nrank {}, main thread, innermost first:\n", verdict.culprit);
  for (const std::string& function : stack) text += "  " + function + "\n";
  for (const std::string& problem : problems) text += fmt::format("\n{}\n", problem);
  return text;
}

std::string blame_json(const Evidence& all, const std::vector<std::string>& problems) {
  using nlohmann::json;
  const HangVerdict verdict = who_is_missing(all);
  json value = {{"culprit", verdict.culprit}, {"text", verdict.text},       {"problems", problems},
                {"ranks", json::array()},     {"differing", json::array()}, {"stack", stack_of(all, verdict.culprit)}};
  for (int rank = 0; rank < num_ranks(all); ++rank) {
    const RankEvidence* own = evidence_of(all, rank);
    json row = {{"rank", rank}};
    if (own == nullptr) {
      row["missing"] = lost_text(all, rank);
    } else {
      row["at"] = place_text(*own);
      row["function"] = function_of(*own);
      if (!own->waits_in.empty()) {
        row["waits_in"] = own->waits_in;
        row["waits_for"] = own->awaits;
        row["waited_s"] = waited_s(*own);
      }
    }
    value["ranks"].push_back(row);
  }
  for (const DifferingCalls& group : differing_calls(all)) {
    json row = {{"axis", group.axis}, {"ranks", group.ranks}, {"last", json::array()}};
    for (const CallEvidence& call : group.last) {
      row["last"].push_back(
          {{"number", call.number}, {"call", call.number == 0 ? "" : call_text(call)}, {"state", call.state}});
    }
    value["differing"].push_back(row);
  }
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace weft
