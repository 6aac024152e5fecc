// stage_bytes: what the stages of a cut would hold, before there is a program to estimate it from.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/cost/block_work.h"
#include "weft/program/pipeline/schedule.h"

namespace weft {

class StageBytes {
 public:
  /// `state_bytes` are those of each block: weights, gradients, optimizer state. `work` must outlive it.
  StageBytes(const Schedule& schedule, const std::vector<BlockWork>& work, std::vector<int64_t> state_bytes);

  /// Bytes of a block on a stage: its state, and activations of the most micro-batches that the stage has in flight.
  int64_t of(int block, int stage) const;

  /// Bytes of a stage, whose blocks `first_block` tells.
  int64_t of(const std::vector<int>& first_block, int stage) const;

 private:
  const std::vector<BlockWork>& work_;
  std::vector<int64_t> state_bytes_;
  std::vector<int> in_flight_;  ///< by stage
};

}  // namespace weft
