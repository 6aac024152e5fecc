// Looks at all of a recipe's data before a training does: decodes every image, reads every token, on all cores of this machine.
// Needs no ranks and no model; memory is that of opening the data, 8 bytes an image and 8 MB a core.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/recipe/recipe.h"
#include "weft/train/run/data_report.h"

namespace weft {

/// How data is looked at.
struct CheckDataOptions {
  int threads = 0;  ///< 0: one a core
  /// Called now and then, from any thread but never twice at once, with how much of a set is done: images or tokens.
  std::function<void(const std::string& set, int64_t done, int64_t all)> on_progress = {};
};

/// What all sets of the recipe hold: training, evaluation and [[evaluation]], of every part of a mixture. What is damaged is no
/// error but told; so is a set that cannot be opened, and, where nothing of the sets ends a training, what it would end at when
/// it opens the data. Throws InputError for keys of model and data that do not go together.
DataReport check_data(const Recipe& recipe, const CheckDataOptions& options = {});

}  // namespace weft
