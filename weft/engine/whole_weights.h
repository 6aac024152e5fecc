// Whole weights: gathering a block's from the ranks' shards, and where the shard itself is while it is offloaded.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "weft/engine/engine_options.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/program/program.h"

namespace weft {

class WholeWeights {
 public:
  WholeWeights(FlatModel& model, const Program& program, const EngineOptions& options);

  /// The block's flat weights, frozen ones included, to be sent or filled.
  Tensors whole(int block) const;
  /// Fills the block's flat weights, but for frozen ones where every rank has them whole. The shard must be there.
  Work gather(int block);
  /// Fills the block's flat weights, frozen ones included.
  Work gather_all(int block);
  /// Keeps this rank's inner part of a block's whole weights.
  void keep_inner_shard(int block);
  /// Fills the block's flat weights from the inner parts that its ranks have kept.
  Work gather_inner(int block);
  /// The optimizer has changed the block's shard: the next offload writes it.
  void mark_changed(int block);
  /// The same of frozen weights too.
  void mark_all_changed(int block);
  /// Moves the shard (and the master weights) of a block out.
  void offload(int block);
  /// Brings the shard (and the master weights) of a block back.
  void reload(int block);
  bool is_offloaded() const { return store_ != nullptr; }
  bool away(int block) const { return is_offloaded() && away_[block]; }

 private:
  /// Where one part of a block is while it is offloaded.
  struct Room {
    int number = -1;
    bool changed = true;  ///< it is not what was moved out
  };
  Work gather_parts(int block, const std::function<Work(const FlatPart&, const std::string& what)>& gather) const;
  void reload(FlatPart& part, const Room& room);

  FlatModel& model_;
  const Group& shards_;
  const Group& inner_;
  std::shared_ptr<OffloadStore> store_;
  std::vector<std::array<Room, 2>> rooms_;  ///< by block and part; empty where weights are not offloaded
  std::vector<bool> away_;                  ///< by block
};

}  // namespace weft
