#include "weft/train/memory.h"

#include "weft/comm/group.h"
#include "weft/program/verify.h"
#include "weft/train/build_model.h"

namespace weft {

namespace {

/// As Trainer makes them: one over all data-parallel ranks, and one an axis where a hybrid has two. Shared memory is assumed
/// where nothing else is asked for and a host could hold the ranks.
int64_t communication_bytes(const Recipe& recipe, const Program& program) {
  constexpr int kMostRanksOfAHost = 16;
  const bool other = recipe.layout.backend == "gloo" || recipe.layout.backend == "nccl";
  if (other || program.world_size() > kMostRanksOfAHost) return 0;
  int64_t bytes = shm_memory_bytes(program.world_size());
  if (program.shards > 1 && program.replicas > 1)
    bytes += shm_memory_bytes(program.shards) + shm_memory_bytes(program.replicas);
  if (program.inner_shards > 1) bytes += shm_memory_bytes(program.inner_shards);
  return bytes;
}

int optimizer_states(const OptimizerRecipe& optimizer) {
  if (optimizer.name == "adamw") return 2;
  return optimizer.momentum > 0.0 ? 1 : 0;
}

}  // namespace

RecipeMemory recipe_memory(const Recipe& recipe, int world_size) {
  RecipeMemory memory;
  memory.layout = resolve(recipe, world_size);
  const bool reproducible = recipe.run.reproducible_slots > 0;
  const ModelCost cost = model_cost(recipe, memory.layout.micro_batch, memory.layout.options, reproducible);
  for (const BlockCost& block : cost.blocks) memory.parameters += block.parameters;
  memory.program = build_program(cost, memory.layout.step);
  verify(memory.program);
  const LayoutOptions& options = memory.layout.options;
  memory.estimate = estimate_memory(memory.program, 0,
                                    {.optimizer_states = optimizer_states(recipe.optimizer),
                                     .offload_optimizer = options.offload_optimizer != Offload::none,
                                     .offload_weights = options.offload_parameters != Offload::none,
                                     .communication_bytes = communication_bytes(recipe, memory.program)});
  return memory;
}

}  // namespace weft
