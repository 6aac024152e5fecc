#include "weft/launch/kubernetes/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

constexpr size_t kLongestLabel = 63;          // RFC 1123, which applies to host names
constexpr size_t kLongestName = 253;          // for names that are not host names
constexpr size_t kLongestImage = 512;         // 255 of the name, 128 of the tag, a digest
constexpr size_t kLongestRecipe = 1'000'000;  // a ConfigMap holds 1 MiB
constexpr size_t kSuffix = 6;                 // "-x7k2p", the ending of pod names

constexpr std::string_view kDigits = "0123456789", kWordCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-",
                           kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// std::regex is avoided here: it needs a stack frame per character.
bool is_made_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

/// True for lower-case letters, digits and inner '-'.
bool is_word(std::string_view text) { return is_made_of(text, kWordCharacters) && text.front() != '-' && text.back() != '-'; }

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end = 0; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.push_back(text.substr(0, end));
  }
  parts.push_back(text);
  return parts;
}

bool is_label(const std::string& text) { return text.size() <= kLongestLabel && is_word(text); }

void check_label(const std::string& option, const std::string& name) {
  if (is_label(name)) return;
  throw InputError(fmt::format("{} {}: Kubernetes accepts lower-case letters, digits and inner '-', at most {} characters",
                               option, shortened(name), kLongestLabel));
}

void check_object(const std::string& option, const std::string& name) {
  const std::vector<std::string_view> parts = split(name, '.');
  if (name.size() <= kLongestName && std::all_of(parts.begin(), parts.end(), is_word)) return;
  throw InputError(fmt::format("{} {}: not a Kubernetes object name (lower-case letters, digits, inner '-' and '.')", option,
                               shortened(name)));
}

/// True for "500m", "1.5Gi".
bool is_size(std::string_view size) {
  constexpr size_t kMostDigits = 15, kMostDecimals = 9;
  constexpr std::string_view kUnits[] = {"", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  const size_t number = std::min(size.find_first_not_of("0123456789."), size.size());
  if (std::find(std::begin(kUnits), std::end(kUnits), size.substr(number)) == std::end(kUnits)) return false;
  const std::vector<std::string_view> parts = split(size.substr(0, number), '.');
  if (parts.size() > 2 || !is_made_of(parts[0], kDigits) || parts[0].size() > kMostDigits) return false;
  return parts.size() == 1 || (is_made_of(parts[1], kDigits) && parts[1].size() <= kMostDecimals);
}

void check_size(const std::string& option, const std::string& size) {
  if (is_size(size) && size.find_first_of("123456789") != std::string::npos) return;
  throw InputError(fmt::format("{} {}: not a positive Kubernetes quantity (8, 500m, 64Gi)", option, shortened(size)));
}

/// True for "/corpus/a": no component is empty, "." or "..".
bool is_whole_path(std::string_view path) {
  if (!path.starts_with('/') || path.find(':') != std::string_view::npos) return false;
  const std::vector<std::string_view> parts = split(path.substr(1), '/');
  return std::none_of(parts.begin(), parts.end(),
                      [](std::string_view part) { return part.empty() || part == "." || part == ".."; });
}

bool is_image(std::string_view image) {
  const bool is_plain = std::all_of(image.begin(), image.end(), [](char c) { return c > ' ' && c < 127; });
  return is_plain && !image.empty() && image.size() <= kLongestImage && image.find_first_of("\"'\\") == std::string_view::npos;
}

void check_mounts(const KubernetesOptions& options) {
  std::set<std::string> taken = {kWorkFolder, kRecipeFolder, "/tmp", "/dev/shm"};
  for (const ClaimMount& mount : options.data) {
    const std::string shown = fmt::format("--data {}:{}", shortened(mount.claim), shortened(mount.path));
    check_object("--data", mount.claim);
    if (!is_whole_path(mount.path)) {
      throw InputError(shown + ": write CLAIM:/FOLDER, an absolute path without '.', '..', ':' or a trailing '/'");
    }
    if (!taken.insert(mount.path).second) {
      throw InputError(fmt::format("{}: {} is taken; choose another folder", shown, shortened(mount.path)));
    }
  }
}

}  // namespace

double size_in_bytes(const std::string& option, const std::string& size) {
  check_size(option, size);
  const size_t digits = size.find_first_not_of("0123456789.");
  const double number = std::stod(size.substr(0, digits));
  if (digits == std::string::npos) return number;
  if (size[digits] == 'm') return number / 1000.0;
  const int power =
      1 + static_cast<int>(std::string("kMGTPE").find(static_cast<char>(size[digits] == 'K' ? 'k' : size[digits])));
  return number * std::pow(size.ends_with('i') ? 1024.0 : 1000.0, power);
}

std::string host_stem(const KubernetesOptions& options) { return options.name + (options.jobset ? "-hosts-0" : ""); }

void check_names(const KubernetesOptions& options) {
  check_label("--name", options.name);
  const std::string last = fmt::format("{}-{}", host_stem(options), options.nodes - 1);
  if (last.size() + kSuffix > kLongestLabel) {
    throw InputError(
        fmt::format("--name {}: its last pod would be {}; with the {} characters that Kubernetes adds, that is longer than "
                    "the {} of a host name; choose a shorter name",
                    options.name, last, kSuffix, kLongestLabel));
  }
  if (std::isdigit(static_cast<unsigned char>(options.name[0])) != 0) {
    throw InputError(fmt::format("--name {}: a Service's name begins with a letter", options.name));
  }
  if (!options.name_space.empty()) check_label("--namespace", options.name_space);
  if (!is_image(options.image)) throw InputError(fmt::format("--image {}: not an image name", shortened(options.image)));
  const std::string key_characters = fmt::format("-._{}{}", kLetters, kDigits);
  if (!is_made_of(options.recipe_name, key_characters) || options.recipe_name.size() > kLongestName) {
    throw InputError(fmt::format("{}: a ConfigMap takes letters, digits, '-', '_' and '.' in file names; rename the recipe",
                                 shortened(options.recipe_name)));
  }
  if (options.recipe.size() > kLongestRecipe) {
    throw InputError(fmt::format("{}: {} bytes are more than a ConfigMap holds ({})", options.recipe_name,
                                 options.recipe.size(), kLongestRecipe));
  }
  check_size("--cpus", options.cpus);
  check_size("--memory", options.memory);
  check_size("--shared-memory", options.shared_memory);
  if (!options.storage.empty()) check_size("--storage", options.storage);
  if (!options.claim.empty()) check_object("--claim", options.claim);
  if (!options.storage_class.empty()) check_object("--storage-class", options.storage_class);
  if (!options.token_secret.empty()) check_object("--token-secret", options.token_secret);
  if (!options.service_account.empty()) check_object("--service-account", options.service_account);
  for (const std::string& secret : options.env_secrets) check_object("--env-from-secret", secret);
  if (options.port == options.health_port) {
    throw InputError(fmt::format("--port and --health-port are both {}; give them different ones", options.port));
  }
  check_mounts(options);
}

std::string kubernetes_name(const std::string& path) {
  std::string stem = path.substr(path.rfind('/') + 1);
  stem = stem.substr(0, stem.rfind('.'));
  std::string name;
  for (const char c : stem) {
    const auto letter = static_cast<unsigned char>(c);
    if (letter < 128 && std::isalnum(letter) != 0) {
      name += static_cast<char>(std::tolower(letter));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  constexpr size_t kShort = 40;
  name = name.substr(0, kShort);
  while (name.ends_with('-')) name.pop_back();
  return name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0 ? "weft" + (name.empty() ? name : "-" + name)
                                                                                : name;
}

}  // namespace weft
