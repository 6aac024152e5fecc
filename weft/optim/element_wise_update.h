// ElementWiseUpdate: an optimizer of one's own, as a class that updates elements side by side.
//
// What an element becomes must follow from its own weight, gradient and state alone: then it is the same wherever a rank's
// share of a tensor begins, and the optimizer goes with every ZeRO level, tensor and pipeline parallelism, offloading and
// checkpoints between any of them. Anything else (norms of tensors, rows and columns, random numbers) is refused.
//
// Memory: 4 bytes a parameter for each name of state, divided over ranks as the parameters are, and an update's temporaries of
// at most kRangeElements (update_ranges.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// What an update is given: [n] float32 elements of one or several tensors, to be changed in place.
struct ElementRange {
  at::Tensor weights;             ///< what the update moves
  at::Tensor gradients;           ///< of the mean loss of the global batch, clipped; may be written over
  std::vector<at::Tensor> state;  ///< in the order of state_names(); zero before the first update
  double lr = 0.0;                ///< of this step, times lr_factor of the parameter's rule
  double weight_decay = 0.0;      ///< CustomOptimizer's, or that of the parameter's rule; 0 for biases and norms
  int64_t number = 1;             ///< of the elements' updates, this one included
};

/// An optimizer's update.
class ElementWiseUpdate {
 public:
  virtual ~ElementWiseUpdate() = default;
  /// What it is called: "sign-sgd". Checkpoints tell by it whose state they hold.
  virtual std::string name() const = 0;
  /// Its numbers in words, "momentum 0.9": ranks compare them before they train.
  virtual std::string numbers() const { return {}; }
  /// Names of what it keeps of each parameter beside the weight, as checkpoints have them: "momentum".
  virtual std::vector<std::string> state_names() const { return {}; }
  /// Updates the range in place. Called on each rank for what it owns, without autograd; what it throws ends the step.
  virtual void update(const ElementRange& range) const = 0;
};

/// Throws InputError where it is null, has no name, or a name of state that checkpoints cannot have, or twice.
void check_update(const std::shared_ptr<const ElementWiseUpdate>& update);

}  // namespace weft
