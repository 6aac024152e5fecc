// TakenState: which of a checkpoint's optimizer state a trainer goes on with.
//
// State is taken where it means the same to this optimizer as to the one that saved it, and where updates depend on a
// parameter's age, all of the parameter's or nothing. What is left out begins anew: as zeros, at the age of 0.
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
  /// `meanings` is what the checkpoint says of its states (state_meanings()); of one that says nothing it is made out.
  TakenState(const FlatModel& model, const Optimizer& optimizer, const OptimizerOptions& options, const CheckpointIndex& index,
             std::map<std::string, std::string> meanings);

  /// Whether the optimizer's state of that name begins anew.
  bool begins_anew(const std::string& tensor) const { return anew_.count(tensor) > 0; }
  /// The age of a parameter (by FlatModel::params()) whose own the checkpoint does not have, where `updates` came before it.
  int64_t age_of(int param, int64_t updates) const { return fresh_.count(param) > 0 ? 0 : updates; }
  /// Whether the age is in the checkpoint, and is of state that is taken.
  bool takes_age(const std::string& tensor) const { return ages_.count(tensor) > 0; }
  /// What is left out though the checkpoint has it, a line each.
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void compare_meanings(const OptimizerOptions& options, const std::map<std::string, std::string>& meanings);
  void choose(const Param& param, int index, const std::vector<StateTensor>& tensors, bool has_ages);

  const CheckpointIndex& index_;
  std::set<std::string> others_;  ///< names of states that mean something else there
  std::set<std::string> anew_;    ///< tensors
  std::set<std::string> ages_;    ///< tensors
  std::set<int> fresh_;           ///< parameters
  std::vector<std::string> lines_;
};

}  // namespace weft
