// Mixup (Zhang et al. 2018, arXiv:1710.09412): a sample is a weighted mean of two images, and its target of their two labels.
//
// The other image and the weight are drawn from (seed, epoch, sample) alone, so neither workers, ranks nor micro-batches change
// them: the other one is any of the set (Dataset::near(), where a set is read in groups), not of the batch, and is read too.
// Reading takes twice as long.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/data/dataset.h"

namespace weft {

/// How samples are mixed.
struct MixupOptions {
  double alpha = 0.2;    ///< of the distribution Beta(alpha, alpha) of the weight; in (0, 4]
  int64_t classes = 10;  ///< labels are below it
  uint64_t seed = 0;     ///< of weights and partners
};

/// The weight of a sample in an epoch, and which one it is mixed with.
struct MixupDraw {
  double weight = 1.0;  ///< of the sample itself; the partner has the rest
  int64_t partner = 0;  ///< a sample of the set, perhaps itself
};

/// What is drawn for a sample of a set of `size`.
MixupDraw draw_mixup(const MixupOptions& options, int64_t size, int64_t epoch, int64_t sample);

/// The samples of `dataset`, mixed: its first input float32 [n, ...], target float32 [n, classes], the weights of the labels.
/// Throws InputError for options out of range; get() for samples that are no images with labels below `classes`.
std::shared_ptr<Dataset> mix_up(std::shared_ptr<const Dataset> dataset, const MixupOptions& options);

}  // namespace weft
