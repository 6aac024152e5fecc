// build_program: from a model's costs and a layout to the step program, by running the passes in one visible order.
//
// Costs microseconds and no tensors, whatever the number of ranks: ranks that do the same share one list.
#pragma once

#include <cstdint>

#include "weft/program/program.h"

namespace weft {

struct StepLayout {
  int dp = 1;                       ///< replicas
  int micro_batches = 1;            ///< per rank and step
  int slots = 1;                    ///< reproducible slots per rank; 1 unless run.reproducible_slots asks for more
  int64_t bucket_bytes = 25 << 20;  ///< gradients are reduced in ranges of about this size
  bool clip = false;                ///< adds the global norm
};

/// Throws InputError when the model has no blocks, a count is not positive, slots is no power of two or does not divide
/// micro_batches.
Program build_program(const ModelCost& model, const StepLayout& layout);

}  // namespace weft
