// balance: cuts a model into stages so that the slowest is as fast as possible and each fits its rank's memory.
//
// Exact, by dynamic programming over the cut positions: of all cuts that fit, takes those whose longest stage is shortest, and
// of those the one with the least sum of squares, so that the other stages are even too. Time and memory: stages x blocks; if
// the best cut is far from even, time up to blocks^2 x log(stages).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/base/found.h"
#include "weft/program/program.h"

namespace weft {

/// Inputs and limits of a cut.
struct BalanceOptions {
  int stages = 1;                                           ///< number of stages
  std::vector<double> seconds = {};                         ///< by block: forward and backward of a micro-batch, in any unit
  int64_t max_bytes = 0;                                    ///< limit per stage; 0: no limit
  std::function<int64_t(int block, int stage)> bytes = {};  ///< bytes of a block on a stage; required with a limit
  std::vector<int64_t> fixed_bytes = {};                    ///< by stage: bytes besides those of its blocks; empty: 0
};

/// Operations of each block's forward and backward; 1 for each block of a model without counted operations.
std::vector<double> block_operations(const ModelCost& model);

/// Returns the first block of each stage; why_not if there are fewer blocks than stages, or no cut fits the limit.
Found<std::vector<int>> balance_stages(const BalanceOptions& options);

}  // namespace weft
