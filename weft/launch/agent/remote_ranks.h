// RemoteRanks: the ranks of one launch on another host, as reported by its agent.
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
  /// Orders the agent to start the ranks. `launch` numbers the launch, so that messages about an earlier one are skipped;
  /// `board` may be null.
  RemoteRanks(const HostStart& start, std::string host, std::shared_ptr<AgentConnection> agent, int64_t launch,
              const RunBoard* board);
  /// Has the agent kill the remaining ranks.
  ~RemoteRanks() override;

  /// Processes an agent's message about ranks. Throws nlohmann::json::exception if it is malformed.
  void take(const nlohmann::json& message);
  /// Marks the host as lost.
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
  std::vector<int> ended_;  ///< indices into outcomes_ of ranks that ended since the last receive()
  std::string failure_;     ///< why the program could not run there
  std::string loss_;        ///< why the host was lost
};

}  // namespace weft
