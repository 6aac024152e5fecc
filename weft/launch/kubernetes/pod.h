// The pod of one host, as in a Job's template.
#pragma once

#include <yaml-cpp/emitter.h>

#include "weft/launch/kubernetes/options.h"

namespace weft {

inline constexpr const char* kContainer = "weft";  ///< its name, used in the Job's rules

/// Writes the labels by which the Service finds the pods.
void put_labels(YAML::Emitter& out, const KubernetesOptions& options);
/// Writes the subdomain of the pods' host names.
void put_subdomain(YAML::Emitter& out, const KubernetesOptions& options);
/// Writes the value of `template`: its keys.
void put_pod(YAML::Emitter& out, const KubernetesOptions& options);

/// Names of the objects besides the Job.
std::string recipe_map_name(const KubernetesOptions& options);
std::string token_secret_name(const KubernetesOptions& options);
std::string work_claim_name(const KubernetesOptions& options);

}  // namespace weft
