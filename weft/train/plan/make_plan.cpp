#include "weft/train/plan/make_plan.h"

#include <fmt/format.h>

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

}  // namespace

Plan make_plan(const Recipe& recipe, int world_size) {
  Plan plan;
  plan.layout = resolve(recipe, world_size);
  check_countable(recipe, plan.layout.micro_batch);
  plan.cost = model_cost(recipe, plan.layout.micro_batch, plan.layout.options, recipe.run.reproducible_slots > 0);
  try {
    if (plan.layout.pp > 1) {
      plan = plan_pipeline(recipe, plan);
    } else {
      plan.program = build_program(plan.cost, step_layout(plan.layout.options, plan.layout.counts));
      check_pipeline_keys(recipe.layout, plan.program.block_names);
    }
    verify(plan.program);
  } catch (const FileError&) {
    throw;
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", recipe.path, error.what()));
  } catch (const VerifyError& error) {
    throw VerifyError(error.defect, error.rank, fmt::format("{}: {}", recipe.path, error.what()));
  }
  return plan;
}

}  // namespace weft
