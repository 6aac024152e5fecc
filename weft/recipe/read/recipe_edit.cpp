#include "weft/recipe/read/recipe_edit.h"

#include <fmt/format.h>

#include <map>

#include "weft/base/error.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/read/recipe_values.h"
#include "weft/recipe/toml/toml_edit.h"
#include "weft/recipe/toml/toml_reader.h"
#include "weft/recipe/toml/toml_value.h"

namespace weft {

namespace {

constexpr const char* kNote = "# weft plan: ";  ///< begins each line of notes

/// Values of the file by key, as TOML. Without the checks of a whole recipe, which may need what the command line sets.
std::map<std::string, std::string> values_of_file(const std::string& text, const std::string& path) {
  Recipe recipe;
  read_keys(text, path, recipe_keys(recipe), repeated_recipe_sections(recipe));
  std::map<std::string, std::string> values;
  for (const FileKey& key : recipe_keys(recipe)) values[key.dotted()] = toml_value(key.target);
  return values;
}

std::vector<TomlEdit> edits_to(const std::map<std::string, std::string>& values, const Recipe& recipe) {
  Recipe copy = recipe;
  std::vector<TomlEdit> edits;
  for (const FileKey& key : recipe_keys(copy)) {
    const std::string value = toml_value(key.target);
    if (values.at(key.dotted()) == value) continue;
    edits.push_back({key.dotted(), value.empty() ? std::nullopt : std::optional(value)});
  }
  return edits;
}

std::string without_notes(std::string text) {
  while (text.starts_with(kNote)) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

}  // namespace

std::string edited_recipe(const std::string& text, const std::string& path, const Recipe& recipe,
                          const std::vector<std::string>& notes) {
  const std::string plain = without_notes(text);
  std::string result;
  for (const std::string& note : notes) result += kNote + note + "\n";
  result += edited_toml(plain, path, edits_to(values_of_file(plain, path), recipe));
  if (recipe_values(parse_recipe(result, path)) != recipe_values(recipe)) {
    throw InputError(fmt::format("{}: its text cannot be edited to this layout; set layout and batch.micro by hand", path));
  }
  return result;
}

}  // namespace weft
