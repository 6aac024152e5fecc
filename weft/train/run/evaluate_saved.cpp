#include "weft/train/run/evaluate_saved.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/checkpoint/weights/weights_file.h"
#include "weft/plan/make_plan.h"
#include "weft/program/axis_names.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/open_data.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/saved_recipe.h"
#include "weft/train/run/evaluation_sets.h"
#include "weft/train/run/final_report.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/recipe_agreement.h"
#include "weft/train/run/start_notes.h"
#include "weft/train/save/run_state.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

namespace {

/// Returns true if a folder or URL is a checkpoint or holds some.
bool holds_checkpoints(const std::string& path) {
  std::error_code code;
  if (!is_url(path) && !std::filesystem::is_directory(path, code)) return false;
  const std::unique_ptr<Storage> storage = open_storage(path);
  return is_complete(*storage, "") || !complete_checkpoints(*storage).empty();
}

/// Returns true if the overrides set an axis of the mesh.
bool overrides_set_mesh(const std::vector<std::string>& overrides) {
  return std::any_of(overrides.begin(), overrides.end(), [](const std::string& override) {
    const std::string key = override.substr(0, override.find('='));
    return std::any_of(kAxisNames.begin(), kAxisNames.end(),
                       [&](const char* axis) { return key == std::string("layout.") + axis; });
  });
}

/// Divides layers and sequences like the recipe, without the parts that only steps use: schedules, recompute, offloading.
LayoutRecipe forward_layout(const LayoutRecipe& whole) {
  LayoutRecipe layout = whole;
  const LayoutRecipe plain;
  if (layout.style != "mesh") layout.pp = 1;
  layout.style = plain.style;
  layout.sync_batch_norm = plain.sync_batch_norm;
  layout.schedule = plain.schedule;
  layout.chunks = plain.chunks;
  layout.stages = layout.schedule == whole.schedule && whole.stages != "auto" ? whole.stages : "even";
  layout.schedule_file = layout.profile = {};
  layout.stage_gb = 0.0;
  layout.schedule_activations = 0;
  layout.recompute = plain.recompute;
  layout.offload_optimizer = layout.offload_activations = plain.offload_optimizer;
  return layout;
}

LayoutRecipe replicas(const LayoutRecipe& whole) {
  LayoutRecipe layout = whole;
  layout.dp = layout.shard = std::nullopt;
  layout.pp = layout.cp = layout.tp = 1;
  layout.sequence_parallel = false;
  layout.tp_chunks = 1;
  layout.inner_shards = 0;
  return layout;
}

/// The recipe for this many ranks, without the settings that only steps use. The micro-batch is that of the training unless it
/// depended on the number of ranks, because the last digits of results may depend on it.
Recipe forward_recipe(const Recipe& whole, int ranks) {
  Recipe recipe = whole;
  recipe.layout = forward_layout(whole.layout);
  recipe.optimizer = {};
  recipe.optimizer.name = "sgd";
  recipe.optimizer.momentum = 0.0;
  recipe.batch.ramp.clear();
  recipe.run.noise_scale = false;
  const int64_t slots = whole.run.reproducible_slots;
  if (slots > 0 && !recipe.run.threads) recipe.run.threads = 1;
  recipe.run.reproducible_slots = 0;
  const int64_t parts = slots > 0 ? slots : ranks;
  const int64_t micro = whole.batch.micro.value_or(std::max<int64_t>(1, whole.batch.global / parts));
  recipe.batch.micro = micro;
  recipe.batch.global = micro * ranks;  // divisible for any mesh of these ranks
  return recipe;
}

Recipe fit_to_ranks(const Recipe& whole, int ranks, bool may_change_mesh, std::vector<std::string>& notes) {
  Recipe recipe = forward_recipe(whole, ranks);
  try {
    check_plan(recipe, ranks);
    return recipe;
  } catch (const InputError& error) {
    if (!may_change_mesh) throw;
    notes.push_back(
        fmt::format("the run's mesh does not fit {}: evaluated on replicas; --set layout.tp=2 and the like change it ({})",
                    counted(ranks, "rank"), error.what()));
  }
  recipe.layout = replicas(recipe.layout);
  check_plan(recipe, ranks);
  return recipe;
}

/// Adds the checkpoint's information; its recipe is that of its run.
void look_at_checkpoint(const EvaluateOptions& options, EvaluationPlan& plan) {
  const SavedCheckpoint checkpoint(options.weights);
  plan.weights = checkpoint.path();
  plan.is_checkpoint = true;
  plan.has_average = has_average(checkpoint.index());
  const auto text = run_state_in(checkpoint.index().texts);
  if (text) plan.step = static_cast<int64_t>(parse_run_state(*text, plan.weights).clock.steps);
  if (!options.recipe.empty()) return;
  if (!text) throw InputError(fmt::format("{}: not saved by `weft train`, so it holds no recipe; name one", plan.weights));
  const RunState state = parse_run_state(*text, plan.weights);
  plan.recipe = recipe_of_values(state.recipe, plan.weights, options.overrides);
  if (is_of_program(state) && plan.recipe.data.path == "program") {
    throw InputError(
        fmt::format("{}: saved by a program, which has the data; load and evaluate it there (Python: Trainer.load() and "
                    "evaluate()), or name a recipe of this model and data: weft evaluate {} RECIPE",
                    plan.weights, options.weights));
  }
}

/// The recipe maps names only in other tools' files; weft's files use the model's names.
WeightsOptions options_of(const EvaluationPlan& plan) {
  if (plan.is_checkpoint || plan.recipe.model.weight_names.empty()) return {};
  if (!open_weights(plan.weights)->origin().options.empty()) return {};
  return {.names = WeightNames::from_file(plan.recipe.model.weight_names)};
}

/// Skipped data is the same on all ranks.
SkippedData skipped_data(const Datasets& data, const EvaluationSets& sets, Trainer& trainer, const World& world,
                         at::Device device) {
  const DataNotes left = left_out(data);
  std::vector<std::string> names = world.rank() == 0 ? texts_of(left) : std::vector<std::string>();
  for (std::string& name : sets.skipped()) names.push_back(std::move(name));
  return {.names = united(trainer, device, names), .more = count_of(left) - static_cast<int64_t>(left.size())};
}

}  // namespace

EvaluationPlan plan_evaluation(const EvaluateOptions& options, int ranks) {
  EvaluationPlan plan{.weights = options.weights, .recipe_path = options.recipe, .recipe = {}};
  if (!options.recipe.empty()) plan.recipe = load_recipe(options.recipe, options.overrides);
  if (holds_checkpoints(options.weights)) {
    look_at_checkpoint(options, plan);
  } else {
    open_weights(options.weights);  // throws a specific error
    if (options.recipe.empty()) {
      throw InputError(
          fmt::format("{}: weights hold no recipe; name one: weft evaluate {} RECIPE", options.weights, options.weights));
    }
  }
  const bool may_change_mesh = options.recipe.empty() && !overrides_set_mesh(options.overrides);
  plan.recipe = fit_to_ranks(plan.recipe, ranks, may_change_mesh, plan.notes);
  return plan;
}

EvaluatedWeights evaluate_saved(const EvaluationPlan& plan, const World& world,
                                const std::function<void(const EvaluationReport&)>& on_evaluation) {
  const Recipe& recipe = plan.recipe;
  at::set_num_threads(threads_of(recipe, world));
  const ResolvedLayout layout = resolve(recipe, world.size());
  const Mesh mesh(world, mesh_axes(layout));
  const Datasets data = open_data(recipe);
  EvaluationSets sets(recipe, data, layout.micro_batch, mesh.join({"dp", "shard"}).index, layout.data_ranks());
  TrainerOptions options = trainer_options(recipe, layout, device_of(recipe, world));
  options.parameters = {{.names = "*", .frozen = true}};
  options.agreement = recipe_agreement(recipe, data) + fmt::format("weights: {}\n", plan.weights);
  Trainer trainer(mesh, build_model(recipe.model), Sgd{.momentum = 0.0}, options);
  EvaluatedWeights result{
      .evaluation = {.path = plan.weights, .recipe = plan.recipe_path, .model = recipe.model.name, .world = world.size()}};
  for (const Param& param : trainer.model().params())
    result.evaluation.parameters += param.group == ParamGroup::statistic ? 0 : param.whole_numel();
  WeightsOptions weights = options_of(plan);
  for (const bool averaged : {true, false}) {
    const bool is_due =
        averaged ? plan.has_average && recipe.run.evaluate != "weights" : !plan.has_average || recipe.run.evaluate != "ema";
    if (!is_due) continue;
    weights.average = averaged;
    trainer.load_weights(plan.weights, weights);
    for (EvaluationReport& report : sets.evaluate(trainer, 0)) {
      report.averaged = averaged;
      report.step = plan.step;
      if (on_evaluation) on_evaluation(report);
      result.evaluation.evaluations.push_back(report);
    }
  }
  if (recipe.data.skip_bad) result.skipped = skipped_data(data, sets, trainer, world, options.communication.device);
  return result;
}

}  // namespace weft
