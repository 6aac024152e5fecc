// balance: cuts a model into stages so that the slowest one is as fast as possible and every one fits its rank's memory.
//
// Exact, by dynamic programming over the places of the cuts: of all cuts that fit, the least longest stage; of those, the least
// sum of squares, so that the other stages are even too. Time and memory: stages x blocks; where the best cut is far from even
// up to the square of the blocks x log(stages) in time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// What is cut, and what a cut must keep to.
struct BalanceOptions {
  int stages = 1;                    ///< to cut into
  std::vector<double> seconds = {};  ///< of each block: its forward and backward on a micro-batch, in any unit
  int64_t max_bytes = 0;             ///< most that a stage may take; 0: no limit
  std::function<int64_t(int block, int stage)> bytes = {};  ///< what a block takes on that stage; needed for the limit
  std::vector<int64_t> fixed_bytes = {};                    ///< of each stage, beside its blocks; empty: none
};

/// The operations of each block's forward and backward; 1 for each of a model whose operations were not counted.
std::vector<double> block_operations(const ModelCost& model);

/// The first block of each stage; none when there are fewer blocks than stages, or no cut fits the limit.
Found<std::vector<int>> balance_stages(const BalanceOptions& options);

}  // namespace weft
