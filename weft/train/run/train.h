// train: a whole run from a recipe, like `weft train`: data, model, steps, evaluations, final report.
#pragma once

#include "weft/comm/world.h"
#include "weft/recipe/recipe.h"
#include "weft/report/report.h"
#include "weft/train/run/train_options.h"

namespace weft {

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
