#include "weft/plan/cost/rank_memory.h"

#include <algorithm>

#include "weft/comm/shm/memory_bytes.h"
#include "weft/optim/block_update.h"
#include "weft/optim/update_ranges.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/cost/group_specs.h"

namespace weft {

namespace {

/// Bytes of group buffers, for shared memory between CPUs unless another backend is set or the ranks exceed a host.
int64_t communication_bytes(const Recipe& recipe, const Plan& plan, int pp_rank) {
  const Program& program = *plan.program;
  constexpr int kMostRanksOfAHost = 16;
  const bool other =
      recipe.layout.backend == "gloo" || recipe.layout.backend == "nccl" || plan.costs->device() == TargetDevice::gpu;
  if (other || program.world_size() > kMostRanksOfAHost) return 0;
  int64_t bytes = 0;
  for (const GroupSpec& spec :
       group_specs(program, pp_rank, recipe.layout.across_hosts != "exact" && program.gradient_bytes == 4)) {
    GroupOptions options;
    if (spec.message_bytes > 0) options.message_bytes = spec.message_bytes;
    bytes += shm_memory_bytes(spec.ranks, options);
  }
  return bytes;
}

/// One copy for saving, unless the state is offloaded and so written directly, and two snapshots.
int state_copies(const Recipe& recipe) {
  const bool offloads = recipe.layout.offload_optimizer != "none" || recipe.layout.offload_parameters != "none";
  return (!recipe.save.folder.empty() && !offloads ? 1 : 0) + (recipe.save.memory_every ? 2 : 0);
}

/// Peak bytes of a block's update besides the gradients that it gathers: while its part is computed, gathered or applied.
int64_t temporary_bytes(const BlockUpdate& update, const Program& program, int block) {
  const int64_t own = program.block_numel[block] / program.shards, part = own * update.part_bytes;
  const bool gathers = program.gathers_gradients(block);
  const int64_t whole = gathers ? program.block_numel[block] * update.gathered_bytes : 0;
  const int64_t making = part + std::min(own, kRangeElements) * update.range_bytes;
  return std::max({making - whole, part, (gathers ? 0 : part) + update.temporary_bytes});
}

/// State of each block; empty for optimizers that keep the same state for all parameters.
std::vector<BlockState> block_states(const Recipe& recipe, const Plan& plan) {
  if (!needs_whole_tensors(plan.costs->optimizer())) return {};
  const Program& program = *plan.program;
  std::vector<BlockState> states;
  for (const BlockUpdate& update : plan.costs->block_updates(program.gradient_bytes)) {
    const int block = static_cast<int>(states.size());
    states.push_back({update.states + (recipe.optimizer.ema > 0.0 ? 1 : 0), update.part_state, update.whole_state,
                      temporary_bytes(update, program, block)});
  }
  return states;
}

}  // namespace

MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int pp_rank) {
  const LayoutOptions& options = plan.layout.options;
  return {.optimizer_states = num_states(plan.costs->optimizer()) + (recipe.optimizer.ema > 0.0 ? 1 : 0),
          .block_states = block_states(recipe, plan),
          .offload_optimizer = options.offload_optimizer != Offload::none,
          .offload_weights = options.offload_parameters != Offload::none,
          .communication_bytes = communication_bytes(recipe, plan, pp_rank),
          .state_copies = state_copies(recipe),
          .device = plan.costs->device()};
}

int fullest_stage_rank(const std::vector<MemoryEstimate>& by_stage_rank) {
  const auto less = [](const MemoryEstimate& a, const MemoryEstimate& b) { return a.total() < b.total(); };
  return static_cast<int>(std::max_element(by_stage_rank.begin(), by_stage_rank.end(), less) - by_stage_rank.begin());
}

std::vector<MemoryEstimate> memory_by_stage_rank(const Recipe& recipe, const Plan& plan) {
  std::vector<MemoryEstimate> estimates;
  estimates.reserve(plan.program->mesh.pp);
  const int stride = plan.program->world_size() / plan.program->mesh.pp;
  for (int pp = 0; pp < plan.program->mesh.pp; ++pp) {
    estimates.push_back(estimate_memory(*plan.program, pp * stride, memory_options(recipe, plan, pp)));
  }
  return estimates;
}

}  // namespace weft
