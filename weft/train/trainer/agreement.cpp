#include "weft/train/trainer/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <type_traits>
#include <variant>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/units.h"
#include "weft/comm/store/store.h"
#include "weft/comm/wait/await.h"
#include "weft/nn/model_buffers.h"
#include "weft/program/fingerprint.h"

namespace weft {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string difference(const std::string& first, const std::string& own, int rank) {
  const std::vector<std::string> theirs = lines_of(first), ours = lines_of(own);
  std::string text;
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string their_line = i < theirs.size() ? theirs[i] : "nothing", our_line = i < ours.size() ? ours[i] : "nothing";
    if (their_line != our_line) text += fmt::format("; rank 0 has {}, rank {} has {}", their_line, rank, our_line);
  }
  return text;
}

std::string phases_text(const std::vector<RatePhase>& phases) {
  std::string text;
  for (const RatePhase& phase : phases) {
    text += fmt::format(", before step {} peak {} from {} of it", phase.before_step, phase.peak, phase.warmup_share);
  }
  return text;
}

std::string options_text(const TrainerOptions& options, const OptimizerOptions& optimizer) {
  const LearningRate& rate = options.learning_rate;
  return fmt::format(
      "batch: {} in micro-batches of {}\n"
      "seed: {}\n"
      "precision: {}\n"
      "inside layers: sequence_parallel {}, tp_chunks {}, loss_chunk {}, context_attention {}, sync_batch_norm {}\n"
      "optimizer: {}\n"
      "parameters by name: {}\n"
      "average of the weights: {}\n"
      "learning rate: peak {}, {} steps of warm-up from {} of it, decay {} over {} to {}, every {} by {}{}\n"
      "clip: {}\n"
      "steps as a graph: {}, rates in float32: {}\n"
      "audit: every {} steps, histograms: every {} steps\n",
      options.global_batch, options.micro_batch, options.seed, name(options.layout.precision), options.layout.sequence_parallel,
      options.layout.tp_chunks, options.layout.loss_chunk, kContextMethods.of(options.layout.attention_over),
      kSyncBatchNorms.of(options.layout.sync_batch_norm), optimizer_text(optimizer),
      options.parameters.empty() ? "all alike" : rules_text(options.parameters), options.average.text(), rate.peak, rate.warmup,
      rate.warmup_share, static_cast<int>(rate.decay), rate.steps, rate.final_share, rate.decay_every, rate.decay_factor,
      phases_text(options.rate_phases), options.clip, options.graph, options.graph || options.float32_rates,
      options.audit_every, options.histograms_every);
}

/// Empty without a ramp.
std::string ramp_text(const BatchRamp& ramp, const std::vector<std::shared_ptr<const Program>>& programs) {
  std::string text;
  for (size_t i = 0; i < ramp.size(); ++i) {
    text += fmt::format("phase {} of the batch ramp: {} of {}, fingerprint {:016x}\n", i + 1, counted(ramp[i].steps, "step"),
                        ramp[i].global_batch, fingerprint(*programs[i]));
  }
  return text;
}

/// Names, shapes and types; the values come from rank 0.
uint64_t buffers_fingerprint(const Model& model) {
  std::string text;
  for (const ModelBuffer& buffer : buffers_of(model)) {
    text += fmt::format("{} [{}] {}{}\n", buffer.name, fmt::join(buffer.shape, ", "), c10::toString(buffer.type),
                        buffer.counts ? " counts" : "");
  }
  return fnv1a(text);
}

std::string model_options_text(const Model& model) {
  std::string text;
  for (const ModelOption& option : model.options) text += fmt::format("model.{}: {}\n", option.name, option.value);
  return text;
}

void agree(const World& world, Store& store, const std::string& plan, const Deadline& deadline) {
  const auto wait_for = [&](const std::string& key, int rank) {
    return await_key(store, key, deadline, wait_for_rank(rank, "starting to train"));
  };
  const auto agrees = [](int rank) { return fmt::format("rank {} agrees", rank); };
  if (world.rank() == 0) {
    store.set("plan", plan);
    for (int rank = 1; rank < world.size(); ++rank) wait_for(agrees(rank), rank);
    store.set("all agree", "");
    return;
  }
  const std::string first = wait_for("plan", 0);
  if (first != plan) {
    throw InputError(
        fmt::format("rank {} would train differently from rank 0{}; start all ranks with the same recipe and files",
                    world.rank(), difference(first, plan, world.rank())));
  }
  store.set(agrees(world.rank()), "");
  wait_for("all agree", 0);
}

}  // namespace

std::vector<uint64_t> parameter_fingerprints(const Model& model) {
  std::vector<uint64_t> result;
  for (const NamedBlock& named : model.blocks) {
    std::string text = named.prefix;
    for (const ParamSpec& spec : named.block->parameters()) {
      text += fmt::format("\n{} [{}] {} {} {} {}{}{}{}", spec.name, fmt::join(spec.parameter->value.sizes(), ", "),
                          static_cast<int>(spec.init.kind), spec.init.a, spec.init.b, spec.decay ? "decays " : "",
                          spec.statistic ? "statistic " : "", spec.wide ? "wide " : "", spec.frozen ? "frozen" : "");
    }
    result.push_back(fnv1a(text));
  }
  return result;
}

std::string agreement_text(const std::vector<std::shared_ptr<const Program>>& programs, const Model& model,
                           const TrainerOptions& options, const OptimizerOptions& optimizer) {
  const Program& program = *programs.back();
  const MeshSizes& mesh = program.mesh;
  uint64_t parameters = kFnvBasis;
  for (const uint64_t block : parameter_fingerprints(model)) parameters = splitmix64(parameters ^ block);
  size_t instructions = 0;
  for (const InstructionList& list : program.lists) instructions += list.size();
  return fmt::format(
             "ranks: pp {} x dp {} x shard {} x cp {} x tp {}\n"
             "model: {} blocks, {} elements\n"
             "parameters (their names, shapes, and which are frozen): fingerprint {:016x}\n"
             "buffers (their names, shapes and types): fingerprint {:016x}\n{}"
             "micro-batches: {} per rank, in {}\n"
             "sharded: {}\n"
             "bytes per element: {} of weights, {} of gradients\n"
             "reproducible slots: {}, sums {}\n"
             "reproducible parts of tp: {}\n"
             "instructions: {} of all pipeline ranks, fingerprint {:016x}\n",
             mesh.pp, mesh.dp, mesh.shard, mesh.cp, mesh.tp, program.num_blocks(),
             std::accumulate(program.block_numel.begin(), program.block_numel.end(), int64_t{0}), parameters,
             buffers_fingerprint(model), model_options_text(model), program.micro_batches, counted(program.slots, "slot"),
             name(program.shard_level), program.weight_bytes, program.gradient_bytes, options.reproducible_slots,
             options.reproducible_slots > 0 || options.communication.tree_order ? "in tree order" : "in any order",
             options.reproducible_tp, instructions, fingerprint(program)) +
         ramp_text(options.ramp, programs) + options_text(options, optimizer) + options.agreement;
}

void check_agreement(const World& world, const std::string& plan, std::chrono::milliseconds timeout) {
  if (world.size() == 1) return;
  const Deadline deadline = timeout;
  Store store = world.next_group_store().within(deadline);
  try {
    agree(world, store, plan, deadline);
  } catch (const Error& error) {
    report_failure(store, error);
    throw;
  }
}

}  // namespace weft
