#include "weft/exported/module_patterns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace weft {

std::vector<std::string> patterns_in(const std::string& text) {
  std::vector<std::string> patterns;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string pattern = text.substr(begin, end - begin);
    pattern.erase(0, pattern.find_first_not_of(' '));
    pattern.erase(pattern.find_last_not_of(' ') + 1);
    if (!pattern.empty()) patterns.push_back(std::move(pattern));
    begin = end + 1;
  }
  return patterns;
}

bool matches_path(const std::string& pattern, const std::string& path) {
  return !path.empty() && fnmatch(pattern.c_str(), path.c_str(), 0) == 0;
}

std::vector<std::string> module_paths(const ExportedGraph& graph) {
  std::set<std::string> paths;
  for (const ExportedNode& node : graph.nodes) paths.insert(node.modules.begin(), node.modules.end());
  paths.erase("");
  return {paths.begin(), paths.end()};
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size()));
  return fmt::format("{}{}", fmt::join(names.begin(), end, ", "), names.size() > kMost ? ", ..." : "");
}

}  // namespace weft
