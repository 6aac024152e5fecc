// What a training run says about itself: plain structs that the trainer fills, and progress lines and the summary file read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/report/noise_scale.h"

namespace weft {

/// What is told after each step, on rank 0; rates are over the last few steps, and global (all ranks together).
struct StepReport {
  int64_t step = 0;            ///< steps done, this one included
  int64_t steps = 0;           ///< steps the run will do
  double loss = 0.0;           ///< mean over the step's global batch
  double norm = 0.0;           ///< global norm of the gradients, before clipping; 0: not taken
  double lr = 0.0;             ///< learning rate of the step
  double samples_per_s = 0.0;  ///< of the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that do not read tokens
  double seconds_left = -1.0;  ///< negative: not known yet
};

/// What is told after each pass over an evaluation set.
struct EvaluationReport {
  std::string set = {};                   ///< evaluation.name; empty: the data's own
  int64_t step = 0;                       ///< steps done before it; below 0: nobody knows
  int64_t steps = 0;                      ///< steps the run will do
  double loss = 0.0;                      ///< mean over the targets that count
  std::optional<double> accuracy = {};    ///< share of targets predicted right, 0 to 1
  std::optional<double> top5 = {};        ///< share of them among the five likeliest; of more than five classes
  std::optional<double> perplexity = {};  ///< e to the loss; of models that read tokens
  double seconds = 0.0;                   ///< what the evaluation took
  bool averaged = false;                  ///< of the average of the weights
};

/// The best that evaluations had of something, and when.
struct BestValue {
  double value = 0.0;  ///< of loss or accuracy
  int64_t step = 0;    ///< steps done before the first evaluation that had it
};

/// The best of the evaluations on the data's own set.
struct BestEvaluation {
  std::optional<BestValue> loss = {};      ///< the least
  std::optional<BestValue> accuracy = {};  ///< the highest
  /// Takes one more.
  void add(const EvaluationReport& report);
};

/// What `weft evaluate` tells: of weights that were saved.
struct SavedEvaluation {
  std::string path = {};                           ///< the checkpoint, or the weights
  std::string recipe = {};                         ///< its file; empty: the checkpoint's own
  std::string model = {};                          ///< the recipe's model.name
  int64_t parameters = 0;                          ///< elements of the whole model
  int world = 1;                                   ///< ranks
  std::vector<EvaluationReport> evaluations = {};  ///< the data's own set first; the average before the weights
};

/// What one of several evaluations is called beside the first: by its set, and as "not averaged" where the first is.
std::string name_beside(const EvaluationReport& first, const EvaluationReport& other);

/// What a save of all ranks came to.
struct SaveReport {
  std::string path;       ///< the checkpoint's folder
  int64_t bytes = 0;      ///< of all data files; on rank 0
  double seconds = 0.0;   ///< from its begin till it was durable
  double copied_s = 0.0;  ///< of them, what steps stood still for the copy
  double waited_s = 0.0;  ///< what the save waited for an earlier one before it began
  std::string note = {};  ///< what failed after it was whole: copying it on, removing older ones; empty: nothing
};

/// What is told at the end of a run, and what --summary writes. Lists have an entry a rank.
struct FinalReport {
  std::string model;                                    ///< the recipe's model.name
  int64_t parameters = 0;                               ///< trained elements of the whole model
  int world = 1;                                        ///< ranks
  std::vector<std::pair<std::string, int64_t>> layout;  ///< in print order: pp, dp, shard, cp, tp, micro_batch, ...
  std::string backend;                                  ///< of the group of all ranks: "identity", "shm", "gloo", "nccl"
  int threads_per_rank = 1;                             ///< of rank 0
  int64_t steps = 0;                                    ///< of the run
  std::optional<NoiseEstimate> noise_scale = {};        ///< run.noise_scale; none where no step told of it
  double learning_rate = 0.0;                           ///< at its peak
  double largest_rate = 0.0;                            ///< of the run's steps up to steps_done
  std::string learning_rate_rule = {};                  ///< how that came about; empty: as the recipe has it
  double loss = 0.0;                                    ///< of the last step
  double late_loss = 0.0;                               ///< mean over the last steps of this process, a tenth of them or 20
  double least_loss = 0.0;                              ///< the least mean over as many
  std::optional<EvaluationReport> evaluation;           ///< the last one, on the data's own set
  std::vector<EvaluationReport> other_evaluations;      ///< the last ones beside it: of other sets, of weights not averaged
  BestEvaluation best;                                  ///< of all
  std::string target = {};                              ///< run.target; empty: none
  std::optional<int64_t> target_step = {};              ///< steps done before the evaluation that reached it; none: none did
  double seconds = 0.0;                                 ///< of training, evaluation included
  double samples_per_s = 0.0;                           ///< over the steps after the first two
  double tokens_per_s = 0.0;                            ///< 0 for models that do not read tokens
  double first_step_s = 0.0;                            ///< from process start to the end of the first step
  double step_ms_p50 = 0.0;                             ///< median time of a step, the first two left out
  double step_ms_p95 = 0.0;                             ///< what 95 of 100 of those steps took at most
  double data_wait_share = 0.0;  ///< share of `seconds` that a rank's steps waited for samples, the most of all ranks, 0 to 1
  std::vector<std::string> skipped_data =
      {};                            ///< what was bad of the data that this process used (data.skip_bad), named, in order
  int64_t skipped_more = 0;          ///< that have no name of their own there
  double communication_share = 0.0;  ///< share of `seconds` that a rank spent in collectives, the most of all ranks, 0 to 1
  double step_communication_share = 0.0;  ///< the same of the time of steps alone, the first two left out
  std::vector<double> peak_rss_mb;        ///< by rank: most memory that was resident, in MiB
  std::vector<int64_t> traffic_bytes;     ///< by rank: payload that it sent
  int64_t resumed_from = 0;               ///< steps that were done when this process began; 0: it began the run
  bool stopped = false;                   ///< it was asked to end, and saved before the last step
  bool upload_left = false;             ///< a thread still copies to save.upload, as the run was asked to end: end the process
  std::string upload_failure = {};      ///< why the newest checkpoint is not in save.upload; on rank 0; empty: it is
  int64_t steps_done = 0;               ///< of the run
  int64_t saves = 0;                    ///< checkpoints that this process saved
  double save_stall_s = 0.0;            ///< for which its steps stood still for that
  int64_t skipped_steps = 0;            ///< fp16: steps left out because a gradient was not finite
  std::string job = {};                 ///< that a cluster manager runs this as: "slurm 4711"; empty: none
  std::string user = {};                ///< whose processes these are, by name
  std::vector<std::string> hosts = {};  ///< that ranks were on, each once, in rank order
  double core_hours = 0.0;              ///< ranks times their threads, for as long as rank 0 was there
  std::string weights_sha256;           ///< digest of the final weights (checkpoint/digest.h), on rank 0
  std::string average_sha256 = {};      ///< the same of their average; empty: none is kept
};

}  // namespace weft
