// EvaluationLoader: this rank's micro-batches of an evaluation set, one pass in order.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// Micro-batches of an evaluation set that a rank visits: [first, first + count); may be empty.
struct EvaluationShare {
  int shard = 0;       ///< the rank's coordinate among the data-parallel ranks
  int num_shards = 1;  ///< data-parallel ranks
  int64_t first = 0;   ///< first micro-batch
  int64_t count = 0;   ///< number of micro-batches
};

/// One pass over the evaluation set, in order: micro-batch j of M holds samples [j m, (j + 1) m), the last possibly fewer, for
/// any number of ranks; rank `shard` of n visits micro-batches [shard M / n, ...). No sample is visited twice.
class EvaluationLoader {
 public:
  /// Loader for rank `shard` of `num_shards`, as in LoaderOptions. Throws InputError if the rank is out of range or the
  /// micro-batch has no samples.
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, int64_t micro_batch, int shard, int num_shards);
  /// Fills `batch` with the next micro-batch of the share; returns false at the end. Throws InputError if the dataset returns a
  /// different number of samples than requested.
  bool next(Batch& batch);
  /// This rank's share.
  const EvaluationShare& share() const { return share_; }
  int64_t micro_batch() const { return micro_batch_; }  ///< samples per micro-batch; the set's last may have fewer
  /// Restarts the share.
  void rewind();
  /// See Loader::skipped().
  std::vector<std::string> skipped() const { return {skipped_.begin(), skipped_.end()}; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  int64_t micro_batch_;
  EvaluationShare share_;
  int64_t next_ = 0;  ///< micro-batch
  std::set<std::string> skipped_;
};

}  // namespace weft
