// TrainOptions: options of a whole run (train.h) besides its recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/run_board.h"
#include "weft/report/records/record.h"
#include "weft/report/report.h"

namespace weft {

/// Steps of a run, counted from 1.
struct StepRange {
  int64_t first = 1;
  int64_t last = 1;  ///< included
};

/// Options of train() besides the recipe.
struct TrainOptions {
  std::string trace_path = {};                  ///< trace of one step's times, written by rank 0; empty: none
  std::optional<int64_t> trace_step = {};       ///< counted from 1; default: the third, or the last if fewer
  std::optional<StepRange> profile_steps = {};  ///< profiled (docs/slow.md): files in the folder of the run's records
  std::function<void(const std::string&)> on_profile = {};  ///< called on rank 0 with the profile as text
  /// File for the final weights, or their average if that is evaluated, as safetensors, written by rank 0; empty: not saved.
  std::string save_path = {};
  std::function<void(int64_t steps_done)> on_progress = {};         ///< called on each rank at the start and after each step
  std::function<void(const StepReport&)> on_step = {};              ///< called on rank 0 after each step
  std::function<void(const EvaluationReport&)> on_evaluation = {};  ///< called on rank 0 after each evaluation
  std::function<void(const SaveReport&)> on_save = {};              ///< called on rank 0 once a checkpoint is complete
  /// Called on rank 0, in a thread of their own, with every record of the run (docs/records.md): the program's own sinks. One
  /// that throws is reported and called no more.
  std::vector<std::function<void(const Record&)>> sinks = {};
  std::function<void(const std::string&)> on_note = {};  ///< called on rank 0 with lines about the start or resume
  /// Returns true if this rank was asked to save and end; called in each step and around evaluations, on every rank, if
  /// save.folder is set. Empty: never.
  std::function<bool()> stop_asked = {};
  std::function<void()> stop_saved = {};  ///< called on every rank once that state is saved: the run ends soon
  RunBoard* board = nullptr;              ///< board of the launcher that restarts these ranks; null: none
  bool resume_anyway = false;  ///< accept a checkpoint of another model, data, batch, optimizer or seed, as far as it fits
};

}  // namespace weft
