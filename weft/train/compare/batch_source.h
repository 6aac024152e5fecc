// BatchSource: what a rank trains on, whatever the layout: compare_layouts() asks it anew for every run.
#pragma once

#include <functional>

#include "weft/data/loader.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Makes what hands out the micro-batches of rank `shard` of `num_shards`, from step `first_step` on, as Loader divides a run
/// (data/loader.h). The same samples must stand in the same places whatever the options.
using BatchSource = std::function<Trainer::Next(const LoaderOptions& options)>;

/// A source of whole global batches: batch_of(step) has `global_batch` samples, the same on every rank.
BatchSource whole_batches(std::function<Batch(int64_t step)> batch_of);

/// A source of a dataset's samples in the sampler's order, read by a Loader.
BatchSource dataset_batches(std::shared_ptr<const Dataset> dataset, const Sampler& sampler);

}  // namespace weft
