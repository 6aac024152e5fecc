#include "weft/python/python_trainer.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <chrono>

#include "weft/base/error.h"
#include "weft/base/time_limit.h"
#include "weft/c/host_recipe.h"
#include "weft/plan/layout/resolve.h"
#include "weft/plan/pipeline/partition_stages.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/stages_by_hand.h"
#include "weft/train/run/evaluation_sets.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/run_lengths.h"
#include "weft/train/run/start_notes.h"
#include "weft/train/save/run_state.h"
#include "weft/train/trainer/zero_gradients.h"

namespace py = pybind11;

namespace weft::python {
namespace {

/// The recipe's options of a pipeline over blocks whose costs are not known.
void set_stages(const Recipe& recipe, ResolvedLayout& layout) {
  if (layout.pp == 1) return;
  const std::string& schedule = recipe.layout.schedule;
  if (schedule == "auto" || schedule == "csv" || recipe.layout.stage_gb > 0.0) {
    throw InputError(fmt::format("{}: {} is for a recipe's own model, whose costs are known; name a schedule such as \"1f1b\"",
                                 recipe.path,
                                 recipe.layout.stage_gb > 0.0 ? "layout.stage_gb" : "layout.schedule = \"" + schedule + "\""));
  }
  const std::vector<int64_t> counts = stages_by_hand(recipe.layout.stages);
  int next = 0;
  for (const int64_t count : counts) {
    layout.options.pipeline.first_block.push_back(next);
    next += static_cast<int>(count);
  }
}

TrainerOptions options_of(const Recipe& recipe, const ResolvedLayout& layout, const World& world) {
  TrainerOptions options = trainer_options(recipe, layout, device_of(recipe, world));
  const RunLengths lengths = run_lengths(recipe, /*training_samples=*/1);
  options.ramp = recipe.batch.ramp;
  options.learning_rate = learning_rate_of(recipe, lengths);
  options.rate_phases = rate_phases_of(recipe);
  options.audit_every = lengths.audit_every;
  return options;
}

}  // namespace

const World& this_world(double timeout_s) {
  // Never destroyed: ranks that still run use its store until this process ends.
  static const World& world = *new World(World::from_environment(time_limit(timeout_s)));
  return world;
}

Batch PythonDataset::get(const std::vector<int64_t>& indices, int64_t epoch) const {
  const py::gil_scoped_acquire lock;
  const py::tuple fetched = (**fetch_)(indices, epoch);
  return {.inputs = tensors_of(fetched[0], "the data set"), .target = fetched[1].cast<at::Tensor>()};
}

PythonTrainer::PythonTrainer(const std::string& recipe, const std::vector<BlockOfPython>& blocks, const py::object& loss,
                             const py::object& log)
    : log_(log.is_none() ? nullptr : std::make_shared<Callback>(log)) {
  recipe_ = c::host_recipe(recipe, c::ModelOf::program, [](const std::string& /*line*/) {});
  Model model = model_of_blocks(blocks, loss);
  const py::gil_scoped_release others;
  const World& world = this_world(recipe_.run.timeout_s);
  steps_ = run_lengths(recipe_, /*training_samples=*/1).steps;
  const int threads = at::get_num_threads();
  at::set_num_threads(threads_of(recipe_, world));  // the trainer's from its start on, in whatever thread
  try {
    ResolvedLayout layout = resolve(recipe_, world.size());
    set_stages(recipe_, layout);
    const Mesh mesh(world, mesh_axes(layout));
    shard_ = mesh.join({"dp", "shard"}).index;
    num_shards_ = layout.data_ranks();
    micro_batch_ = layout.micro_batch / layout.batch_pieces;
    trainer_ =
        std::make_unique<Trainer>(mesh, std::move(model), optimizer_of(recipe_.optimizer), options_of(recipe_, layout, world));
    trainer_->register_state(kRunStateName, {.tensors = {},
                                             .save =
                                                 [this] {
                                                   RunState state{.name = recipe_.run.name, .recipe = recipe_values(recipe_)};
                                                   state.clock = {.steps = static_cast<double>(trainer_->steps_done()),
                                                                  .samples = static_cast<double>(trainer_->samples_done())};
                                                   return run_state_text(state);
                                                 },
                                             .load = [](const std::string& /*text*/) {}});
    trainer_->start();
    for (const std::string& line : frozen_notes(trainer_->model())) note(line);
  } catch (...) {
    at::set_num_threads(threads);
    throw;
  }
  at::set_num_threads(threads);
}

PythonTrainer::~PythonTrainer() {
  const py::gil_scoped_release others;  // threads that are in Python end first
  loader_.reset();
  trainer_.reset();
}

void PythonTrainer::note(const std::string& line) const {
  if (!log_ || trainer_->world_group().rank() != 0) return;
  const py::gil_scoped_acquire lock;
  (**log_)(line);
}

template <class Step>
StepOfPython PythonTrainer::timed(const Step& step) {
  const auto begin = std::chrono::steady_clock::now();
  const double rate = trainer_->learning_rate();
  const StepResult result = step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {.step = trainer_->steps_done(),
          .samples = trainer_->samples_done(),
          .loss = result.loss,
          .targets = result.count,
          .gradient_norm = result.norm,
          .learning_rate = rate,
          .skipped = result.skipped,
          .seconds = seconds.count()};
}

StepOfPython PythonTrainer::step(const Tensors& inputs, const at::Tensor& target) {
  return timed([&] { return trainer_->step(Batch{.inputs = inputs, .target = target}); });
}

std::shared_ptr<Loader> PythonTrainer::loader() const {
  const std::lock_guard lock(loader_mutex_);
  return loader_;
}

void PythonTrainer::set_loader(std::shared_ptr<Loader> loader) {
  const std::lock_guard lock(loader_mutex_);
  loader_.swap(loader);  // the earlier one ends after the lock
}

void PythonTrainer::read(const std::shared_ptr<PythonDataset>& data, bool shuffle, int workers) {
  set_loader(nullptr);
  LoaderOptions options = trainer_->loader_options();
  options.workers = workers;
  options.timeout_s = recipe_.run.timeout_s;
  options.while_waiting = [] {  // Ctrl-C, in the main thread
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  };
  set_loader(std::make_shared<Loader>(data, Sampler(data->size(), {.seed = recipe_.run.seed, .shuffle = shuffle}), options));
}

void PythonTrainer::end_reading(double limit_s) const {
  if (const std::shared_ptr<Loader> used = loader()) used->end(time_limit(limit_s));
}

void PythonTrainer::stop_reading(double limit_s) {
  end_reading(limit_s);
  set_loader(nullptr);
}

StepOfPython PythonTrainer::next_step() {
  const std::shared_ptr<Loader> used = loader();
  if (!used) throw InputError("no data set is read; call read() first");
  return timed([&] { return trainer_->step(*used); });
}

void PythonTrainer::with_evaluated(const std::function<void()>& call) {
  if (!evaluates_average(*trainer_, recipe_.run.evaluate)) return call();
  trainer_->with_average(call);
}

EvaluationResult PythonTrainer::evaluate(const std::shared_ptr<PythonDataset>& data) {
  EvaluationLoader loader(data, micro_batch_, shard_, num_shards_);
  EvaluationResult result;
  with_evaluated([&] { result = trainer_->evaluate(loader); });
  return result;
}

Tensors PythonTrainer::predict(const Tensors& inputs, bool gathered) {
  Tensors outputs;
  with_evaluated([&] { outputs = trainer_->predict(Batch{.inputs = inputs, .target = {}}, {.gathered = gathered}); });
  return outputs;
}

std::vector<int64_t> PythonTrainer::gather(const std::vector<int64_t>& values, const std::string& what) {
  const Group& world = trainer_->world_group();
  const at::Tensor own = at::tensor(values, at::kLong).to(trainer_->model().options().device);
  const at::Tensor all = at::empty({own.numel() * world.size()}, own.options());
  world.all_gather(all, own, what).wait();
  const at::Tensor known = all.cpu();
  const int64_t* first = known.const_data_ptr<int64_t>();
  return {first, first + known.numel()};
}

void PythonTrainer::save(const std::string& path, bool replace, bool in_background) {
  if (in_background) {
    trainer_->save_in_background(path, {.replace = replace});
  } else {
    trainer_->save(path, {.replace = replace});
  }
}

int64_t PythonTrainer::load(const std::string& path, bool strict) {
  set_loader(nullptr);
  const LoadReport report = trainer_->load(path, {.strict = strict, .loosely = "strict=False"});
  for (const std::string& line : report.skipped) note(line);
  return report.step;
}

void PythonTrainer::load_weights(const std::string& path, const std::string& names, const std::vector<std::string>& skip) {
  WeightsOptions options{.names = {}, .skip = skip};
  if (!names.empty()) options.names = WeightNames::from_file(names);
  for (const std::string& line : weights_notes(path, trainer_->load_weights(path, options))) note(line);
}

void PythonTrainer::keep(const std::string& name, const py::object& save, const py::object& load) {
  const auto saved = std::make_shared<Callback>(save);
  const auto loaded = std::make_shared<Callback>(load);
  trainer_->register_state(name, {.tensors = {},
                                  .save =
                                      [saved] {
                                        const py::gil_scoped_acquire lock;
                                        return (**saved)().cast<std::string>();
                                      },
                                  .load =
                                      [loaded](const std::string& text) {
                                        const py::gil_scoped_acquire lock;
                                        (**loaded)(text);
                                      }});
}

std::vector<std::pair<std::string, at::Tensor>> PythonTrainer::weights(bool averaged) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  const auto visit = [&] {
    trainer_->for_each_weight(
        [&](const std::string& name, const at::Tensor& value) { found.emplace_back(name, value.clone()); });
  };
  if (averaged) {
    trainer_->with_average(visit);
  } else {
    visit();
  }
  return found;
}

std::vector<std::pair<std::string, double>> PythonTrainer::zero_gradients() {
  std::vector<std::pair<std::string, double>> found;
  for (const ZeroGradient& zero : weft::zero_gradients(*trainer_)) found.emplace_back(zero.parameter, zero.share);
  return found;
}

std::pair<int64_t, int64_t> PythonTrainer::share() const {
  const int64_t count = trainer_->global_batch() / num_shards_;
  return {count * shard_, count};
}

}  // namespace weft::python
