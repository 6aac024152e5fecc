// Datasets made of several: weighted mixtures for training, and concatenations for evaluation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// One dataset of a mixture.
struct MixtureSource {
  std::shared_ptr<const Dataset> samples;  ///< of the same shapes as the others
  double weight = 1.0;                     ///< its share of training, relative to the other weights
  std::string name = {};                   ///< for errors
};

/// Samples of all sources by weight, in the mixture's own order (Dataset::is_ordered()). Sources are assigned to positions of
/// the run by counting (Interleave), so any stretch of a run has all sources in proportion. An epoch has as many samples as all
/// sources together. Each source runs through its own epochs, shuffled by `seed` or in its own order: every sample comes once
/// before any comes again, however its epochs and the mixture's align. The sample at an index depends on (seed, epoch, index)
/// alone. Throws InputError for weights as whole_weights() does; get() throws it for samples of different shapes.
std::shared_ptr<Dataset> open_mixture(std::vector<MixtureSource> sources, uint64_t seed);

/// All samples of all sets, each once, one set after another; the epoch is passed on to each set and weights are ignored.
std::shared_ptr<Dataset> join_datasets(std::vector<MixtureSource> sources);

}  // namespace weft
