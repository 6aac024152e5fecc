#include "weft/launch/slurm/slurm_nodes.h"

#include <fmt/format.h>

#include <cstddef>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/slurm_step.h"

namespace weft {

std::optional<NodePlace> slurm_nodes() {
  if (env_string("RANK")) return std::nullopt;
  const auto step = slurm_step();
  if (!step || step->num_tasks == 1) return std::nullopt;
  if (static_cast<size_t>(step->num_tasks) != step->hosts.size()) {
    throw InputError(fmt::format(
        "srun started {} tasks on {} hosts, and -n asks for further ranks: leave out -n, so that each task is a rank, "
        "or start one task per host (srun --ntasks-per-node=1)",
        step->num_tasks, step->hosts.size()));
  }
  return NodePlace{.nodes = step->num_tasks,
                   .node_rank = step->node,
                   .head_host = step->address(),
                   .head_port = step->port(),
                   .token = env_string("WEFT_TOKEN").value_or(step->token())};
}

}  // namespace weft
