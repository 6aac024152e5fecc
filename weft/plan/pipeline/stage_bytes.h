// stage_bytes: bytes of each stage of a cut, before a program exists whose memory could be estimated.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/plan/cost/block_work.h"
#include "weft/program/pipeline/schedule.h"

namespace weft {

class StageBytes {
 public:
  /// `state_bytes`: weights, gradients and optimizer state of each block. `work` must outlive it.
  StageBytes(const Schedule& schedule, const std::vector<BlockWork>& work, std::vector<int64_t> state_bytes);

  /// Bytes of a block on a stage: its state, and activations of the stage's peak number of micro-batches in flight.
  int64_t of(int block, int stage) const;

  /// Bytes of a stage, with the blocks given by `first_block`.
  int64_t of(const std::vector<int>& first_block, int stage) const;

 private:
  const std::vector<BlockWork>& work_;
  std::vector<int64_t> state_bytes_;
  std::vector<int> in_flight_;  ///< by stage: peak micro-batches in flight
};

}  // namespace weft
