// RemoteRanks: the ranks of one launch on another host, as its agent tells of them.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "weft/launch/agent/connection.h"
#include "weft/launch/rank_host.h"

namespace weft {

class RunBoard;

/// The ranks of a launch on another host.
class RemoteRanks : public RankHost {
 public:
  /// Tells the agent to start them. `launch` numbers the launch, so that what is told of one before is passed over; `board` may
  /// be null.
  RemoteRanks(const HostStart& start, std::string host, std::shared_ptr<AgentConnection> agent, int64_t launch,
              const RunBoard* board);
  /// Has the agent kill those that are left.
  ~RemoteRanks() override;

  /// A message of the agent's that is about ranks. Throws nlohmann::json::exception for what is none.
  void take(const nlohmann::json& message);
  /// The host is no longer heard of.
  void lose(const std::string& why);

  void add_descriptors(std::vector<pollfd>& all) const override;
  void receive(bool ending) override;
  void signal(int number, SignalTo to) override;
  bool any_left() const override;
  double silent_s() const override { return agent_->silent_s(); }

 private:
  RankOutcome* outcome_of(int rank);
  std::string loss_text() const;

  HostStart start_;
  std::string host_;
  std::shared_ptr<AgentConnection> agent_;
  int64_t launch_;
  const RunBoard* board_;
  std::vector<int> ended_;  ///< indices into outcomes_ of ranks that have ended since receive()
  std::string failure_;     ///< why the program could not be run there
  std::string loss_;        ///< why the host is no longer heard of
};

}  // namespace weft
