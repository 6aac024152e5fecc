// TakenState: the optimizer state that a trainer takes from a checkpoint.
//
// State is taken if it means the same to this optimizer as to the one that saved it. If updates depend on a parameter's age,
// all of its state is taken or none. The rest is reset: to zeros, at age 0.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/checkpoint/format/index.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/optimizer.h"

namespace weft {

/// The choice for one checkpoint.
class TakenState {
 public:
  /// `meanings` is the checkpoint's description of its states (state_meanings()); if empty, it is inferred.
  TakenState(const FlatModel& model, const Optimizer& optimizer, const OptimizerOptions& options, const CheckpointIndex& index,
             std::map<std::string, std::string> meanings);

  /// Returns true if the optimizer state of that name is reset.
  bool begins_anew(const std::string& tensor) const { return anew_.count(tensor) > 0; }
  /// Age to set if the checkpoint has none. `param` is an index into FlatModel::params(); the run made `updates` updates.
  int64_t age_of(int param, int64_t updates) const { return fresh_.count(param) > 0 ? 0 : updates; }
  /// Returns true if the age is in the checkpoint and belongs to state that is taken.
  bool takes_age(const std::string& tensor) const { return ages_.count(tensor) > 0; }
  /// One line for each state of the checkpoint that is left out.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void compare_meanings(const OptimizerOptions& options, const std::map<std::string, std::string>& meanings);
  void choose(const Param& param, int index, const std::vector<StateTensor>& tensors, bool has_ages);

  const CheckpointIndex& index_;
  std::set<std::string> others_;  ///< states whose meaning differs in the checkpoint
  std::set<std::string> anew_;    ///< tensors that are reset
  std::set<std::string> ages_;    ///< ages that are taken
  std::set<int> fresh_;           ///< parameters that start at age 0
  std::vector<std::string> lines_;
};

}  // namespace weft
