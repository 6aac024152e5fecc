// A training as a Kubernetes manifest: printed by `weft k8s`, read by `kubectl apply -f`.
//
// One pod per host, in an Indexed Job (or a JobSet that contains one). Each pod runs its host's agent; the first also runs the
// head, which the others find by the name that the headless Service gives it. The recipe is in a ConfigMap, the job's secret in
// a Secret, checkpoints and data in a volume at kWorkFolder or in buckets.
#pragma once

#include <string>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// Returns the manifest, as YAML with comments. Throws InputError for names, sizes and paths that Kubernetes would refuse.
std::string kubernetes_manifest(const KubernetesOptions& options);

}  // namespace weft
