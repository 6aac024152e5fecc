// SlurmStep: srun's description of this process's task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// One task of a step that srun started. Tasks are either ranks or agents, one per host, that start the ranks there.
struct SlurmStep {
  std::string job;  ///< "4711"
  int64_t step = 0;
  int restarts = 0;  ///< how often the job was requeued
  int task = 0;      ///< task number, from 0
  int num_tasks = 1;
  int local_task = 0;                   ///< task number on its host
  int node = 0;                         ///< host number, from 0
  std::vector<std::string> hosts = {};  ///< by host number, as SLURM names them
  std::vector<int> tasks_of_host = {};  ///< by host number; empty if the environment does not say

  /// Address where the tasks meet: MASTER_ADDR, else the first host, which has task 0.
  std::string address() const;
  /// Port where the tasks meet: WEFT_PORT, MASTER_PORT, or one derived from job, requeues and step: from 23000 to 27999,
  /// outside the kernel's ephemeral range, or from the first ports of WEFT_PORTS. It differs for each step of a job.
  int port() const;
  /// Returns a text unique to this step's tasks. It keeps unrelated processes out, but can be guessed: it is not a secret.
  std::string token() const;
};

/// Returns the task that this process is; nullopt outside a step, as in a batch script or salloc's shell, even though their
/// environments describe the job. Throws InputError for a contradictory environment and for a heterogeneous job.
std::optional<SlurmStep> slurm_step();

/// Resources per task, if this process is a task of a step whose tasks are ranks: cores (--cpus-per-task), and GPUs that only
/// this task sees (--gpus-per-task). nullopt if unknown.
std::optional<int> slurm_cores_per_task();
std::optional<int> slurm_gpus_per_task();

}  // namespace weft
