#include "weft/train/run/from_recipe.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "weft/base/environment.h"

namespace weft {

namespace {

Decay decay_of(const std::string& name) {
  if (name == "linear") return Decay::linear;
  if (name == "cosine") return Decay::cosine;
  if (name == "step") return Decay::step;
  return Decay::constant;
}

BackendKind backend_of(const std::string& name) {
  if (name == "shm") return BackendKind::shm;
  if (name == "gloo") return BackendKind::gloo;
  if (name == "nccl") return BackendKind::nccl;
  return BackendKind::automatic;
}

}  // namespace

int threads_of(const Recipe& recipe, const World& world) {
  if (recipe.run.threads) return static_cast<int>(*recipe.run.threads);
  if (recipe.run.reproducible_slots > 0) return 1;
  if (const auto threads = env_int("OMP_NUM_THREADS")) return static_cast<int>(std::max<int64_t>(1, *threads));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / world.local_size());
}

OptimizerOptions optimizer_of(const OptimizerRecipe& o) {
  if (o.name == "sgd") return Sgd{.lr = o.lr, .momentum = o.momentum, .weight_decay = o.weight_decay, .nesterov = o.nesterov};
  return AdamW{.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay};
}

LoaderOptions loader_options(const Recipe& recipe, const ResolvedLayout& layout, int shard) {
  return {.global_batch = layout.global_batch,
          .micro_batch = layout.micro_batch,
          .shard = shard,
          .num_shards = layout.data_ranks(),
          .timeout_s = recipe.run.timeout_s};
}

TrainerOptions trainer_options(const Recipe& recipe, const ResolvedLayout& layout, at::Device device) {
  const OptimizerRecipe& o = recipe.optimizer;
  return {.global_batch = layout.global_batch,
          .micro_batch = layout.micro_batch,
          .learning_rate = {.peak = o.lr,
                            .warmup = o.warmup,
                            .steps = recipe.run.steps,
                            .decay = decay_of(o.decay),
                            .final_share = o.final_lr,
                            .decay_every = std::max<int64_t>(1, o.decay_every),
                            .decay_factor = o.decay_factor},
          .clip = o.clip,
          .seed = recipe.run.seed,
          .reproducible_slots = static_cast<int>(recipe.run.reproducible_slots),
          .bucket_bytes = layout.counts.bucket_bytes,
          .layout = layout.options,
          .communication = {.backend = backend_of(recipe.layout.backend),
                            .device = device,
                            .timeout = std::chrono::milliseconds(static_cast<int64_t>(recipe.run.timeout_s * 1e3))}};
}

}  // namespace weft
