#include "weft/checkpoint/storage/open_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/storage/bucket.h"
#include "weft/checkpoint/storage/local_storage.h"

namespace weft {

namespace {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Returns the path of a folder on disk; nullopt for a bucket.
std::optional<std::string> local_path(const std::string& name) {
  constexpr std::string_view kFile = "file://";
  if (name.find("://") == std::string::npos) {
    const size_t colon = name.find(':');  // of a scheme, as in "s3:/bucket": of two letters or more
    const bool is_scheme = colon != std::string::npos && colon > 1 &&
                           std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(colon), is_letter);
    if (!is_scheme || (colon + 1 < name.size() && name[colon + 1] != '/')) return name;
    throw InputError(
        fmt::format("'{}' is neither a URL nor a path: write {}://BUCKET/FOLDER, or ./{} for a folder of that name",
                    shortened(name), name.substr(0, colon), shortened(name)));
  }
  return name.starts_with(kFile) ? std::optional(name.substr(kFile.size())) : std::nullopt;
}

}  // namespace

std::unique_ptr<Storage> open_storage(const std::string& name) {
  const auto path = local_path(name);
  return path ? local_storage(*path) : open_bucket(name);
}

std::string storage_place(const std::string& name) {
  std::string place = name;
  std::error_code unknown;
  if (const auto path = local_path(name)) {
    place = std::filesystem::weakly_canonical(std::filesystem::absolute(*path), unknown).string();
  }
  while (place.ends_with('/')) place.pop_back();
  return place;
}

}  // namespace weft
