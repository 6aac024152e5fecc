#include "weft/launch/agent/remote_ranks.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/monotonic.h"
#include "weft/base/printable.h"
#include "weft/base/run_board.h"
#include "weft/launch/agent/message_times.h"

namespace weft {

RemoteRanks::RemoteRanks(const HostStart& start, std::string host, std::shared_ptr<AgentConnection> agent, int64_t launch,
                         const RunBoard* board)
    : start_(start), host_(std::move(host)), agent_(std::move(agent)), launch_(launch), board_(board) {
  for (int i = 0; i < start.num_ranks; ++i) {
    RankOutcome& outcome = outcomes_.emplace_back();
    outcome.rank = start.first_rank + i;
    outcome.host = host_;
  }
  agent_->send({{"kind", "start"},
                {"launch", launch},
                {"first_rank", start.first_rank},
                {"ranks", start.num_ranks},
                {"world", start.world},
                {"master_address", start.master_address},
                {"master_port", start.master_port},
                {"store", start.store},
                {"restarts", start.restarts},
                {"steps", board != nullptr ? board->steps_done() : 0},
                {"failed_age_ns", board != nullptr && board->failed_ns() > 0 ? age_of(board->failed_ns()) : -1}});
}

/// Ranks are left only after an exception.
RemoteRanks::~RemoteRanks() {
  if (any_left()) signal(SIGKILL, SignalTo::all);
}

RankOutcome* RemoteRanks::outcome_of(int rank) {
  const int local = rank - start_.first_rank;
  return local < 0 || local >= start_.num_ranks ? nullptr : &outcomes_[static_cast<size_t>(local)];
}

void RemoteRanks::take(const nlohmann::json& message) {
  if (message.at("launch").get<int64_t>() != launch_) return;
  const std::string kind = message.at("kind");
  if (kind == "failed") {
    failure_ = shortened(message.at("text").get<std::string>(), 2000);
    return;
  }
  RankOutcome* outcome = outcome_of(message.at("rank"));
  if (outcome == nullptr) return;
  if (kind == "said") {
    const bool echo = message.at("blame").get<std::string>() == "peer";
    outcome->said.push_back({.time_ns = time_of_age(message.at("age_ns")),
                             .rank = outcome->rank,
                             .blame = echo ? Blame::peer : Blame::self,
                             .culprit = message.at("culprit"),
                             .status = message.value("status", 1),
                             .text = shortened(message.at("text").get<std::string>(), 4000)});
  } else if (kind == "ended" && !outcome->ended) {
    outcome->ended = true;
    outcome->ended_ns = time_of_age(message.at("age_ns"));
    outcome->wait_status = message.at("status");
    ended_.push_back(outcome->rank - start_.first_rank);
  } else if (kind == "stopped") {
    outcome->stopped = message.at("is");
  }
}

void RemoteRanks::lose(const std::string& why) {
  if (loss_.empty()) loss_ = why;
}

void RemoteRanks::add_descriptors(std::vector<pollfd>&) const {}  // the head polls for its agents

std::string RemoteRanks::loss_text() const {
  const int last = start_.first_rank + start_.num_ranks - 1;
  return fmt::format(
      "host {} ({}) {}", host_,
      start_.num_ranks == 1 ? fmt::format("rank {}", last) : fmt::format("ranks {} to {}", start_.first_rank, last), loss_);
}

void RemoteRanks::receive(bool ending) {
  if (!failure_.empty()) throw InputError(fmt::format("host {}: {}", host_, failure_));
  for (const int local : ended_) outcomes_[static_cast<size_t>(local)].ended_by_us = ending;
  ended_.clear();
  if (loss_.empty()) return;
  for (RankOutcome& outcome : outcomes_) {
    if (outcome.ended) continue;
    outcome.ended = true;
    outcome.ended_ns = agent_->heard_ns();
    outcome.ended_by_us = ending;
    if (!ending) outcome.host_loss = loss_text();
  }
}

/// The agent knows best which ranks have reported an error.
void RemoteRanks::signal(int number, SignalTo to) {
  agent_->send({{"kind", "signal"},
                {"launch", launch_},
                {"number", number},
                {"spare", to == SignalTo::silent},
                {"growing", board_ != nullptr && board_->is_growing()}});
}

bool RemoteRanks::any_left() const {
  return std::any_of(outcomes_.begin(), outcomes_.end(), [](const RankOutcome& outcome) { return !outcome.ended; });
}

}  // namespace weft
