#include "weft/launch/kubernetes/manifest.h"

#include <fmt/format.h>
#include <yaml-cpp/emitter.h>

#include <functional>
#include <string>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/launch/exit_status.h"
#include "weft/launch/kubernetes/names.h"
#include "weft/launch/kubernetes/pod.h"
#include "weft/launch/kubernetes/yaml_text.h"

namespace weft {
namespace {

using YAML::Emitter;

constexpr int kBadCommandLine = 2;

void put_document(Emitter& out, const KubernetesOptions& options, const char* version, const char* kind,
                  const std::string& name, const std::function<void()>& body) {
  out << YAML::BeginDoc << YAML::BeginMap;
  put(out, "apiVersion", version);
  put(out, "kind", kind);
  put_map(out, "metadata", [&] {
    put(out, "name", name);
    if (!options.name_space.empty()) put(out, "namespace", options.name_space);
    put_map(out, "labels", [&] { put_labels(out, options); });
  });
  body();
  out << YAML::EndMap;
}

void put_recipe(Emitter& out, const KubernetesOptions& options) {
  put_document(out, options, "v1", "ConfigMap", recipe_map_name(options),
               [&] { put_map(out, "data", [&] { put_lines(out, options.recipe_name, options.recipe); }); });
}

void put_token(Emitter& out, const KubernetesOptions& options) {
  if (!options.token_secret.empty()) return;
  put_document(out, options, "v1", "Secret", token_secret_name(options), [&] {
    put(out, "type", "Opaque");
    put_map(out, "stringData", [&] {
      out << YAML::Key << "token" << YAML::Value << YAML::DoubleQuoted << options.token;
      remark(out, "anyone who has it can join the training");
    });
  });
}

void put_work_claim(Emitter& out, const KubernetesOptions& options) {
  if (options.storage.empty()) return;
  put_document(out, options, "v1", "PersistentVolumeClaim", work_claim_name(options), [&] {
    put_map(out, "spec", [&] {
      put_list(out, "accessModes", [&] { put_text(out, options.nodes > 1 ? "ReadWriteMany" : "ReadWriteOnce"); });
      if (!options.storage_class.empty()) put(out, "storageClassName", options.storage_class);
      put_map(out, "resources", [&] { put_map(out, "requests", [&] { put(out, "storage", options.storage); }); });
    });
  });
}

void put_service(Emitter& out, const KubernetesOptions& options) {
  put_document(out, options, "v1", "Service", options.name, [&] {
    put_map(out, "spec", [&] {
      put(out, "clusterIP", "None", "headless: only gives the pods names");
      put(out, "publishNotReadyAddresses", true, "pods get names before they are ready");
      put_map(out, "selector", [&] { put_labels(out, options); });
      put_list(out, "ports", [&] { put_named(out, "head", [&] { put(out, "port", options.port); }); });
    });
  });
}

void put_exit_codes(Emitter& out, const char* action, std::initializer_list<int> statuses, const std::string& why) {
  put_item(out, [&] {
    put(out, "action", action, why);
    put_map(out, "onExitCodes", [&] {
      put(out, "containerName", kContainer);
      put(out, "operator", "In");
      out << YAML::Key << "values" << YAML::Value << YAML::Flow << YAML::BeginSeq;
      for (const int status : statuses) out << status;
      out << YAML::EndSeq;
    });
  });
}

void put_failure_policy(Emitter& out) {
  put_map(out, "podFailurePolicy", [&] {
    put_list(out, "rules", [&] {
      put_exit_codes(out, "Ignore", {kSavedAndStopped}, "saved and stopped as requested: replaced, not counted");
      put_item(out, [&] {
        put(out, "action", "Ignore", "its node was drained or lost: replaced, not counted");
        put_list(out, "onPodConditions", [&] {
          put_item(out, [&] {
            put(out, "type", "DisruptionTarget");
            put(out, "status", "True");
          });
        });
      });
      put_exit_codes(out, "FailJob", {kBadCommandLine, kDiverged},
                     "a command line error or a loss that is not finite: would recur");
    });
  });
}

/// Writes the keys of a Job's spec.
void put_job(Emitter& out, const KubernetesOptions& options) {
  put(out, "completionMode", "Indexed");
  put(out, "completions", options.nodes);
  put(out, "parallelism", options.nodes);
  if (options.jobset) {
    put(out, "backoffLimit", 0, "a failed pod ends the Job, and the JobSet restarts it");
  } else {
    put(out, "backoffLimitPerIndex", options.replacements, "how often each failed pod is replaced");
    put(out, "maxFailedIndexes", 0, "a pod that failed for good ends the Job");
    put(out, "podReplacementPolicy", "Failed", "never two pods of one index at once");
  }
  put_failure_policy(out);
  put_map(out, "template", [&] { put_pod(out, options); });
}

void put_jobset(Emitter& out, const KubernetesOptions& options) {
  put_map(out, "network", [&] {
    put(out, "enableDNSHostnames", true);
    put_subdomain(out, options);
    put(out, "publishNotReadyAddresses", true);
  });
  put_map(out, "failurePolicy", [&] {
    put(out, "maxRestarts", options.replacements);
    put_list(out, "rules", [&] {
      put_named(out, "comes-again", [&] {
        put(out, "action", "FailJobSet");
        put_list(out, "onJobFailureReasons", [&] { put_text(out, "PodFailurePolicy"); });
      });
    });
  });
  put_list(out, "replicatedJobs", [&] {
    put_named(out, "hosts", [&] {
      put(out, "replicas", 1);
      put_map(out, "template", [&] { put_map(out, "spec", [&] { put_job(out, options); }); });
    });
  });
}

std::string head(const KubernetesOptions& options) {
  const std::string where = options.name_space.empty() ? "" : " -n " + options.name_space;
  std::string text = fmt::format("# {}: {} with {} each{}, on Kubernetes 1.29 or later{}\n", options.recipe_name,
                                 counted(options.nodes, "pod"), counted(options.ranks, "rank"),
                                 options.gpus ? ", one GPU per rank" : "", options.jobset ? " with JobSet" : "");
  text += "# start:   kubectl apply -f FILE\n";
  text +=
      fmt::format("# watch:   kubectl logs{} -f -l app.kubernetes.io/instance={},batch.kubernetes.io/job-completion-index=0\n",
                  where, options.name);
  text += fmt::format("# stop:    kubectl delete{} {} {}{}\n", where, options.jobset ? "jobset" : "job", options.name,
                      options.saves ? "   (it saves, and resumes when FILE is applied again)" : "");
  text += fmt::format("# remove:  kubectl delete -f FILE{}\n",
                      options.storage.empty() ? "" : "   (the volume with its checkpoints too)");
  for (const std::string& note : options.notes) text += "# " + note + "\n";
  return text;
}

}  // namespace

std::string kubernetes_manifest(const KubernetesOptions& options) {
  check_names(options);
  Emitter out;
  put_recipe(out, options);
  put_token(out, options);
  put_work_claim(out, options);
  if (options.jobset) {
    put_document(out, options, "jobset.x-k8s.io/v1alpha2", "JobSet", options.name,
                 [&] { put_map(out, "spec", [&] { put_jobset(out, options); }); });
  } else {
    put_service(out, options);
    put_document(out, options, "batch/v1", "Job", options.name, [&] { put_map(out, "spec", [&] { put_job(out, options); }); });
  }
  if (!out.good()) throw Error("k8s: the manifest cannot be written as YAML: " + out.GetLastError());
  return head(options) + out.c_str() + "\n";
}

}  // namespace weft
