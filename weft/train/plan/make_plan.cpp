#include "weft/train/plan/make_plan.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "weft/base/file_error.h"
#include "weft/program/build/build.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/verify/verify.h"
#include "weft/train/plan/model_cost.h"
#include "weft/train/plan/pipeline_plan.h"
#include "weft/train/recipe/hardware_file.h"
#include "weft/train/recipe/stages_by_hand.h"

namespace weft {

namespace {

/// One rank reads no key of a pipeline, but a mistake in one is a mistake.
void check_pipeline_keys(const LayoutRecipe& layout, const std::vector<std::string>& blocks) {
  check_stages_by_hand(layout.stages, static_cast<int>(blocks.size()));
  if (layout.schedule == "csv") csv_schedule(read_schedule(layout), layout.schedule_file);
  if (layout.profile.empty()) return;
  const Hardware hardware = load_hardware(layout.profile);
  in_hardware_file(layout.profile, [&] { check_block_times(hardware, blocks); });
}

/// call(), whose errors name the recipe.
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

void build_and_verify(Plan& plan) {
  plan.program =
      std::make_shared<const Program>(build_program(plan.cost, step_layout(plan.layout.options, plan.layout.counts)));
  verify(*plan.program);
}

}  // namespace

Plan plan_without_program(const Recipe& recipe, int world_size) {
  Plan plan;
  plan.layout = resolve(recipe, world_size);
  check_countable(recipe, plan.layout.micro_batch);
  in_recipe(recipe, [&] { plan.cost = model_cost(recipe, plan.layout.micro_batch, plan.layout.options, plan.layout.counts); });
  return plan;
}

Plan make_plan(const Recipe& recipe, int world_size) {
  Plan plan = plan_without_program(recipe, world_size);
  in_recipe(recipe, [&] {
    if (plan.layout.pp > 1 && !plan.layout.options.master) {
      plan = plan_pipeline(recipe, plan);
      verify(*plan.program);
    } else {
      build_and_verify(plan);
      check_pipeline_keys(recipe.layout, plan.program->block_names);
    }
  });
  return plan;
}

bool is_searched(const Recipe& recipe) {
  return recipe.layout.pp > 1 && (recipe.layout.schedule == "auto" || recipe.layout.stage_gb > 0.0);
}

Plan make_plan(const Recipe& recipe, int world_size, const PipelineOptions& found) {
  Plan plan = plan_without_program(recipe, world_size);
  plan.layout.options.pipeline.first_block = found.first_block;
  in_recipe(recipe, [&] {
    plan.layout.options.pipeline.given = found.given.tasks.empty() ? named_schedule(recipe, plan.layout) : found.given;
    build_and_verify(plan);
  });
  return plan;
}

void check_plan(const Recipe& recipe, int world_size) {
  if (!is_searched(recipe)) {
    make_plan(recipe, world_size);
    return;
  }
  const Plan plan = plan_without_program(recipe, world_size);
  in_recipe(recipe, [&] { check_pipeline(recipe, plan); });
}

}  // namespace weft
