#include "weft/train/memory.h"

#include <algorithm>

#include "weft/comm/group.h"
#include "weft/train/groups.h"

namespace weft {

namespace {

/// Of the groups that train/groups.h makes, on a rank of this pipeline place. Shared memory is assumed where nothing else is
/// asked for and a host could hold the ranks.
int64_t communication_bytes(const Recipe& recipe, const Program& program, int place) {
  constexpr int kMostRanksOfAHost = 16;
  const bool other = recipe.layout.backend == "gloo" || recipe.layout.backend == "nccl";
  if (other || program.world_size() > kMostRanksOfAHost) return 0;
  const MeshSizes& mesh = program.mesh;
  const auto of = [](int ranks) { return ranks > 1 ? shm_memory_bytes(ranks) : 0; };
  int64_t bytes = of(mesh.data());
  if (program.shards > 1 && program.replicas > 1) bytes += of(program.shards) + of(program.replicas);
  if (program.inner_shards > 1) bytes += of(program.inner_shards);
  if (mesh.pp == 1) return bytes;
  bytes += shm_memory_bytes(mesh.pp, {.message_bytes = kPipelineMessageBytes});
  if (program.shards > 1) bytes += of(mesh.pp * program.shards);
  const bool world_is_model = program.shards > 1 && program.replicas == 1;
  if (mesh.data() > 1 && !world_is_model) bytes += of(program.world_size());
  for (const std::vector<int>& holders : program.holders) {
    const bool holds = std::find(holders.begin(), holders.end(), place) != holders.end();
    if (holds) bytes += of(static_cast<int>(holders.size()));
  }
  return bytes;
}

int optimizer_states(const OptimizerRecipe& optimizer) {
  if (optimizer.name == "adamw") return 2;
  return optimizer.momentum > 0.0 ? 1 : 0;
}

}  // namespace

MemoryOptions memory_options(const Recipe& recipe, const Plan& plan, int place) {
  const LayoutOptions& options = plan.layout.options;
  return {.optimizer_states = optimizer_states(recipe.optimizer),
          .offload_optimizer = options.offload_optimizer != Offload::none,
          .offload_weights = options.offload_parameters != Offload::none,
          .communication_bytes = communication_bytes(recipe, plan.program, place)};
}

int fullest_place(const std::vector<MemoryEstimate>& by_place) {
  const auto less = [](const MemoryEstimate& a, const MemoryEstimate& b) { return a.total() < b.total(); };
  return static_cast<int>(std::max_element(by_place.begin(), by_place.end(), less) - by_place.begin());
}

std::vector<MemoryEstimate> memory_by_place(const Recipe& recipe, const Plan& plan) {
  std::vector<MemoryEstimate> estimates;
  estimates.reserve(plan.program.mesh.pp);
  const int stride = plan.program.world_size() / plan.program.mesh.pp;
  for (int place = 0; place < plan.program.mesh.pp; ++place) {
    estimates.push_back(estimate_memory(plan.program, place * stride, memory_options(recipe, plan, place)));
  }
  return estimates;
}

RecipeMemory recipe_memory(const Recipe& recipe, int world_size) {
  RecipeMemory memory;
  memory.plan = plan(recipe, world_size);
  for (const BlockCost& block : memory.plan.cost.blocks) memory.parameters += block.parameters;
  memory.by_place = memory_by_place(recipe, memory.plan);
  memory.fullest = fullest_place(memory.by_place);
  return memory;
}

}  // namespace weft
