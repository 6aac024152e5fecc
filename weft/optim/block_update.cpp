#include "weft/optim/block_update.h"

#include <algorithm>
#include <variant>

#include "weft/optim/factored_shape.h"
#include "weft/optim/hidden_matrices.h"

namespace weft {

namespace {

constexpr int kFloatSize = 4, kMoveSize = 2;  ///< bytes of float32, and of the type that Muon gathers

/// Newton-Schulz steps hold a matrix, its successor, and two squares of the shorter side; later the move in both types.
BlockUpdate of_matrices(const MatrixCounts& counts) {
  BlockUpdate update{.states = 1, .part_state = counts.others};
  if (counts.matrices == 0) return update;
  const int64_t square = counts.largest_side * counts.largest_side;
  update.gathered_bytes = update.part_bytes = kMoveSize;
  update.range_bytes = update.gate_bytes = kFloatSize;
  update.temporary_bytes = std::max(kMoveSize * 2 * (counts.largest + square), (kMoveSize + kFloatSize) * counts.largest);
  return update;
}

/// Whole tensors one at a time: the divided gradient, its mean squares, which become the move, and a part of the move.
BlockUpdate of_factors(Block& block, int gradient_bytes) {
  BlockUpdate update;
  int64_t largest = 0;
  for (const ParamSpec& spec : block.parameters()) {
    if (spec.statistic || spec.frozen) continue;
    update.whole_state += factored_numel(spec.parameter->value.sizes().vec());
    largest = std::max(largest, spec.parameter->value.numel());
  }
  if (largest == 0) return update;
  update.gathered_bytes = gradient_bytes;
  update.temporary_bytes = 3 * kFloatSize * largest;
  return update;
}

/// Bytes per element of the values between the operations of an update without a fused kernel.
int between_bytes(const OptimizerOptions& options) {
  if (std::holds_alternative<Lamb>(options)) return 4 * kFloatSize;  // two moments, a root and the move
  const bool has_one = std::holds_alternative<Lion>(options) || std::holds_alternative<RmsProp>(options) ||
                       std::holds_alternative<Adagrad>(options);
  return has_one ? kFloatSize : 0;
}

BlockUpdate of_elements(const OptimizerOptions& options) {
  const bool is_fused = std::holds_alternative<AdamW>(options) || std::holds_alternative<Sgd>(options);
  const int states = num_states(options);
  return {.states = states,
          .range_bytes = between_bytes(options),
          .gate_bytes = takes_gate(options) && !is_fused ? kFloatSize * (1 + states) : 0};
}

}  // namespace

std::vector<BlockUpdate> block_updates(const Model& model, const OptimizerOptions& options, const ParameterRules& rules,
                                       int gradient_bytes) {
  std::vector<BlockUpdate> updates;
  updates.reserve(model.blocks.size());
  if (std::holds_alternative<Muon>(options)) {
    for (const MatrixCounts& counts : count_matrices(model, rules)) updates.push_back(of_matrices(counts));
    return updates;
  }
  const bool factored = std::holds_alternative<Adafactor>(options);
  for (const NamedBlock& named : model.blocks) {
    updates.push_back(factored ? of_factors(*named.block, gradient_bytes) : of_elements(options));
  }
  return updates;
}

}  // namespace weft
