// Agents that srun started: one task a host, which starts the ranks there.
#pragma once

#include <optional>
#include <string>

namespace weft {

/// A host's place among those of a job, and where its agents meet.
struct NodePlace {
  int nodes = 1;
  int node_rank = 0;
  std::string head_host;  ///< of node 0
  int head_port = 0;
  std::string token;  ///< only this step's agents have it; no secret. What WEFT_TOKEN is where nobody set it
};

/// This process's place where `srun` started one task a host, from SLURM's variables alone; none outside a step, in a step of
/// one task, and in a rank (RANK is set) that somebody else started there. Throws InputError where a host has several tasks,
/// each of which would start the ranks of its host.
std::optional<NodePlace> slurm_nodes();

}  // namespace weft
