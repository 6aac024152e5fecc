// EvaluationRecipe: a section [[evaluation]] of a recipe: one more set to evaluate on, beside the data's own. Plain data.
#pragma once

#include <string>

namespace weft {

/// A section [[evaluation]].
struct EvaluationRecipe {
  std::string name;  ///< what people read
  std::string path;  ///< of data as data.name is: a file or folder, all of which is evaluated on
};

}  // namespace weft
