// SlurmStep: what srun says of the task that this process is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// One task of a step that srun started. Its tasks may be ranks, or each the agent of a host that starts the ranks there.
struct SlurmStep {
  std::string job;  ///< "4711"
  int64_t step = 0;
  int restarts = 0;  ///< how often the job was requeued
  int task = 0;      ///< this one's number, from 0
  int num_tasks = 1;
  int local_task = 0;                   ///< its number on its host
  int node = 0;                         ///< its host's number, from 0
  std::vector<std::string> hosts = {};  ///< by their numbers, as SLURM names them
  std::vector<int> tasks_of_host = {};  ///< the same; empty where the environment does not tell

  /// Where the tasks meet: task 0 is on the first host. MASTER_ADDR replaces it.
  std::string address() const;
  /// The port that they meet at: WEFT_PORT, MASTER_PORT, or one that follows from the job, how often it was requeued, and the
  /// step, of 23000 to 27999, outside the range that the kernel hands out, or of the first of WEFT_PORTS. Steps of one job
  /// differ.
  int port() const;
  /// A text that only this step's tasks have, unless somebody guesses it: it keeps strays out, and is no secret.
  std::string token() const;
};

/// The step's task that this process is; none outside a step, as in a batch script or in the shell of salloc, whatever these
/// are told of the job. Throws InputError for an environment that contradicts itself, and for a heterogeneous job.
std::optional<SlurmStep> slurm_step();

/// What srun gave each task of a step whose tasks are ranks, this process one of them: cores (--cpus-per-task), and GPUs that
/// it alone sees (--gpus-per-task). None where that is not told.
std::optional<int> slurm_cores_per_task();
std::optional<int> slurm_gpus_per_task();

}  // namespace weft
