#include "weft/train/trainer/trainer_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/base/units.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/nn/model_buffers.h"
#include "weft/program/axis_names.h"
#include "weft/program/fingerprint.h"
#include "weft/program/limits.h"

namespace weft {

namespace {

std::string offloaded_text(const OffloadOptions& offload) {
  std::vector<std::string> all;
  if (offload.activations) all.emplace_back("activations");
  if (offload.optimizer) all.emplace_back("optimizer");
  if (offload.weights) all.emplace_back("parameters");
  return all.empty() ? "nothing" : fmt::format("{}", fmt::join(all, ", "));
}

std::string frame_text(const Program& program) {
  const int64_t elements = std::accumulate(program.block_numel.begin(), program.block_numel.end(), int64_t{0});
  const int64_t frozen = std::accumulate(program.block_frozen.begin(), program.block_frozen.end(), int64_t{0});
  return fmt::format(
      "{} blocks of {} elements and {} frozen ones, {} that steps may skip, sharded: {} over {} ({} kept), {} and {} "
      "bytes per element, {} micro-batches per rank in {}, {} norm, {} noise scale, {}, losses made by the {}, gradients "
      "reduced {}, offloaded: {}, "
      "on "
      "pp {} x dp {} x shard {} x cp {} x tp {}",
      program.num_blocks(), elements, frozen, counted(program.flagged, "parameter"), name(program.shard_level), program.shards,
      program.inner_shards, program.weight_bytes, program.gradient_bytes, program.micro_batches, counted(program.slots, "slot"),
      program.needs_norm ? "with" : "no", program.noise_scale ? "with" : "no", counted(program.votes, "vote"),
      program.head_takes_targets ? "last block" : "loss", program.keep_order ? "in a fixed order" : "as they come",
      offloaded_text(program.offload), program.mesh.pp, program.mesh.dp, program.mesh.shard, program.mesh.cp, program.mesh.tp);
}

}  // namespace

void check_frame(const Program& program, const Program& frame) {
  if (frame_fingerprint(program) == frame_fingerprint(frame)) return;
  const std::string given = frame_text(program), own = frame_text(frame);
  throw InputError(
      fmt::format("trainer: TrainerOptions::program was built for {}, but model, mesh and options give {}; plan it for "
                  "these, or leave it out",
                  given, given == own ? "blocks of other names, sizes or uses" : own));
}

void check_mesh(const Mesh& mesh) {
  const auto place = [](const std::string& name) { return std::find(kAxisNames.begin(), kAxisNames.end(), name); };
  for (const AxisSize& axis : mesh.axes()) {
    if (axis.size == 1 || place(axis.name) != kAxisNames.end()) continue;
    throw InputError(fmt::format("trainer: mesh axis '{}' has size {}; only {} may be above 1", axis.name, axis.size,
                                 fmt::join(kAxisNames, ", ")));
  }
  // The order of the axes decides which samples a rank reads, and in what order gradients are summed.
  std::vector<std::string> names;
  for (const AxisSize& axis : mesh.axes()) {
    if (axis.size > 1) names.push_back(axis.name);
  }
  if (!std::is_sorted(names.begin(), names.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); })) {
    throw InputError(fmt::format("trainer: a mesh with the axes {}; outermost first, they must be in the order {}",
                                 fmt::join(names, ", "), fmt::join(kAxisNames, ", ")));
  }
}

void check_parts(const Model& model, const LayoutOptions& layout) {
  if (!layout.recompute_parts) return;
  for (const NamedBlock& named : model.blocks) {
    if (named.block->can_recompute_parts()) return;
  }
  throw InputError(
      fmt::format("trainer: no block of model '{}' can recompute its attention; recompute whole blocks", model.name));
}

void check_buffers(const Model& model) {
  for (const ModelBuffer& buffer : buffers_of(model)) {
    if (safetensors_type(buffer.type) != nullptr) continue;
    throw InputError(
        fmt::format("trainer: buffer '{}' is {}, which checkpoints cannot store; use another type "
                    "(two real buffers for a complex one)",
                    buffer.name, c10::toString(buffer.type)));
  }
}

void check_tensors(const Model& model) {
  for (const NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      const at::Tensor& value = spec.parameter->value;
      if (value.is_meta() || !value.is_inference()) continue;
      throw InputError(
          fmt::format("model: parameter '{}{}{}' was made in inference mode, so it cannot have a gradient; make the model "
                      "outside of InferenceMode",
                      named.prefix, named.prefix.empty() ? "" : ".", spec.name));
    }
  }
}

bool trains(const Model& model) {
  const auto is_trained = [](const ParamSpec& spec) {
    return !spec.frozen && !spec.statistic && spec.parameter->value.numel() > 0;
  };
  for (const NamedBlock& named : model.blocks) {
    const std::vector<ParamSpec> specs = named.block->parameters();
    if (std::any_of(specs.begin(), specs.end(), is_trained)) return true;
  }
  return false;
}

namespace {

/// A rank's slots are the pieces of its single micro-batch.
void check_joined_slots(const TrainerOptions& options, int ranks) {
  const int64_t slots = options.reproducible_slots, share = options.global_batch / ranks;
  if (is_power_of_two(slots) && slots % ranks == 0 && share % (slots / ranks) == 0 && options.micro_batch == share) return;
  throw InputError(
      fmt::format("trainer: {} reproducible slots with sync_batch_norm; they must be a power of two, a multiple of the "
                  "data-parallel ranks ({}) and a divisor of the global batch ({}), and a rank's samples must be one "
                  "micro-batch ({}, not {})",
                  slots, ranks, options.global_batch, share, options.micro_batch));
}

}  // namespace

namespace {

void check_one_batch(const TrainerOptions& options, int ranks) {
  if (options.global_batch < 1 || options.micro_batch < 1) {
    throw InputError(fmt::format("trainer: a global batch of {} with micro-batches of {}; both must be at least 1",
                                 options.global_batch, options.micro_batch));
  }
  int64_t unit = 0;
  if (__builtin_mul_overflow(options.micro_batch, ranks, &unit)) {
    throw InputError(fmt::format("trainer: micro-batches of {} on {} data-parallel ranks exceed the range of counts",
                                 options.micro_batch, ranks));
  }
  if (options.global_batch % unit != 0) {
    throw InputError(fmt::format(
        "trainer: global batch {} is not divisible by {} data-parallel ranks with micro-batches of {}; use a multiple of {}",
        options.global_batch, ranks, options.micro_batch, unit));
  }
  if (options.global_batch / unit > std::numeric_limits<int>::max()) {
    throw InputError(
        fmt::format("trainer: a global batch of {} in micro-batches of {} has too many of them to count; use "
                    "larger ones",
                    options.global_batch, options.micro_batch));
  }
  const int64_t slots = options.reproducible_slots;
  if (slots != 0 && options.layout.sync_batch_norm != SyncBatchNorm::none) {
    check_joined_slots(options, ranks);
    return;
  }
  const int64_t micro_batches = options.global_batch / options.micro_batch;
  if (slots != 0 && (!is_power_of_two(slots) || slots % ranks != 0 || micro_batches % slots != 0)) {
    throw InputError(
        fmt::format("trainer: {} reproducible slots; must be a power of two that the data-parallel ranks ({}) divide, and that "
                    "divides the micro-batches per step ({})",
                    slots, ranks, micro_batches));
  }
}

}  // namespace

void check_votes(const Votes& votes) {
  if (votes.count >= 0 && votes.count <= kMostVotes) return;
  throw InputError(fmt::format("trainer: votes.count = {}; must be 0 to {}", votes.count, kMostVotes));
}

void check_histograms(const TrainerOptions& options) {
  if (!options.graph || options.histograms_every == 0) return;
  throw InputError("trainer: histograms_every with graph: a replayed step keeps no gradients; leave one of them out");
}

void check_batch(const TrainerOptions& options, int ranks) {
  check_one_batch(options, ranks);
  for (size_t i = 0; i < options.ramp.size(); ++i) {
    const BatchPhase& phase = options.ramp[i];
    const int64_t next = i + 1 < options.ramp.size() ? options.ramp[i + 1].global_batch : options.global_batch;
    if (phase.steps < 1 || phase.global_batch > next) {
      throw InputError(fmt::format(
          "trainer: phase {} of the batch ramp has {} of {} samples, followed by {}; it must have at least one step, "
          "and its batch must not exceed the next",
          i + 1, counted(phase.steps, "step"), phase.global_batch, next));
    }
    TrainerOptions alone = options;
    alone.global_batch = phase.global_batch;
    try {
      check_one_batch(alone, ranks);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{} (phase {} of the batch ramp)", error.what(), i + 1));
    }
  }
}

void check_same_memory(const Program& program, const Program& phase) {
  const auto same = [](const Buffers& a, const Buffers& b) { return a.weight == b.weight && a.gradient == b.gradient; };
  if (program.holders == phase.holders && program.list_of_rank == phase.list_of_rank &&
      std::equal(program.buffers.begin(), program.buffers.end(), phase.buffers.begin(), phase.buffers.end(), same)) {
    return;
  }
  throw InputError(
      fmt::format("trainer: the batch ramp's program for {} per rank places blocks or buffers differently "
                  "from the last phase's; plan it with the buffers of the last phase (StepLayout::buffers)",
                  counted(phase.micro_batches, "micro-batch", "es")));
}

void check_micro_batch(const Batch& batch, int64_t samples) {
  const std::string misfit = samples_misfit(batch, samples);
  if (misfit.empty()) return;
  throw InputError(fmt::format("trainer: {} in a micro-batch, must have {}; make the loader with trainer.loader_options()",
                               misfit, samples));
}

}  // namespace weft
