#include "weft/plan/make_plan.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/file_error.h"
#include "weft/plan/cost/check_countable.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/pipeline/pipeline_plan.h"
#include "weft/program/build/build.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/verify/verify.h"
#include "weft/recipe/stages_by_hand.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

/// Checks pipeline keys even for one rank, which uses none of them.
void check_pipeline_keys(const LayoutRecipe& layout, const std::vector<std::string>& blocks) {
  check_stages_by_hand(layout.stages, static_cast<int>(blocks.size()));
  if (layout.schedule == "csv") csv_schedule(read_schedule(layout), layout.schedule_file);
  if (layout.profile.empty()) return;
  const Hardware hardware = load_hardware(layout.profile);
  in_hardware_file(layout.profile, [&] { check_block_times(hardware, blocks); });
}

/// Runs call() and adds the recipe's path to its errors.
template <class Call>
auto in_recipe(const Recipe& recipe, const Call& call) {
  try {
    return call();
  } catch (const FileError&) {
    throw;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", recipe.path, error.what()));
  } catch (const VerifyError& error) {
    throw VerifyError(error.defect, error.rank, fmt::format("{}: {}", recipe.path, error.what()));
  }
}

void build(Plan& plan) {
  plan.program = std::make_shared<const Program>(build_program(plan.cost, step_layout(plan.layout.options, plan.layout)));
}

/// Program of a phase, with the stages and buffers of the last phase, the largest; micro-batches cost the same in all phases.
std::shared_ptr<const Program> phase_program(const Recipe& recipe, const Plan& plan, int64_t global_batch) {
  Recipe alone = recipe;
  alone.batch.global = global_batch;
  alone.batch.ramp.clear();
  Plan phase;
  phase.layout = resolve(alone, plan.layout.world);
  LayoutOptions& options = phase.layout.options;
  options.pipeline.first_block = plan.layout.options.pipeline.first_block;
  StepLayout layout;
  in_recipe(recipe, [&] {
    if (phase.layout.pp > 1 && !options.master) options.pipeline.given = named_schedule(alone, phase.layout);
    layout = step_layout(options, phase.layout);
    layout.buffers = plan.program->buffers;
    phase.program = std::make_shared<const Program>(build_program(plan.cost, layout));
    verify(*phase.program);
  });
  return phase.program;
}

Plan with_ramp(const Recipe& recipe, Plan plan) {
  plan.ramp.reserve(recipe.batch.ramp.size());
  for (size_t i = 0; i < recipe.batch.ramp.size(); ++i) {
    try {
      plan.ramp.push_back(phase_program(recipe, plan, recipe.batch.ramp[i].global_batch));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{} (batch.global of phase {} of batch.ramp)", error.what(), i + 1));
    } catch (const VerifyError& error) {
      if (error.defect != Defect::buffer_conflict) throw;
      throw InputError(
          fmt::format("{} (phase {} of batch.ramp needs other blocks at a time than the last phase, for which "
                      "buffers are made; use another layout.schedule, or layout.shard_level = \"optimizer\")",
                      error.what(), i + 1));
    }
  }
  return plan;
}

}  // namespace

Plan plan_without_program(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs) {
  Plan plan;
  plan.layout = resolve(recipe, world_size);
  check_countable(recipe, plan.layout.micro_batch);
  if (costs) costs->check(recipe);
  in_recipe(recipe, [&] {
    plan.costs = costs ? std::move(costs) : std::make_shared<CostTable>(recipe);
    plan.cost = plan.costs->model_cost(plan.layout.micro_batch, plan.layout.options, plan.layout);
  });
  return plan;
}

Plan unverified_plan(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs) {
  Plan plan = plan_without_program(recipe, world_size, std::move(costs));
  in_recipe(recipe, [&] {
    if (plan.layout.pp > 1 && !plan.layout.options.master) {
      plan = plan_pipeline(recipe, plan);
    } else {
      build(plan);
      check_pipeline_keys(recipe.layout, plan.program->block_names);
    }
  });
  return plan;
}

Plan make_plan(const Recipe& recipe, int world_size, std::shared_ptr<CostTable> costs) {
  Plan plan = unverified_plan(recipe, world_size, std::move(costs));
  in_recipe(recipe, [&] { verify(*plan.program); });
  return with_ramp(recipe, std::move(plan));
}

bool is_searched(const Recipe& recipe) {
  return recipe.layout.pp > 1 && (recipe.layout.schedule == "auto" || recipe.layout.stage_gb > 0.0);
}

Plan make_plan(const Recipe& recipe, int world_size, const PipelineOptions& found) {
  Plan plan = plan_without_program(recipe, world_size);
  plan.layout.options.pipeline.first_block = found.first_block;
  in_recipe(recipe, [&] {
    plan.layout.options.pipeline.given = found.given.tasks.empty() ? named_schedule(recipe, plan.layout) : found.given;
    build(plan);
    verify(*plan.program);
  });
  return with_ramp(recipe, std::move(plan));
}

void check_plan(const Recipe& recipe, int world_size) {
  if (recipe.layout.style == "auto") return;  // a search finds what there is to find
  if (!is_searched(recipe)) {
    make_plan(recipe, world_size);
    return;
  }
  const Plan plan = plan_without_program(recipe, world_size);
  in_recipe(recipe, [&] { check_pipeline(recipe, plan); });
}

}  // namespace weft
