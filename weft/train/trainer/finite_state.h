// FiniteState: no weights and no optimizer state are saved that are not finite.
//
// What training changes is looked at: weights that are trained, statistics, the optimizer's state, the average. What is frozen,
// other buffers (a mask may hold -inf) and what callers register is theirs. One pass over what a rank writes.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "weft/checkpoint/format/state_part.h"
#include "weft/nn/flat/flat_model.h"

namespace weft {

/// Looks at state before it is saved.
class FiniteState {
 public:
  /// Of a model after so many steps.
  FiniteState(const FlatModel& model, int64_t steps);

  /// Takes a part of the state, as a checkpoint has it.
  void look_at(const StatePart& part);
  /// The same for a whole weight by its name in the model.
  void look_at(const std::string& weight, const at::Tensor& value);
  /// What is not finite first, in one line; empty: nothing is.
  const std::string& error() const { return error_; }

 private:
  void tell(const std::string& what);

  bool is_changed(const std::string& tensor) const;

  std::set<std::string> changed_;  ///< names of weights and statistics
  int64_t steps_;
  std::string error_;
};

}  // namespace weft
