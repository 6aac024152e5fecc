// Whole weights: gathering a block's from the ranks' shards, and where the shard itself is while it is evicted.
#pragma once

#include <vector>

#include "weft/engine/engine.h"

namespace weft {

class WholeWeights {
 public:
  WholeWeights(FlatModel& model, const Program& program, const EngineOptions& options);

  /// Fills the block's flat weights. The shard must be there.
  Work gather(int block);
  /// Keeps this rank's inner part of a block's whole weights, and gathers them again from such parts.
  void keep_part(int block);
  Work gather_inner(int block);
  /// The optimizer has changed the block's shard: the next evict writes it.
  void mark_changed(int block) { changed_[block] = true; }
  /// Moves the shard (and the master weights) of a block to their tier, and back.
  void evict(int block);
  void fetch(int block);
  bool has_tier() const { return tier_ != nullptr; }
  bool away(int block) const { return !places_.empty() && away_[block]; }

 private:
  FlatModel& model_;
  const Group& shards_;
  const Group& inner_;
  std::shared_ptr<Tier> tier_;
  std::vector<int> places_;  ///< by block; empty without a tier
  std::vector<bool> away_, changed_;
};

}  // namespace weft
