// The script that sbatch takes for a training: what it asks for, how it starts the ranks, and what it does when they end.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// What the script is to ask for and to start.
struct BatchScript {
  std::string title;   ///< first line of the script, a comment
  std::string folder;  ///< where the job runs
  std::string job_name;
  std::string log;  ///< in SLURM's patterns: "gpt-%j.log"; empty: by the job's number
  int nodes = 1;
  int ranks_per_node = 1;
  bool launcher = false;  ///< one task a node, whose weft starts the ranks there; else each rank is a task
  std::optional<int> cpus_per_task = {};
  std::vector<std::string> options = {};  ///< further ones of sbatch: "--partition=gpu"
  int signal_before_s = 120;              ///< the ranks are told to save that long before the job's time is over
  int array = 0;                          ///< that many jobs one after another; 0: one, which is requeued
  int requeues = 100;                     ///< at most
  int restarts = 0;                       ///< of a training that fails, within a job
  std::string image = {};                 ///< an apptainer image to start the ranks in; empty: none
  bool gpus = false;                      ///< the image gets them
  std::vector<std::string> command = {};  ///< of a rank, or of a node's launcher: "weft train ..."
};

/// The script's text. Throws InputError for what cannot stand in an #SBATCH line.
std::string batch_script(const BatchScript& script);

}  // namespace weft
