#include "weft/train/run/options_of_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/slurm_step.h"
#include "weft/base/time_limit.h"
#include "weft/train/process/device.h"

namespace weft {

namespace {

BackendKind backend_of(const Recipe& recipe) { return kBackends.value_of(recipe.layout.backend, "layout.backend"); }

}  // namespace

int threads_of(const Recipe& recipe, const World& world) {
  if (recipe.run.threads) return static_cast<int>(*recipe.run.threads);
  if (recipe.run.reproducible_slots > 0 || recipe.run.reproducible_tp > 0) return 1;
  if (const auto threads = omp_num_threads()) return *threads;
  // Cores given by SLURM are this rank's own, even if the affinity mask shows more; a launcher's ranks have OMP_NUM_THREADS.
  if (const auto cores = slurm_cores_per_task()) return std::max(1, *cores);
  return threads_per_rank(available_cores(), world.local_size());
}

std::chrono::milliseconds timeout_of(const Recipe& recipe) { return time_limit(recipe.run.timeout_s); }

std::vector<AxisSize> mesh_axes(const ResolvedLayout& layout) {
  return {{"pp", layout.pp}, {"dp", layout.dp}, {"shard", layout.shard}, {"cp", layout.cp}, {"tp", layout.tp}};
}

LoaderOptions loader_options(const Recipe& recipe, const ResolvedLayout& layout, int shard) {
  return {.global_batch = layout.global_batch,
          .micro_batch = layout.micro_batch,
          .shard = shard,
          .num_shards = layout.data_ranks(),
          .workers = static_cast<int>(recipe.data.workers),
          .timeout_s = recipe.run.timeout_s};
}

namespace {

double factor_of(const Recipe& recipe, int64_t batch) {
  return rate_factor(kRateScalings.value_of(recipe.optimizer.scale_lr, "optimizer.scale_lr"), batch,
                     std::max<int64_t>(1, recipe.batch.reference));
}

double warmup_share_of(const Recipe& recipe, double factor) {
  return recipe.optimizer.warmup_from == "reference" ? std::min(1.0, 1.0 / factor) : 0.0;
}

}  // namespace

LearningRate learning_rate_of(const Recipe& recipe, const RunLengths& lengths) {
  const OptimizerRecipe& o = recipe.optimizer;
  const double factor = factor_of(recipe, recipe.batch.global);
  return {.peak = o.lr * factor,
          .warmup = lengths.warmup,
          .warmup_share = warmup_share_of(recipe, factor),
          .steps = lengths.steps,
          .decay = kDecays.value_of(o.decay, "optimizer.decay"),
          .final_share = o.final_lr,
          .decay_every = std::max<int64_t>(1, lengths.decay_every),
          .decay_factor = o.decay_factor};
}

std::vector<RatePhase> rate_phases_of(const Recipe& recipe) {
  std::vector<RatePhase> phases;
  if (recipe.optimizer.scale_lr == "none") return phases;
  phases.reserve(recipe.batch.ramp.size());
  int64_t step = 0;
  for (const BatchPhase& phase : recipe.batch.ramp) {
    const double factor = factor_of(recipe, phase.global_batch);
    step += phase.steps;
    phases.push_back(
        {.before_step = step, .peak = recipe.optimizer.lr * factor, .warmup_share = warmup_share_of(recipe, factor)});
  }
  return phases;
}

WeightsOptions weights_options(const ModelRecipe& model) {
  WeightsOptions options;
  if (!model.weight_names.empty()) options.names = WeightNames::from_file(model.weight_names);
  std::istringstream patterns(model.weights_skip);
  for (std::string pattern; std::getline(patterns >> std::ws, pattern, ',');) {
    pattern.erase(pattern.find_last_not_of(' ') + 1);
    options.skip.push_back(pattern);
  }
  return options;
}

std::string learning_rate_rule(const Recipe& recipe) {
  const std::string& rule = recipe.optimizer.scale_lr;
  if (rule == "none") return {};
  const std::string factor = fmt::format("{} / {}", recipe.batch.global, recipe.batch.reference);
  return fmt::format("{} x {} ({})", recipe.optimizer.lr, rule == "sqrt" ? "sqrt(" + factor + ")" : factor, rule);
}

at::Device device_of(const Recipe& recipe, const World& world) {
  const BackendKind backend = backend_of(recipe);
  const at::Device device = rank_device(recipe.run.device, world, backend);
  if (backend == BackendKind::nccl && device.is_cpu()) {
    throw InputError(
        fmt::format("layout.backend = \"nccl\" moves tensors of GPUs, but LibTorch sees none for run.device = \"{}\" here",
                    recipe.run.device));
  }
  return device;
}

TrainerOptions trainer_options(const Recipe& recipe, const ResolvedLayout& layout, at::Device device) {
  return {.global_batch = layout.global_batch,
          .micro_batch = layout.micro_batch,
          .parameters = recipe.optimizer.groups,
          .average = {.decay = recipe.optimizer.ema, .warmup = recipe.optimizer.ema_warmup},
          .clip = recipe.optimizer.clip,
          .seed = recipe.run.seed,
          .reproducible_slots = static_cast<int>(recipe.run.reproducible_slots),
          .reproducible_tp = static_cast<int>(recipe.run.reproducible_tp),
          .noise_scale = recipe.run.noise_scale,
          .bucket_bytes = layout.bucket_bytes,
          .layout = layout.options,
          .graph = recipe.run.graph,
          .votes = {.count = layout.votes},
          .communication = {.backend = backend_of(recipe),
                            .device = device,
                            .across_hosts = kAcrossHosts.value_of(recipe.layout.across_hosts, "layout.across_hosts"),
                            .timeout = timeout_of(recipe)}};
}

TrainerOptions trainer_options(const Recipe& recipe, const Plan& plan, const RunLengths& lengths, at::Device device) {
  TrainerOptions options = trainer_options(recipe, plan.layout, device);
  options.program = plan.program;
  options.ramp = recipe.batch.ramp;
  options.ramp_programs = plan.ramp;
  options.program_is_verified = true;
  options.learning_rate = learning_rate_of(recipe, lengths);
  options.rate_phases = rate_phases_of(recipe);
  options.audit_every = lengths.audit_every;
  return options;
}

}  // namespace weft
