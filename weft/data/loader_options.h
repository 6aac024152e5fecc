// LoaderOptions: which micro-batches a loader makes, and how.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "weft/base/batch_sizes.h"

namespace weft {

/// Samples that a rank gets and how they are prepared. Trainer::loader_options() returns them.
struct LoaderOptions {
  int64_t global_batch = 1;  ///< samples per step, over all ranks
  BatchRamp ramp = {};       ///< first steps, with their own batch sizes
  int64_t micro_batch = 1;   ///< samples per micro-batch
  int shard = 0;             ///< this rank's coordinate among the data-parallel ranks
  int num_shards = 1;        ///< data-parallel ranks
  int64_t first_step = 0;    ///< first step to load, counted in the run from 0
  /// Position in the run at which first_step begins; nullopt: where the steps before it end.
  std::optional<int64_t> first_sample = {};
  int workers = 1;           ///< background threads; 0: next() prepares its micro-batch itself
  int ahead = 4;             ///< micro-batches prepared ahead; more if workers would be idle otherwise (FillsRows)
  double timeout_s = 300.0;  ///< longest time next() waits for one micro-batch of the dataset
  std::function<void()> while_waiting = {};  ///< called every 0.1 s in a next() that waits for a thread; may throw
  bool pinned = false;  ///< in page-locked memory, for asynchronous copies to a GPU: costs a copy in the background thread
};

}  // namespace weft
