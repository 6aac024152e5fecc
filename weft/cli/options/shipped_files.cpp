#include "weft/cli/options/shipped_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/nearest.h"
#include "weft/base/printable.h"
#include "weft/base/this_executable.h"

namespace weft {

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// bin/weft of an installation, or build/weft of the sources.
fs::path shipped_folder(const std::string& name) {
  const fs::path above = fs::path(this_executable()).parent_path().parent_path();
  const fs::path installed = above / "share" / "weft" / name;
  return is_there(installed) ? installed : above / name;
}

}  // namespace

std::vector<std::string> shipped_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(shipped_folder(folder), error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string shipped_or_own(const std::string& folder, const std::string& told) {
  const bool is_word = !told.empty() && told.find_first_of("/.") == std::string::npos;
  if (!is_word || is_there(told)) return told;
  const std::vector<std::string> names = shipped_names(folder);
  if (std::find(names.begin(), names.end(), told) != names.end()) return (shipped_folder(folder) / (told + ".toml")).string();
  if (names.empty()) return told;
  throw InputError(fmt::format("'{}' is no file here, and none of the {} that come with weft; did you mean '{}'? There are {}",
                               shortened(told), folder, nearest(told, names), fmt::join(names, ", ")));
}

}  // namespace weft
