// From a recipe to its datasets: the one place that knows the data's names and where set-up puts the defaults.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/train/recipe/recipe.h"

namespace weft {

/// One more set to evaluate on.
struct NamedDataset {
  std::string name;               ///< evaluation.name
  std::shared_ptr<Dataset> data;  ///< all of it
};

/// The two parts of a recipe's data, and what it names besides.
struct Datasets {
  std::shared_ptr<Dataset> training;      ///< what steps draw from
  std::shared_ptr<Dataset> evaluation;    ///< what no step sees
  std::vector<NamedDataset> others = {};  ///< of the sections [[evaluation]]
};

/// Opens the recipe's data. Throws InputError naming the file and what to do, also when data and model do not fit (images for a
/// gpt).
Datasets open_data(const Recipe& recipe);

}  // namespace weft
