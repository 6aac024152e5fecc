// Sums of uses: the gradients of a weight that several blocks read (tied weights), kept separately for each use.
//
// When sums must have one order in every layout, the gradients of each use are added up separately over micro-batches, slots
// and ranks, and the uses are added at the end. A block's own gradients are those of the first use that the rank runs; each
// further use needs memory for another `numel` gradients.
#pragma once

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// While alive, redirects the gradients of weights that `user` reads from other blocks into the sums of that use, if they have
/// any. Must span the user's backward and its settle_gradients().
class GradientsOfUse {
 public:
  /// Covers the backward of block `user`.
  GradientsOfUse(FlatModel& model, int user) : model_(model), user_(user) { model_.swap_use_gradients(user_); }
  ~GradientsOfUse() { model_.swap_use_gradients(user_); }
  GradientsOfUse(const GradientsOfUse&) = delete;
  GradientsOfUse& operator=(const GradientsOfUse&) = delete;

 private:
  FlatModel& model_;
  int user_;
};

}  // namespace weft
