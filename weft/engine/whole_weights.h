// Whole weights: gathering a block's from the ranks' shards, and where the shard itself is while it is evicted.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "weft/engine/engine.h"

namespace weft {

class WholeWeights {
 public:
  WholeWeights(FlatModel& model, const Program& program, const EngineOptions& options);

  /// Fills the block's flat weights, but for frozen ones where every rank has them whole. The shard must be there.
  Work gather(int block);
  /// Fills them all.
  Work gather_all(int block);
  /// Keeps this rank's inner part of a block's whole weights, and gathers them again from such parts.
  void keep_part(int block);
  Work gather_inner(int block);
  /// The optimizer has changed the block's shard: the next evict writes it.
  void mark_changed(int block);
  /// Moves the shard (and the master weights) of a block to their tier, and back.
  void evict(int block);
  void fetch(int block);
  bool has_tier() const { return tier_ != nullptr; }
  bool away(int block) const { return has_tier() && away_[block]; }

 private:
  /// Of one part of a block in its tier.
  struct Place {
    int number = -1;
    bool changed = true;  ///< it is not what the tier has
  };
  Work gather_parts(int block, const std::function<Work(const FlatPart&, const std::string& what)>& gather) const;
  void fetch(FlatPart& part, const Place& place);

  FlatModel& model_;
  const Group& shards_;
  const Group& inner_;
  std::shared_ptr<Tier> tier_;
  std::vector<std::array<Place, 2>> places_;  ///< by block and part; empty without a tier
  std::vector<bool> away_;                    ///< by block
};

}  // namespace weft
