// A training on Kubernetes as a manifest: what `weft k8s` prints and `kubectl apply -f` takes.
//
// One pod a host in an Indexed Job (or a JobSet with one), each the agent of its host; the first is the head, which the others
// find by the name that the headless Service gives it. The recipe comes in a ConfigMap, the job's secret in a Secret,
// checkpoints and data in a volume at kWorkFolder or in buckets.
#pragma once

#include <string>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// The manifest, as YAML with comments. Throws InputError for names, sizes and paths that Kubernetes would refuse.
std::string kubernetes_manifest(const KubernetesOptions& options);

}  // namespace weft
