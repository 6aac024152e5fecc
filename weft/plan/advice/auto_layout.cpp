#include "weft/plan/advice/auto_layout.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/shipped_files.h"
#include "weft/base/units.h"
#include "weft/plan/search/layout_text.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/toml/hardware_file.h"
#include "weft/recipe/toml/toml_value.h"

namespace weft {

bool is_automatic(const Recipe& recipe) { return recipe.layout.style == "auto"; }

std::vector<std::string> keys_to_keep(const Recipe& recipe) {
  std::vector<std::string> kept;
  for (const KeyValue& set : layout_keys_of(recipe)) {
    if (set.key != "layout.style") kept.push_back(set.key);
  }
  return kept;
}

Recipe with_layout(Recipe recipe, const LayoutForecast& found) {
  recipe.layout = found.recipe.layout;
  recipe.batch.micro = found.recipe.batch.micro;
  return recipe;
}

std::vector<std::string> layout_settings(const Recipe& recipe) {
  Recipe copy = recipe;
  std::vector<std::string> settings;
  for (const FileKey& key : recipe_keys(copy)) {
    const std::string value = toml_value(key.target);
    const bool is_layout = key.section == "layout" || key.is("batch.micro");
    if (is_layout && !value.empty()) settings.push_back(fmt::format("{}={}", key.dotted(), value));
  }
  return settings;
}

void check_automatic(const Recipe& recipe) {
  if (!is_automatic(recipe) || !recipe.run.hardware.empty()) return;
  throw InputError(
      fmt::format("{}: layout = \"auto\" is planned by a hardware file, and run.hardware names none; weft calibrate "
                  "writes one of this machine",
                  recipe.path));
}

LayoutForecast choose_layout(const Recipe& recipe, int world_size) {
  check_automatic(recipe);
  const std::string path = shipped_or_own("hardware", recipe.run.hardware);
  const Hardware hardware = load_hardware(path);
  SearchResult result;
  in_hardware_file(path,
                   [&] { result = search_layouts(recipe, world_size, hardware, {.most = 1, .kept = keys_to_keep(recipe)}); });
  if (!result.best.empty()) return std::move(result.best.front());
  const std::string closest = closest_text(result.left_out);
  throw InputError(fmt::format("{}: layout = \"auto\": no layout fits {} of {}{}; weft plan says what would", recipe.path,
                               counted(world_size, "rank"), path, closest.empty() ? "" : "; the closest, " + closest));
}

Recipe with_chosen_layout(Recipe recipe, int world_size, const std::string& hardware) {
  if (!is_automatic(recipe)) return recipe;
  if (!hardware.empty()) recipe.run.hardware = hardware;
  const LayoutForecast found = choose_layout(recipe, world_size);
  return with_layout(std::move(recipe), found);
}

}  // namespace weft
