// BlockUpdate: cost of updating a block, computed for an unbound model.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/model.h"
#include "weft/optim/optimizer_options.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// An optimizer's memory for one block.
struct BlockUpdate {
  int gathered_bytes = 0;       ///< bytes per gradient element that all shards gather for the update; 0: not gathered
  int states = 0;               ///< number of float32 state tensors with one element per owned element
  int64_t part_state = 0;       ///< elements of one more state tensor, divided unevenly over the shards
  int64_t whole_state = 0;      ///< elements of state held in full on each of the block's ranks
  int part_bytes = 0;           ///< bytes per owned element, in a copy that other ranks gather or that the rank works on alone
  int range_bytes = 0;          ///< bytes per element of the range (kRangeElements) that is processed at once
  int gate_bytes = 0;           ///< the same, on a device that may drop what is changed (update_unless())
  int64_t temporary_bytes = 0;  ///< other peak memory of the update, if one rank owns everything
};

/// Returns the cost by block, for gradients of `gradient_bytes` per element. Throws InputError for a model with nothing for the
/// optimizer to update (hidden_matrices.h).
std::vector<BlockUpdate> block_updates(const Model& model, const OptimizerOptions& options, const ParameterRules& rules,
                                       int gradient_bytes);

}  // namespace weft
