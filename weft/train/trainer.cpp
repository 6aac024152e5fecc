#include "weft/train/trainer.h"

#include <fmt/core.h>

#include <optional>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/optim/clip.h"
#include "weft/program/build.h"
#include "weft/program/verify.h"

namespace weft {

namespace {

/// Joins clipping and the optimizer into what the engine calls.
class StepUpdater : public Updater {
 public:
  StepUpdater(FlatModel& model, const OptimizerOptions& optimizer, double clip)
      : model_(model), optimizer_(make_optimizer(model, optimizer)), clip_(clip) {}

  void begin(double lr) {
    lr_ = lr;
    factor_ = 1.0;
  }
  double norm(double divisor) override {
    const double norm = gradient_norm(model_, divisor);
    factor_ = clip_factor(norm, clip_);
    return norm;
  }
  void update(int block, double divisor) override { optimizer_->update(block, lr_, divisor / factor_); }

 private:
  FlatModel& model_;
  std::unique_ptr<Optimizer> optimizer_;
  double clip_;
  double lr_ = 0.0;
  double factor_ = 1.0;
};

double lr_of(const OptimizerOptions& optimizer) {
  return std::visit([](const auto& options) { return options.lr; }, optimizer);
}

void check_mesh(const Mesh& mesh) {
  for (const AxisSize& axis : mesh.axes()) {
    if (axis.name != "dp" && axis.size > 1) {
      throw InputError(fmt::format("trainer: mesh axis '{}' has size {}; only 'dp' may be above 1", axis.name, axis.size));
    }
  }
}

void check_batch(const TrainerOptions& options, int ranks) {
  if (options.global_batch < 1 || options.micro_batch < 1) {
    throw InputError(fmt::format("trainer: a global batch of {} with micro-batches of {}; both must be at least 1",
                                 options.global_batch, options.micro_batch));
  }
  const int64_t unit = options.micro_batch * ranks;
  if (options.global_batch % unit != 0) {
    throw InputError(fmt::format(
        "trainer: a global batch of {} is not divided by {} data-parallel ranks with micro-batches of {}; use a multiple of {}",
        options.global_batch, ranks, options.micro_batch, unit));
  }
  const int64_t slots = options.reproducible_slots, micro_batches = options.global_batch / options.micro_batch;
  if (slots != 0 && (!is_power_of_two(slots) || slots % ranks != 0 || micro_batches % slots != 0)) {
    throw InputError(
        fmt::format("trainer: {} reproducible slots; must be a power of two that the data-parallel ranks ({}) divide, and that "
                    "divides the micro-batches a step ({})",
                    slots, ranks, micro_batches));
  }
}

void check_size(const Batch& batch, int64_t micro_batch) {
  if (batch.target.size(0) == micro_batch) return;
  throw InputError(
      fmt::format("trainer: a micro-batch of {} samples, must be {}; make the loader with trainer.loader_options()",
                  batch.target.size(0), micro_batch));
}

MicroBatch to_device(Batch batch, at::Device device) {
  for (at::Tensor& input : batch.inputs) input = input.to(device);
  return {std::move(batch.inputs), batch.target.to(device), batch.first_sample};
}

/// A group of blocks whose values were given rather than drawn takes rank 0's.
void share_given_values(FlatModel& model, const Group& group) {
  std::vector<bool> given(model.num_blocks(), false);
  for (const Param& param : model.params()) given[param.block] = given[param.block] || param.init.kind == Init::Kind::given;
  for (int b = 0; b < model.num_blocks(); ++b) {
    if (given[b]) group.broadcast(model.flat(b).weights, 0, "weights of " + model.model().blocks[b].name).wait();
  }
}

}  // namespace

struct Trainer::State {
  State(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
      : mesh(mesh), pending(std::move(model)), optimizer(optimizer), options(options) {}

  void plan();
  void start();
  StepLayout step_layout() const;

  Mesh mesh;
  std::optional<Model> pending;  ///< until start() binds it
  OptimizerOptions optimizer;
  TrainerOptions options;
  Group replicas;
  int data_ranks = 1;
  int data_rank = 0;
  int64_t steps_done = 0;
  Program program;
  std::unique_ptr<FlatModel> model;
  std::unique_ptr<StepUpdater> updater;
  std::unique_ptr<Engine> engine;
};

Trainer::Trainer(const Mesh& mesh, Model model, const OptimizerOptions& optimizer, const TrainerOptions& options)
    : state_(std::make_unique<State>(mesh, std::move(model), optimizer, options)) {
  const Axis axis = mesh.axis("dp");
  state_->data_ranks = axis.size();
  state_->data_rank = axis.index;
  check_mesh(mesh);
  check_batch(options, axis.size());
  if (options.learning_rate.peak == 0.0) state_->options.learning_rate.peak = lr_of(optimizer);
}

Trainer::~Trainer() = default;

StepLayout Trainer::State::step_layout() const {
  return {.dp = data_ranks,
          .micro_batches = static_cast<int>(options.global_batch / options.micro_batch / data_ranks),
          .slots = options.reproducible_slots == 0 ? 1 : options.reproducible_slots / data_ranks,
          .bucket_bytes = options.bucket_bytes,
          .clip = options.clip > 0.0};
}

/// Order is all that execution needs, so the blocks' floating-point operations are left out here.
void Trainer::State::plan() {
  ModelCost cost{.name = model->model().name, .blocks = {}, .input_bytes = 0};
  for (int b = 0; b < model->num_blocks(); ++b) {
    cost.blocks.push_back(
        {.name = model->model().blocks[b].name, .flat_bytes = model->flat(b).numel * static_cast<int64_t>(sizeof(float))});
  }
  program = build_program(cost, step_layout());
  verify(program);
}

void Trainer::State::start() {
  if (engine) return;
  GroupOptions communication = options.communication;
  communication.tree_order = communication.tree_order || options.reproducible_slots > 0;
  replicas = mesh.group(mesh.axis("dp"), communication);
  const auto allocate = [this](int64_t numel, const std::string& what) { return replicas.allocate(numel, at::kFloat, what); };
  model = std::make_unique<FlatModel>(std::move(*pending), allocate, communication.device);
  pending.reset();
  model->initialise(options.seed);
  share_given_values(*model, replicas);
  plan();
  updater = std::make_unique<StepUpdater>(*model, optimizer, options.clip);
  const StepLayout layout = step_layout();
  engine =
      std::make_unique<Engine>(*model, program.of(data_rank), *updater,
                               EngineOptions{.replicas = replicas,
                                             .seed = options.seed,
                                             .micro_batches = layout.micro_batches,
                                             .slots = layout.slots,
                                             .first_micro_batch = static_cast<int64_t>(layout.micro_batches) * data_rank,
                                             .all_micro_batches = static_cast<int64_t>(layout.micro_batches) * data_ranks});
}

void Trainer::start() { state_->start(); }

StepResult Trainer::step(const Next& next) {
  State& s = *state_;
  s.start();
  s.updater->begin(s.options.learning_rate.at(s.steps_done));
  const at::Device device = s.options.communication.device;
  const StepResult result = s.engine->step(s.steps_done, [&] {
    Batch batch = next();
    check_size(batch, s.options.micro_batch);
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
  if (batch.target.size(0) != share) {
    throw InputError(
        fmt::format("trainer: a batch of {} samples on rank {}, must be {} (global batch {} over {} data-parallel ranks)",
                    batch.target.size(0), s.mesh.world().rank(), share, s.options.global_batch, s.data_ranks));
  }
  int64_t begin = 0;
  return step([&] {
    const int64_t micro = s.options.micro_batch;
    Batch part{.inputs = {}, .target = batch.target.narrow(0, begin, micro), .first_sample = 0};
    for (const at::Tensor& input : batch.inputs) part.inputs.push_back(input.narrow(0, begin, micro));
    part.first_sample = s.steps_done * s.options.global_batch + s.data_rank * share + begin;
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
          .first_step = s.steps_done};
}

EvaluationResult Trainer::evaluate(EvaluationLoader& loader) {
  State& s = *state_;
  s.start();
  loader.rewind();
  const at::Device device = s.options.communication.device;
  return s.engine->evaluate([&](MicroBatch& micro) {
    Batch batch;
    if (!loader.next(batch)) return false;
    micro = to_device(std::move(batch), device);
    return true;
  });
}

FlatModel& Trainer::model() {
  start();
  return *state_->model;
}
const Program& Trainer::program() const { return state_->program; }
const Group& Trainer::replicas() const { return state_->replicas; }
int64_t Trainer::steps_done() const { return state_->steps_done; }
double Trainer::learning_rate() const { return state_->options.learning_rate.at(state_->steps_done); }

}  // namespace weft
