// EngineOptions: a rank's process groups, offload stores and share of the samples.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/engine/axis_groups.h"
#include "weft/engine/current_instruction.h"
#include "weft/engine/offload_store.h"
#include "weft/engine/votes.h"
#include "weft/nn/block_layout.h"

namespace weft {

/// Stores for state that the program offloads; null for kinds that it does not offload.
struct OffloadStores {
  std::shared_ptr<OffloadStore> activations;  ///< block inputs
  std::shared_ptr<OffloadStore> weights;      ///< this rank's shard
  std::shared_ptr<OffloadStore> optimizer;    ///< optimizer state
};

/// This rank's share of the samples of each step, from step `first_step` on.
struct BatchShare {
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in a step
  int64_t all_micro_batches = 1;  ///< per step, over all data-parallel ranks
  int64_t first_step = 0;         ///< first step of the run with this share
  int64_t first_sample = 0;       ///< of the run, that this step begins with
};

/// Process groups of a program's axes, and everything else the engine needs.
struct EngineOptions {
  AxisGroups groups = {};         ///< by the program's axes
  OffloadStores offload = {};     ///< null where nothing is offloaded
  uint64_t seed = 0;              ///< seed of weights and random numbers
  BlockLayout blocks = {};        ///< Context::layout
  Votes votes = {};               ///< this rank's votes
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in the step
  int64_t all_micro_batches = 1;  ///< per step, over all data-parallel ranks
  int64_t micro_batch = 1;        ///< samples per micro-batch, used to key random numbers
  int64_t first_step = 0;         ///< step of the run from which these numbers hold
  int64_t first_sample = 0;       ///< of the run, that this step begins with
  std::shared_ptr<CurrentInstruction> current =
      std::make_shared<CurrentInstruction>();  ///< where the engine notes what it executes
};

}  // namespace weft
