// Checks all data of a recipe before a training: decodes every image and reads every token, on all cores of this machine. Needs
// no ranks and no model; memory is that of opening the data, 8 bytes per image and 8 MB per core.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "weft/recipe/recipe.h"
#include "weft/train/run/data_report.h"

namespace weft {

/// Options of the check.
struct CheckDataOptions {
  int threads = 0;  ///< 0: one per core
  /// Called now and then, from any thread but never concurrently, with the progress on a set: images or tokens.
  std::function<void(const std::string& set, int64_t done, int64_t all)> on_progress = {};
};

/// Reports on all sets of the recipe: training, evaluation and [[evaluation]], of every part of a mixture. Damaged data is
/// reported, not an error; so is a set that cannot be opened and, if the sets themselves are fine, the error that training
/// would stop with when it opens the data. Throws InputError for model and data keys that conflict.
DataReport check_data(const Recipe& recipe, const CheckDataOptions& options = {});

}  // namespace weft
