// RunState: what of a run is saved beside its trainer's state: its name, clock, metrics, recipe and data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/run_length.h"
#include "weft/report/report.h"

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
/// What such a text says. Throws DamageError, beginning with `where`, for another one.
RunState parse_run_state(const std::string& text, const std::string& where);

/// Whether figures of evaluations of both may be compared: of one data set and one model, and of the average of the weights, or
/// of the weights, in both. `averaged`: those of `now` are of the average.
bool evaluations_compare(const RunState& before, const RunState& now, bool averaged);

/// The run's entry of a checkpoint's index, CheckpointIndex::texts; none where no `weft train` saved it.
std::optional<std::string> run_state_in(const std::map<std::string, std::string>& texts);

inline constexpr const char* kRunStateName = "run";  ///< that it is registered by

}  // namespace weft
