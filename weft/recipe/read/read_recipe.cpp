#include "weft/recipe/read/read_recipe.h"

#include "weft/base/input_file.h"
#include "weft/recipe/read/recipe_checks.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/toml/toml_reader.h"

namespace weft {

namespace {

constexpr int64_t kLongestRecipe = 1 << 20;  // a recipe with every key takes a few kilobytes

/// Clears the other keys for the run's length: the last override counts.
void forget_other_lengths(RunRecipe& run, const std::string& dotted) {
  const RunRecipe kept = run;
  if (dotted != "run.steps" && dotted != "run.epochs" && dotted != "run.samples" && dotted != "run.tokens") return;
  run.steps.reset();
  run.epochs.reset();
  run.samples.reset();
  run.tokens.reset();
  if (dotted == "run.steps") run.steps = kept.steps;
  if (dotted == "run.epochs") run.epochs = kept.epochs;
  if (dotted == "run.samples") run.samples = kept.samples;
  if (dotted == "run.tokens") run.tokens = kept.tokens;
}

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& path, const std::vector<std::string>& overrides) {
  Recipe recipe;
  recipe.path = path;
  std::vector<std::string> given = read_keys(text, path, recipe_keys(recipe), repeated_recipe_sections(recipe));
  const std::vector<FileKey> keys = recipe_keys(recipe);  // including the parts of a mixture
  for (const std::string& override : overrides) {
    given.push_back(read_override(override, keys));
    forget_other_lengths(recipe.run, given.back());
  }
  check_required(path, keys, given);
  check_recipe(recipe);
  return recipe;
}

Recipe load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_recipe(read_text_file("recipe", path, kLongestRecipe), path, overrides);
}

}  // namespace weft
