// Locates the files of a training in its pods, so that a path in no volume is an error before the cluster is involved.
#pragma once

#include <string>
#include <vector>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// A path that the training names.
struct PodPath {
  std::string key;       ///< its name in messages: "data.path"
  std::string path;      ///< path in the pods, or a URL
  bool is_url = false;   ///< a place in an object store
  bool is_kept = false;  ///< written, and needed after the run
};

/// Returns the location of each path, one line each, for the manifest's head. Throws InputError, with the remedy, for a path
/// that no pod could find or that would be lost with the pod that wrote it.
std::vector<std::string> placed_paths(const KubernetesOptions& options, const std::vector<PodPath>& paths);

}  // namespace weft
