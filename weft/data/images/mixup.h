// Mixup (Zhang et al. 2018, arXiv:1710.09412): a sample is a weighted mean of two images, its target the same of their labels.
//
// Partner and weight are drawn from (seed, epoch, sample) alone, so neither workers, ranks nor micro-batches change them. The
// partner is any image of the set (Dataset::near(), if the set is read in groups), not of the batch, and is read too: reading
// takes twice as long.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/data/dataset.h"

namespace weft {

/// Mixup options.
struct MixupOptions {
  double alpha = 0.2;    ///< of the weight's distribution Beta(alpha, alpha); in (0, 4]
  int64_t classes = 10;  ///< labels are below it
  uint64_t seed = 0;     ///< for weights and partners
};

/// Weight and partner of a sample in an epoch.
struct MixupDraw {
  double weight = 1.0;  ///< of the sample itself; the partner gets the rest
  int64_t partner = 0;  ///< a sample of the set, possibly itself
};

/// Draws for a sample of a set of `size`.
MixupDraw draw_mixup(const MixupOptions& options, int64_t size, int64_t epoch, int64_t sample);

/// Samples of `dataset`, mixed: its first input float32 [n, ...], target float32 [n, classes], the weights of the labels.
/// Throws InputError for options out of range; get() does for samples that are not images with labels below `classes`.
std::shared_ptr<Dataset> mix_up(std::shared_ptr<const Dataset> dataset, const MixupOptions& options);

}  // namespace weft
