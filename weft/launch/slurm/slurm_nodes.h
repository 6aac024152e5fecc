// Agents started by srun: one task per host, which starts the ranks there.
#pragma once

#include <optional>
#include <string>

namespace weft {

/// A host's place in a job, and the meeting point of its agents.
struct NodePlace {
  int nodes = 1;
  int node_rank = 0;
  std::string head_host;  ///< name of node 0
  int head_port = 0;
  std::string token;  ///< known only to this step's agents, but not secret; used as WEFT_TOKEN unless that is set
};

/// Returns this process's place if `srun` started one task per host, from SLURM's variables alone. Returns nothing outside a
/// step, in a step of one task, and in a rank (RANK is set) that something else started there. Throws InputError if a host has
/// several tasks, each of which would start the ranks of its host.
std::optional<NodePlace> slurm_nodes();

}  // namespace weft
