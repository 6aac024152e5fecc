// A rank's share of a model's state, as parts of whole tensors: "model/NAME" for parameters and statistics in float32,
// "exp_avg/NAME" etc. for the optimizer's state of trained ones (StateTensor), "step/NAME", [1] int64, for the number of
// updates each has taken, if updates depend on it, and "ema/NAME" for the average, also of statistics.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/format/state_part.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/optimizer.h"

namespace weft {

/// Divides writing among ranks that own the same state: each writes a share, all at the same time.
struct WriteShare {
  int replica = 0;   ///< this rank's index among the owners of the same state (dp, cp)
  int replicas = 1;  ///< number of these owners
  int tp = 0;        ///< this rank's index on tp, whose ranks own the same unsplit state
  int tps = 1;       ///< ranks on tp
};

/// A block's state besides its weights: the tensors of Updater::state(), and the optimizer they belong to; by default none.
struct BlockOptimizer {
  const std::vector<at::Tensor>* state = nullptr;
  const Optimizer* optimizer = nullptr;
  bool average = false;  ///< the last tensor is the weights' average
  /// Optimizer::ages(), if the optimizer has ages.
  std::vector<int64_t>* ages = nullptr;
};

/// This rank's share of a block's state, for loading.
std::vector<StatePart> owned_state(FlatModel& model, int block, const BlockOptimizer& optimizer);
/// The part of that share that this rank writes.
std::vector<StatePart> written_state(FlatModel& model, int block, const BlockOptimizer& optimizer, const WriteShare& share);
/// Names and shapes of the whole model's state.
std::map<std::string, std::vector<int64_t>> state_shapes(const FlatModel& model, const Optimizer& optimizer, bool average);

/// Name of a parameter's update count in a checkpoint.
std::string age_state_name(const std::string& parameter);
/// Name of a parameter in a checkpoint.
std::string model_state_name(const std::string& parameter);

}  // namespace weft
