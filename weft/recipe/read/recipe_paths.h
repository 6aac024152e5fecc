// The files and folders that a recipe names: for launchers that run it on other machines.
#pragma once

#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// A path named in a recipe.
struct RecipePath {
  std::string key;       ///< "data.path"
  std::string path;      ///< as written in the recipe: a path, a pattern or a URL
  bool is_kept = false;  ///< an output that stays after the run
};

/// Returns true for a place in an object store: "s3://bucket/path".
bool is_url(const std::string& path);

/// run.name, or the recipe's file name.
std::string run_name(const Recipe& recipe);

/// Where the run keeps its records: run.folder, or save.folder; empty: nowhere.
std::string records_place(const Recipe& recipe);
/// That place if it is a folder on disk, which other files go to as well; empty: it is in a bucket, or none.
std::string records_folder(const Recipe& recipe);

/// All paths that are set, in the order of the recipe's sections.
std::vector<RecipePath> recipe_paths(const Recipe& recipe);

}  // namespace weft
