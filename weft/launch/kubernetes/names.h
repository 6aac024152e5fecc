// What Kubernetes takes as names, sizes and paths: told before a cluster is asked, which would tell it pod by pod.
#pragma once

#include <string>

#include "weft/launch/kubernetes/options.h"

namespace weft {

/// Throws InputError, one line that names the option of `weft k8s`.
void check_names(const KubernetesOptions& options);

/// The bytes of an amount of memory as Kubernetes writes it: "64Gi". Throws InputError, beginning with `option`, where it is
/// none.
double size_in_bytes(const std::string& option, const std::string& size);

/// The stem of its pods' host names: "gpt", of gpt-0, gpt-1, ..., and with a JobSet "gpt-hosts-0".
std::string host_stem(const KubernetesOptions& options);

/// "gpt-2" of "recipes/GPT 2.toml": a name that Kubernetes takes, as near as it goes.
std::string kubernetes_name(const std::string& path);

}  // namespace weft
