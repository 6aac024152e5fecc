#include "weft/launch/culprit.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <tuple>

namespace weft {

namespace {

bool failed(const RankOutcome& outcome) {
  if (!outcome.host_loss.empty()) return true;
  if (!outcome.said.empty()) return true;
  return outcome.ended && outcome.wait_status != 0 && !outcome.ended_by_us;
}

bool is_echo(const RankOutcome& outcome) {
  return outcome.host_loss.empty() && !outcome.said.empty() && outcome.said.front().blame == Blame::peer;
}

int64_t time_of(const RankOutcome& outcome) {
  return outcome.said.empty() || !outcome.host_loss.empty() ? outcome.ended_ns : outcome.said.front().time_ns;
}

std::string name_of(const RankOutcome& outcome) {
  return outcome.host.empty() ? fmt::format("rank {}", outcome.rank)
                              : fmt::format("rank {} on host {}", outcome.rank, outcome.host);
}

std::string describe(const RankOutcome& outcome) {
  if (!outcome.said.empty()) return outcome.said.front().text;
  const int status = outcome.wait_status;
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  const char* hint = WTERMSIG(status) == SIGKILL ? "; unless someone sent it, the host may have run out of memory" : "";
  return fmt::format("killed by signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)), hint);
}

int status_of(const RankOutcome& outcome) {
  const int said = outcome.said.empty() || outcome.said.front().status == 0 ? 1 : outcome.said.front().status;
  if (!outcome.ended) return said;
  if (WIFSIGNALED(outcome.wait_status)) return outcome.ended_by_us ? said : 128 + WTERMSIG(outcome.wait_status);
  return WEXITSTATUS(outcome.wait_status) == 0 ? 1 : WEXITSTATUS(outcome.wait_status);
}

/// Returns the first message that names this rank.
const RankOutcome* first_to_name(const std::vector<RankOutcome>& outcomes, int rank) {
  const RankOutcome* first = nullptr;
  for (const RankOutcome& outcome : outcomes) {
    if (!is_echo(outcome) || outcome.said.front().culprit != rank) continue;
    if (first == nullptr || time_of(outcome) < time_of(*first)) first = &outcome;
  }
  return first;
}

/// Follows an echo to the echo of the rank that it names, as far as the chain goes.
const RankOutcome& follow(const std::vector<RankOutcome>& outcomes, const RankOutcome& first) {
  const RankOutcome* last = &first;
  for (size_t links = 0; links < outcomes.size(); ++links) {
    const int named = last->said.front().culprit;
    const auto next = std::find_if(outcomes.begin(), outcomes.end(),
                                   [&](const RankOutcome& outcome) { return outcome.rank == named && is_echo(outcome); });
    if (next == outcomes.end()) break;
    last = &*next;
  }
  return *last;
}

/// Returns the error text when ranks only report other ranks.
std::string describe_echo(const std::vector<RankOutcome>& outcomes, const RankOutcome& first) {
  for (const RankOutcome& outcome : outcomes) {
    if (!outcome.stopped) continue;
    const RankOutcome* names_it = first_to_name(outcomes, outcome.rank);
    return names_it ? describe(*names_it) : name_of(outcome) + ": stopped by a signal; other ranks waited for it";
  }
  const RankOutcome& last = follow(outcomes, first);
  return last.said.front().culprit < 0 ? fmt::format("{}: {}", name_of(last), describe(last)) : describe(last);
}

std::vector<int> lost_ranks(const std::vector<RankOutcome>& outcomes) {
  std::vector<int> ranks;
  for (const RankOutcome& outcome : outcomes) {
    if (!outcome.host_loss.empty()) ranks.push_back(outcome.rank);
  }
  return ranks;
}

/// Returns the echo that shows what the remaining hosts waited for: preferably the first that names a lost rank.
const RankOutcome* first_to_miss(const std::vector<RankOutcome>& outcomes, const std::vector<int>& lost) {
  const RankOutcome* first = nullptr;
  const auto key = [&](const RankOutcome& outcome) {
    const int culprit = outcome.said.front().culprit;
    return std::tuple(std::find(lost.begin(), lost.end(), culprit) == lost.end(), culprit < 0, time_of(outcome));
  };
  for (const RankOutcome& outcome : outcomes) {
    if (is_echo(outcome) && (first == nullptr || key(outcome) < key(*first))) first = &outcome;
  }
  return first;
}

}  // namespace

Verdict find_culprit(const std::vector<RankOutcome>& outcomes) {
  const RankOutcome* first = nullptr;
  const auto key = [](const RankOutcome& outcome) {
    const bool echo = is_echo(outcome);
    return std::tuple(echo, echo && outcome.said.front().culprit < 0, time_of(outcome));
  };
  for (const RankOutcome& outcome : outcomes) {
    if (failed(outcome) && (first == nullptr || key(outcome) < key(*first))) first = &outcome;
  }
  if (first == nullptr) return {};
  Verdict verdict{.failed = true,
                  .killed = first->said.empty() && first->ended && WIFSIGNALED(first->wait_status),
                  .certain = !is_echo(*first),
                  .status = status_of(*first),
                  .error = ""};
  if (!first->host_loss.empty()) {
    verdict.status = 1;
    verdict.error = first->host_loss;
    verdict.lost = lost_ranks(outcomes);
    if (const RankOutcome* echo = first_to_miss(outcomes, verdict.lost)) {
      verdict.error += fmt::format("; {}: {}", name_of(*echo), describe(*echo));
      verdict.lost.clear();
    }
  } else {
    verdict.error =
        is_echo(*first) ? describe_echo(outcomes, *first) : fmt::format("{}: {}", name_of(*first), describe(*first));
  }
  return verdict;
}

}  // namespace weft
