#include "weft/cli/recipe_options.h"

#include <CLI/CLI.hpp>

namespace weft {

void add_recipe(CLI::App& command, std::string& recipe, std::vector<std::string>& overrides) {
  command.add_option("recipe", recipe, "Recipe (TOML): model, data, batch, layout, optimizer, run")->required();
  command.add_option("--set", overrides, "section.key=value: replace a key of the recipe; repeatable")->allow_extra_args(false);
}

}  // namespace weft
