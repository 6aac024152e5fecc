// Options of a training on Kubernetes, and the folders in its pods. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

inline constexpr const char* kWorkFolder = "/work";      ///< volume for data and checkpoints; the pods' working folder
inline constexpr const char* kRecipeFolder = "/recipe";  ///< folder of the recipe
inline constexpr int64_t kPodUser = 1000;                ///< user of the pods: `weft` in the image of container/Dockerfile

/// A volume claim, mounted for reading.
struct ClaimMount {
  std::string claim;  ///< name of the claim
  std::string path;   ///< mount folder
};

/// Options of a training on Kubernetes. Sizes are Kubernetes quantities: "16Gi", "500m".
struct KubernetesOptions {
  std::string name = {};        ///< name of the Job and the Service; prefix of other objects' names
  std::string name_space = {};  ///< empty: kubectl's current one
  std::string image = {};       ///< with `weft` on its PATH
  bool jobset = false;          ///< a JobSet, whose pods all restart together, instead of a Job
  int nodes = 1;                ///< number of pods
  int ranks = 1;                ///< per pod
  bool gpus = false;            ///< one GPU per rank
  bool one_pod_a_node = false;  ///< never two pods on one machine

  std::string recipe_name = {};                   ///< file name: "gpt.toml"
  std::string recipe = {};                        ///< its text
  std::vector<std::string> train_arguments = {};  ///< more arguments for `weft train`
  int restarts = 0;                               ///< restarts of ranks within the pods
  int replacements = 0;                           ///< of each failed pod; with jobset: of all pods together
  bool saves = false;                             ///< the run saves when asked to stop
  int64_t grace_s = 30;                           ///< from the stop signal until the kill

  std::string cpus = {};           ///< per pod
  std::string memory = {};         ///< per pod
  std::string memory_reason = {};  ///< how `memory` was computed, for a comment
  std::string shared_memory = {};  ///< size of /dev/shm; counts as the pod's memory

  int join_timeout_s = 1800;  ///< how long pods wait for one another, while machines are added and images pulled
  int port = 29500;           ///< port of the head
  int health_port = 8080;     ///< port of each agent

  std::string token = {};         ///< the job's secret, for a new Secret
  std::string token_secret = {};  ///< instead: an existing Secret whose entry `token` is the token

  std::string claim = {};          ///< existing claim, mounted at kWorkFolder
  std::string storage = {};        ///< instead: size of a new volume
  std::string storage_class = {};  ///< storage class; empty: the cluster's default
  std::vector<ClaimMount> data = {};
  std::vector<std::string> env_secrets = {};  ///< Secrets whose entries become environment variables
  std::string service_account = {};

  std::vector<std::string> notes = {};  ///< comment lines for the manifest's head
};

/// Returns true if a volume is mounted at kWorkFolder.
inline bool has_work_folder(const KubernetesOptions& options) { return !options.claim.empty() || !options.storage.empty(); }

}  // namespace weft
