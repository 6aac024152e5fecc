// replay: runs steps of a run again, from the newest checkpoint before them, as `weft replay` does: with the run's own recipe,
// data order and random numbers, so the same bits on the same layout, and with checks. Nothing of the run is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/engine/finding.h"
#include "weft/engine/step_checks.h"
#include "weft/recipe/recipe.h"
#include "weft/train/run/recorded_steps.h"

namespace weft {

/// What to replay.
struct ReplayOptions {
  std::string folder = {};                  ///< of a run, or of its checkpoints
  std::optional<int64_t> step = {};         ///< the first, counted from 1; default: the one that failed, else the last recorded
  int64_t steps = 1;                        ///< number of steps, checked one by one
  std::string checks = "operators";         ///< "operators", "ranges" (by block alone), "none"
  std::vector<std::string> overrides = {};  ///< in load_recipe() form
};

/// Facts known before the ranks start, the same on all of them.
struct ReplayPlan {
  std::string folder;  ///< records are read there
  std::string checkpoint = {};
  int64_t step = 0;  ///< the first that is checked, counted from 1
  int64_t steps = 1;
  std::string checks = {};
  int ranks = 1;  ///< of the run
  Recipe recipe = {};
  std::string data = {};  ///< data_text() of the run's training data
};

/// Finds checkpoint and recipe. Throws InputError if there are none, or none before that step.
ReplayPlan plan_replay(const ReplayOptions& options);

/// A step that was replayed.
struct ReplayedStep {
  int64_t step = 0;  ///< counted from 1
  double loss = 0.0, norm = 0.0;
  RecordedStep recorded = {};
  std::vector<BlockRange> ranges = {};   ///< over all ranks; block names are the model's
  std::vector<std::string> blocks = {};  ///< names
  std::string error = {};                ///< of a step that failed, as the run's
  std::vector<Finding> findings = {};    ///< of all ranks, the first one first
};

/// "same bits as recorded", "loss 2.3 was recorded as 2.4", "the run recorded no numbers of this step".
std::string recorded_text(const ReplayedStep& step);

/// Replays. Calls `on_step` on rank 0 after each step that is checked; stops after one that fails. `on_note` gets lines about
/// the start. Collective over the world.
void replay(const ReplayPlan& plan, const World& world, const std::function<void(const ReplayedStep&)>& on_step,
            const std::function<void(const std::string&)>& on_note);

}  // namespace weft
