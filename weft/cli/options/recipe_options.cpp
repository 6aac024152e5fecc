#include "weft/cli/options/recipe_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/shipped_files.h"
#include "weft/cli/options/repeatable.h"
#include "weft/recipe/read/recipe_keys.h"
#include "weft/recipe/toml/key_synonyms.h"

namespace weft {

void add_recipe(CLI::App& command, std::string& recipe, std::vector<std::string>& overrides) {
  command
      .add_option(
          "recipe", recipe,
          "Recipe (TOML): model, data, batch, layout, optimizer, run. A file, or the name of a shipped one, such as gpt")
      ->required()
      ->transform([](const std::string& name) { return shipped_or_own("recipes", name); });
  add_overrides(command, overrides);
}

void add_overrides(CLI::App& command, std::vector<std::string>& overrides) {
  repeatable(command.add_option("--set", overrides, "Override a recipe key: --set optimizer.lr=0.1; repeatable"), "KEY=VALUE");
}

std::string key_of_option(const std::string& option) {
  std::string name = option.substr(option.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '-', '_');
  Recipe recipe;
  for (const FileKey& key : recipe_keys(recipe)) {
    if (key.name == name) return key.dotted();
  }
  const std::string meant(meant_by(name));
  return meant.find('.') == std::string::npos ? "" : meant;
}

void check_resumes_automatically(const Recipe& recipe, const std::string& what) {
  if (recipe.run.resume == "auto") return;
  throw InputError(
      fmt::format("{}: with run.resume = \"{}\", {} that restarts would not resume from its own newest checkpoint; leave "
                  "it \"auto\"",
                  printable(recipe.path), shortened(recipe.run.resume), what));
}

namespace {

std::string hardware_path(const std::string& name) { return shipped_or_own("hardware", name); }

}  // namespace

CLI::Option* add_hardware(CLI::App& command, std::string& hardware, const std::string& description) {
  return command.add_option("--hardware", hardware, description)->transform(hardware_path);
}

CLI::Option* add_hardware(CLI::App& command, std::vector<std::string>& hardware, const std::string& description) {
  return repeatable(command.add_option("--hardware", hardware, description), "NAME")->transform(hardware_path);
}

}  // namespace weft
