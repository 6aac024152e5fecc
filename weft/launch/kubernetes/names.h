// Checks names, sizes and paths against Kubernetes' rules before a cluster rejects them pod by pod.
#pragma once

#include <string>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// Throws InputError, one line that names the option of `weft k8s`.
void check_names(const KubernetesOptions& options);

/// Returns the bytes of a Kubernetes memory quantity such as "64Gi". Throws InputError, beginning with `option`, if it is
/// malformed.
double size_in_bytes(const std::string& option, const std::string& size);

/// Stem of the pods' host names: "gpt" for gpt-0, gpt-1, ..., and "gpt-hosts-0" with a JobSet.
std::string host_stem(const KubernetesOptions& options);

/// Returns the closest valid Kubernetes name: "gpt-2" for "recipes/GPT 2.toml".
std::string kubernetes_name(const std::string& path);

}  // namespace weft
