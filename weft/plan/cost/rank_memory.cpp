#include "weft/plan/cost/rank_memory.h"

#include <algorithm>

#include "weft/comm/shm/memory_bytes.h"
#include "weft/comm/two_level/memory_bytes.h"
#include "weft/optim/block_update.h"
#include "weft/optim/clip.h"
#include "weft/optim/update_ranges.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/cost/group_specs.h"
#include "weft/program/ranks.h"

namespace weft {

namespace {

/// One copy for saving, unless the state is offloaded and so written directly, and two snapshots.
int state_copies(const Recipe& recipe) {
  const bool offloads = recipe.layout.offload_optimizer != "none" || recipe.layout.offload_parameters != "none";
  return (!recipe.save.folder.empty() && !offloads ? 1 : 0) + (recipe.save.memory_every ? 2 : 0);
}

/// Peak bytes of a block's update besides the gradients that it gathers: while its part is computed, gathered or applied, or
/// the weights are averaged. With `gate`, the device may drop what is changed.
int64_t temporary_bytes(const Recipe& recipe, const BlockUpdate& update, const Program& program, int block, TargetDevice device,
                        bool gate) {
  const int64_t own = program.block_numel[block] / program.shards, part = own * update.part_bytes;
  const bool gathers = program.gathers_gradients(block);
  const int64_t whole = gathers ? program.block_numel[block] * update.gathered_bytes : 0;
  const int range_bytes = update.range_bytes + (gate ? update.gate_bytes : 0);
  const int64_t making = part + std::min(own, range_elements(device)) * range_bytes;
  const bool averages_copies = recipe.optimizer.ema > 0.0 && gate;
  const int64_t averaging = averages_copies ? std::min(own, range_elements(device)) * int64_t{sizeof(float)} : 0;
  return std::max({making - whole, part, (gathers ? 0 : part) + update.temporary_bytes, averaging});
}

bool takes_norm(const Recipe& recipe, const Plan& plan) {
  return recipe.optimizer.clip > 0.0 || plan.layout.options.precision == Precision::fp16 || recipe.run.noise_scale;
}

/// Peak bytes of the squares for the norm of all gradients.
int64_t norm_bytes(const Recipe& recipe, const Plan& plan, int block) {
  const Program& program = *plan.program;
  const int64_t own = program.block_numel[block] / program.shards;
  return takes_norm(recipe, plan) ? squares_bytes(plan.costs->device(), own, program.gradient_bytes) : 0;
}

/// State and scratch of each block.
std::vector<BlockState> block_states(const Recipe& recipe, const Plan& plan) {
  const Program& program = *plan.program;
  const bool gate = reads_late(program, plan.costs->model_launches(plan.layout.micro_batch, plan.layout.options, plan.layout));
  std::vector<BlockState> states;
  for (const BlockUpdate& update : plan.costs->block_updates(program.gradient_bytes)) {
    const int block = static_cast<int>(states.size());
    states.push_back({update.states + (recipe.optimizer.ema > 0.0 ? 1 : 0), update.part_state, update.whole_state,
                      temporary_bytes(recipe, update, program, block, plan.costs->device(), gate),
                      norm_bytes(recipe, plan, block)});
  }
  return states;
}

/// Of a place on the pipeline axis, as of its first rank.
int64_t communication_bytes(const Recipe& recipe, const Plan& plan, int pp_rank, int ranks_per_host) {
  constexpr int kMostRanksOfAHost = 16;
  const int world = plan.program->world_size();
  const bool one_host = recipe.layout.backend == "shm";  // takes no other
  if (ranks_per_host == 0 && world > kMostRanksOfAHost && !one_host) return 0;
  std::vector<int> host_of_rank(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) host_of_rank[rank] = ranks_per_host == 0 ? 0 : rank / ranks_per_host;
  return group_buffer_bytes(recipe, plan, pp_rank * (world / plan.program->mesh.pp), host_of_rank);
}

}  // namespace

int64_t group_buffer_bytes(const Recipe& recipe, const Plan& plan, int rank, const std::vector<int>& host_of_rank) {
  const std::string& backend = recipe.layout.backend;
  if (backend == "gloo" || backend == "nccl" || plan.costs->device() == TargetDevice::gpu) return 0;
  const Program& program = *plan.program;
  const Ranks ranks(program);
  const bool rounds = recipe.layout.across_hosts != "exact" && program.gradient_bytes == 4;
  int64_t bytes = 0;
  for (const GroupSpec& spec : group_specs(program, program.pp_of(rank), rounds)) {
    if (spec.ranks == 1) continue;
    GroupOptions options;
    if (spec.message_bytes > 0) options.message_bytes = spec.message_bytes;
    const std::vector<int> members = ranks.members(rank, spec.axes.front(), spec.block);
    const auto near = static_cast<int>(
        std::count_if(members.begin(), members.end(), [&](int other) { return host_of_rank[other] == host_of_rank[rank]; }));
    bytes += near == std::ssize(members) ? shm_memory_bytes(near, options) : two_level_memory_bytes(near, options);
  }
  return bytes;
}

OffloadOptions::Beside in_own_memory(const Plan& plan) {
  if (plan.costs->device() != TargetDevice::cpu) return {};
  const LayoutOptions& options = plan.layout.options;
  return {.activations = options.offload_activations == Offload::host,
          .optimizer = options.offload_optimizer == Offload::host,
          .weights = options.offload_parameters == Offload::host};
}

MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int pp_rank, int ranks_per_host) {
  const LayoutOptions& options = plan.layout.options;
  const bool sums_on_device =
      plan.costs->device() == TargetDevice::gpu && recipe.layout.backend != "shm" && recipe.layout.backend != "gloo";
  return {.optimizer_states = num_states(plan.costs->optimizer()) + (recipe.optimizer.ema > 0.0 ? 1 : 0),
          .block_states = block_states(recipe, plan),
          .offload_optimizer = options.offload_optimizer != Offload::none,
          .offload_weights = options.offload_parameters != Offload::none,
          .in_own_memory = in_own_memory(plan),
          .communication_bytes = communication_bytes(recipe, plan, pp_rank, ranks_per_host),
          .state_copies = state_copies(recipe),
          .copies_sums = sums_on_device && (plan.layout.reproducible || recipe.run.reproducible_tp > 0),
          .device = plan.costs->device()};
}

int fullest_stage_rank(const std::vector<MemoryEstimate>& by_stage_rank) {
  const auto less = [](const MemoryEstimate& a, const MemoryEstimate& b) { return a.total() < b.total(); };
  return static_cast<int>(std::max_element(by_stage_rank.begin(), by_stage_rank.end(), less) - by_stage_rank.begin());
}

std::vector<MemoryEstimate> memory_by_stage_rank(const Recipe& recipe, const Plan& plan, int ranks_per_host) {
  std::vector<MemoryEstimate> estimates;
  estimates.reserve(plan.program->mesh.pp);
  const int stride = plan.program->world_size() / plan.program->mesh.pp;
  for (int pp = 0; pp < plan.program->mesh.pp; ++pp) {
    estimates.push_back(estimate_memory(*plan.program, pp * stride, memory_options(recipe, plan, pp, ranks_per_host)));
  }
  return estimates;
}

}  // namespace weft
