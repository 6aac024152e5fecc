// Loader: this rank's micro-batches, prepared ahead by a background thread from the first one that is asked for on.
//
// Step s covers positions [s G, (s+1) G) of the run (G = global batch); micro-batch j of it holds [j m, (j+1) m); rank d of D
// takes the micro-batches [d M/D, (d+1) M/D), M = G/m. Errors of the background thread are thrown by next().
#pragma once

#include <memory>

#include "weft/data/dataset.h"
#include "weft/data/sampler.h"

namespace weft {

struct LoaderOptions {
  int64_t global_batch = 1;
  int64_t micro_batch = 1;
  int shard = 0;  ///< this rank's coordinate among the data-parallel ranks
  int num_shards = 1;
  int64_t first_step = 0;
  int ahead = 4;             ///< micro-batches prepared ahead
  double timeout_s = 300.0;  ///< next() gives up on a dataset that takes longer for one micro-batch
};

/// What Loader's constructor checks, for callers that want to know before any data is opened: throws InputError unless
/// micro_batch * num_shards divides global_batch (naming the nearest global batches that they divide) and the rest is in range.
void check_batches(const LoaderOptions& options);

class Loader {
 public:
  /// Throws InputError as check_batches() does, and when the dataset holds fewer than num_shards samples.
  Loader(std::shared_ptr<const Dataset> dataset, Sampler sampler, const LoaderOptions& options);
  /// Waits for the micro-batch in the making, no more.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next micro-batch of this rank: in a step first to last, then the next step's. Thread-safe. Throws what the dataset
  /// threw (again at each further call), and Error when nothing came within timeout_s.
  Batch next();
  int micro_batches_per_step() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Which micro-batches of an evaluation set a rank visits: [first, first + count) of `all`; may be none.
struct EvaluationShare {
  int shard = 0;
  int num_shards = 1;
  int64_t first = 0;
  int64_t count = 0;
};

/// The evaluation set once, in order: micro-batch j of M holds samples [j m, (j + 1) m), the last one fewer, whatever the
/// number of ranks; rank `shard` of n visits micro-batches [shard M / n, ...). No sample is visited twice.
class EvaluationLoader {
 public:
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, int64_t micro_batch, int shard, int num_shards);
  /// False when the share is done. Throws InputError when the dataset hands out another number of samples than it was asked
  /// for.
  bool next(Batch& batch);
  const EvaluationShare& share() const { return share_; }
  void rewind();

 private:
  std::shared_ptr<const Dataset> dataset_;
  int64_t micro_batch_;
  EvaluationShare share_;
  int64_t next_ = 0;  ///< micro-batch
};

}  // namespace weft
