// EngineOptions: the groups of a rank, where it moves state to, and which samples are its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "weft/comm/group.h"
#include "weft/engine/offload_store.h"

namespace weft {

/// Where state that the program offloads goes.
struct OffloadStores {
  std::shared_ptr<OffloadStore> activations;  ///< of block inputs; null where the program moves none
  std::shared_ptr<OffloadStore> weights;      ///< of this rank's shard; null where the program moves none
  std::shared_ptr<OffloadStore> optimizer;    ///< of optimizer state; null where the program moves none
};

/// The groups that a program's axes stand for, and what else the engine needs beside the program.
struct EngineOptions {
  Group data = {};                 ///< ranks that read different samples
  Group replicas = {};             ///< ranks that hold the same part of the state
  Group shards = {};               ///< ranks that share one replica's state
  Group inner = {};                ///< those of them that keep whole weights divided from forward to backward
  Group pipeline = {};             ///< ranks that hold the stages of one pipeline
  Group model = {};                ///< ranks that together hold one replica's state: pipeline and shards
  Group world = {};                ///< all ranks
  std::map<int, Group> tied = {};  ///< by block that several stages hold: their ranks
  OffloadStores offload = {};      ///< null ones where the program moves none
  uint64_t seed = 0;               ///< of weights and random numbers
  bool recompute_parts = false;    ///< Context::recompute_parts
  int64_t first_micro_batch = 0;   ///< index of this rank's first one in the step
  int64_t all_micro_batches = 1;   ///< of all data-parallel ranks
  int64_t micro_batch = 1;         ///< samples of one, by which random numbers are keyed
};

}  // namespace weft
