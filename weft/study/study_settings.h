// StudySettings: what all points of a study have in common, as its folder keeps it: points of another recipe are not taken for
// this one's.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"
#include "weft/study/study_grid.h"

namespace weft {

/// The settings as JSON: the recipe's keys but those of the grid, the target and the limits.
std::string study_settings(const Recipe& recipe, const StudyGrid& grid);

/// What differs between two of them, a line each: "model.width was 32, is 16". Batches, rates and optimizers may differ, and
/// keys that change no figure (threads, workers, where checkpoints go). Throws InputError, naming `path`, for a `before` that
/// no study wrote.
std::vector<std::string> settings_changes(const std::string& before, const std::string& now, const std::string& path);

}  // namespace weft
