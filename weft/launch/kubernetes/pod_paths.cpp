#include "weft/launch/kubernetes/pod_paths.h"

#include <fmt/format.h>

#include <filesystem>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/launch/kubernetes/pod.h"

namespace weft {
namespace {

bool lies_in(const std::string& path, const std::string& folder) { return path == folder || path.starts_with(folder + "/"); }

std::string placed(const KubernetesOptions& options, const PodPath& named) {
  const std::string shown = fmt::format("{} {}", named.key, printable(named.path));
  if (named.is_url) {
    const bool may = !options.env_secrets.empty() || !options.service_account.empty();
    return fmt::format("{}: {}", shown,
                       may ? "with the pods' credentials"
                           : "WITHOUT credentials: the pods have none; add --env-from-secret or --service-account");
  }
  const bool relative = !named.path.starts_with('/');
  if (relative && !has_work_folder(options)) {
    throw InputError(
        fmt::format("{}: a relative path needs a volume at {}: add --claim NAME or --storage SIZE", shown, kWorkFolder));
  }
  const std::string path =
      (relative ? std::filesystem::path(kWorkFolder) / named.path : std::filesystem::path(named.path)).lexically_normal();
  if (lies_in(path, kWorkFolder) && has_work_folder(options)) {
    return fmt::format("{}: {} of the volume {}", shown, printable(path), work_claim_name(options));
  }
  for (const ClaimMount& mount : options.data) {
    if (!lies_in(path, mount.path)) continue;
    if (!named.is_kept) return fmt::format("{}: in the volume {}", shown, mount.claim);
    throw InputError(fmt::format("{}: the volume {} is read-only; save below {}, with --claim or --storage", shown, mount.claim,
                                 kWorkFolder));
  }
  if (named.is_kept) {
    throw InputError(fmt::format(
        "{}: in no volume, so it would be lost with its pod; save below {}, with --claim or --storage, or in a bucket", shown,
        kWorkFolder));
  }
  return fmt::format("{}: must be in the image, or in a volume (--data CLAIM:/FOLDER)", shown);
}

}  // namespace

std::vector<std::string> placed_paths(const KubernetesOptions& options, const std::vector<PodPath>& paths) {
  std::vector<std::string> lines;
  lines.reserve(paths.size());
  for (const PodPath& path : paths) lines.push_back(placed(options, path));
  return lines;
}

}  // namespace weft
