// The sbatch script of a training: its requests, how it starts the ranks, and how it reacts when they end.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Contents of the script.
struct BatchScript {
  std::string title;   ///< first line of the script, a comment
  std::string folder;  ///< working folder of the job
  std::string job_name;
  std::string log;  ///< with SLURM's patterns: "gpt-%j.log"; empty: named by the job's number
  int nodes = 1;
  int ranks_per_node = 1;
  bool launcher = false;  ///< one task per node, whose weft starts the ranks there; otherwise each rank is a task
  std::optional<int> cpus_per_task = {};
  std::vector<std::string> options = {};  ///< further sbatch options: "--partition=gpu"
  int signal_before_s = 120;              ///< how long before the time limit the ranks are asked to save
  int array = 0;                          ///< number of consecutive jobs; 0: one job, which is requeued
  int requeues = 100;                     ///< upper limit
  int restarts = 0;                       ///< of a failed training, within a job
  std::string image = {};                 ///< apptainer image to start the ranks in; empty: no image
  bool gpus = false;                      ///< give GPUs to the image
  std::vector<std::string> command = {};  ///< of a rank, or of a node's launcher: "weft train ..."
};

/// Returns the script's text. Throws InputError for text that is not allowed in an #SBATCH line.
std::string batch_script(const BatchScript& script);

}  // namespace weft
