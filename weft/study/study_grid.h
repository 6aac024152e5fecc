// StudyGrid: what a study trains: a recipe at every batch, learning rate and optimizer of a grid, each point until it reaches a
// target. What differs from point to point are overrides of the recipe's keys; nothing here trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// What a study is asked for.
struct StudyGrid {
  std::vector<int64_t> batches = {};             ///< batch.global of each column
  std::vector<double> rates = {};                ///< optimizer.lr; empty: the recipe's own
  std::vector<std::string> optimizers = {};      ///< optimizer.name, a series each; empty: the recipe's own
  std::string target = {};                       ///< run.target
  std::optional<int64_t> steps_limit = {};       ///< most steps of a point; none: run.steps
  std::optional<int64_t> samples_limit = {};     ///< most samples of a point; none: no such limit
  std::optional<int64_t> evaluate_samples = {};  ///< about so many between evaluations; none: as many as in the recipe
  std::optional<int64_t> micro = {};             ///< most samples of a forward; none: batch.micro, or no such limit
  int ranks = 1;                                 ///< of each point
};

/// One training.
struct StudyPoint {
  std::string optimizer = {};               ///< its series
  int64_t batch = 0;                        ///< samples a step
  double rate = 0.0;                        ///< optimizer.lr
  int64_t steps = 0;                        ///< at most
  int64_t evaluate_every = 0;               ///< steps: as finely as steps to the target are known
  std::vector<std::string> overrides = {};  ///< of the recipe, "section.key=value"

  /// "sgd-b128-lr0.03", for files.
  std::string name() const;
};

/// The numbers of a list "32,64,...,8192": three dots go on by the factor between the two before them, up to the one after.
/// Throws InputError, in words that follow an option's name, for another text, or a number that is not above 0.
std::vector<double> parse_progression(const std::string& text);
/// The same where all must be whole.
std::vector<int64_t> parse_whole_progression(const std::string& text);

/// Most steps of a point, by the grid or the recipe; none where neither tells them in steps.
std::optional<int64_t> most_steps(const Recipe& recipe, const StudyGrid& grid);
/// Samples between evaluations, likewise; none where neither tells them in steps or samples.
std::optional<int64_t> evaluation_samples(const Recipe& recipe, const StudyGrid& grid);

/// The points, by batch, then optimizer, then rate, each once. Intervals between evaluations are in proportion to the batch, at
/// least a step. `own_overrides` are the command
/// line's. Throws InputError for a recipe that has no such points: each is checked as `weft train` would check it, on
/// `grid.ranks` ranks.
std::vector<StudyPoint> study_points(const std::string& recipe_path, const std::vector<std::string>& own_overrides,
                                     const StudyGrid& grid);

}  // namespace weft
