// RunState: the part of a run saved besides its trainer's state: name, clock, metrics, recipe and data.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/run_length.h"
#include "weft/report/report.h"

namespace weft {

/// State of a run around its trainer.
struct RunState {
  std::string name = {};                            ///< run.name
  RunClock clock = {};                              ///< progress
  double loss = 0.0;                                ///< of the last step
  std::optional<EvaluationReport> evaluation = {};  ///< the last one, on the data's own set
  std::vector<EvaluationReport> others = {};        ///< the last ones, on further sets
  BestEvaluation best = {};                         ///< over all evaluations
  NoiseSums noise = {};                             ///< for the gradient noise scale
  std::map<std::string, std::string> recipe = {};   ///< by key
  std::map<std::string, std::string> data = {};     ///< data_text() of "training" and "evaluation"
};

/// Writes JSON.
std::string run_state_text(const RunState& state);
/// Parses run_state_text(). Throws DamageError, starting with `where`, for any other text.
RunState parse_run_state(const std::string& text, const std::string& where);

/// Returns true if a program saved it, through the Python module or the C interface: only name, steps, samples and recipe are
/// set, and what the recipe says of data, as of a Python program's model, stands in for the program's own.
bool is_of_program(const RunState& state);

/// Returns true if evaluation figures of both are comparable: same data set and model, and the average of the weights in both,
/// or in neither. `averaged`: those of `now` use the average.
bool evaluations_compare(const RunState& before, const RunState& now, bool averaged);

/// The run's entry in a checkpoint's index, CheckpointIndex::texts; empty if `weft train` did not save it.
std::optional<std::string> run_state_in(const std::map<std::string, std::string>& texts);

inline constexpr const char* kRunStateName = "run";  ///< name it is registered under

}  // namespace weft
