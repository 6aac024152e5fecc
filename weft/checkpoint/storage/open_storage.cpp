#include "weft/checkpoint/storage/open_storage.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "weft/checkpoint/storage/bucket.h"
#include "weft/checkpoint/storage/local_storage.h"

namespace weft {

namespace {

/// Returns the path of a folder on disk; nullopt for a bucket.
std::optional<std::string> local_path(const std::string& name) {
  constexpr std::string_view kFile = "file://";
  if (name.find("://") == std::string::npos) return name;
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
