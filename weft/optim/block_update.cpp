#include "weft/optim/block_update.h"

#include <variant>

#include "weft/optim/hidden_matrices.h"

namespace weft {

namespace {

constexpr int64_t kFloatSize = 4, kMoveSize = 2;  ///< bytes of float32, and of what Muon gathers

/// Newton-Schulz steps hold their matrix, its successor, and two squares of the shorter side; and what the rank owns of the
/// move is widened.
BlockUpdate of_matrices(const MatrixCounts& counts) {
  BlockUpdate update{.states = 1, .part_state = counts.others};
  if (counts.matrices == 0) return update;
  update.gathered_bytes = kMoveSize;
  update.temporary_bytes = kMoveSize * 2 * (counts.largest + counts.largest_side * counts.largest_side);
  return update;
}

}  // namespace

std::vector<BlockUpdate> block_updates(const Model& model, const OptimizerOptions& options, const ParameterRules& rules) {
  if (!std::holds_alternative<Muon>(options)) {
    return std::vector<BlockUpdate>(model.blocks.size(), {.states = num_states(options)});
  }
  std::vector<BlockUpdate> updates;
  updates.reserve(model.blocks.size());
  for (const MatrixCounts& counts : count_matrices(model, rules)) updates.push_back(of_matrices(counts));
  return updates;
}

}  // namespace weft
