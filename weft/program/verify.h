// verify: what is wrong with a program, over all ranks, before anything runs.
#pragma once

#include <stdexcept>
#include <string>

#include "weft/base/error.h"
#include "weft/program/program.h"

namespace weft {

enum class Defect {
  use_before_load,       ///< forward of a micro-batch that was not loaded, or before the block before it
  backward_before_loss,  ///< backward without its forward, its loss or the next block's backward
  double_backward,       ///< a block's backward run twice for one micro-batch
  missing_backward,      ///< a micro-batch that does not reach some block's gradients
  missing_reduce,        ///< a block's gradients are updated without having been summed over the replicas
  double_reduce,         ///< summed twice
  early_reduce,          ///< reduced before the last backward that fills the bucket, or before the slots were combined
  missing_update,        ///< a block that is never updated
  double_update,
  early_update,    ///< updated before its reduce, or before the norm or loss it is scaled by
  order_mismatch,  ///< ranks of one axis issue different collectives, or in another order
  bad_wait,        ///< an instruction waits for a later one, or for one that is not there
};

class VerifyError : public Error {
 public:
  VerifyError(Defect defect, int rank, const std::string& text) : Error(text), defect(defect), rank(rank) {}
  Defect defect;
  int rank;
};

/// Throws VerifyError for the first defect; its text names rank, instruction, block and micro-batch.
/// Ranks that share a list are checked once: the cost grows with the number of distinct lists.
void verify(const Program& program);

}  // namespace weft
