// LoaderOptions: which micro-batches a loader makes, and how.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/base/batch_sizes.h"

namespace weft {

/// Which samples a rank is given, and how they are prepared. Trainer::loader_options() tells them.
struct LoaderOptions {
  int64_t global_batch = 1;  ///< samples a step, over all ranks
  BatchRamp ramp = {};       ///< steps with other batches before those
  int64_t micro_batch = 1;   ///< samples of one micro-batch
  int shard = 0;             ///< this rank's coordinate among the data-parallel ranks
  int num_shards = 1;        ///< data-parallel ranks
  int64_t first_step = 0;    ///< of the run; counted from 0
  /// The position in the run that it begins at; none: where the steps before it end.
  std::optional<int64_t> first_sample = {};
  int workers = 1;           ///< background threads; 0: next() prepares its micro-batch itself
  int ahead = 4;             ///< micro-batches prepared ahead; more where that many would leave workers idle (FillsRows)
  double timeout_s = 300.0;  ///< next() gives up on a dataset that takes longer for one micro-batch
  bool pinned = false;       ///< in memory that a GPU copies from beside its work: a copy in the background thread
};

}  // namespace weft
