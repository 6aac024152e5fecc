// EvaluationLoader: this rank's micro-batches of an evaluation set, once through and in order.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// Which micro-batches of an evaluation set a rank visits: [first, first + count); may be none.
struct EvaluationShare {
  int shard = 0;       ///< the rank's coordinate among the data-parallel ranks
  int num_shards = 1;  ///< data-parallel ranks
  int64_t first = 0;   ///< the first micro-batch
  int64_t count = 0;   ///< micro-batches
};

/// The evaluation set once, in order: micro-batch j of M holds samples [j m, (j + 1) m), the last one fewer, whatever the
/// number of ranks; rank `shard` of n visits micro-batches [shard M / n, ...). No sample is visited twice.
class EvaluationLoader {
 public:
  /// For rank `shard` of `num_shards`, as LoaderOptions has them. Throws InputError when that is not a rank, or the micro-batch
  /// has no samples.
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, int64_t micro_batch, int shard, int num_shards);
  /// Fills `batch` with the next micro-batch of the share; false when there is none. Throws InputError when the dataset hands
  /// out another number of samples than it was asked for.
  bool next(Batch& batch);
  /// What this rank visits.
  const EvaluationShare& share() const { return share_; }
  int64_t micro_batch() const { return micro_batch_; }  ///< samples of one, the set's last one aside
  /// Begins the share anew.
  void rewind();
  /// As Loader::skipped().
  std::vector<std::string> skipped() const { return {skipped_.begin(), skipped_.end()}; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  int64_t micro_batch_;
  EvaluationShare share_;
  int64_t next_ = 0;  ///< micro-batch
  std::set<std::string> skipped_;
};

}  // namespace weft
