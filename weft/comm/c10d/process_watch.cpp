#include "weft/comm/c10d/process_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "weft/base/error.h"

namespace weft {

ProcessWatch::ProcessWatch(const GroupPlan& plan)
    : rank_(plan.axis.index), hosts_(plan.hosts), watched_(plan.hosts.size()), store_(plan.store) {
  store_.set(fmt::format("pid/{}", rank_), std::to_string(::getpid()));
  for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) {
    const std::string what = fmt::format("rank {} of group \"{}\" waits for rank {} to join", rank_, plan.axis.name, rank);
    pids_.push_back(std::stoi(store_.get(fmt::format("pid/{}", rank), plan.options.timeout, what)));
    if (hosts_[rank] == hosts_[rank_]) watched_[rank] = watch_process(pids_[rank]);
  }
}

int ProcessWatch::ended_rank() const {
  for (size_t rank = 0; rank < watched_.size(); ++rank) {
    if (has_ended(watched_[rank])) return static_cast<int>(rank);
  }
  return -1;
}

std::string ProcessWatch::identity(int rank) const {
  return fmt::format("rank {} (process {} on host {})", rank, pids_[rank], hosts_[rank]);
}

bool ProcessWatch::failure_elsewhere() {
  try {
    return store_.has("roll_call");
  } catch (const CommError&) {
    return true;  // the store has gone with the rank that served it
  }
}

std::string ProcessWatch::roll_call() {
  try {
    store_.set(fmt::format("here/{}", rank_), "");
    store_.set("roll_call", "");
    if (const int ended = ended_rank(); ended >= 0) return identity(ended) + " died";
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    std::vector<std::string> silent;
    do {
      silent.clear();
      for (int rank = 0; rank < static_cast<int>(hosts_.size()); ++rank) {
        if (!store_.has(fmt::format("here/{}", rank))) silent.push_back(identity(rank));
      }
      if (silent.empty()) return "";
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    } while (std::chrono::steady_clock::now() < deadline);
    return fmt::format("{} died, left or did not come", fmt::join(silent, ", "));
  } catch (const CommError&) {
    if (const int ended = ended_rank(); ended >= 0) return identity(ended) + " died";
    return "rank 0 of the world, which serves the store, cannot be reached";
  }
}

}  // namespace weft
