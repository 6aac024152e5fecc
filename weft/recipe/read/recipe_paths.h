// The files and folders that a recipe names: for who runs it elsewhere than here.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// A place that a recipe names.
struct RecipePath {
  std::string key;       ///< "data.path"
  std::string path;      ///< as the recipe has it: a path, a pattern or a URL
  bool is_kept = false;  ///< written, for after the run
};

/// Whether it is a place in an object store: "s3://bucket/path".
bool is_url(const std::string& path);

/// All that are set, in the order of the recipe's sections.
std::vector<RecipePath> recipe_paths(const Recipe& recipe);

}  // namespace weft
