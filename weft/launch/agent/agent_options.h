// What an agent is told (launch/agent/agent.h).
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft {

class RunStatus;

/// What an agent is told.
struct AgentOptions {
  std::string head_host;                  ///< where the head listens
  int head_port = 0;                      ///< and on which port
  std::string token = {};                 ///< that both prove to know; empty: none
  int node = 0;                           ///< which of the hosts this is
  int num_ranks = 1;                      ///< that this host bears
  std::string host = {};                  ///< its name
  std::vector<std::string> command = {};  ///< argv of every rank
  bool prefix = false;                    ///< LaunchOptions::prefix
  std::string problem = {};               ///< why ranks cannot be started here; told to the head when it wants some
  double host_timeout_s = 10.0;           ///< a head that is silent for longer is gone
  double join_timeout_s = 300.0;          ///< how long the head is waited for
  double grace_s = 1.0;                   ///< between SIGTERM and SIGKILL when the head is gone
  bool joins_again = false;               ///< waits for a head once more where one was lost
  RunStatus* status = nullptr;            ///< told what the run does; null: nobody is
  int lifeline = -1;                      ///< a descriptor whose end means that nobody wants this host any more; -1: none
  std::function<void(const std::string&)> tell = {};  ///< a line on a head that was lost
};

}  // namespace weft
