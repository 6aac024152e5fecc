// --set: keys of the recipe that a command line replaces.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace weft {

/// Adds the option; `overrides` must live until the command line is parsed.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

}  // namespace weft
