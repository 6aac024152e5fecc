#include "weft/train/save/recipe_changes.h"

#include <fmt/format.h>

#include <set>

#include "weft/recipe/read/saved_recipe.h"

namespace weft {

namespace {

/// Returns true for keys of repeatable sections.
bool is_repeated(const std::string& key) {
  return (key.starts_with("optimizer.groups.") && key.ends_with(".names")) ||
         (key.starts_with("batch.ramp.") && key.ends_with(".global"));
}

}  // namespace

bool may_change(const std::string& key) {
  // Data is compared by content, wherever it is, as are the graphs of an exported model and its loss, however it is divided; a
  // checkpoint holds weights that have replaced the initial ones.
  static const std::set<std::string> exceptions = {
      "data.path",     "data.evaluation_path", "data.workers",      "batch.micro",   "model.path",
      "model.loss",    "model.blocks",         "model.tp_columns",  "model.tp_rows", "model.tp_vocabulary",
      "model.weights", "model.weight_names",   "model.weights_skip"};
  if (key == "run.seed") return false;
  if (key.starts_with("data.mix.") && key.ends_with("path")) return true;
  const std::string section = key.substr(0, key.find('.'));
  const bool is_computed = section == "model" || section == "data" || section == "batch" || section == "optimizer";
  return !is_computed || exceptions.count(key) > 0;
}

std::vector<std::string> recipe_changes(const std::map<std::string, std::string>& before,
                                        const std::map<std::string, std::string>& now) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : now) {
    if (is_repeated(key) && before.count(key) == 0) lines.push_back(fmt::format("{} was absent, is {}", key, value));
  }
  for (const auto& [key, value] : used_values(before)) {
    const auto found = now.find(key);
    if (is_repeated(key) && found == now.end()) lines.push_back(fmt::format("{} was {}, now absent", key, value));
    if (found == now.end() || found->second == value || may_change(key)) continue;
    lines.push_back(fmt::format("{} was {}, is {}", key, value.empty() ? "left out" : value,
                                found->second.empty() ? "left out" : found->second));
  }
  return lines;
}

}  // namespace weft
