// EvaluationSum: the losses of an evaluation set, added up without rounding, so that no layout changes a bit of their mean.
//
// Takes the same memory whatever the size of the set, and two small all-reduces at its end.
#pragma once

#include <cstdint>

#include "weft/base/exact_sum.h"
#include "weft/comm/group.h"
#include "weft/engine/engine.h"

namespace weft {

/// Adds up the losses of this rank's micro-batches, then those of all ranks.
class EvaluationSum {
 public:
  /// Adds what came of the set's micro-batch `place`, counted over all ranks: its loss summed, not divided by what counted.
  void add(int64_t place, const EvaluationResult& sums);

  /// The result over all ranks of `group`, whose collectives run on `device`. Collective. On all of them throws NumericError
  /// that names the first micro-batch whose loss is not finite or 2^287 or more, and InputError when no target counted.
  EvaluationResult total(const Group& group, at::Device device, int64_t steps_done);

 private:
  ExactSum above_, below_;  ///< of losses, and of the sizes of those below zero
  int64_t count_ = 0;
  int64_t hits_ = 0;
  int64_t top5_ = 0;
  int64_t first_bad_ = kNone;  ///< its place and what it is

  static constexpr int64_t kNone = INT64_MAX;
};

}  // namespace weft
