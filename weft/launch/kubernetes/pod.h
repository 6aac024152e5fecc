// The pod of one host, as a Job's template has it.
#pragma once

#include <yaml-cpp/emitter.h>

#include "weft/launch/kubernetes/options.h"

namespace weft {

inline constexpr const char* kContainer = "weft";  ///< its name, which the Job's rules go by

/// Labels that the Service finds the pods by.
void put_labels(YAML::Emitter& out, const KubernetesOptions& options);
/// Which the pods' host names end in.
void put_subdomain(YAML::Emitter& out, const KubernetesOptions& options);
/// The value of `template`: its keys.
void put_pod(YAML::Emitter& out, const KubernetesOptions& options);

/// Names of what stands beside the Job.
std::string recipe_map_name(const KubernetesOptions& options);
std::string token_secret_name(const KubernetesOptions& options);
std::string work_claim_name(const KubernetesOptions& options);

}  // namespace weft
