#include "weft/plan/advice/auto_layout.h"

#include <fmt/format.h>

#include <map>

#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft {

namespace {

/// "over memory by 3.1 GiB: ..." of the layout that is closest to fit.
std::string closest_text(const SearchResult& result) {
  if (result.left_out.empty()) return "";
  return fmt::format("; the closest, {}: {}", result.left_out.front().text, result.left_out.front().why);
}

}  // namespace

bool is_automatic(const Recipe& recipe) { return recipe.layout.style == "auto"; }

std::vector<std::string> keys_to_keep(const Recipe& recipe) {
  const std::map<std::string, std::string> defaults = recipe_values(Recipe());
  std::vector<std::string> kept;
  for (const auto& [key, value] : recipe_values(recipe)) {
    const bool is_searched = (key.starts_with("layout.") && key != "layout.style") || key == "batch.micro";
    if (is_searched && defaults.at(key) != value) kept.push_back(key);
  }
  return kept;
}

Recipe with_layout(Recipe recipe, const LayoutForecast& found) {
  recipe.layout = found.recipe.layout;
  recipe.batch.micro = found.recipe.batch.micro;
  return recipe;
}

LayoutForecast choose_layout(const Recipe& recipe, int world_size) {
  const std::string path = shipped_or_own("hardware", recipe.run.hardware);
  const Hardware hardware = load_hardware(path);
  SearchResult result;
  in_hardware_file(path,
                   [&] { result = search_layouts(recipe, world_size, hardware, {.most = 1, .kept = keys_to_keep(recipe)}); });
  if (!result.best.empty()) return std::move(result.best.front());
  throw InputError(fmt::format("{}: layout = \"auto\": no layout fits {} of {}{}; weft plan says what would", recipe.path,
                               counted(world_size, "rank"), path, closest_text(result)));
}

}  // namespace weft
