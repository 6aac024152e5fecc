// Whole weights: gathers a block's weights from the ranks' shards, and tracks the shard while it is offloaded.
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

  /// Returns the block's flat weights, frozen ones included, for sending or filling.
  Tensors whole(int block) const;
  /// Fills the block's flat weights, except frozen ones that every rank has whole. The shard must be in memory.
  Work gather(int block);
  /// Fills the block's flat weights, frozen ones included.
  Work gather_all(int block);
  /// Keeps this rank's inner part of a block's whole weights.
  void keep_inner_shard(int block);
  /// Fills the block's flat weights from the inner parts kept by its ranks.
  Work gather_inner(int block);
  /// Marks the block's shard as changed: the next offload writes it.
  void mark_changed(int block);
  /// Marks the block's shard and frozen weights as changed.
  void mark_all_changed(int block);
  /// Offloads the shard (and the master weights) of a block.
  void offload(int block);
  /// Frees the shard of a block without a copy: of weights that nobody will use again.
  void drop(int block);
  /// Reloads the shard (and the master weights) of a block.
  Work reload(int block);
  /// Frees now what initialise() has made and offload() copies.
  void settle() {
    if (store_) store_->settle();
  }
  bool is_offloaded() const { return store_ != nullptr; }
  bool away(int block) const { return is_offloaded() && away_[block]; }

 private:
  /// Buffer of one part of a block while it is offloaded.
  struct Room {
    int number = -1;
    bool changed = true;  ///< differs from the offloaded copy
  };
  Work gather_parts(int block, const std::function<Work(const FlatPart&, const std::string& what)>& gather) const;
  void reload(FlatPart& part, const Room& room);

  FlatModel& model_;
  const Group& shards_;
  const Group& inner_;
  std::shared_ptr<OffloadStore> store_;
  std::vector<std::array<Room, 2>> rooms_;  ///< by block and part; empty if weights are not offloaded
  std::vector<bool> away_;                  ///< by block: its shard is offloaded
};

}  // namespace weft
