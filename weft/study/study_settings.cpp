#include "weft/study/study_settings.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "weft/base/error.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft {
namespace {

using Texts = std::map<std::string, std::string>;

std::string limit_text(const std::optional<int64_t>& limit) { return limit ? fmt::to_string(*limit) : "left out"; }

Texts texts_in(const nlohmann::json& json, const char* section) { return json.at(section).get<Texts>(); }

/// Returns true for keys that do not affect a point's result, only where and how fast it is computed.
bool is_free(const std::string& key) {
  static const std::set<std::string> free = {"data.workers", "layout.backend", "layout.offload_folder", "run.name",
                                             "run.restarts", "run.resume",     "run.threads",           "run.timeout_s"};
  return free.count(key) > 0 || key.starts_with("save.");
}

void compare(const Texts& before, const Texts& now, std::vector<std::string>& lines) {
  const auto text = [](const std::string& value) { return value.empty() ? "left out" : value.c_str(); };
  for (const auto& [what, value] : before) {
    const auto found = now.find(what);
    if (found == now.end()) {
      lines.push_back(fmt::format("{} was {}, now absent", what, text(value)));
    } else if (found->second != value) {
      lines.push_back(fmt::format("{} was {}, is {}", what, text(value), text(found->second)));
    }
  }
  for (const auto& [what, value] : now) {
    if (before.count(what) == 0) lines.push_back(fmt::format("{} was absent, is {}", what, text(value)));
  }
}

}  // namespace

std::string study_settings(const Recipe& recipe, const StudyGrid& grid) {
  Texts keys = recipe_values(recipe);
  for (const char* key : {"batch.global", "batch.micro", "optimizer.name", "optimizer.lr", "run.steps", "run.epochs",
                          "run.samples", "run.tokens", "run.evaluate_every", "run.target"}) {
    keys.erase(key);
  }
  std::erase_if(keys, [](const auto& key) { return is_free(key.first); });
  // Values left out of the grid are the recipe's.
  const Texts study = {{"ranks of a point", fmt::to_string(grid.ranks)},
                       {"most samples of a forward", limit_text(grid.micro ? grid.micro : recipe.batch.micro)},
                       {"the target", grid.target},
                       {"the limit on steps", limit_text(most_steps(recipe, grid))},
                       {"the limit on samples", limit_text(grid.samples_limit)},
                       {"samples between evaluations", limit_text(evaluation_samples(recipe, grid))}};
  return nlohmann::json{{"recipe", keys}, {"study", study}}.dump(2) + "\n";
}

std::vector<std::string> settings_changes(const std::string& before, const std::string& now, const std::string& path) {
  try {
    const auto then = nlohmann::json::parse(before), today = nlohmann::json::parse(now);
    std::vector<std::string> lines;
    for (const char* section : {"recipe", "study"}) compare(texts_in(then, section), texts_in(today, section), lines);
    return lines;
  } catch (const nlohmann::json::exception&) {
    throw InputError(fmt::format("{}: not written by a study; name another --out", path));
  }
}

}  // namespace weft
