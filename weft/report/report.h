// Reports of a training run: plain structs that the trainer fills, and that progress lines and the summary file read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/report/noise_scale.h"

namespace weft {

/// Report after each step, on rank 0; rates are over the last few steps, for all ranks together.
struct StepReport {
  int64_t step = 0;            ///< steps done, this one included
  int64_t steps = 0;           ///< steps the run will do
  double loss = 0.0;           ///< mean over the step's global batch
  double norm = 0.0;           ///< global norm of the gradients, before clipping; 0: not measured
  double lr = 0.0;             ///< learning rate of the step
  double samples_per_s = 0.0;  ///< rate for the global batch
  double tokens_per_s = 0.0;   ///< 0 for models that do not read tokens
  double seconds_left = -1.0;  ///< negative: unknown
  double samples = 0.0;        ///< that the run has trained on
  double tokens = 0.0;         ///< the same; 0 for models that do not read tokens
};

/// Report after each pass over an evaluation set.
struct EvaluationReport {
  std::string set = {};                   ///< evaluation.name; empty: the data's own
  int64_t step = 0;                       ///< steps done before the evaluation; below 0: unknown
  int64_t steps = 0;                      ///< steps the run will do
  double loss = 0.0;                      ///< mean over the counted targets
  std::optional<double> accuracy = {};    ///< share of correct predictions, 0 to 1
  std::optional<double> top5 = {};        ///< share of targets among the five most likely; with more than five classes
  std::optional<double> perplexity = {};  ///< e to the loss; for models that read tokens
  double seconds = 0.0;                   ///< duration of the evaluation
  bool averaged = false;                  ///< evaluates the average of the weights
};

/// The best value of a metric, and when it was reached.
struct BestValue {
  double value = 0.0;  ///< a loss or accuracy
  int64_t step = 0;    ///< steps done before the first evaluation that reached it
};

/// The best evaluations on the data's own set.
struct BestEvaluation {
  std::optional<BestValue> loss = {};      ///< the lowest loss
  std::optional<BestValue> accuracy = {};  ///< the highest accuracy
  /// Adds one more evaluation.
  void add(const EvaluationReport& report);
};

/// Result of `weft evaluate`: an evaluation of saved weights.
struct SavedEvaluation {
  std::string path = {};                           ///< the checkpoint, or the weights file
  std::string recipe = {};                         ///< the recipe file; empty: the checkpoint's own
  std::string model = {};                          ///< the recipe's model.name
  int64_t parameters = 0;                          ///< elements of the whole model
  int world = 1;                                   ///< ranks
  std::vector<EvaluationReport> evaluations = {};  ///< the data's own set first; the average before the weights
};

/// Label of a further evaluation relative to the first: its set, and "not averaged" if the first is averaged.
std::string name_beside(const EvaluationReport& first, const EvaluationReport& other);

/// Result of a save by all ranks.
struct SaveReport {
  std::string path;       ///< the checkpoint's folder
  int64_t step = 0;       ///< steps done in it; in a run
  int64_t bytes = 0;      ///< total of all data files; on rank 0
  double seconds = 0.0;   ///< time from the start of the save until it was durable
  double copied_s = 0.0;  ///< part of that for which steps paused to copy
  double waited_s = 0.0;  ///< wait for an earlier save before this one began
  std::string note = {};  ///< a failure after the save, in uploading it or removing older ones; empty: none
};

/// What a hardware file predicts for a step of the run.
struct StepPrediction {
  std::string hardware = {};  ///< its name
  double step_s = 0.0;        ///< time of a step
  double memory_mb = 0.0;     ///< MiB of the fullest rank: of its device; on CPUs of the process, with what it held before
};

/// Report at the end of a run, as written by --summary. Lists have one entry per rank.
struct FinalReport {
  std::string model;                                    ///< the recipe's model.name
  int64_t parameters = 0;                               ///< trained elements of the whole model
  int world = 1;                                        ///< ranks
  std::vector<std::pair<std::string, int64_t>> layout;  ///< in print order: pp, dp, shard, cp, tp, micro_batch, ...
  std::string backend;                                  ///< backend of the world group: "identity", "shm", "gloo", "nccl"
  int threads_per_rank = 1;                             ///< on rank 0
  int64_t steps = 0;                                    ///< steps of the whole run
  std::optional<NoiseEstimate> noise_scale = {};        ///< run.noise_scale; empty if no step measured it
  double learning_rate = 0.0;                           ///< peak rate
  double largest_rate = 0.0;                            ///< largest rate of the steps up to steps_done
  std::string learning_rate_rule = {};                  ///< how the peak was derived; empty: as the recipe has it
  double loss = 0.0;                                    ///< loss of the last step
  double late_loss = 0.0;                               ///< mean over this process's last steps, a tenth of them or 20
  double least_loss = 0.0;                              ///< smallest mean over as many steps
  std::optional<EvaluationReport> evaluation;           ///< the last one, on the data's own set
  std::vector<EvaluationReport> other_evaluations;      ///< last evaluations on other sets and of unaveraged weights
  BestEvaluation best;                                  ///< over all evaluations
  std::string target = {};                              ///< run.target; empty: none
  std::optional<int64_t> target_step = {};              ///< steps done before the first evaluation to reach it; empty: none
  double seconds = 0.0;                                 ///< training time, evaluation included
  double samples_per_s = 0.0;                           ///< over the steps after the first two
  double tokens_per_s = 0.0;                            ///< 0 for models that do not read tokens
  double first_step_s = 0.0;                            ///< time from process start to the end of the first step
  double step_ms_p50 = 0.0;                             ///< median step time, without the first two
  double step_ms_p95 = 0.0;                             ///< 95th percentile of step time
  std::optional<StepPrediction> predicted = {};         ///< by run.hardware; on rank 0
  double data_wait_share = 0.0;                ///< share of `seconds` that steps waited for samples, 0 to 1; maximum over ranks
  std::vector<std::string> skipped_data = {};  ///< names of bad data that this process skipped (data.skip_bad), in order
  int64_t skipped_more = 0;                    ///< number of skipped data that are not named
  double communication_share = 0.0;            ///< share of `seconds` spent in collectives, 0 to 1; maximum over ranks
  double step_communication_share = 0.0;       ///< the same for step time only, without the first two
  std::vector<double> peak_rss_mb;             ///< by rank: peak resident memory, in MiB
  std::vector<double> peak_device_mb = {};     ///< by rank: most that its device's allocator took, in MiB; empty on CPUs
  std::vector<int64_t> traffic_bytes;          ///< by rank: payload sent
  int64_t resumed_from = 0;                    ///< steps done before this process began; 0: it began the run
  bool stopped = false;                        ///< asked to stop, so it saved and ended before the last step
  bool upload_left = false;                    ///< a thread still copies to save.upload after a stop: exit without waiting
  std::string upload_failure = {};             ///< why the newest checkpoint is not in save.upload; on rank 0; empty: it is
  int64_t steps_done = 0;                      ///< steps of the run done so far
  int64_t saves = 0;                           ///< checkpoints saved by this process
  double save_stall_s = 0.0;                   ///< time that its steps paused for saves
  int64_t skipped_steps = 0;                   ///< fp16: steps skipped because a gradient was not finite
  std::string job = {};                        ///< cluster manager job: "slurm 4711"; empty: none
  std::string user = {};                       ///< user name that owns these processes
  std::vector<std::string> hosts = {};         ///< hosts of the ranks, each once, in rank order
  double core_hours = 0.0;                     ///< ranks times their threads times the lifetime of rank 0
  std::string weights_sha256;                  ///< digest of the final weights (checkpoint/digest.h), on rank 0
  std::string average_sha256 = {};             ///< digest of their average; empty: no average is kept
};

}  // namespace weft
