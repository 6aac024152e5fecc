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
#include "weft/comm/world_hosts.h"
#include "weft/nn/tensor_parallel/apply_splits.h"
#include "weft/optim/freeze.h"
#include "weft/plan/layout/composition.h"
#include "weft/train/trainer/agreement.h"
#include "weft/train/trainer/gather_times.h"
#include "weft/train/trainer/rank_batch.h"
#include "weft/train/trainer/state_audit.h"
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
  check_histograms(options);
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
  if (options.audit_every > 0) state_->audit = make_audit(*state_);
  state_->parameters = parameter_fingerprints(*state_->pending);
  state_->has_trained = trains(*state_->pending);
  if (options.learning_rate.peak == 0.0) state_->options.learning_rate.peak = lr_of(optimizer);
}

Trainer::~Trainer() = default;

void Trainer::start() {
  state_->attempt("the start", [this] { state_->start(); });
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

void Trainer::trace(bool on, bool operators) {
  start();
  state_->engine->trace(on);
  state_->engine->trace_operators(on && operators);
}

const std::vector<InstructionTime>& Trainer::instruction_times() const {
  static const std::vector<InstructionTime> kNone;
  return state_->engine ? state_->engine->times() : kNone;
}

const std::vector<MeasuredOperator>& Trainer::operators() const {
  static const std::vector<MeasuredOperator> kNone;
  return state_->engine ? state_->engine->operators() : kNone;
}

PhaseTimes Trainer::phase_times() const {
  const TrainerState& s = *state_;
  return s.engine ? weft::phase_times(s.programs[s.phase]->of(s.rank), s.engine->times()) : PhaseTimes();
}

void Trainer::check(bool watches_operators) {
  start();
  state_->attempt("checks", [&] { state_->engine->check(watches_operators); });
}

const StepChecks* Trainer::checks() const { return state_->engine ? state_->engine->checks() : nullptr; }

std::vector<TimedInstruction> Trainer::step_times() {
  if (!state_->engine) throw InputError("trainer: step_times() before the start; call trace(true) and a step first");
  return state_->attempt("collecting step times", [this] {
    const TrainerState& s = *state_;
    return gather_times(*s.programs[s.phase], s.rank, s.engine->times(), hosts_of(s.mesh.world()), world_group(),
                        s.options.communication.device);
  });
}

FlatModel& Trainer::model() {
  start();
  return *state_->model;
}
TrainerState& Trainer::state() { return *state_; }

void Trainer::for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit) {
  start();
  TrainerState& s = *state_;
  struct Entry {
    const Param* param = nullptr;
    const ModelBuffer* buffer = nullptr;
  };
  std::map<std::string, Entry> entries;
  for (const Param& param : s.model->params()) entries[param.name] = {&param, nullptr};
  for (const ModelBuffer& buffer : s.model->buffers()) {
    if (buffer.saved) entries[buffer.name] = {nullptr, &buffer};
  }
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
std::vector<Group> Trainer::groups() const { return state_->groups.by_axes.all(); }
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
