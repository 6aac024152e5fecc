#include "weft/base/shipped_files.h"

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

/// Looks next to bin/weft of an installation, or build/weft of the sources.
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

std::string shipped_or_own(const std::string& folder, const std::string& name) {
  const bool is_word = !name.empty() && name.find_first_of("/.") == std::string::npos;
  if (name.empty() || is_there(name)) return name;
  const std::vector<std::string> names = shipped_names(folder);
  const auto is_shipped = [&](const std::string& word) { return std::find(names.begin(), names.end(), word) != names.end(); };
  if (!is_word) {
    const fs::path path(name), stem = path.stem();
    if (path.extension() == ".toml" && is_shipped(stem.string())) {
      throw InputError(fmt::format("cannot read '{}': No such file or directory; write '{}' for the one that weft ships",
                                   shortened(name, 1000), stem.string()));
    }
    return name;
  }
  if (is_shipped(name)) return (shipped_folder(folder) / (name + ".toml")).string();
  if (names.empty()) return name;
  throw InputError(fmt::format("'{}' is neither a file here nor one of weft's own {}; did you mean '{}'? Available: {}",
                               shortened(name), folder, nearest(name, names), fmt::join(names, ", ")));
}

}  // namespace weft
