#include "weft/launch/kubernetes/pod.h"

#include <fmt/format.h>

#include <string>

#include "weft/launch/kubernetes/names.h"
#include "weft/launch/kubernetes/yaml_text.h"

namespace weft {
namespace {

using YAML::Emitter;

/// Kubernetes expands $(NAME); "$$(" prevents it.
std::string unexpanded(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "$(") == 0) result += '$';
    result += text[i];
  }
  return result;
}

void put_arguments(Emitter& out, const KubernetesOptions& options) {
  put_list(out, "command", [&] {
    put_text(out, "weft");
    put_text(out, "train");
    put_text(out, fmt::format("{}/{}", kRecipeFolder, options.recipe_name));
    put_text(out, fmt::format("--ranks={}", options.ranks), "per pod");
    put_text(out, fmt::format("--nodes={}", options.nodes), "equal to completions and parallelism");
    put_text(out, "--node-rank=$(JOB_COMPLETION_INDEX)");
    put_text(out, fmt::format("--head={}-0.{}:{}", host_stem(options), options.name, options.port));
    put_text(out, fmt::format("--restarts={}", options.restarts), "of ranks, within the pods");
    put_text(out, fmt::format("--join-timeout={}", options.join_timeout_s),
             "seconds to wait for a late pod, or for a replacement");
    put_text(out, fmt::format("--health-port={}", options.health_port));
    put_text(out, "--health-address=0.0.0.0");
    for (const std::string& argument : options.train_arguments) put_text(out, unexpanded(argument));
  });
}

void put_environment(Emitter& out, const KubernetesOptions& options) {
  put_list(out, "env", [&] {
    put_item(out, [&] {
      put(out, "name", "WEFT_TOKEN", "the secret that pods prove to one another");
      put_map(out, "valueFrom", [&] {
        put_map(out, "secretKeyRef", [&] {
          put(out, "name", token_secret_name(options));
          put(out, "key", "token");
        });
      });
    });
    const auto put_variable = [&out](const char* name, const std::string& value) {
      put_named(out, name, [&] { put(out, "value", value); });
    };
    put_variable("WEFT_JOB", options.name);
    for (const char* name : {"TMPDIR", "HOME"}) put_variable(name, "/tmp");
  });
  if (options.env_secrets.empty()) return;
  put_list(out, "envFrom", [&] {
    for (const std::string& secret : options.env_secrets) {
      put_item(out, [&] { put_map(out, "secretRef", [&] { put(out, "name", secret); }); });
    }
  });
}

void put_resources(Emitter& out, const KubernetesOptions& options) {
  put_map(out, "resources", [&] {
    for (const char* part : {"requests", "limits"}) {
      put_map(out, part, [&] {
        put(out, "cpu", options.cpus);
        put(out, "memory", options.memory, part[0] == 'r' ? options.memory_reason : "");
        if (options.gpus) put(out, "nvidia.com/gpu", options.ranks);
      });
    }
  });
}

void put_liveness(Emitter& out) {
  put_map(out, "livenessProbe", [&] {
    put_map(out, "httpGet", [&] {
      put(out, "path", "/livez", "also answers while it waits for other pods");
      put(out, "port", "health");
    });
    put(out, "initialDelaySeconds", 10);
    put(out, "periodSeconds", 10);
    put(out, "timeoutSeconds", 5);
    put(out, "failureThreshold", 6, "a minute without an answer from the agent: the pod is killed");
  });
}

void put_mount(Emitter& out, const std::string& name, const std::string& path, bool read_only) {
  put_named(out, name, [&] {
    put(out, "mountPath", path);
    if (read_only) put(out, "readOnly", true);
  });
}

void put_mounts(Emitter& out, const KubernetesOptions& options) {
  put_list(out, "volumeMounts", [&] {
    put_mount(out, "recipe", kRecipeFolder, true);
    if (has_work_folder(options)) put_mount(out, "work", kWorkFolder, false);
    for (size_t i = 0; i < options.data.size(); ++i) put_mount(out, fmt::format("data-{}", i), options.data[i].path, true);
    put_mount(out, "shared-memory", "/dev/shm", false);
    put_mount(out, "scratch", "/tmp", false);
  });
}

void put_claim(Emitter& out, const std::string& name, const std::string& claim, bool read_only) {
  put_named(out, name, [&] {
    put_map(out, "persistentVolumeClaim", [&] {
      put(out, "claimName", claim);
      if (read_only) put(out, "readOnly", true);
    });
  });
}

void put_volumes(Emitter& out, const KubernetesOptions& options) {
  put_list(out, "volumes", [&] {
    put_named(out, "recipe", [&] { put_map(out, "configMap", [&] { put(out, "name", recipe_map_name(options)); }); });
    if (has_work_folder(options)) put_claim(out, "work", work_claim_name(options), false);
    for (size_t i = 0; i < options.data.size(); ++i) put_claim(out, fmt::format("data-{}", i), options.data[i].claim, true);
    put_named(out, "shared-memory", [&] {
      put_map(out, "emptyDir", [&] {
        put(out, "medium", "Memory");
        put(out, "sizeLimit", options.shared_memory, "for NCCL; its contents count as the pod's memory");
      });
    });
    put_named(out, "scratch", [&] {
      out << YAML::Key << "emptyDir" << YAML::Value << YAML::Flow << YAML::BeginMap << YAML::EndMap;
      remark(out, "state offloaded to disk, unless layout.offload_folder is set");
    });
  });
}

void put_container(Emitter& out, const KubernetesOptions& options) {
  put(out, "name", kContainer);
  put(out, "image", options.image);
  put_arguments(out, options);
  put(out, "workingDir", has_work_folder(options) ? kWorkFolder : "/tmp");
  put_environment(out, options);
  put_list(out, "ports", [&] {
    for (const auto& [name, port] : {std::pair{"head", options.port}, std::pair{"health", options.health_port}}) {
      put_named(out, name, [&] { put(out, "containerPort", port); });
    }
  });
  put_resources(out, options);
  put_liveness(out);
  put_map(out, "securityContext", [&] {
    put(out, "allowPrivilegeEscalation", false);
    put(out, "readOnlyRootFilesystem", true);
    put_map(out, "capabilities", [&] { put_list(out, "drop", [&] { put_text(out, "ALL"); }); });
  });
  put_mounts(out, options);
}

void put_placement(Emitter& out, const KubernetesOptions& options) {
  if (options.gpus) {
    put_list(out, "tolerations", [&] {
      put_item(out, [&] {
        put(out, "key", "nvidia.com/gpu");
        put(out, "operator", "Exists");
        put(out, "effect", "NoSchedule");
      });
    });
  }
  if (!options.one_pod_a_node) return;
  put_map(out, "affinity", [&] {
    put_map(out, "podAntiAffinity", [&] {
      put_list(out, "requiredDuringSchedulingIgnoredDuringExecution", [&] {
        put_item(out, [&] {
          put(out, "topologyKey", "kubernetes.io/hostname");
          put_map(out, "labelSelector", [&] { put_map(out, "matchLabels", [&] { put_labels(out, options); }); });
        });
      });
    });
  });
}

}  // namespace

void put_labels(Emitter& out, const KubernetesOptions& options) {
  put(out, "app.kubernetes.io/name", "weft");
  put(out, "app.kubernetes.io/instance", options.name);
}

void put_subdomain(Emitter& out, const KubernetesOptions& options) {
  put(out, "subdomain", options.name, fmt::format("host names {0}-0.{1}, {0}-1.{1}, ...", host_stem(options), options.name));
}

std::string recipe_map_name(const KubernetesOptions& options) { return options.name + "-recipe"; }

std::string token_secret_name(const KubernetesOptions& options) {
  return options.token_secret.empty() ? options.name + "-token" : options.token_secret;
}

std::string work_claim_name(const KubernetesOptions& options) {
  return options.claim.empty() ? options.name + "-work" : options.claim;
}

void put_pod(Emitter& out, const KubernetesOptions& options) {
  put_map(out, "metadata", [&] { put_map(out, "labels", [&] { put_labels(out, options); }); });
  put_map(out, "spec", [&] {
    put(out, "restartPolicy", "Never", "the Job replaces pods, by its podFailurePolicy");
    if (!options.jobset) put_subdomain(out, options);
    put(out, "terminationGracePeriodSeconds", options.grace_s, "time to save: above the recipe's save.deadline_s");
    put(out, "enableServiceLinks", false);
    put(out, "automountServiceAccountToken", false);
    if (!options.service_account.empty()) put(out, "serviceAccountName", options.service_account);
    put_map(out, "securityContext", [&] {
      put(out, "runAsNonRoot", true);
      put(out, "runAsUser", kPodUser);
      put(out, "runAsGroup", kPodUser);
      put(out, "fsGroup", kPodUser);
      put(out, "fsGroupChangePolicy", "OnRootMismatch");
      put_map(out, "seccompProfile", [&] { put(out, "type", "RuntimeDefault"); });
    });
    put_placement(out, options);
    put_list(out, "containers", [&] { put_item(out, [&] { put_container(out, options); }); });
    put_volumes(out, options);
  });
}

}  // namespace weft
