#include "weft/plan/pipeline/stages_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/units.h"
#include "weft/program/build/stages.h"

namespace weft {

namespace {

/// Reports the blocks whose backward the schedule would split but cannot.
std::string whole_backwards_text(const Schedule& schedule, const ModelCost& cost) {
  const auto splits = [](const Task& task) { return task.kind == TaskKind::backward_input; };
  const bool any = std::any_of(schedule.tasks.begin(), schedule.tasks.end(),
                               [&](const std::vector<Task>& tasks) { return std::any_of(tasks.begin(), tasks.end(), splits); });
  std::string names;
  for (const BlockCost& block : cost.blocks) {
    if (any && !block.splits) names += (names.empty() ? "" : ", ") + block.name;
  }
  return names.empty() ? "" : fmt::format("  backward is not split (runs whole with its first part) in: {}\n", names);
}

std::string searched_text(const std::string& taken, const Searched& searched) {
  const std::string fewer = searched.fewer_activations == 0 ? ""
                                                            : fmt::format(" with {}, the most that keep layout.stage_gb",
                                                                          counted(searched.fewer_activations, "activation"));
  if (taken == "auto") return fewer.empty() ? "" : fmt::format("  schedule: searched{}\n", fewer);
  if (!searched.fits) return fmt::format("  schedule: {}, as the searched one exceeds layout.stage_gb\n", taken);
  return fmt::format("  schedule: {}, whose step is shorter than that of the one searched{}\n", taken, fewer);
}

}  // namespace

std::string stages_text(const LayoutRecipe& recipe, const Plan& plan, const std::vector<double>& seconds,
                        const Searched& searched) {
  const PipelineOptions& pipeline = plan.layout.options.pipeline;
  const ModelCost& cost = plan.cost;
  double total = 0.0, longest = 0.0;
  for (const double s : seconds) total += s;
  const std::vector<StageBlocks> stages = stages_of(pipeline.first_block, static_cast<int>(cost.blocks.size()));
  std::string text;
  for (size_t s = 0; s < stages.size(); ++s) {
    const auto [first, last] = stages[s];
    double share = 0.0;
    for (int b = first; b < last; ++b) share += seconds[b];
    longest = std::max(longest, share);
    const std::string names =
        last == first + 1 ? cost.blocks[first].name : cost.blocks[first].name + " .. " + cost.blocks[last - 1].name;
    text += fmt::format("  stage {} on pipeline rank {}: {} ({:.1f} % of the work)\n", s, pipeline.given.rank_of_stage[s],
                        names, 100.0 * share / total);
  }
  text += whole_backwards_text(pipeline.given, cost);
  if (const int count = plan.layout.micro_batches; count < plan.layout.pp) {
    text += fmt::format("  {} for {} ranks: some ranks always wait; a smaller batch.micro shortens the step\n",
                        counted(count, "micro-batch", "es"), plan.layout.pp);
  }
  if (searched.free_messages) text += "  messages: not measured, taken as free\n";
  if (recipe.schedule == "auto") text += searched_text(pipeline.given.name, searched);
  const std::string by = recipe.profile.empty() ? "counted operations" : "times of " + recipe.profile;
  const std::string how = recipe.stages == "auto" ? "balanced by " + by : "as layout.stages says";
  const double ideal = total / static_cast<double>(stages.size());
  return fmt::format("{} stages, {}; the slowest has {:.2f} times an even share\n{}", stages.size(), how, longest / ideal,
                     text);
}

}  // namespace weft
