#include "weft/launch/kubernetes/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>
#include <set>
#include <string>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {
namespace {

constexpr size_t kLongestLabel = 63;          // RFC 1123, which host names are
constexpr size_t kLongestName = 253;          // of what is no host
constexpr size_t kLongestRecipe = 1'000'000;  // a ConfigMap holds 1 MiB
constexpr size_t kSuffix = 6;                 // "-x7k2p", which pods' names end in

bool is_label(const std::string& text) {
  static const std::regex form("[a-z0-9]([-a-z0-9]*[a-z0-9])?");
  return text.size() <= kLongestLabel && std::regex_match(text, form);
}

void check_label(const std::string& option, const std::string& name) {
  if (is_label(name)) return;
  throw InputError(fmt::format("{} {}: Kubernetes takes lower-case letters, digits and '-' inside, {} characters at most",
                               option, shortened(name), kLongestLabel));
}

void check_object(const std::string& option, const std::string& name) {
  static const std::regex form("[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
  if (name.size() <= kLongestName && std::regex_match(name, form)) return;
  throw InputError(
      fmt::format("{} {}: that is no name of an object in Kubernetes (lower-case letters, digits, '-' and '.' inside)", option,
                  shortened(name)));
}

void check_size(const std::string& option, const std::string& size) {
  static const std::regex form("[0-9]{1,15}([.][0-9]{1,9})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?");
  static const std::regex zero("[0.]*[^0-9]*");
  if (std::regex_match(size, form) && !std::regex_match(size, zero)) return;
  throw InputError(
      fmt::format("{} {}: that is no amount above 0 as Kubernetes writes them (8, 500m, 64Gi)", option, shortened(size)));
}

void check_mounts(const KubernetesOptions& options) {
  std::set<std::string> taken = {kWorkFolder, kRecipeFolder, "/tmp", "/dev/shm"};
  for (const ClaimMount& mount : options.data) {
    const std::string shown = fmt::format("--data {}:{}", shortened(mount.claim), shortened(mount.path));
    check_object("--data", mount.claim);
    static const std::regex form("(/[^/:]+)+");
    static const std::regex dots(".*/[.]{1,2}(/.*|$)");
    if (!std::regex_match(mount.path, form) || std::regex_match(mount.path, dots)) {
      throw InputError(shown + ": write CLAIM:/FOLDER, a whole path without '.', '..', ':' and a last '/'");
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
        fmt::format("--name {}: its last pod would be {}, which with the {} characters that Kubernetes adds is longer than "
                    "the {} of a host name; choose a shorter --name",
                    options.name, last, kSuffix, kLongestLabel));
  }
  if (std::isdigit(static_cast<unsigned char>(options.name[0])) != 0) {
    throw InputError(fmt::format("--name {}: a Service's name begins with a letter", options.name));
  }
  if (!options.name_space.empty()) check_label("--namespace", options.name_space);
  static const std::regex image("[^\\s\"'\\\\]+");
  if (!std::regex_match(options.image, image))
    throw InputError(fmt::format("--image {}: that is no image", shortened(options.image)));
  static const std::regex key("[-._a-zA-Z0-9]{1,253}");
  if (!std::regex_match(options.recipe_name, key)) {
    throw InputError(fmt::format("{}: a ConfigMap takes letters, digits, '-', '_' and '.' in a file's name; rename the recipe",
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
