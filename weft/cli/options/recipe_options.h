// The recipe that a command reads, and the keys of it that its command line replaces.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Adds `recipe` and --set; both arguments must live until the command line is parsed. A name such as "gpt" becomes the path of
/// the recipe that comes with weft.
void add_recipe(CLI::App& command, std::string& recipe, std::vector<std::string>& overrides);

/// The key of a recipe that is meant by an option which there is not: "optimizer.lr" by "--lr"; empty: none.
std::string key_of_option(const std::string& option);

/// Throws InputError unless the recipe's run, started again, goes on from its own newest checkpoint. `what` starts again: "a
/// job".
void check_goes_on_by_itself(const Recipe& recipe, const std::string& what);

/// Adds --hardware, a file or the name of one that comes with weft.
CLI::Option* add_hardware(CLI::App& command, std::string& hardware, const std::string& description);

}  // namespace weft
