// Sums of uses: the gradients of a weight that several blocks read (tied weights), each use by itself.
//
// Where sums must have one order whatever the layout, the gradients of each use are added up over micro-batches, slots and
// ranks by themselves, and the uses at the end. A block's own gradients are those of the first use that the rank runs; each
// further one has a sum beside them: numel elements of gradients more.
#pragma once

#include "weft/nn/flat/flat_model.h"

namespace weft {

/// While it lives, the gradients of weights that `user` reads of other blocks go into the sums of that use, where there are
/// such. To be there while its backward runs and is settled.
class GradientsOfUse {
 public:
  /// Of this block's backward.
  GradientsOfUse(FlatModel& model, int user) : model_(model), user_(user) { model_.turn_uses(user_); }
  ~GradientsOfUse() { model_.turn_uses(user_); }
  GradientsOfUse(const GradientsOfUse&) = delete;
  GradientsOfUse& operator=(const GradientsOfUse&) = delete;

 private:
  FlatModel& model_;
  int user_;
};

}  // namespace weft
