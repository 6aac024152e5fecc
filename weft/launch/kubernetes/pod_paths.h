// Where the files that a training names are in its pods: what is in no volume is told before a cluster is asked.
#pragma once

#include <string>
#include <vector>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// A place that the training names.
struct PodPath {
  std::string key;       ///< by which it is named in lines: "data.path"
  std::string path;      ///< a path as the pods will take it, or a URL
  bool is_url = false;   ///< a place in an object store
  bool is_kept = false;  ///< written, for after the run
};

/// Where each is, one line each, for the manifest's head. Throws InputError, with what to do, for one that no pod could find,
/// or that would be gone with the pod that wrote it.
std::vector<std::string> placed_paths(const KubernetesOptions& options, const std::vector<PodPath>& paths);

}  // namespace weft
