// EvaluationRecipe: a section [[evaluation]] of a recipe: an evaluation set in addition to that of [data]. Plain data.
#pragma once

#include <string>

namespace weft {

/// A section [[evaluation]].
struct EvaluationRecipe {
  std::string name;  ///< name in printed output
  std::string path;  ///< file or folder in the format of data.name; used in full
};

}  // namespace weft
