// BatchSource: the training data of a rank in any layout; compare_layouts() requests it again for every run.
#pragma once

#include <functional>

#include "weft/data/loader.h"
#include "weft/train/trainer/trainer.h"

namespace weft {

/// Returns a function that hands out the micro-batches of rank `shard` of `num_shards`, from step `first_step` on, split as a
/// Loader (data/loader.h) splits them. The same samples must be at the same positions for all options.
using BatchSource = std::function<Trainer::Next(const LoaderOptions& options)>;

/// A source from whole global batches: batch_of(step) has `global_batch` samples, the same on every rank.
BatchSource whole_batches(std::function<Batch(int64_t step)> batch_of);

/// A source of a dataset's samples in the sampler's order, read by a Loader.
BatchSource dataset_batches(std::shared_ptr<const Dataset> dataset, const Sampler& sampler);

}  // namespace weft
