#include "weft/recipe/read/saved_recipe.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "weft/base/error.h"
#include "weft/recipe/read/key_rules.h"
#include "weft/recipe/read/recipe_checks.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"

namespace weft {

namespace {

/// Counts the entries of a repeatable section.
size_t count_entries(const std::map<std::string, std::string>& values, const std::string& section) {
  size_t count = 0;
  const auto has = [&](size_t number) {
    const std::string prefix = fmt::format("{}.{}.", section, number);
    const auto first = values.lower_bound(prefix);
    return first != values.end() && first->first.starts_with(prefix);
  };
  while (has(count + 1)) ++count;
  return count;
}

/// Formats a value for --set: a text that starts like a quoted one is quoted.
std::string override_of(const FileKey& key, const std::string& value) {
  const bool quotes = std::holds_alternative<std::string*>(key.target) && (value.starts_with('"') || value.starts_with('\''));
  return key.dotted() + "=" + (quotes ? nlohmann::json(value).dump() : value);
}

/// Parses without the checks.
Recipe parse_values(const std::map<std::string, std::string>& values, const std::string& path) {
  Recipe recipe;
  recipe.path = path;
  recipe.data.mix.resize(count_entries(values, "data.mix"));
  recipe.evaluations.resize(count_entries(values, "evaluation"));
  recipe.optimizer.groups.resize(count_entries(values, "optimizer.groups"));
  recipe.batch.ramp.resize(count_entries(values, "batch.ramp"));
  const std::map<std::string, std::string> defaults = recipe_values(recipe);
  const std::vector<FileKey> keys = recipe_keys(recipe);
  for (const FileKey& key : keys) {
    const auto value = values.find(key.dotted());
    if (value == values.end() || value->second == defaults.at(key.dotted())) continue;
    try {
      read_override(override_of(key, value->second), keys);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: weft did not write the recipe stored there: {}", path, error.what()));
    }
  }
  return recipe;
}

}  // namespace

std::map<std::string, std::string> used_values(const std::map<std::string, std::string>& values) {
  std::map<std::string, std::string> used = values;
  try {
    for (const std::string& key : unread_keys(parse_values(values, ""))) used.erase(key);
  } catch (const InputError&) {
    // Values from a later version are compared as they are.
  }
  return used;
}

Recipe recipe_of_values(const std::map<std::string, std::string>& values, const std::string& path,
                        const std::vector<std::string>& overrides) {
  Recipe recipe = parse_values(used_values(values), path);
  const std::vector<FileKey> keys = recipe_keys(recipe);
  for (const std::string& override : overrides) read_override(override, keys);
  check_recipe(recipe);
  return recipe;
}

}  // namespace weft
