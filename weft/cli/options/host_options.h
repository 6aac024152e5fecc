// Options of `weft run` and `weft train`: on which hosts ranks start, and how the run is watched.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "weft/cli/health/health_server.h"
#include "weft/launch/agent/host_places.h"

namespace weft {

/// Values of these options.
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
  const CLI::App* command = nullptr;  ///< the command they were added to

  /// Returns true if the command line has that option.
  bool has(const std::string& option) const { return command != nullptr && command->count(option) > 0; }
};

/// Adds --health-port and its companions.
void add_health_options(CLI::App& command, HealthOptions& health);
/// Adds all options; environment variables can replace some.
void add_host_options(CLI::App& command, HostOptions& options);

/// Fewest and most nodes.
struct NodeCounts {
  int least = 1, most = 1;
};

/// How the options distribute ranks.
struct HostPlan {
  enum class Kind {
    one,    ///< this host alone
    ssh,    ///< --hosts: weft starts agents through ssh
    head,   ///< --nodes, and this is node 0
    agent,  ///< --nodes, another node
  };
  Kind kind = Kind::one;
  std::vector<HostPlace> places = {};  ///< Kind::ssh
  NodeCounts nodes = {};               ///< number of hosts
  std::string head_host = {};          ///< Kind::head, Kind::agent
  int head_port = 0;
  int node = 0;  ///< index of this host, Kind::agent

  /// Sum of the ranks of all places.
  int num_places() const;
};

/// Drops this process's own rank variables, if it is a rank itself (base/launcher_variables.h), before it starts ranks. With
/// --nodes it keeps them, because the secret is the user's; its ranks do not get the outer variables anyway.
void leave_outer_place(const HostOptions& options);

/// Returns the hosts given by the options. If they name no hosts and this process `starts_ranks` (-n), returns the hosts on
/// which srun started one task each, and sets WEFT_TOKEN to their secret. Throws InputError for options that exclude each
/// other, and for --nodes without a secret.
HostPlan host_plan(const HostOptions& options, bool starts_ranks);

}  // namespace weft
