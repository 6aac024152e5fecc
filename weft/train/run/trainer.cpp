#include "weft/train/run/trainer.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/storage/board_storage.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/nn/split_layers.h"
#include "weft/train/plan/composition.h"
#include "weft/train/run/agreement.h"
#include "weft/train/run/checkpoint_state.h"
#include "weft/train/run/fill_weights.h"
#include "weft/train/run/gather_times.h"
#include "weft/train/run/same_batch.h"
#include "weft/train/run/snapshot.h"
#include "weft/train/run/trainer_checks.h"
#include "weft/train/run/trainer_parts.h"

namespace weft {

namespace {

double lr_of(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.lr; }, optimizer);
}

/// The whole parameter, on the CPU, from what each rank of tp has of its block.
at::Tensor join_parts(const Param& param, const at::Tensor& parts) {
  const at::Tensor of_param = parts.narrow(1, param.offset, param.numel).cpu();
  if (!param.split) return of_param[0].view(param.shape);
  const at::Tensor whole = at::zeros(param.shape, of_param.options());
  Split split = *param.split;
  for (split.part = 0; split.part < split.parts; ++split.part) put_part(whole, of_param[split.part], split);
  return whole;
}

/// The copy that is not the newest snapshot's.
int first_copy(RunBoard& board) {
  const std::optional<Snapshot> newest = newest_snapshot(board);
  return newest ? 1 - newest->number : 0;
}

MicroBatch to_device(Batch batch, at::Device device) {
  for (at::Tensor& input : batch.inputs) input = input.to(device);
  return {std::move(batch.inputs), batch.target.to(device)};
}

}  // namespace

Trainer::Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
    : state_(std::make_unique<TrainerParts>(mesh, std::move(model), optimizer, options)) {
  const Axis axis = mesh.join({"dp", "shard"});
  state_->data_ranks = axis.size();
  state_->data_rank = axis.index;
  state_->rank =
      ((mesh.coordinate("pp") * axis.size() + axis.index) * mesh.size("cp") + mesh.coordinate("cp")) * mesh.size("tp") +
      mesh.coordinate("tp");
  check_mesh(mesh);
  check_batch(options, axis.size());
  check_layout(options.layout, options.reproducible_slots > 0);
  check_parts(*state_->pending, options.layout);
  check_composition(facts_of(*state_->pending, options.layout,
                             {.cp = mesh.size("cp"), .tp = mesh.size("tp"), .reproducible_tp = options.reproducible_tp}, 0));
  split_layers(*state_->pending, mesh.size("tp"), mesh.coordinate("tp"), options.reproducible_tp);
  state_->program = state_->plan();
  state_->parameters = parameter_fingerprints(*state_->pending);
  state_->has_trained = trains(*state_->pending);
  if (options.learning_rate.peak == 0.0) state_->options.learning_rate.peak = lr_of(optimizer);
}

Trainer::~Trainer() = default;

void Trainer::start() {
  state_->attempt("the start", [this] { state_->start(); });
}

StepResult Trainer::step(const Next& next) {
  if (!state_->has_trained) {
    throw InputError(
        "trainer: the model has nothing to train, as all of its parameters are frozen or it has none; leave "
        "requires_grad on some before the trainer is made, or only evaluate");
  }
  return state_->attempt(fmt::format("step {}", state_->steps_done), [&] { return one_step(next); });
}

StepResult Trainer::one_step(const Next& next) {
  TrainerParts& s = *state_;
  s.start();
  const MemoryLedger::Attached attached(s.options.ledger);
  s.updater->begin(s.steps_done, s.options.learning_rate.at(s.steps_done));
  const at::Device device = s.options.communication.device;
  const StepResult result = s.engine->step(s.steps_done, [&] {
    Batch batch = next();
    check_micro_batch(batch, s.options.micro_batch);
    if (!std::exchange(s.has_compared, true)) {
      for (const AxisSet axis : {kTensorAxis, kContextAxis})
        check_same_batch(batch, s.groups.by_axes.along(axis), axis, device);
    }
    return to_device(std::move(batch), device);
  });
  ++s.steps_done;
  return result;
}

StepResult Trainer::step(Loader& loader) {
  return step([&loader] { return loader.next(); });
}

StepResult Trainer::step(const Batch& batch) {
  const TrainerParts& s = *state_;
  const int64_t share = s.options.global_batch / s.data_ranks;
  const std::string misfit = samples_misfit(batch, share);
  if (!misfit.empty()) {
    throw InputError(
        fmt::format("trainer: {} in a batch on rank {}, must have {} (global batch {} over {} data-parallel ranks)", misfit,
                    s.mesh.world().rank(), share, s.options.global_batch, s.data_ranks));
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
  const TrainerParts& s = *state_;
  return {.global_batch = s.options.global_batch,
          .micro_batch = s.options.micro_batch,
          .shard = s.data_rank,
          .num_shards = s.data_ranks,
          .first_step = s.steps_done,
          .timeout_s = std::chrono::duration<double>(s.options.communication.timeout).count()};
}

EvaluationResult Trainer::evaluate(EvaluationLoader& loader) {
  const TrainerParts& s = *state_;
  const EvaluationShare& share = loader.share();
  if (share.shard != s.data_rank || share.num_shards != s.data_ranks) {
    throw InputError(
        fmt::format("trainer: the evaluation loader is for data-parallel rank {} of {}, this one is {} of {}; make it with the "
                    "index and size of mesh.join({{\"dp\", \"shard\"}})",
                    share.shard, share.num_shards, s.data_rank, s.data_ranks));
  }
  return state_->attempt("an evaluation", [&] { return evaluate_all(loader); });
}

EvaluationResult Trainer::evaluate_all(EvaluationLoader& loader) {
  TrainerParts& s = *state_;
  const EvaluationShare& share = loader.share();
  s.start();
  loader.rewind();
  const at::Device device = s.options.communication.device;
  return s.engine->evaluate({share.first, share.count, s.steps_done}, [&] {
    Batch batch;
    loader.next(batch);
    return to_device(std::move(batch), device);
  });
}

void Trainer::trace(bool on) {
  start();
  state_->engine->trace(on);
}

std::vector<TimedInstruction> Trainer::step_times() {
  if (!state_->engine) throw InputError("trainer: step_times() before the start; call trace(true) and a step first");
  return state_->attempt("telling the times of a step", [this] {
    const TrainerParts& s = *state_;
    return gather_times(*s.program, s.rank, s.engine->times(), world_group(), s.options.communication.device);
  });
}

FlatModel& Trainer::model() {
  start();
  return *state_->model;
}

void Trainer::for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit) {
  start();
  TrainerParts& s = *state_;
  std::vector<const Param*> params;
  for (const Param& param : s.model->params()) params.push_back(&param);
  std::sort(params.begin(), params.end(), [](const Param* a, const Param* b) { return a->name < b->name; });
  int block = -1;
  at::Tensor parts;  // [ranks of tp, the block's elements]
  for (const Param* param : params) {
    if (param->block != block) {
      parts.reset();
      block = param->block;
      s.attempt("reading weights", [&] { parts = s.engine->master_weights(block); });
    }
    visit(param->name, join_parts(*param, parts));
  }
}

void Trainer::register_state(const std::string& name, RegisteredState state) {
  for (const NamedTensor& t : state.tensors) {
    if (t.tensor.defined() && t.tensor.is_contiguous()) continue;
    throw InputError(
        fmt::format("trainer: tensor '{}' of registered state '{}' is not contiguous, or undefined", t.name, name));
  }
  if (!state_->registered.emplace(name, std::move(state)).second) {
    throw InputError(fmt::format("trainer: state '{}' is registered already; give each a name of its own", name));
  }
}

std::unique_ptr<RankMeeting> Trainer::meet(const std::string& doing) const {
  return std::make_unique<RankMeeting>(state_->mesh.world(), doing, state_->options.communication.timeout);
}

SaveReport Trainer::save(const std::string& path) {
  begin_save(path, {}, /*in_background=*/false);
  return finish_save();
}

void Trainer::save_in_background(const std::string& path, const std::function<void()>& after) {
  const LayoutOptions& layout = state_->options.layout;
  const bool offloads = layout.offload_optimizer != Offload::none || layout.offload_parameters != Offload::none;
  begin_save(path, after, /*in_background=*/!offloads);
}

void Trainer::begin_save(const std::string& path, const std::function<void()>& after, bool in_background) {
  start();
  TrainerParts& s = *state_;
  const Stopwatch asked;
  if (is_saving()) finish_save();
  const CheckpointPath to = parent_and_name(path);
  BackgroundSave::Job job{.storage = to.storage, .checkpoint = to.checkpoint, .after = after};
  job.report.path = path;
  job.report.waited_s = asked.seconds();
  s.attempt(fmt::format("saving {}", path), [&] {
    job.meeting = meet(fmt::format("saving {}", path));
    job.texts = state_texts(s);
    if (!in_background) {
      job.write = [&s](DataWriter& writer) { for_each_written(s, [&writer](const StatePart& part) { writer.add(part); }); };
      return s.saving.run_now(std::move(job));
    }
    const Stopwatch begin;
    const MemoryLedger::Attached attached(s.options.ledger);
    const MemoryScope scope(MemoryCategory::saving);
    s.staging.clear();
    for_each_written(s, [&s](const StatePart& part) { s.staging.add(part); });
    job.write = [&s](DataWriter& writer) {
      for (const StatePart& part : s.staging.parts()) writer.add(part);
    };
    job.report.copied_s = begin.seconds();
    s.saving.start(std::move(job));
  });
}

bool Trainer::is_saving() const { return state_->saving.is_under_way(); }
bool Trainer::is_save_done() const { return state_->saving.is_done(); }

SaveReport Trainer::finish_save() { return is_saving() ? state_->saving.wait() : SaveReport{}; }

LoadReport Trainer::load(const std::string& path, const LoadOptions& options) {
  start_to_load();
  if (is_saving()) finish_save();
  LoadReport report;
  fill(path, [&] {
    const CheckpointPath from = parent_and_name(path);
    const std::unique_ptr<Storage> storage = open_storage(from.storage);
    report = load_state(*state_, *storage, from.checkpoint, read_checkpoint(*storage, from.checkpoint), options);
  });
  return report;
}

void Trainer::save_to(RunBoard& board) {
  start();
  TrainerParts& s = *state_;
  s.attempt("a snapshot", [&] {
    if (!s.next_copy) s.next_copy = first_copy(board);
    take_snapshot(s, board, *s.next_copy);
    s.next_copy = 1 - *s.next_copy;
  });
}

std::optional<LoadReport> Trainer::load_from(RunBoard& board, int64_t after_step) {
  TrainerParts& s = *state_;
  s.next_copy = first_copy(board);
  const std::optional<Snapshot> snapshot = newest_snapshot(board);
  if (!snapshot || snapshot->step <= after_step) return std::nullopt;
  start_to_load();
  LoadReport report;
  fill("the snapshot in memory",
       [&] { report = load_state(s, *board_storage(board, snapshot->number), "", snapshot->index, {}); });
  return report;
}

std::vector<std::string> Trainer::load_weights(const std::string& path, const WeightNames& names) {
  start_to_load();
  std::vector<std::string> unused;
  fill(path, [&] { unused = fill_weights(*state_, path, names); });
  return unused;
}

/// What an earlier load left half done is about to be loaded anew.
void Trainer::start_to_load() {
  state_->half_loaded.clear();
  start();
}

/// Runs `fill` on every rank; all throw what it threw on one.
void Trainer::fill(const std::string& path, const std::function<void()>& fill) {
  TrainerParts& s = *state_;
  const std::unique_ptr<RankMeeting> meeting = s.attempt("loading " + path, [&] { return meet("loading " + path); });
  std::string failure;
  try {
    as_error("loading " + path, fill);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  s.half_loaded = meeting->verdict(failure);
  if (!s.half_loaded.empty()) throw InputError(s.half_loaded);
  s.attempt("gathering weights that were loaded", [&s] { s.engine->gather_whole(); });
}

const Program& Trainer::program() const { return *state_->program; }
std::vector<Group> Trainer::groups() const { return state_->groups.all; }
const Group& Trainer::data_group() const { return state_->groups.by_axes.along(kDataAxes); }
const Group& Trainer::world_group() const { return state_->groups.by_axes.along(kAllAxes); }
const LossScale& Trainer::loss_scale() const {
  if (!state_->updater) throw InputError("trainer: loss_scale() before the start; call start() or a step first");
  return state_->updater->scaling();
}
int64_t Trainer::steps_done() const { return state_->steps_done; }
std::chrono::milliseconds Trainer::timeout() const { return state_->options.communication.timeout; }
double Trainer::learning_rate() const { return state_->options.learning_rate.at(state_->steps_done); }

}  // namespace weft
