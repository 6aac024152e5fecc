#include "weft/train/trainer/trainer_state.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include <exception>
#include <optional>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/units.h"
#include "weft/engine/host_store.h"
#include "weft/engine/pinned_store.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/optim/block_update.h"
#include "weft/program/build/build.h"
#include "weft/program/check_program.h"
#include "weft/program/verify/verify.h"
#include "weft/train/trainer/agreement.h"
#include "weft/train/trainer/trainer_buffers.h"
#include "weft/train/trainer/trainer_checks.h"

namespace weft {

namespace {

std::string offload_folder(const LayoutOptions& layout) {
  if (!layout.offload_folder.empty()) return layout.offload_folder;
  return env_string("TMPDIR").value_or("/var/tmp");
}

/// Stores share a device's streams, whose links are one each way too.
OffloadStores make_offload_stores(const LayoutOptions& layout, at::Device device) {
  std::optional<CopyStreams> streams;
  const auto make = [&](Offload kind, MemoryCategory of) -> std::shared_ptr<OffloadStore> {
    if (kind == Offload::none) return nullptr;
    if (kind == Offload::disk) return disk_offload(offload_folder(layout));
    if (!at::accelerator::isAccelerator(device.type())) return host_offload(of);
    if (!streams) streams.emplace(device);
    return pinned_offload(*streams);
  };
  return {.activations = make(layout.offload_activations, MemoryCategory::activations),
          .weights = make(layout.offload_parameters, MemoryCategory::weights),
          .optimizer = make(layout.offload_optimizer, MemoryCategory::optimizer)};
}

}  // namespace

/// Wraps the caller's function, which must run in the caller's thread state.
Votes TrainerState::own_votes() {
  Votes votes = options.votes;
  if (votes.of_rank) votes.of_rank = [this] { return own_thread->as_caller(options.votes.of_rank); };
  return votes;
}

StepCounts TrainerState::counts(int phase) const {
  const int pieces = batch_pieces();
  const int64_t global_batch = batches.of_phase(phase);
  const int sample_ranks = data_ranks * (options.layout.master ? mesh.size("pp") : 1);
  return {.pp = mesh.size("pp"),
          .dp = mesh.size("dp"),
          .shard = mesh.size("shard"),
          .cp = mesh.size("cp"),
          .tp = mesh.size("tp"),
          .reproducible_tp = options.reproducible_tp,
          .micro_batches = static_cast<int>(global_batch / options.micro_batch / data_ranks),
          .slots = reproducible() ? options.reproducible_slots / sample_ranks / pieces : 1,
          .batch_pieces = pieces,
          .reproducible = reproducible(),
          .bucket_bytes = options.bucket_bytes,
          .clip = options.clip > 0.0,
          .tensor_norms = needs_tensor_norms(optimizer),
          .noise_scale = options.noise_scale && has_small_batches(global_batch, options.micro_batch),
          .votes = options.votes.count,
          .on_device = !options.communication.device.is_cpu()};
}

/// The given program, or a new one. Execution needs only the order, so a new one has no costs. A ramp's phases use the buffers
/// of the last one, which hold the model.
std::shared_ptr<const Program> TrainerState::plan_phase(const ModelCost& cost, int phase,
                                                        const std::shared_ptr<const Program>& given) const {
  if (given) {
    options.program_is_verified ? check_program(*given) : verify(*given);
    check_frame(*given, frame_program(cost, layout_without_schedule(options.layout, counts(phase))));
    if (program) check_same_memory(*program, *given);
    return given;
  }
  StepLayout layout = step_layout(options.layout, counts(phase));
  if (program) layout.buffers = program->buffers;
  Program result = build_program(cost, layout);
  verify(result);
  return std::make_shared<const Program>(std::move(result));
}

void TrainerState::plan() {
  const BlockLayout layout = block_layout(options.layout, mesh.size("tp"), batch_pieces());
  ModelCost cost{.name = pending->name, .blocks = {}, .input_bytes = 0, .head_takes_targets = layout.loss_chunk > 0};
  const std::vector<BlockUpdate> updates =
      block_updates(*pending, optimizer, options.parameters, gradient_bytes(options.layout, reproducible()));
  for (const NamedBlock& named : pending->blocks) {
    cost.blocks.push_back({.name = named.name,
                           .tensors = static_cast<int64_t>(named.block->parameters().size()),
                           .flagged = num_flagged(*named.block),
                           .numel = flat_numel(*named.block),
                           .uses = named.uses,
                           .splits = splits_backward(*named.block, layout),
                           .frozen_numel = frozen_numel(*named.block),
                           .states = updates[cost.blocks.size()].states + (options.average.is_kept() ? 1 : 0),
                           .part_state = updates[cost.blocks.size()].part_state,
                           .gathered_gradient_bytes = updates[cost.blocks.size()].gathered_bytes});
  }
  const int last = batches.num_phases() - 1;
  const std::vector<std::shared_ptr<const Program>>& given = options.ramp_programs;
  if (options.program && given.size() != options.ramp.size()) {
    throw InputError(fmt::format("trainer: its options hold {} for the {} of a batch ramp; plan one per phase",
                                 counted(static_cast<int64_t>(given.size()), "program"),
                                 counted(static_cast<int64_t>(options.ramp.size()), "phase")));
  }
  program = plan_phase(cost, last, options.program);
  programs.assign(batches.num_phases(), program);
  for (int earlier = 0; earlier < last; ++earlier) {
    programs[earlier] = plan_phase(cost, earlier, options.program ? given[earlier] : nullptr);
  }
  phase = last;
}

void TrainerState::enter_phase() {
  const int due = batches.phase_at(steps_done);
  const auto micro_batches = static_cast<int64_t>(programs[due]->micro_batches);
  const BatchShare share = {.first_micro_batch = micro_batches * data_rank,
                            .all_micro_batches = micro_batches * data_ranks,
                            .first_step = batches.first_step(due),
                            .first_sample = batches.samples_before(batches.first_step(due)) + shift};
  const bool is_in_it = due == std::exchange(phase, due) && shift == engine_shift;
  engine_shift = shift;
  if (!is_in_it) engine->change(*programs[due], share);
}

TrainerState::~TrainerState() {
  if (attempts.failed() || std::uncaught_exceptions() > 0) saving.abandon();
}

void TrainerState::start() {
  if (engine) return;
  const MemoryLedger::Attached attached(options.ledger);
  const MemoryScope scope(MemoryCategory::weights);
  settings = kernel_settings();
  std::string agreement = agreement_text(programs, *pending, options, optimizer) + kernel_settings_text(settings);
  if (reproducible()) agreement += fmt::format("threads per rank: {}\n", threads);
  check_agreement(mesh.world(), agreement, options.communication.timeout);
  check_still_frozen();
  GroupOptions communication = options.communication;
  communication.tree_order = communication.tree_order || reproducible() || options.reproducible_tp > 0;
  {
    const MemoryScope staged(MemoryCategory::communication);
    groups = make_groups(mesh, *program, communication, audit ? audit->calls() : nullptr);
  }
  if (options.ledger) {
    for (const Group& group : groups.by_axes.all()) options.ledger->add(MemoryCategory::communication, group.memory_bytes());
  }
  model = std::make_unique<FlatModel>(std::move(*pending), flat_memory(*program, rank, mesh, groups.by_axes, options));
  share_given(*model, groups.by_axes);
  pending.reset();
  const LayoutOptions& layout = options.layout;
  updater = std::make_unique<StepUpdater>(*model, optimizer, options.parameters, options.clip,
                                          layout.precision == Precision::fp16, options.average);
  if (options.evidence) options.evidence->set_blocks(program->block_names);
  engine = std::make_unique<Engine>(
      *model, *program, rank, *updater,
      EngineOptions{.groups = groups.by_axes,
                    .offload = make_offload_stores(layout, options.communication.device),
                    .seed = options.seed,
                    .blocks = block_layout(layout, mesh.size("tp"), batch_pieces()),
                    .votes = own_votes(),
                    .first_micro_batch = static_cast<int64_t>(program->micro_batches) * data_rank,
                    .all_micro_batches = static_cast<int64_t>(program->micro_batches) * data_ranks,
                    .micro_batch = options.micro_batch,
                    .first_step = batches.first_step(phase),
                    .first_sample = batches.samples_before(batches.first_step(phase)),
                    .current = options.evidence ? options.evidence->current() : std::make_shared<CurrentInstruction>()});
  if (options.graph) engine->use_graph();
  if (options.graph || options.float32_rates) updater->use_float32_rates();
  if (at::accelerator::isAccelerator(options.communication.device.type()))
    uploads = std::make_shared<Uploads>(options.communication.device);
  updater->before_change([this](int block) {
    if (audit) audit->before_change(block);
    const bool keeps = options.histograms_every > 0 && (steps_done + 1) % options.histograms_every == 0;
    if (keeps && block >= 0) kept_gradients.keep(*model, block, steps_done);
  });
  engine->initialise();
  if (options.average.is_kept()) {
    engine->fill_state([this](int block, std::vector<at::Tensor>& state) { start_average(block, state); });
  }
}

/// The program is as old as the trainer, and knows what was frozen then.
void TrainerState::check_still_frozen() const {
  const std::vector<uint64_t> now = parameter_fingerprints(*pending);
  for (int b = 0; b < program->num_blocks(); ++b) {
    if (now[b] == parameters[b]) continue;
    throw InputError(
        fmt::format("trainer: parameters or frozen parameters of block '{}' have changed since the trainer was made; "
                    "set requires_grad before that",
                    program->block_names[b]));
  }
}

namespace {

/// Bound parameters must not change: which ones are trained is fixed, and only the bound memory is used.
void check_bound(FlatModel& model) {
  for (const Param& param : model.params()) {
    if (!model.holds(param.block) || param.numel == 0) continue;
    const at::Tensor& value = param.parameter->value;
    FlatBlock& flat = model.flat(param.block);
    const bool trained = is_trained(param.group), frozen = param.group == ParamGroup::frozen;
    if (value.requires_grad() != trained) {
      throw InputError(fmt::format(
          "trainer: requires_grad_() of parameter '{}' was called after the start, when it was {}; call it before the "
          "trainer is made, or make a new one",
          param.name, trained ? "trained" : "not trained"));
    }
    if (value.is_alias_of(param.wide ? flat.wide_statistics : frozen ? flat.frozen.weights : flat.weights)) continue;
    throw InputError(
        fmt::format("trainer: parameter '{}' was given memory of its own after the start (set_data(), or to() of its module), "
                    "which is not trained; leave the model as it is, or make a new trainer",
                    param.name));
  }
}

}  // namespace

void TrainerState::check_caller() const {
  expect_between_steps();
  refuse_autocast(options.communication.device);
  if (!engine) return;
  check_kernel_settings(settings);
  check_bound(*model);
}

void TrainerState::expect_between_steps() const {
  if (!hands_out) return;
  throw InputError(
      "trainer: the function that hands out a step's micro-batches steps, evaluates, predicts, loads or exchanges weights; "
      "do that between steps");
}

}  // namespace weft
