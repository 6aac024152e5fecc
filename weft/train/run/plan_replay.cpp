// What `weft replay` replays: the checkpoint, its recipe, and what the run recorded.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/parse_number.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/recipe/read/recipe_paths.h"
#include "weft/recipe/read/saved_recipe.h"
#include "weft/report/records/read_records.h"
#include "weft/report/records/record_files.h"
#include "weft/train/run/recorded_steps.h"
#include "weft/train/run/replay.h"
#include "weft/train/run/step_evidence.h"
#include "weft/train/save/run_state.h"

namespace weft {

namespace {

struct FoundCheckpoint {
  std::string path;
  int64_t step = 0;
};

void add_checkpoints(const std::string& folder, std::vector<FoundCheckpoint>& found) {
  std::error_code code;
  if (folder.empty() || (!is_url(folder) && !std::filesystem::is_directory(folder, code))) return;
  for (const int64_t step : complete_checkpoints(*open_storage(folder))) {
    found.push_back({folder + (folder.ends_with('/') ? "" : "/") + checkpoint_name(step), step});
  }
}

/// Step, from 1, of each folder of a failed step, ascending.
std::vector<std::pair<int64_t, std::string>> failed_steps(const std::string& folder) {
  std::vector<std::pair<int64_t, std::string>> steps;
  std::error_code code;
  const std::filesystem::path above = std::filesystem::path(folder) / kFailedFolder;
  if (is_url(folder) || !std::filesystem::is_directory(above, code)) return steps;
  for (const auto& entry : std::filesystem::directory_iterator(above)) {
    if (const auto step = checkpoint_step(entry.path().filename().string())) steps.emplace_back(*step, entry.path().string());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// A recipe that neither saves nor records.
Recipe without_output(Recipe recipe) {
  recipe.save = {};
  recipe.run.folder.clear();
  recipe.run.tensorboard = recipe.run.csv = false;
  recipe.run.histograms_every = {};
  recipe.run.restarts = 0;
  return recipe;
}

/// All checkpoints of the run, ascending: in its folder, else where it saved; and those of steps that failed.
std::vector<FoundCheckpoint> checkpoints_of(const std::string& folder, const RecordedRun& recorded,
                                            const std::vector<std::pair<int64_t, std::string>>& failed) {
  std::vector<FoundCheckpoint> found;
  add_checkpoints(folder, found);
  if (found.empty() && recorded.start()) add_checkpoints(detail_of(*recorded.start(), "recipe.save.folder"), found);
  for (const auto& [step, path] : failed) add_checkpoints(path, found);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

/// Steps of the whole run, as its records say; without those, no limit.
int64_t steps_of(const RecordedRun& recorded) {
  const std::string steps = recorded.start() ? detail_of(*recorded.start(), "steps") : "";
  return parse_number<int64_t>(steps).value_or(std::numeric_limits<int64_t>::max());
}

/// The newest one before the step.
const FoundCheckpoint& checkpoint_before(int64_t step, const std::vector<FoundCheckpoint>& found, const std::string& folder) {
  const FoundCheckpoint* newest = nullptr;
  for (const FoundCheckpoint& one : found) {
    if (one.step < step) newest = &one;
  }
  if (newest) return *newest;
  throw InputError(fmt::format(
      "{}: step {} needs the state before it, but the oldest checkpoint there is of step {}; --step {} is the first", folder,
      step, found.front().step, found.front().step + 1));
}

}  // namespace

ReplayPlan plan_replay(const ReplayOptions& options) {
  std::string folder = options.folder;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  ReplayPlan plan{.folder = folder, .steps = options.steps, .checks = options.checks};
  const bool is_checkpoint = is_complete(*open_storage(folder), "");
  const CheckpointPath at = parent_and_name(folder);
  if (is_checkpoint) plan.folder = at.storage;
  const RecordedRun recorded(plan.folder);
  const auto failed = failed_steps(plan.folder);
  const std::vector<FoundCheckpoint> found =
      is_checkpoint ? std::vector<FoundCheckpoint>{{folder, checkpoint_step(at.checkpoint).value_or(0)}}
                    : checkpoints_of(folder, recorded, failed);
  if (found.empty()) {
    throw InputError(fmt::format("{}: no checkpoint is there to replay from; set save.folder in the run, or name a checkpoint",
                                 options.folder));
  }
  plan.step = options.step      ? *options.step
              : !failed.empty() ? failed.back().first
                                : std::max(std::min(recorded.last_step(), steps_of(recorded)), found.front().step + 1);
  if (plan.step > steps_of(recorded)) {
    throw InputError(fmt::format("--step {}: the run has {} steps", plan.step, steps_of(recorded)));
  }
  plan.checkpoint = checkpoint_before(plan.step, found, options.folder).path;
  const SavedCheckpoint checkpoint(plan.checkpoint);
  const auto text = run_state_in(checkpoint.index().texts);
  if (!text) throw InputError(fmt::format("{}: not saved by `weft train`, so it holds no recipe", plan.checkpoint));
  const RunState state = parse_run_state(*text, plan.checkpoint);
  plan.recipe = without_output(recipe_of_values(state.recipe, plan.checkpoint, options.overrides));
  if (const auto data = state.data.find("training"); data != state.data.end()) plan.data = data->second;
  if (recorded.start()) {
    const std::string ranks = detail_of(*recorded.start(), "ranks");
    std::from_chars(ranks.data(), ranks.data() + ranks.size(), plan.ranks);
  }
  return plan;
}

}  // namespace weft
