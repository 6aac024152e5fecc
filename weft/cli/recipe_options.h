// The recipe that a command reads, and the keys of it that its command line replaces.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace weft {

/// Adds `recipe` and --set; both arguments must live until the command line is parsed.
void add_recipe(CLI::App& command, std::string& recipe, std::vector<std::string>& overrides);

}  // namespace weft
