#include "weft/train/recipe/read_recipe.h"

#include "weft/base/input_file.h"
#include "weft/train/recipe/recipe_checks.h"
#include "weft/train/recipe/recipe_keys.h"
#include "weft/train/recipe/toml_reader.h"

namespace weft {

namespace {

constexpr int64_t kLongestRecipe = 1 << 20;  // a recipe with every key takes a few kilobytes

}  // namespace

Recipe parse_recipe(const std::string& text, const std::string& path, const std::vector<std::string>& overrides) {
  Recipe recipe;
  recipe.path = path;
  MixPart any;
  const auto next_part = [&recipe] { return mix_keys(recipe.data.mix.emplace_back(), "data.mix"); };
  std::vector<std::string> given = read_keys(text, path, recipe_keys(recipe),
                                             {{.section = "data.mix", .known = mix_keys(any, "data.mix"), .next = next_part}});
  const std::vector<FileKey> keys = recipe_keys(recipe);  // with the parts' own
  for (const std::string& override : overrides) given.push_back(read_override(override, keys));
  check_required(path, keys, given);
  check_recipe(recipe);
  return recipe;
}

Recipe load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_recipe(read_text_file("recipe", path, kLongestRecipe), path, overrides);
}

}  // namespace weft
