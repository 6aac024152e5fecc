// RunState: what of a run is saved beside its trainer's state: its name, clock, metrics, recipe and data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/train/recipe/run_length.h"
#include "weft/train/report/report.h"

namespace weft {

/// The state of a run around its trainer.
struct RunState {
  std::string name = {};                            ///< run.name
  RunClock clock = {};                              ///< where it is
  double loss = 0.0;                                ///< of the last step
  std::optional<EvaluationReport> evaluation = {};  ///< the last one, on the data's own set
  std::vector<EvaluationReport> others = {};        ///< the last ones, on sets that the recipe names
  BestEvaluation best = {};                         ///< of all
  NoiseSums noise = {};                             ///< of the gradient noise scale
  std::map<std::string, std::string> recipe = {};   ///< by key
  std::map<std::string, std::string> data = {};     ///< data_text() of "training" and "evaluation"
};

/// As JSON.
std::string run_state_text(const RunState& state);
/// What such a text says. Throws InputError, beginning with `where`, for another one.
RunState parse_run_state(const std::string& text, const std::string& where);

/// The run's entry of a checkpoint's index, CheckpointIndex::texts; none where no `weft train` saved it.
std::optional<std::string> run_state_in(const std::map<std::string, std::string>& texts);

inline constexpr const char* kRunStateName = "run";  ///< that it is registered by

}  // namespace weft
