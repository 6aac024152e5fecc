// CostTable: what a recipe's model costs in each of the layouts that are asked for. Blocks are measured
// (nn/cost/measure_cost.h) once for all layouts in which they cost the same, so whoever compares many layouts of one model
// keeps a table.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "weft/optim/block_update.h"
#include "weft/plan/layout/layout.h"
#include "weft/program/axis_set.h"
#include "weft/program/program.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The costs of the model, data and optimizer of one recipe. For one thread.
class CostTable {
 public:
  /// Measures nothing yet; a copy of the recipe is kept, whose layout does not matter.
  explicit CostTable(const Recipe& recipe);

  /// The model's costs for one micro-batch of `micro_batch` samples on the first of the ranks of cp and tp. Needs no data and
  /// allocates no weights. Throws InputError where the model does not split so.
  const ModelCost& model_cost(int64_t micro_batch, const LayoutOptions& layout = {}, const StepCounts& counts = {});

  /// The updates of its blocks, for gradients of so many bytes an element.
  const std::vector<BlockUpdate>& block_updates(int gradient_bytes);

  const OptimizerOptions& optimizer() const { return optimizer_; }      ///< that it is trained with
  int num_measured() const { return static_cast<int>(costs_.size()); }  ///< times that blocks were measured

  /// Throws InputError for a recipe of another model, data or optimizer.
  void check(const Recipe& recipe) const;

 private:
  /// What a block's cost hangs on.
  struct Key {
    int64_t micro_batch;
    int tp, parts, cp, batch_ranks, gradient_bytes;
    AxisSet batch_axes;
    Precision precision;
    BlockLayout blocks;
    auto operator<=>(const Key&) const = default;
  };
  ModelCost measured(const Key& key);

  Recipe recipe_;
  OptimizerOptions optimizer_;
  Model model_;  ///< whole, with its rules
  std::map<Key, ModelCost> costs_;
  std::map<int, std::vector<BlockUpdate>> updates_;
};

}  // namespace weft
