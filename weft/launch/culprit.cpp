#include "weft/launch/culprit.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <tuple>

namespace weft {

namespace {

bool failed(const RankOutcome& outcome) {
  if (!outcome.said.empty()) return true;
  return outcome.ended && outcome.wait_status != 0 && !outcome.ended_by_us;
}

bool is_echo(const RankOutcome& outcome) { return !outcome.said.empty() && outcome.said.front().blame == Blame::peer; }

int64_t time_of(const RankOutcome& outcome) { return outcome.said.empty() ? outcome.ended_ns : outcome.said.front().time_ns; }

std::string describe(const RankOutcome& outcome) {
  if (!outcome.said.empty()) return outcome.said.front().text;
  const int status = outcome.wait_status;
  if (!WIFSIGNALED(status)) return fmt::format("ended with status {}", WEXITSTATUS(status));
  const char* hint = WTERMSIG(status) == SIGKILL ? "; if nobody did it, the host may have run out of memory" : "";
  return fmt::format("killed by signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)), hint);
}

int status_of(const RankOutcome& outcome) {
  if (!outcome.ended) return 1;
  if (WIFSIGNALED(outcome.wait_status)) return outcome.ended_by_us ? 1 : 128 + WTERMSIG(outcome.wait_status);
  return WEXITSTATUS(outcome.wait_status) == 0 ? 1 : WEXITSTATUS(outcome.wait_status);
}

}  // namespace

Verdict find_culprit(const std::vector<RankOutcome>& outcomes) {
  const RankOutcome* first = nullptr;
  const auto key = [](const RankOutcome& outcome) { return std::tuple(is_echo(outcome), time_of(outcome)); };
  for (const RankOutcome& outcome : outcomes) {
    if (failed(outcome) && (first == nullptr || key(outcome) < key(*first))) first = &outcome;
  }
  if (first == nullptr) return {};
  return {.failed = true,
          .certain = !is_echo(*first),
          .status = status_of(*first),
          .error = fmt::format("rank {}: {}", first->rank, describe(*first))};
}

}  // namespace weft
