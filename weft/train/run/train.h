// train: a whole run from a recipe, like `weft train`: data, model, steps, evaluations, final report.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/base/run_board.h"
#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"

namespace weft {

/// Options of train() besides the recipe.
struct TrainOptions {
  std::string trace_path = {};             ///< trace of one step's times, written by rank 0; empty: none
  std::optional<int64_t> trace_step = {};  ///< counted from 1; default: the third, or the last if fewer
  /// File for the final weights, or their average if that is evaluated, as safetensors, written by rank 0; empty: not saved.
  std::string save_path = {};
  std::function<void(int64_t steps_done)> on_progress = {};         ///< called on each rank at the start and after each step
  std::function<void(const StepReport&)> on_step = {};              ///< called on rank 0 after each step
  std::function<void(const EvaluationReport&)> on_evaluation = {};  ///< called on rank 0 after each evaluation
  std::function<void(const SaveReport&)> on_save = {};              ///< called on rank 0 once a checkpoint is complete
  std::function<void(const std::string&)> on_note = {};             ///< called on rank 0 with lines about the start or resume
  /// Returns true if this rank was asked to save and end; called in each step and around evaluations, on every rank, if
  /// save.folder is set. Empty: never.
  std::function<bool()> stop_asked = {};
  std::function<void()> stop_saved = {};  ///< called on every rank once that state is saved: the run ends soon
  RunBoard* board = nullptr;              ///< board of the launcher that restarts these ranks; null: none
  bool resume_anyway = false;  ///< accept a checkpoint of another model, data, batch, optimizer or seed, as far as it fits
};

/// Throws InputError if the step to trace is beyond the run's end, as far as the length is given in steps. train() checks this
/// and check_files() too; a launcher calls both first, so that an error is reported once, not once per rank.
void check_options(const Recipe& recipe, const TrainOptions& options);

/// Throws InputError for a file that cannot be written, and FileError for an invalid run.hardware. Call it only on rank 0,
/// which writes and reads these files: other hosts may lack them.
void check_files(const Recipe& recipe, const TrainOptions& options);

/// Runs the recipe on this rank. Every rank of the world calls it with the same recipe; the report is complete on rank 0. Sets
/// the thread count of this process as the recipe says. Throws Error for invalid input, before anything is written.
FinalReport train(const Recipe& recipe, const World& world, const TrainOptions& options = {});

}  // namespace weft
