// What a rank owns of a model's state, as parts of whole tensors: "model/NAME" for parameters and statistics in float32,
// "exp_avg/NAME" and so on for what the optimizer keeps of those that are trained (StateTensor), "step/NAME" for how many
// updates each has taken where those depend on it, [1] int64, "ema/NAME" for the average, which statistics have too.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/checkpoint/format/state_part.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/optimizer.h"

namespace weft {

/// Which of the ranks that own the same state writes which of it: a share of its own each, so that all write at once.
struct WriteShare {
  int replica = 0;   ///< this rank among those that own the same (dp, cp)
  int replicas = 1;  ///< those
  int tp = 0;        ///< this rank's place on tp, whose ranks own the same of what is not split
  int tps = 1;       ///< ranks of tp
};

/// What is kept of a block beside its weights: the tensors of Updater::state(), and whose they are; by default nothing.
struct BlockOptimizer {
  const std::vector<at::Tensor>* state = nullptr;
  const Optimizer* optimizer = nullptr;
  bool average = false;  ///< the last of them is the weights' average
  /// Optimizer::ages(), where the optimizer has ages.
  std::vector<int64_t>* ages = nullptr;
};

/// All that this rank owns of a block, for loading.
std::vector<StatePart> owned_state(FlatModel& model, int block, const BlockOptimizer& optimizer);
/// What of it this rank writes.
std::vector<StatePart> written_state(FlatModel& model, int block, const BlockOptimizer& optimizer, const WriteShare& share);
/// Names and shapes of the whole model's state.
std::map<std::string, std::vector<int64_t>> state_shapes(const FlatModel& model, const Optimizer& optimizer, bool average);

/// The name under which a checkpoint has how many updates a parameter has taken.
std::string age_state_name(const std::string& parameter);
/// The name under which a checkpoint has a parameter.
std::string model_state_name(const std::string& parameter);

}  // namespace weft
