// train: a whole run from a recipe, as `weft train` does it: data, model, steps, evaluations, final report.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "weft/base/run_board.h"
#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"

namespace weft {

/// What train() does beside the recipe.
struct TrainOptions {
  std::string trace_path = {};             ///< times of one step as a trace, written by rank 0; empty: none
  std::optional<int64_t> trace_step = {};  ///< counted from 1; without: the third, or the last of fewer
  /// The final weights, or their average where that is evaluated, as safetensors, written by rank 0; empty: not saved.
  std::string save_path = {};
  std::function<void(int64_t steps_done)> on_progress = {};         ///< called on each rank as it begins, and after each step
  std::function<void(const StepReport&)> on_step = {};              ///< called on rank 0 after each step
  std::function<void(const EvaluationReport&)> on_evaluation = {};  ///< called on rank 0 after each evaluation
  std::function<void(const SaveReport&)> on_save = {};              ///< called on rank 0 once a checkpoint is whole
  std::function<void(const std::string&)> on_note = {};             ///< called on rank 0 with lines on what it resumes from
  /// Whether this rank was asked to save and end; asked in each step and around evaluations, on every rank, where save.folder
  /// is set. Empty: never.
  std::function<bool()> stop_asked = {};
  std::function<void()> stop_saved = {};  ///< called on every rank once that is saved: what is left to do takes a moment
  RunBoard* board = nullptr;              ///< of the launcher that starts these ranks again; null: none
  bool resume_anyway = false;  ///< a checkpoint of another model, data, batch, optimizer or seed will do, as far as it fits
};

/// Throws InputError for a step to trace that the run does not have, where it is told in steps. train() checks that too, and
/// check_files(): these are for whoever starts ranks, to tell it once.
void check_options(const Recipe& recipe, const TrainOptions& options);

/// Throws InputError for a file that cannot be written. Rank 0's to call, which writes: others need not have its folder.
void check_files(const TrainOptions& options);

/// Runs the recipe on this rank. Every rank of the world calls it with the same recipe; the report is complete on rank 0. Sets
/// the number of threads of this process as the recipe says. Throws Error for what is wrong, before anything is written.
FinalReport train(const Recipe& recipe, const World& world, const TrainOptions& options = {});

}  // namespace weft
