// Pass: the end of the step: the optimizer runs on every bucket, in the order in which gradients become final.
//
// Memory: only the optimizer's own state. Traffic: 0. Runs after sum_losses and add_norms.
#pragma once

#include <vector>

#include "weft/program/buckets.h"
#include "weft/program/program.h"

namespace weft {

/// Buckets to update.
struct UpdateOptions {
  std::vector<Bucket> buckets;  ///< each updated in one instruction
};

/// Adds an update of each bucket.
InstructionList update(InstructionList list, const UpdateOptions& options);

}  // namespace weft
