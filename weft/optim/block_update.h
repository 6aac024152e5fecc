// BlockUpdate: what the update of a block takes, told of a model that is not bound yet.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/model.h"
#include "weft/optim/optimizer_options.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// What one block takes of an optimizer.
struct BlockUpdate {
  int gathered_bytes = 0;   ///< of an element of its gradients, which all shards gather for the update; 0: none are gathered
  int states = 0;           ///< float32 tensors of state of all that it owns
  int64_t part_state = 0;   ///< elements of one more, which are divided over the shards unevenly
  int64_t whole_state = 0;  ///< elements of state that each of its ranks has
  int part_bytes = 0;       ///< of an element that it owns, in a copy that others gather, or that it works on alone
  int range_bytes = 0;      ///< of an element of the range (kRangeElements) that this is made of
  int64_t temporary_bytes = 0;  ///< most that the update holds beside these, where a rank owns all
};

/// By block, for gradients of `gradient_bytes` an element. Throws InputError for a model that the optimizer has nothing to do
/// with (hidden_matrices.h).
std::vector<BlockUpdate> block_updates(const Model& model, const OptimizerOptions& options, const ParameterRules& rules,
                                       int gradient_bytes);

}  // namespace weft
