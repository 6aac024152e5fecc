#include "weft/train/trainer/trainer.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/optim/freeze.h"
#include "weft/plan/layout/composition.h"
#include "weft/train/trainer/agreement.h"
#include "weft/train/trainer/gather_times.h"
#include "weft/train/trainer/rank_batch.h"
#include "weft/train/trainer/trainer_checks.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {

namespace {

double lr_of(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.lr; }, optimizer);
}

/// Returns the whole parameter, on the CPU, from the parts of its block on each tp rank.
at::Tensor join_parts(const Param& param, const at::Tensor& parts) {
  const at::Tensor of_param = parts.narrow(1, param.offset, param.numel).cpu();
  if (!param.split) return of_param[0].view(param.shape);
  const at::Tensor whole = at::zeros(param.shape, of_param.options());
  Split split = *param.split;
  for (split.part = 0; split.part < split.parts; ++split.part) put_part(whole, of_param[split.part], split);
  return whole;
}

}  // namespace

Trainer::Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
    : state_(std::make_unique<TrainerState>(mesh, with_rules(std::move(model), options.parameters), optimizer, options)) {
  const Axis axis = mesh.join({"dp", "shard"});
  state_->data_ranks = axis.size();
  state_->data_rank = axis.index;
  state_->rank =
      ((mesh.coordinate("pp") * axis.size() + axis.index) * mesh.size("cp") + mesh.coordinate("cp")) * mesh.size("tp") +
      mesh.coordinate("tp");
  check_mesh(mesh);
  check_batch(options, axis.size() * (options.layout.master ? mesh.size("pp") : 1));
  check_layout(options.layout, options.reproducible_slots > 0);
  check_average(options.average);
  check_votes(options.votes);
  check_optimizer(optimizer);
  check_parts(*state_->pending, options.layout);
  check_buffers(*state_->pending);
  check_tensors(*state_->pending);
  check_composition(facts_of(*state_->pending, options.layout,
                             {.dp = mesh.size("dp"),
                              .shard = mesh.size("shard"),
                              .cp = mesh.size("cp"),
                              .tp = mesh.size("tp"),
                              .reproducible_tp = options.reproducible_tp,
                              .reproducible = options.reproducible_slots > 0,
                              .tensor_norms = needs_tensor_norms(optimizer),
                              .whole_tensors = needs_whole_tensors(optimizer),
                              .noise_scale = state_->measures_noise()},
                             0));
  split_layers(*state_->pending, mesh.size("tp"), mesh.coordinate("tp"), options.reproducible_tp);
  state_->plan();
  state_->parameters = parameter_fingerprints(*state_->pending);
  state_->has_trained = trains(*state_->pending);
  if (options.learning_rate.peak == 0.0) state_->options.learning_rate.peak = lr_of(optimizer);
}

Trainer::~Trainer() = default;

void Trainer::start() {
  state_->attempt("the start", [this] { state_->start(); });
}

StepResult Trainer::step(const Next& next) {
  state_->expect_weights("a step");
  if (!state_->has_trained) {
    throw InputError(
        "trainer: the model has nothing to train: all its parameters are frozen, or it has none; leave "
        "requires_grad on some before the trainer is made, or only evaluate");
  }
  state_->check_caller();
  return state_->attempt(fmt::format("step {}", state_->steps_done + 1), [&] { return one_step(next); });
}

StepResult Trainer::one_step(const Next& next) {
  TrainerState& s = *state_;
  s.start();
  const MemoryLedger::Attached attached(s.options.ledger);
  s.enter_phase();
  s.updater->begin(s.steps_done, rate_at(s.options.learning_rate, s.options.rate_phases, s.steps_done));
  const at::Device device = s.options.communication.device;
  const bool compares = !std::exchange(s.has_compared, true);
  SampleCheck samples;
  const StepResult result = s.engine->step(s.steps_done, [&] {
    Batch batch = s.own_thread->as_caller(next);
    check_micro_batch(batch, s.options.micro_batch);
    if (compares && !samples.has_batch()) {
      samples.record(batch);
      for (const AxisSet axis : {kTensorAxis, kContextAxis}) samples.compare(s.groups.by_axes.along(axis), axis, device);
    }
    return to_device(std::move(batch), device);
  });
  // Stages load at different times, and middle stages do not load.
  if (compares) samples.compare(s.groups.by_axes.along(kPipelineAxis), kPipelineAxis, device);
  ++s.steps_done;
  return result;
}

StepResult Trainer::step(Loader& loader) {
  const InstructionList& list = state_->current().of(state_->rank);
  const bool loads = std::any_of(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::load; });
  if (loads && loader.next_step() != state_->steps_done) {
    throw InputError(fmt::format(
        "trainer: the loader is at the samples of step {}, but step {} is next; make it with loader_options(), after a "
        "load() if there is one",
        loader.next_step() + 1, state_->steps_done + 1));
  }
  return step([&loader] { return loader.next(); });
}

StepResult Trainer::step(const Batch& batch) {
  const TrainerState& s = *state_;
  const int64_t global_batch = s.batches.at(s.steps_done), share = global_batch / s.data_ranks;
  const std::string misfit = samples_misfit(batch, share);
  if (!misfit.empty()) {
    throw InputError(
        fmt::format("trainer: {} in a batch on rank {}, must have {} (global batch {} over {} data-parallel ranks)", misfit,
                    s.mesh.world().rank(), share, global_batch, s.data_ranks));
  }
  int64_t begin = 0;
  return step([&] {
    const int64_t micro = s.options.micro_batch;
    Batch part{.inputs = {}, .target = batch.target.narrow(0, begin, micro)};
    for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, micro));
    begin += micro;
    return part;
  });
}

LoaderOptions Trainer::loader_options() const {
  const TrainerState& s = *state_;
  return {.global_batch = s.options.global_batch,
          .ramp = s.options.ramp,
          .micro_batch = s.options.micro_batch,
          .shard = s.data_rank,
          .num_shards = s.data_ranks,
          .first_step = s.steps_done,
          .first_sample = s.samples_done(),
          .timeout_s = std::chrono::duration<double>(s.options.communication.timeout).count(),
          .pinned = at::accelerator::isAccelerator(s.options.communication.device.type())};
}

void Trainer::trace(bool on) {
  start();
  state_->engine->trace(on);
}

std::vector<TimedInstruction> Trainer::step_times() {
  if (!state_->engine) throw InputError("trainer: step_times() before the start; call trace(true) and a step first");
  return state_->attempt("collecting step times", [this] {
    const TrainerState& s = *state_;
    return gather_times(*s.programs[s.phase], s.rank, s.engine->times(), world_group(), s.options.communication.device);
  });
}

FlatModel& Trainer::model() {
  start();
  return *state_->model;
}

void Trainer::for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit) {
  start();
  TrainerState& s = *state_;
  struct Entry {
    const Param* param = nullptr;
    const ModelBuffer* buffer = nullptr;
  };
  std::map<std::string, Entry> entries;
  for (const Param& param : s.model->params()) entries[param.name] = {&param, nullptr};
  for (const ModelBuffer& buffer : s.model->buffers()) entries[buffer.name] = {nullptr, &buffer};
  int block = -1;
  at::Tensor parts;  // [ranks of tp, the block's elements]
  for (const auto& [name, entry] : entries) {
    at::Tensor value;
    s.attempt(entry.buffer ? "reading buffers" : "reading weights", [&] {
      if (entry.buffer) {
        value = s.engine->buffer_values(*entry.buffer).cpu();
        return;
      }
      if (entry.param->block != std::exchange(block, entry.param->block)) {
        parts.reset();
        parts = s.engine->master_weights(block);
      }
      value = join_parts(*entry.param, parts);
    });
    visit(name, value);
  }
}

const Program& Trainer::program() const { return state_->engine ? *state_->programs[state_->phase] : *state_->program; }
std::vector<Group> Trainer::groups() const { return state_->groups.all; }
const Group& Trainer::data_group() const { return state_->groups.by_axes.along(kDataAxes); }
const Group& Trainer::world_group() const { return state_->groups.by_axes.along(kAllAxes); }
const LossScale& Trainer::loss_scale() const {
  if (!state_->updater) throw InputError("trainer: loss_scale() before the start; call start() or a step first");
  return state_->updater->scaling();
}
int64_t Trainer::steps_done() const { return state_->steps_done; }
int64_t Trainer::samples_done() const { return state_->samples_done(); }
int64_t Trainer::global_batch() const { return state_->batches.at(state_->steps_done); }
std::chrono::milliseconds Trainer::timeout() const { return state_->options.communication.timeout; }
double Trainer::learning_rate() const {
  return rate_at(state_->options.learning_rate, state_->options.rate_phases, state_->steps_done);
}

}  // namespace weft
