// The data of a model that reads arrays (data/arrays/array_set.h).
#pragma once

#include <memory>
#include <string>

#include "weft/data/dataset.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// Opens the training or evaluation part; `set` is the folder of a further evaluation set, or empty. Throws InputError as
/// open_arrays() does.
std::shared_ptr<Dataset> open_array_part(const Recipe& recipe, const std::string& set, bool training);

}  // namespace weft
