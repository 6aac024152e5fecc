#include "weft/train/run/trainer.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/nn/split_layers.h"
#include "weft/program/build/build.h"
#include "weft/program/check_program.h"
#include "weft/program/verify/verify.h"
#include "weft/train/plan/composition.h"
#include "weft/train/run/agreement.h"
#include "weft/train/run/attempts.h"
#include "weft/train/run/flat_memory.h"
#include "weft/train/run/gather_times.h"
#include "weft/train/run/groups.h"
#include "weft/train/run/out_of_memory.h"
#include "weft/train/run/same_batch.h"
#include "weft/train/run/step_updater.h"
#include "weft/train/run/trainer_checks.h"

namespace weft {

namespace {

double lr_of(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.lr; }, optimizer);
}

/// What LibTorch throws has a stack trace below its first line, and says nothing of where in a training it was.
template <class Call>
auto as_error(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}", what, error.what_without_backtrace()));
  }
}

std::string offload_folder(const LayoutOptions& layout) {
  if (!layout.offload_folder.empty()) return layout.offload_folder;
  return env_string("TMPDIR").value_or("/var/tmp");
}

std::shared_ptr<OffloadStore> make_offload_store(Offload kind, const LayoutOptions& layout, at::Device device) {
  if (kind == Offload::none) return nullptr;
  if (kind == Offload::host) return host_offload(device);
  return disk_offload(offload_folder(layout));
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

MicroBatch to_device(Batch batch, at::Device device) {
  for (at::Tensor& input : batch.inputs) input = input.to(device);
  return {std::move(batch.inputs), batch.target.to(device)};
}

}  // namespace

struct Trainer::State {
  State(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
      : mesh(mesh), pending(std::move(model)), optimizer(optimizer), options(options) {}

  void start();
  std::shared_ptr<const Program> plan() const;
  void check_still_frozen() const;
  bool reproducible() const { return options.reproducible_slots > 0; }

  Mesh mesh;
  std::optional<Model> pending;  ///< until start() binds it
  OptimizerOptions optimizer;
  TrainerOptions options;
  RankGroups groups;
  int data_ranks = 1;
  int data_rank = 0;
  int rank = 0;  ///< in the program
  int64_t steps_done = 0;
  std::shared_ptr<const Program> program;
  std::vector<uint64_t> parameters;  ///< by block, when the trainer was made: their fingerprints
  bool has_compared = false;         ///< the first micro-batch, with those of ranks that share its samples
  bool has_trained = false;          ///< any parameter that is trained
  std::unique_ptr<FlatModel> model;
  std::unique_ptr<StepUpdater> updater;
  std::unique_ptr<Engine> engine;
  Attempts attempts;

  /// call(), unless an earlier one has failed.
  template <class Call>
  auto attempt(const std::string& what, const Call& call) {
    return attempts.run(what, [&] { return as_error(what, [&] { return explain_memory(*program, call); }); });
  }
};

Trainer::Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
    : state_(std::make_unique<State>(mesh, std::move(model), optimizer, options)) {
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

/// The program in the options, or one of its own. Order is all that execution needs, so that one has no costs.
std::shared_ptr<const Program> Trainer::State::plan() const {
  ModelCost cost{.name = pending->name, .blocks = {}, .input_bytes = 0};
  for (const NamedBlock& named : pending->blocks) {
    cost.blocks.push_back({.name = named.name,
                           .numel = flat_numel(*named.block),
                           .uses = named.uses,
                           .splits = named.block->can_split_backward(),
                           .frozen_numel = frozen_numel(*named.block)});
  }
  const StepCounts counts = {.pp = mesh.size("pp"),
                             .dp = mesh.size("dp"),
                             .shard = mesh.size("shard"),
                             .cp = mesh.size("cp"),
                             .tp = mesh.size("tp"),
                             .reproducible_tp = options.reproducible_tp,
                             .micro_batches = static_cast<int>(options.global_batch / options.micro_batch / data_ranks),
                             .slots = reproducible() ? options.reproducible_slots / data_ranks : 1,
                             .reproducible = reproducible(),
                             .bucket_bytes = options.bucket_bytes,
                             .clip = options.clip > 0.0};
  if (options.program) {
    options.program_is_verified ? check_program(*options.program) : verify(*options.program);
    check_frame(*options.program, frame_program(cost, layout_without_schedule(options.layout, counts)));
    return options.program;
  }
  Program result = build_program(cost, step_layout(options.layout, counts));
  verify(result);
  return std::make_shared<const Program>(std::move(result));
}

void Trainer::State::start() {
  if (engine) return;
  const MemoryLedger::Attached attached(options.ledger);
  const MemoryScope scope(MemoryCategory::weights);
  check_agreement(mesh.world(), agreement_text(*program, *pending, options, optimizer), options.communication.timeout);
  check_still_frozen();
  GroupOptions communication = options.communication;
  communication.tree_order = communication.tree_order || reproducible() || options.reproducible_tp > 0;
  {
    const MemoryScope staged(MemoryCategory::communication);
    groups = make_groups(mesh, *program, communication);
  }
  if (options.ledger) {
    for (const Group& group : groups.all) options.ledger->add(MemoryCategory::communication, group.memory_bytes());
  }
  model = std::make_unique<FlatModel>(std::move(*pending), flat_memory(*program, rank, mesh, groups.by_axes, options));
  share_given(*model, groups.by_axes);
  pending.reset();
  const LayoutOptions& layout = options.layout;
  updater = std::make_unique<StepUpdater>(*model, optimizer, options.clip, layout.precision == Precision::fp16);
  const at::Device device = options.communication.device;
  engine = std::make_unique<Engine>(
      *model, *program, rank, *updater,
      EngineOptions{.groups = groups.by_axes,
                    .offload = {.activations = make_offload_store(layout.offload_activations, layout, device),
                                .weights = make_offload_store(layout.offload_parameters, layout, device),
                                .optimizer = make_offload_store(layout.offload_optimizer, layout, device)},
                    .seed = options.seed,
                    .recompute_parts = layout.recompute_parts,
                    .sequence_parallel = layout.sequence_parallel && mesh.size("tp") > 1,
                    .tp_chunks = layout.tp_chunks,
                    .attention_over = layout.attention_over,
                    .first_micro_batch = static_cast<int64_t>(program->micro_batches) * data_rank,
                    .all_micro_batches = static_cast<int64_t>(program->micro_batches) * data_ranks,
                    .micro_batch = options.micro_batch});
  engine->initialise();
}

/// The program was made when the trainer was.
void Trainer::State::check_still_frozen() const {
  const std::vector<uint64_t> now = parameter_fingerprints(*pending);
  for (int b = 0; b < program->num_blocks(); ++b) {
    if (now[b] == parameters[b]) continue;
    throw InputError(
        fmt::format("trainer: block '{}' has other parameters, or other frozen parameters, than when the trainer was made; "
                    "set requires_grad before that",
                    program->block_names[b]));
  }
}

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
  State& s = *state_;
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
  const State& s = *state_;
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
  const State& s = *state_;
  return {.global_batch = s.options.global_batch,
          .micro_batch = s.options.micro_batch,
          .shard = s.data_rank,
          .num_shards = s.data_ranks,
          .first_step = s.steps_done,
          .timeout_s = std::chrono::duration<double>(s.options.communication.timeout).count()};
}

EvaluationResult Trainer::evaluate(EvaluationLoader& loader) {
  const State& s = *state_;
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
  State& s = *state_;
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
    const State& s = *state_;
    return gather_times(*s.program, s.rank, s.engine->times(), world_group(), s.options.communication.device);
  });
}

FlatModel& Trainer::model() {
  start();
  return *state_->model;
}

void Trainer::for_each_weight(const std::function<void(const std::string& name, const at::Tensor& value)>& visit) {
  start();
  State& s = *state_;
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

const Program& Trainer::program() const { return *state_->program; }
std::vector<Group> Trainer::groups() const { return state_->groups.all; }
const Group& Trainer::data_group() const { return state_->groups.by_axes.along(kDataAxes); }
const Group& Trainer::world_group() const { return state_->groups.by_axes.along(kAllAxes); }
const LossScale& Trainer::loss_scale() const {
  if (!state_->updater) throw InputError("trainer: loss_scale() before the start; call start() or a step first");
  return state_->updater->scaling();
}
int64_t Trainer::steps_done() const { return state_->steps_done; }
double Trainer::learning_rate() const { return state_->options.learning_rate.at(state_->steps_done); }

}  // namespace weft
