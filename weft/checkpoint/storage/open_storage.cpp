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

/// Refuses "s3:/bucket" and "s3:", which are meant as URLs: a scheme of two letters or more, then nothing or one slash.
void refuse_half_url(const std::string& name) {
  const size_t scheme = name.find(':');
  if (scheme == std::string::npos || scheme < 2) return;
  const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  if (!std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(scheme), is_plain)) return;
  if (scheme + 1 < name.size() && name[scheme + 1] != '/') return;
  throw InputError(fmt::format("'{}' is neither a URL nor a path: write {}://BUCKET/FOLDER, or ./{} for a folder of that name",
                               shortened(name), name.substr(0, scheme), shortened(name)));
}

/// Returns the path of a folder on disk; nullopt for a bucket.
std::optional<std::string> local_path(const std::string& name) {
  constexpr std::string_view kFile = "file://";
  if (name.find("://") == std::string::npos) {
    refuse_half_url(name);
    return name;
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
