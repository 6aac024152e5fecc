// StudySettings: settings shared by all points of a study, stored in its folder so that points of another recipe are not added.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"
#include "weft/study/study_grid.h"

namespace weft {

/// The settings as JSON: the recipe's keys except the grid's, the target and the limits.
std::string study_settings(const Recipe& recipe, const StudyGrid& grid);

/// Lists the differences between two settings, one per line: "model.width was 32, is 16". Batches, rates and optimizers may
/// differ, as may keys that change no figure (threads, workers, checkpoint paths). Throws InputError naming `path` if no study
/// wrote `before`.
std::vector<std::string> settings_changes(const std::string& before, const std::string& now, const std::string& path);

}  // namespace weft
