// Patterns of module paths, as the recipe's keys have them: "h.*, head"; '*' matches any text.
#pragma once

#include <string>
#include <vector>

#include "weft/exported/graph.h"

namespace weft {

/// The patterns of a comma-separated list.
std::vector<std::string> patterns_in(const std::string& text);
/// Returns whether a module's path matches; the whole model's, "", never does.
bool matches_path(const std::string& pattern, const std::string& path);
/// Paths of the modules that operators are called in, the whole model's apart.
std::vector<std::string> module_paths(const ExportedGraph& graph);
/// Some of the names, for errors.
std::string some_of(const std::vector<std::string>& names);

}  // namespace weft
