// What is asked of Kubernetes for a training, and where things are in its pods. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

inline constexpr const char* kWorkFolder = "/work";      ///< the volume of data and checkpoints; pods' working folder
inline constexpr const char* kRecipeFolder = "/recipe";  ///< where the recipe is
inline constexpr int64_t kPodUser = 1000;                ///< that pods run as: `weft` in the image of container/Dockerfile

/// A claim of a volume, mounted to be read.
struct ClaimMount {
  std::string claim;  ///< its name
  std::string path;   ///< where
};

/// What is asked of Kubernetes. Sizes are in its own words: "16Gi", "500m".
struct KubernetesOptions {
  std::string name = {};        ///< of the Job and the Service; others begin with it
  std::string name_space = {};  ///< empty: the one that kubectl is set to
  std::string image = {};       ///< that has `weft` on its PATH
  bool jobset = false;          ///< a JobSet, whose pods all start anew together, in place of a Job
  int nodes = 1;                ///< pods
  int ranks = 1;                ///< a pod
  bool gpus = false;            ///< a GPU a rank
  bool one_pod_a_node = false;  ///< never two pods on one machine

  std::string recipe_name = {};                   ///< its file's name: "gpt.toml"
  std::string recipe = {};                        ///< its text
  std::vector<std::string> train_arguments = {};  ///< of `weft train`, besides
  int restarts = 0;                               ///< of ranks, within the pods
  int replacements = 0;                           ///< of each pod; with jobset: of all together
  bool saves = false;                             ///< when it is asked to end
  int64_t grace_s = 30;                           ///< from the signal to end until the kill

  std::string cpus = {};           ///< of a pod
  std::string memory = {};         ///< of a pod
  std::string memory_reason = {};  ///< how it came about, for a comment
  std::string shared_memory = {};  ///< at /dev/shm; counts as the pod's memory too

  int join_timeout_s = 1800;  ///< that pods wait for one another: machines are added, images pulled
  int port = 29500;           ///< of the head
  int health_port = 8080;     ///< of each agent

  std::string token = {};         ///< the job's secret, for a Secret that is made
  std::string token_secret = {};  ///< the Secret that has it as `token`, instead

  std::string claim = {};          ///< at kWorkFolder, of a volume that is there
  std::string storage = {};        ///< or the size of one that is made
  std::string storage_class = {};  ///< of which class; empty: the cluster's own
  std::vector<ClaimMount> data = {};
  std::vector<std::string> env_secrets = {};  ///< whose entries become environment variables
  std::string service_account = {};

  std::vector<std::string> notes = {};  ///< for the manifest's head: lines
};

/// Whether there is a volume at kWorkFolder.
inline bool has_work_folder(const KubernetesOptions& options) { return !options.claim.empty() || !options.storage.empty(); }

}  // namespace weft
