// EngineOptions: the groups of a rank, where it moves state to, and which samples are its own.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/engine/axis_groups.h"
#include "weft/engine/offload_store.h"
#include "weft/engine/votes.h"
#include "weft/nn/block_layout.h"

namespace weft {

/// Where state that the program offloads goes.
struct OffloadStores {
  std::shared_ptr<OffloadStore> activations;  ///< of block inputs; null where the program moves none
  std::shared_ptr<OffloadStore> weights;      ///< of this rank's shard; null where the program moves none
  std::shared_ptr<OffloadStore> optimizer;    ///< of optimizer state; null where the program moves none
};

/// Which samples the steps of a program take, from some step on.
struct BatchShare {
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in a step
  int64_t all_micro_batches = 1;  ///< a step, of all data-parallel ranks
  int64_t first_step = 0;         ///< of the run
  int64_t first_sample = 0;       ///< of the run, that this step begins with
};

/// The groups that a program's axes stand for, and what else the engine needs beside the program.
struct EngineOptions {
  AxisGroups groups = {};         ///< of the axes that the program has
  OffloadStores offload = {};     ///< null ones where the program moves none
  uint64_t seed = 0;              ///< of weights and random numbers
  BlockLayout blocks = {};        ///< Context::layout
  Votes votes = {};               ///< of this rank
  int64_t first_micro_batch = 0;  ///< index of this rank's first one in the step
  int64_t all_micro_batches = 1;  ///< of all data-parallel ranks
  int64_t micro_batch = 1;        ///< samples of one, by which random numbers are keyed
  int64_t first_step = 0;         ///< of the run, that these numbers hold from
  int64_t first_sample = 0;       ///< of the run, that this step begins with
};

}  // namespace weft
