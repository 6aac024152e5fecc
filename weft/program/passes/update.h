// Pass: the end of the step. The loss and the count of all micro-batches are summed over the ranks right after the last loss,
// while backward runs (gradients are of the sum; updates divide by the count); then the optimizer runs on every bucket, in the
// order in which they become final.
//
// Memory: none beyond the optimizer's own state. Traffic: 2 (n-1)/n of the loss table, 16 bytes (sum and count as float64) for
// every micro-batch of the global batch. Comes after clip; every other reduction is already in place.
#pragma once

#include <vector>

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

struct UpdateOptions {
  int data_ranks = 1;  ///< that read different samples
  std::vector<Bucket> buckets;
};

InstructionList update(const InstructionList& list, const UpdateOptions& options);

}  // namespace weft
