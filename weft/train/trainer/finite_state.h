// FiniteState: prevents saving weights and optimizer state that are not finite.
//
// Checks the tensors that training changes: trained weights, statistics, the optimizer's state, the average. Frozen weights,
// other buffers (a mask may hold -inf) and registered state are the user's. One pass over the data a rank writes.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "weft/checkpoint/format/state_part.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Checks state before it is saved.
class FiniteState {
 public:
  /// For a model after this many steps.
  FiniteState(const FlatModel& model, int64_t steps);

  /// Checks a part of the state, as stored in a checkpoint.
  void look_at(const StatePart& part);
  /// Checks a whole weight by its name in the model.
  void look_at(const std::string& weight, const at::Tensor& value);
  /// One line about the first non-finite tensor; empty: none.
  const std::string& error() const { return error_; }

 private:
  void set_error(const std::string& what);

  bool is_changed(const std::string& tensor) const;

  std::set<std::string> changed_;  ///< names of weights and statistics
  int64_t steps_;
  std::string error_;
};

}  // namespace weft
