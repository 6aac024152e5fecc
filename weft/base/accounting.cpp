#include "weft/base/accounting.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

#include "weft/base/environment.h"

namespace weft {

std::string cluster_job() {
  if (const auto job = env_string("WEFT_JOB")) return *job;
  const auto array = env_string("SLURM_ARRAY_JOB_ID"), task = env_string("SLURM_ARRAY_TASK_ID");
  if (array && task) return "slurm " + *array + "_" + *task;
  struct Manager {
    const char* variable;
    const char* name;
  };
  for (const Manager& manager : {Manager{"SLURM_JOB_ID", "slurm"}, Manager{"PBS_JOBID", "pbs"}, Manager{"LSB_JOBID", "lsf"}}) {
    if (const auto job = env_string(manager.variable)) return std::string(manager.name) + " " + *job;
  }
  const auto job = env_string("JOB_ID");
  return job && env_string("SGE_TASK_ID") ? "sge " + *job : "";
}

std::string user_name() {
  std::vector<char> text(1 << 14);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr) return found->pw_name;
  return std::to_string(geteuid());
}

}  // namespace weft
