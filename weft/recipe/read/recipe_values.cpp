#include "weft/recipe/read/recipe_values.h"

#include <fmt/format.h>

#include <optional>
#include <type_traits>
#include <variant>

#include "weft/recipe/read/recipe_keys.h"

namespace weft {

std::string value_text(const KeyTarget& target) {
  const auto text = [](const auto* value) -> std::string {
    if constexpr (std::is_same_v<decltype(value), const std::optional<int64_t>*> ||
                  std::is_same_v<decltype(value), const std::optional<double>*> ||
                  std::is_same_v<decltype(value), const std::optional<bool>*>) {
      return *value ? fmt::format("{}", **value) : "left out";
    } else if constexpr (std::is_same_v<decltype(value), const RunLength*>) {
      return run_length_text(*value);
    } else {
      return fmt::format("{}", *value);
    }
  };
  return std::visit(text, target);
}

std::map<std::string, std::string> recipe_values(const Recipe& recipe) {
  Recipe copy = recipe;
  std::map<std::string, std::string> values;
  for (const FileKey& key : recipe_keys(copy)) values[key.dotted()] = value_text(key.target);
  return values;
}

}  // namespace weft
