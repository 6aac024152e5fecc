// Pass: the end of the step: the optimizer runs on every bucket, in the order in which they become final.
//
// Memory: none beyond the optimizer's own state. Traffic: none. Comes after sum_losses and clip.
#pragma once

#include <vector>

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// What is updated.
struct UpdateOptions {
  std::vector<Bucket> buckets;  ///< each updated in one go
};

/// Adds an update of each bucket.
InstructionList update(InstructionList list, const UpdateOptions& options);

}  // namespace weft
