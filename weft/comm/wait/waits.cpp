#include "weft/comm/wait/waits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

namespace weft {
namespace {

// Returns how certainly a rank at the end of a chain is the cause.
int weight(RankState state) {
  switch (state) {
    case RankState::ended:
      return 4;
    case RankState::stopped:
      return 3;
    case RankState::failed:
      return 2;
    case RankState::running:
      return 1;
    case RankState::waiting:
      break;
  }
  return 0;
}

// Returns whether `other` has reached the call that `row` waits in: its process then moves the data, even while it waits.
bool has_arrived(const RankRow& row, const RankRow& other) {
  return other.state == RankState::waiting && row.call > 0 && other.group == row.group && other.call >= row.call;
}

// The awaited ranks that have not arrived; if all have, all of them, since one of them makes no progress.
std::vector<int> awaited(const std::vector<RankRow>& rows, int rank) {
  const RankRow& row = rows[rank];
  std::vector<int> missing;
  for (int peer : row.awaits) {
    if (peer != rank && !has_arrived(row, rows[peer])) missing.push_back(peer);
  }
  return missing.empty() ? row.awaits : missing;
}

std::vector<int> path_to(const std::vector<int>& before, int rank) {
  std::vector<int> path;
  for (; rank >= 0; rank = before[rank]) path.insert(path.begin(), rank);
  return path;
}

// The cycle in the chain of first links, traversed once.
std::vector<int> circle_from(const std::vector<RankRow>& rows, int from) {
  std::vector<int> path = {from};
  while (true) {
    const std::vector<int> next = awaited(rows, path.back());
    const auto other = std::find_if(next.begin(), next.end(), [&](int peer) { return peer != path.back(); });
    if (other == next.end()) return path;
    const auto met = std::find(path.begin(), path.end(), *other);
    if (met != path.end()) return {met, path.end()};
    path.push_back(*other);
  }
}

std::string wait_text(const std::vector<RankRow>& rows, int rank, int next) {
  const RankRow& row = rows[rank];
  return fmt::format("{} in {} for {}", rank_on_axis(rank, row.axis, row.members), row.doing, next);
}

std::string waits_text(const std::vector<RankRow>& rows, const std::vector<int>& chain) {
  std::vector<std::string> links;
  for (size_t i = 0; i + 1 < chain.size(); ++i) links.push_back(wait_text(rows, chain[i], chain[i + 1]));
  return fmt::format("{}", fmt::join(links, ", "));
}

/// Returns whether a cycle's ranks, on several hosts, are all in the same call: then data is late, not a rank.
bool all_arrived(const std::vector<RankRow>& rows, const std::vector<int>& circle) {
  const RankRow& first = rows[circle.front()];
  const auto host_of = [](const RankRow& row) {
    return row.process.substr(std::min(row.process.find("host "), row.process.size()));
  };
  bool several_hosts = false;
  for (const int rank : circle) {
    if (first.call == 0 || rows[rank].group != first.group || rows[rank].call != first.call) return false;
    several_hosts |= host_of(rows[rank]) != host_of(first);
  }
  return several_hosts;
}

std::string how(const RankRow& row, RankState state, const std::string& deadline) {
  if (state == RankState::ended) return fmt::format("its {} died", row.process);
  if (state == RankState::stopped) return fmt::format("its {} is stopped (kill -CONT resumes it)", row.process);
  return fmt::format("did not arrive{}{}", deadline, row.process.empty() ? "" : " (" + row.process + ")");
}

}  // namespace

std::string rank_on_axis(int rank, const std::string& axis, const std::vector<int>& members) {
  const auto position = std::find(members.begin(), members.end(), rank);
  if (position == members.end() || axis.empty()) return std::to_string(rank);
  return fmt::format("{} ({} {} of {})", rank, axis, position - members.begin(), members.size());
}

Cause find_cause(const std::vector<RankRow>& rows, int from) {
  std::vector<int> before(rows.size(), -1);
  std::vector<bool> seen(rows.size(), false);
  std::deque<int> open = {from};
  seen[from] = true;
  int best = -1;
  while (!open.empty()) {
    const int rank = open.front();
    open.pop_front();
    if (rank != from && weight(rows[rank].state) > (best < 0 ? 0 : weight(rows[best].state))) best = rank;
    // The asking rank is blocked, even if its row has changed; of the others only waiting ones are followed.
    if (rank != from && rows[rank].state != RankState::waiting) continue;
    for (int peer : awaited(rows, rank)) {
      if (seen[peer]) continue;
      seen[peer] = true;
      before[peer] = rank;
      open.push_back(peer);
    }
  }
  if (best < 0) return {.state = RankState::waiting, .culprit = -1, .chain = circle_from(rows, from)};
  return {.state = rows[best].state, .culprit = best, .chain = path_to(before, best)};
}

std::string describe_cause(const std::vector<RankRow>& rows, const Cause& cause, double waited_s) {
  if (cause.state == RankState::failed) return rows[cause.culprit].failure;
  const std::string deadline = waited_s > 0.0 ? fmt::format(" within {:.1f} s", waited_s) : "";
  if (cause.culprit < 0 && all_arrived(rows, cause.chain)) {
    std::vector<std::string> places;
    places.reserve(cause.chain.size());
    for (const int rank : cause.chain) {
      places.push_back(fmt::format("{} on {}", rank_on_axis(rank, rows[rank].axis, rows[rank].members), rows[rank].process));
    }
    return fmt::format(
        "ranks {} have reached {} but have not finished it{}: is a link between them slow or cut? weft netcheck "
        "measures each link",
        fmt::join(places, ", "), rows[cause.chain.front()].doing, deadline);
  }
  if (cause.culprit < 0) {
    std::vector<int> round = cause.chain;
    round.push_back(round.front());
    return fmt::format("ranks made no progress{}; each awaits the next: {}", deadline, waits_text(rows, round));
  }
  const RankRow& waiter = rows[cause.chain[cause.chain.size() - 2]];
  return fmt::format("rank {}: {}; waits: {}", rank_on_axis(cause.culprit, waiter.axis, waiter.members),
                     how(rows[cause.culprit], cause.state, deadline), waits_text(rows, cause.chain));
}

int blamed_rank(const std::vector<RankRow>& rows, const Cause& cause) {
  return cause.state == RankState::failed ? rows[cause.culprit].culprit : cause.culprit;
}

}  // namespace weft
