#include "weft/plan/pipeline/pipeline_plan.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "weft/base/input_file.h"
#include "weft/plan/cost/block_work.h"
#include "weft/plan/pipeline/schedule_search.h"
#include "weft/plan/pipeline/stage_fitter.h"
#include "weft/plan/pipeline/stages_text.h"
#include "weft/program/build/make_schedule.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

Hardware hardware_of(const Recipe& recipe, const ResolvedLayout& layout) {
  if (recipe.layout.profile.empty()) return counted_operations();
  Hardware hardware = load_hardware(recipe.layout.profile);
  in_hardware_file(recipe.layout.profile, [&] { check_micro_batch(hardware, layout.micro_batch); });
  return hardware;
}

std::vector<BlockWork> work_on(const Recipe& recipe, const Plan& base, const Hardware& hardware) {
  std::vector<BlockWork> work;
  in_hardware_file(recipe.layout.profile, [&] { work = block_work(base.cost, base.layout.options, base.layout, hardware); });
  return work;
}

PipelineShape shape_of(const ResolvedLayout& layout) {
  return {.ranks = layout.pp, .chunks = layout.options.pipeline.chunks, .micro_batches = layout.micro_batches};
}

void check_before_search(const Recipe& recipe, const Plan& base) {
  if (recipe.layout.schedule == "auto") check_searchable(recipe, base);
  check_size(base.cost, base.layout.options, base.layout);
}

}  // namespace

std::string read_schedule(const LayoutRecipe& layout) {
  constexpr int64_t kLongest = 64 << 20;  // ten million tasks
  return read_text_file("schedule (layout.schedule_file)", layout.schedule_file, kLongest);
}

Schedule named_schedule(const Recipe& recipe, const ResolvedLayout& layout) {
  const std::string& name = layout.options.pipeline.schedule;
  ScheduleInputs inputs;
  inputs.csv = name == "csv" ? read_schedule(recipe.layout) : "";
  inputs.csv_path = recipe.layout.schedule_file;
  return make_schedule(name, shape_of(layout), inputs);
}

std::vector<BlockWork> work_of(const Recipe& recipe, const Plan& base) {
  return work_on(recipe, base, hardware_of(recipe, base.layout));
}

Plan plan_pipeline(const Recipe& recipe, const Plan& base) {
  const Hardware hardware = hardware_of(recipe, base.layout);
  const std::vector<BlockWork> work = work_on(recipe, base, hardware);
  check_before_search(recipe, base);
  FoundSchedule found;
  if (recipe.layout.schedule == "auto") {
    found = search_schedule(recipe, base, hardware, work);
  } else {
    found.plan = StageFitter(recipe, base, work).fitted(named_schedule(recipe, base.layout)).take();
  }
  Plan plan = std::move(found.plan);
  plan.stages_text = stages_text(recipe.layout, plan, block_seconds(work), found.searched);
  const std::string untimed = untimed_blocks_text(hardware, plan.program->block_names);
  if (!untimed.empty()) plan.stages_text += fmt::format("  {}\n", untimed);
  return plan;
}

void check_pipeline(const Recipe& recipe, const Plan& base) {
  const std::vector<BlockWork> work = work_of(recipe, base);
  check_before_search(recipe, base);
  const bool searched = recipe.layout.schedule == "auto";
  if (searched) check_fills_ranks("auto", shape_of(base.layout));
  const int stages = searched ? base.layout.pp : named_schedule(recipe, base.layout).num_stages();
  StageFitter(recipe, base, work).cut(stages).take();
}

}  // namespace weft
