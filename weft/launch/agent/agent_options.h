// Options of an agent (launch/agent/agent.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft {

class RunStatus;

/// Options of an agent.
struct AgentOptions {
  std::string head_host;                  ///< host on which the head listens
  int head_port = 0;                      ///< its port
  std::string token = {};                 ///< secret that both sides prove they know; empty: no secret
  int node = 0;                           ///< index of this host
  int num_ranks = 1;                      ///< ranks of this host
  std::string host = {};                  ///< name of this host
  std::vector<std::string> command = {};  ///< argv of every rank
  bool prefix = false;                    ///< LaunchOptions::prefix
  std::string problem = {};               ///< why ranks cannot be started here; reported to the head when it orders a start
  double host_timeout_s = 10.0;           ///< silence after which the head counts as lost
  double join_timeout_s = 300.0;          ///< how long to wait for the head
  double grace_s = 1.0;                   ///< between SIGTERM and SIGKILL when the head is gone
  bool joins_again = false;               ///< whether to wait for a new head after losing one
  RunStatus* status = nullptr;            ///< receives the run's status, unless null
  int lifeline = -1;                      ///< a descriptor that closes when this host is no longer wanted; -1: not used
  std::function<void(const std::string&)> report = {};  ///< receives a line on a lost head
};

}  // namespace weft
