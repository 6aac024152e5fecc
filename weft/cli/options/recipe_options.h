// The recipe that a command reads, and the keys that its command line overrides.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "weft/recipe/recipe.h"

namespace weft {

/// Adds `recipe` and --set; both arguments must live until the command line is parsed. A name such as "gpt" becomes the path of
/// the shipped recipe.
void add_recipe(CLI::App& command, std::string& recipe, std::vector<std::string>& overrides);

/// Adds --set.
void add_overrides(CLI::App& command, std::vector<std::string>& overrides);

/// Returns the recipe key meant by an unknown option: "optimizer.lr" for "--lr"; empty if no key matches.
std::string key_of_option(const std::string& option);

/// Throws InputError unless a restarted run of the recipe resumes from its own newest checkpoint. `what`, "a job", restarts.
void check_resumes_automatically(const Recipe& recipe, const std::string& what);

/// Adds --hardware: a file or the name of a shipped one.
CLI::Option* add_hardware(CLI::App& command, std::string& hardware, const std::string& description);
/// The same for several; the option is repeatable.
CLI::Option* add_hardware(CLI::App& command, std::vector<std::string>& hardware, const std::string& description);

}  // namespace weft
