// Data sets made of several: mixtures that are trained on by weight, and all of them one after another for evaluation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

/// One of the data sets of a mixture.
struct MixtureSource {
  std::shared_ptr<const Dataset> samples;  ///< of the same shapes as the others'
  double weight = 1.0;                     ///< its share of what is trained on, beside the others'
  std::string name = {};                   ///< in errors
};

/// Samples of all sources by their weights, in an order of its own (Dataset::is_ordered()): which source stands at a position
/// of the run is counted out (Interleave), so that any stretch of a run has all sources in their shares, and long ones exactly.
/// An epoch has as many samples as all sources together. Each source is gone through in epochs of its own, shuffled by `seed`
/// or in its own order: every sample of it comes once before any comes again, however its epochs and the mixture's lie. Which
/// sample is asked for is a matter of (seed, epoch, index) alone. Throws InputError for weights as whole_weights() does; get()
/// for samples of other shapes.
std::shared_ptr<Dataset> open_mixture(std::vector<MixtureSource> sources, uint64_t seed);

/// All samples of all sets, each once, one set after another, in an epoch that is theirs too; weights do not matter.
std::shared_ptr<Dataset> join_datasets(std::vector<MixtureSource> sources);

}  // namespace weft
