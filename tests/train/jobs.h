// The cases of the parity tables: jobs (a model and its batches), strategies (the layout of a step), and running one on several
// thread-ranks.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/train/reference.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

inline constexpr int64_t kGlobalBatch = 12;

struct Job {
  const char* name;
  std::function<Model()> model;
  std::function<Batch(int64_t)> batch_of;  ///< the global batch of a step
  int64_t global_batch = kGlobalBatch;
};

std::ostream& operator<<(std::ostream& out, const Job& job);

/// gpt (with dropout, and targets that do not count), cnn (with BatchNorm), mlp, a gpt with tied embeddings, and llama (with
/// grouped queries).
const std::vector<Job>& jobs();
/// For pipelines: at least eight blocks, global batch 16: deep_gpt, deep_tied_gpt, deep_modules (torch's own modules),
/// deep_mixed (blocks whose backward can and cannot be split), and deep_llama.
const std::vector<Job>& deep_jobs();
/// Matrix products large enough for oneDNN (nn/functional/matmul.h) with micro-batches of 8 samples.
const std::vector<Job>& wide_jobs();
/// Whose heads, widths and tokens fall into four parts, and whose vocabulary into none: split_gpt, with dropout, and
/// split_llama, with grouped queries.
const std::vector<Job>& split_jobs();
/// Samples with several documents: packed_gpt, with dropout, and packed_llama, with eight blocks.
const std::vector<Job>& packed_jobs();
const Job& job(const std::string& name);

/// Which axis the ranks of a stage are on: replicas, shards, or two replicas of two shards.
enum class Spread { dp, shard, hybrid };

struct Strategy {
  std::string name = {};
  int64_t micro_batch = 0;  ///< 0: the rank's whole share
  int slots = 0;
  int reproducible_tp = 0;
  BackendKind backend = BackendKind::shm;
  int64_t bucket_bytes = 0;
  double clip = 0.0;
  bool nesterov = false;
  bool noise_scale = false;
  BatchRamp ramp = {};  ///< steps before the job's global batch is reached
  Spread spread = Spread::dp;
  double learning_rate = 0.05;
  Decay decay = Decay::constant;
  int pp = 1;  ///< pipeline ranks
  int cp = 1;  ///< context-parallel ranks
  int tp = 1;  ///< tensor-parallel ranks
  LayoutOptions layout = {};
  ParameterRules parameters = {};
  WeightAverage average = {};
  std::function<at::Device(int)> device = {};  ///< of each rank; empty: the CPU
  bool graph = false;                          ///< steps are captured and replayed
  bool float32_rates = false;                  ///< as with `graph`
  /// Runs a step of a rank: calls `run` once.
  std::function<void(int rank, int step, const std::function<void()>& run)> around = {};
  bool pinned = false;      ///< batches are, as a loader's
  bool there = false;       ///< batches are on the rank's device
  bool steps_only = false;  ///< submitted: nothing is read, of them or after them
  bool operators = false;   ///< on the CPU, what other devices run (nn/operators_path.h)
  int64_t audit_every = 0;  ///< audits find nothing
};

std::ostream& operator<<(std::ostream& out, const Strategy& strategy);

int64_t micro_batch_of(const Job& job, const Strategy& strategy, int world);
/// Samples of a micro-batch of a job on up to four data-parallel ranks with four slots: few micro-batches, and several on up to
/// two ranks.
int64_t few_micro_batches(const Job& job);
Sgd sgd_of(const Strategy& strategy);

/// Trains on every rank; what rank 0 has, after a check that all ranks hold the same weights.
Trained train_ranks(const Job& job, const Strategy& strategy, int ranks, const OptimizerOptions& optimizer, int steps);

/// A part of a run: in which layout, on how many ranks, until how many steps are done.
struct Stretch {
  Strategy strategy;
  int ranks = 1;
  int until = 0;
};

/// A run that is stopped and resumed: each stretch loads the previous one's checkpoint from `folder`. With `in_background`,
/// saves begin two steps before the end, and steps continue meanwhile.
Trained train_in_stretches(const Job& job, const std::vector<Stretch>& stretches, const OptimizerOptions& optimizer,
                           const std::string& folder, bool in_background = false);

/// Against one device in plain LibTorch (reference.h), with SGD.
void expect_parity(const Job& job, const Strategy& strategy, int ranks, int steps);

/// Expects values that a split rounds differently: losses, gradient norms if both have them, and, with `values`, parameters and
/// statistics, each within `tolerance` of the largest value of its tensor.
void expect_close(const Trained& actual, const Trained& expected, double tolerance, bool values);

/// Bit for bit.
void expect_equal(const Trained& actual, const Trained& expected, const std::string& what);

}  // namespace weft
