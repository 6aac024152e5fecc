// The options of commands that start ranks which say on which hosts, and how the run is watched: `weft run`, `weft train`.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "weft/cli/health/health_server.h"
#include "weft/launch/agent/host_places.h"

namespace weft {

/// What they hold.
struct HostOptions {
  std::string hosts, host_file;                         ///< --hosts, --host-file
  std::vector<std::string> ssh_options, exported = {};  ///< --ssh-option, --export
  std::string remote_weft, head_address;                ///< --remote-weft, --head-address
  std::string nodes;                                    ///< --nodes: "4", or "2:4"
  int node_rank = -1;                                   ///< --node-rank
  std::string head;                                     ///< --head: "HOST:PORT"
  bool no_token = false;                                ///< --no-token
  double host_timeout_s = 10.0, join_timeout_s = 300.0;
  bool prefix = false;
  HealthOptions health;
  const CLI::App* command = nullptr;  ///< that they were added to

  /// Whether the command line has that option.
  bool has(const std::string& option) const { return command != nullptr && command->count(option) > 0; }
};

/// Adds --health-port and those beside it.
void add_health_options(CLI::App& command, HealthOptions& health);
/// Adds all, with the environment variables that stand for some.
void add_host_options(CLI::App& command, HostOptions& options);

/// The fewest nodes and the most.
struct NodeCounts {
  int least = 1, most = 1;
};

/// How ranks are spread, as the options say.
struct HostPlan {
  enum class Kind {
    one,    ///< this host alone
    ssh,    ///< --hosts: agents are started through ssh
    head,   ///< --nodes, and this is node 0
    agent,  ///< --nodes, another node
  };
  Kind kind = Kind::one;
  std::vector<HostPlace> places = {};  ///< Kind::ssh
  NodeCounts nodes = {};               ///< how many hosts there are
  std::string head_host = {};          ///< Kind::head, Kind::agent
  int head_port = 0;
  int node = 0;  ///< which of the hosts this is, Kind::agent

  /// Ranks of all places.
  int num_places() const;
};

/// For a process that starts ranks: leaves its place, if it is a rank itself (base/launcher_variables.h). With --nodes the
/// secret is the user's, so that all stays; its ranks find nothing of it anyway.
void leave_outer_place(const HostOptions& options);

/// What the options come to; where they name no hosts and this process `starts_ranks` (-n), what srun tells of the hosts on
/// each of which it started one task, whose WEFT_TOKEN is then set too. Throws InputError where they do not go together, and
/// for
/// --nodes without a secret.
HostPlan host_plan(const HostOptions& options, bool starts_ranks);

}  // namespace weft
