// StudyGrid: the trainings of a study: a recipe at every batch, learning rate and optimizer of a grid, each until it reaches a
// target. Points differ by overrides of the recipe's keys; nothing here trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// The request for a study.
struct StudyGrid {
  std::vector<int64_t> batches = {};             ///< batch.global of each column
  std::vector<double> rates = {};                ///< optimizer.lr; empty: the recipe's own
  std::vector<std::string> optimizers = {};      ///< optimizer.name, one series each; empty: the recipe's own
  std::string target = {};                       ///< run.target
  std::optional<int64_t> steps_limit = {};       ///< step limit per point; unset: run.steps
  std::optional<int64_t> samples_limit = {};     ///< sample limit per point; unset: no limit
  std::optional<int64_t> evaluate_samples = {};  ///< samples between evaluations, approximately; unset: as in the recipe
  std::optional<int64_t> micro = {};             ///< largest forward; unset: batch.micro, or no limit
  int ranks = 1;                                 ///< number of ranks per point
};

/// One training.
struct StudyPoint {
  std::string optimizer = {};               ///< its series
  int64_t batch = 0;                        ///< samples per step
  double rate = 0.0;                        ///< optimizer.lr
  int64_t steps = 0;                        ///< limit on steps
  int64_t evaluate_every = 0;               ///< steps between evaluations: the resolution of steps to the target
  std::vector<std::string> overrides = {};  ///< overrides of the recipe, "section.key=value"

  /// Returns "sgd-b128-lr0.03", for file names.
  std::string name() const;
};

/// Parses a list "32,64,...,8192": three dots repeat the factor between the two numbers before them, up to the number after
/// them. Throws InputError, worded to follow an option's name, for any other text or a number that is not above 0.
std::vector<double> parse_progression(const std::string& text);
/// The same for whole numbers only.
std::vector<int64_t> parse_whole_progression(const std::string& text);

/// Step limit of a point, from the grid or the recipe; empty if neither gives it in steps.
std::optional<int64_t> most_steps(const Recipe& recipe, const StudyGrid& grid);
/// Samples between evaluations, from the grid or the recipe; empty if neither gives them in steps or samples.
std::optional<int64_t> evaluation_samples(const Recipe& recipe, const StudyGrid& grid);

/// Returns the points, ordered by batch, optimizer and rate, each once. Intervals between evaluations are proportional to the
/// batch, at least one step. `own_overrides` come from the command line. Throws InputError for a recipe that allows no such
/// points: each is checked as `weft train` would on `grid.ranks` ranks.
std::vector<StudyPoint> study_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const StudyGrid& grid);

}  // namespace weft
