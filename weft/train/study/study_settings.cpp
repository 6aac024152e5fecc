#include "weft/train/study/study_settings.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "weft/base/error.h"
#include "weft/train/recipe/recipe_values.h"
#include "weft/train/save/recipe_changes.h"

namespace weft {
namespace {

using Texts = std::map<std::string, std::string>;

std::string limit_text(const std::optional<int64_t>& limit) { return limit ? fmt::to_string(*limit) : "left out"; }

Texts texts_in(const nlohmann::json& json, const char* section) { return json.at(section).get<Texts>(); }

}  // namespace

std::string study_settings(const Recipe& recipe, const StudyGrid& grid) {
  Texts keys = recipe_values(recipe);
  for (const char* key : {"batch.global", "optimizer.name", "optimizer.lr", "run.steps", "run.epochs", "run.samples",
                          "run.tokens", "run.evaluate_every", "run.target"}) {
    keys.erase(key);
  }
  // Those left out are the recipe's.
  const Texts study = {{"the target", grid.target},
                       {"the limit on steps", limit_text(most_steps(recipe, grid))},
                       {"the limit on samples", limit_text(grid.samples_limit)},
                       {"samples between evaluations", limit_text(evaluation_samples(recipe, grid))}};
  return nlohmann::json{{"recipe", keys}, {"study", study}}.dump(2) + "\n";
}

std::vector<std::string> settings_changes(const std::string& before, const std::string& now, const std::string& path) {
  try {
    const auto then = nlohmann::json::parse(before), today = nlohmann::json::parse(now);
    std::vector<std::string> lines = recipe_changes(texts_in(then, "recipe"), texts_in(today, "recipe"));
    const Texts asked = texts_in(today, "study");
    for (const auto& [what, value] : texts_in(then, "study")) {
      const auto found = asked.find(what);
      if (found != asked.end() && found->second != value)
        lines.push_back(fmt::format("{} was {}, is {}", what, value, found->second));
    }
    return lines;
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: no study wrote that; name another --out", path));
  }
}

}  // namespace weft
