// BlockFactsTable: what a search knows of a model's blocks in each layout of theirs, worked out once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/found.h"
#include "weft/plan/cost/cost_table.h"
#include "weft/plan/search/pass_bounds.h"
#include "weft/plan/search/search_space.h"

namespace weft {

/// Blocks in one layout.
struct BlockFacts {
  std::string why_not = {};         ///< not empty: the model cannot be laid out like this
  const ModelCost* cost = nullptr;  ///< owned by the cost table
  PassBounds passes = {};           ///< bounds; zeros if the layout's other keys change costs too
  int weight_bytes = 4, gradient_bytes = 4;
  bool keeps_order = false;  ///< StateInputs::keeps_order
  /// First block of each stage, by stages of the pipeline and value of layout.stages.
  std::map<std::pair<int, int>, Found<std::vector<int>>> cuts = {};
};

/// All arguments must outlive the table.
class BlockFactsTable {
 public:
  BlockFactsTable(const SearchSpace& space, const Hardware& hardware, std::shared_ptr<CostTable> costs)
      : space_(space), hardware_(hardware), costs_(std::move(costs)) {}

  /// Measures the costs of a layout that resolve() accepts, if its blocks have any. Thread-safe.
  void measure(const LayoutChoice& layout) const;

  /// Returns the facts of a choice; `layout` is a whole layout with it that resolve() accepts.
  BlockFacts& at(const BlockChoice& choice, const LayoutChoice& layout);

  /// Returns the first block of each of `stages` stages, in a layout with these blocks, or why there is no such cut.
  const Found<std::vector<int>>& cut(const LayoutChoice& layout, int stages);

 private:
  BlockFacts made(const LayoutChoice& layout);

  const SearchSpace& space_;
  const Hardware& hardware_;
  std::shared_ptr<CostTable> costs_;
  std::map<BlockChoice, BlockFacts> known_;
  std::map<const ModelCost*, PassBounds> passes_;  ///< without recompute
};

}  // namespace weft
