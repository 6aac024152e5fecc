#include "weft/c/host_trainer.h"

#include <ATen/Parallel.h>
#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/c/host_recipe.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/train/run/evaluation_sets.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/run/shared_layout.h"
#include "weft/train/run/shared_plan.h"
#include "weft/train/run/start_notes.h"
#include "weft/train/save/run_state.h"

namespace weft::c {
namespace {

/// The threads that LibTorch uses for this thread's work, for a while.
class Threads {
 public:
  explicit Threads(int threads) : before_(at::get_num_threads()) { at::set_num_threads(threads); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// A set that a call passed, for an EvaluationLoader, which reads samples in a row.
class HostSet : public Dataset {
 public:
  explicit HostSet(Batch all) : all_(std::move(all)) {}
  int64_t size() const override { return all_.target.size(0); }
  Batch get(const std::vector<int64_t>& indices, int64_t /*epoch*/) const override {
    const auto of = [&indices](const at::Tensor& x) {
      return x.narrow(0, indices.front(), static_cast<int64_t>(indices.size()));
    };
    Batch batch{.inputs = {}, .target = of(all_.target)};
    for (const at::Tensor& input : all_.inputs) batch.inputs.push_back(of(input));
    return batch;
  }

 private:
  Batch all_;
};

}  // namespace

HostTrainer::HostTrainer(const World& world, const std::string& recipe, Log log) : log_(std::move(log)) {
  const auto note = [&](const std::string& line) {
    if (world.rank() == 0 && log_) log_(line);
  };
  recipe_ = host_recipe(recipe, ModelOf::recipe, note);
  const Threads threads(threads_of(recipe_, world));  // the trainer's from its start on, in whatever thread
  recipe_ = shared_layout(recipe_, world, note);
  make(world);
  register_run();
  trainer_->start();
  for (const std::string& line : frozen_notes(trainer_->model())) note(line);
  if (const std::string weights = initial_weights(recipe_.model); !weights.empty()) {
    load_weights(weights, weights_options(recipe_.model));
  }
}

void HostTrainer::make(const World& world) {
  const Plan plan = shared_plan(recipe_, world);
  const Mesh mesh(world, mesh_axes(plan.layout));
  shard_ = mesh.join({"dp", "shard"}).index;
  num_shards_ = plan.layout.data_ranks();
  micro_batch_ = plan.layout.micro_batch / plan.layout.batch_pieces;
  device_ = device_of(recipe_, world);
  kept_ = std::make_unique<Arrays>(device_);
  expected_ = meta_batch(recipe_, 1);
  const RunLengths lengths = run_lengths(recipe_, /*training_samples=*/1);
  trainer_ = std::make_unique<Trainer>(mesh, build_model(recipe_.model), optimizer_of(recipe_.optimizer),
                                       trainer_options(recipe_, plan, lengths, device_));
}

/// As `weft train` does: each loads the other's checkpoints.
void HostTrainer::register_run() {
  const auto text = [this] {
    const auto samples = static_cast<double>(trainer_->samples_done());
    RunState state{.name = run_name(recipe_), .recipe = recipe_values(recipe_)};
    state.clock = {.steps = static_cast<double>(trainer_->steps_done()),
                   .samples = samples,
                   .tokens = samples * static_cast<double>(tokens_per_sample(recipe_.model))};
    return run_state_text(state);
  };
  trainer_->register_state(kRunStateName, {.tensors = {}, .save = text, .load = [](const std::string& /*text*/) {}});
}

Batch HostTrainer::batch_of(Arrays& arrays, const HostBatch& batch, int64_t samples, bool has_target) const {
  const std::vector<std::string>& names = expected_.names;
  std::vector<ExpectedArray> expected;
  for (const at::Tensor& input : expected_.inputs) {
    const size_t i = expected.size();
    expected.push_back(
        {names.size() > 1 ? fmt::format("input {} ('{}')", i, names[i]) : fmt::format("input {}", i), input, samples});
  }
  Batch tensors{.inputs = arrays.tensors_of(batch.inputs, batch.num_inputs, expected), .target = {}};
  if (has_target) tensors.target = arrays.tensor_of(batch.target, {"target", expected_.target, tensors.inputs.front().size(0)});
  return tensors;
}

std::pair<int64_t, int64_t> HostTrainer::share() const {
  const int64_t count = trainer_->global_batch() / num_shards_;
  return {count * shard_, count};
}

weft_step HostTrainer::step(const HostBatch& batch) {
  Arrays arrays(device_);
  const Batch tensors = batch_of(arrays, batch, share().second, /*has_target=*/true);
  const double rate = trainer_->learning_rate();
  const StepResult result = trainer_->step(tensors);
  return {.step = trainer_->steps_done(),
          .targets = result.count,
          .loss = result.loss,
          .gradient_norm = result.norm,
          .learning_rate = rate,
          .skipped = result.skipped ? 1 : 0};
}

void HostTrainer::with_evaluated(const std::function<void()>& call) {
  if (!evaluates_average(*trainer_, recipe_.run.evaluate)) return call();
  trainer_->with_average(call);
}

weft_evaluation HostTrainer::evaluate(const HostBatch& set) {
  Arrays arrays(device_);
  const auto data = std::make_shared<HostSet>(batch_of(arrays, set, -1, /*has_target=*/true));
  if (data->size() == 0) throw InputError("input 0 has no samples to evaluate");
  EvaluationLoader loader(data, micro_batch_, shard_, num_shards_);
  EvaluationResult result;
  with_evaluated([&] { result = trainer_->evaluate(loader); });
  return {.targets = result.count, .hits = result.hits, .loss = result.loss};
}

void HostTrainer::predict(const HostBatch& batch, const weft_array* outputs, int num_outputs) {
  Arrays arrays(device_);
  const Batch tensors = batch_of(arrays, batch, -1, /*has_target=*/false);
  if (!outputs) throw InputError("outputs is null");
  Tensors predicted;
  with_evaluated([&] { predicted = trainer_->predict(tensors); });
  if (static_cast<int>(predicted.size()) != num_outputs && !predicted.empty()) {
    throw InputError(fmt::format("num_outputs is {}; the model has {}", num_outputs, predicted.size()));
  }
  for (size_t i = 0; i < predicted.size(); ++i) arrays.write_to(outputs + i, predicted[i], fmt::format("output {}", i));
}

int64_t HostTrainer::load(const std::string& path) {
  const auto filled = c10::make_scope_exit([this] { kept_->wait(); });
  return trainer_->load(path).step;
}

void HostTrainer::load_weights(const std::string& path, const WeightsOptions& options) {
  const WeightsReport report = trainer_->load_weights(path, options);
  for (const std::string& line : weights_notes(path, report)) {
    if (log_ && trainer_->world_group().rank() == 0) log_(line);
  }
}

void HostTrainer::keep(const std::string& name, const weft_array* value) {
  const at::Tensor memory = kept_->memory_of(value, "value", Arrays::Use::writes);
  if (!memory.is_contiguous()) throw InputError("value has gaps; a kept array must be in C order, without gaps");
  trainer_->register_state(name, {.tensors = {{"value", memory}}});
}

void HostTrainer::visit_weights(const std::function<void(const std::string& name, const weft_array* value)>& visit) {
  trainer_->for_each_weight([&](const std::string& name, const at::Tensor& value) {
    const ArrayView view(value);
    visit(name, view.array());
  });
}

}  // namespace weft::c
