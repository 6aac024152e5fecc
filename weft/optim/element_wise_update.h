// ElementWiseUpdate: a custom optimizer, as a class that updates elements independently.
//
// An element's new value must depend only on its own weight, gradient and state. Then it does not depend on where a rank's
// share of a tensor begins, and the optimizer works with every ZeRO level, tensor and pipeline parallelism, offloading, and
// checkpoints that move between these. Anything else (norms of tensors, rows and columns, random numbers) is refused.
//
// Memory: 4 bytes per parameter for each state name, divided over ranks like the parameters, and an update's temporaries of at
// most kRangeElements (update_ranges.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// Arguments of an update: [n] float32 elements of one or several tensors, changed in place.
struct ElementRange {
  at::Tensor weights;             ///< updated
  at::Tensor gradients;           ///< gradients of the mean loss of the global batch, clipped; may be overwritten
  std::vector<at::Tensor> state;  ///< in the order of state_names(); zero before the first update
  double lr = 0.0;                ///< learning rate of this step, times lr_factor of the parameter's rule
  double weight_decay = 0.0;      ///< CustomOptimizer's, or the parameter rule's; 0 for biases and norms
  int64_t number = 1;             ///< number of updates of these elements, including this one
  at::Tensor lr_there = {};       ///< with takes_gate(): `lr`, [] float64 on the device of the weights
  at::Tensor number_there = {};   ///< with takes_gate(): `number`, the same
};

/// An optimizer's update.
class ElementWiseUpdate {
 public:
  virtual ~ElementWiseUpdate() = default;
  /// Name of the optimizer: "sign-sgd". Checkpoints use it to identify the optimizer's state.
  virtual std::string name() const = 0;
  /// Its settings in words, "momentum 0.9": ranks compare them before training.
  virtual std::string numbers() const { return {}; }
  /// Names of its state tensors per parameter, as in checkpoints: "momentum".
  virtual std::vector<std::string> state_names() const { return {}; }
  /// Whether a GPU may decide if an update is made, so that the host does not wait for it (docs/optimizers.md). update() must
  /// then give the device the same work in each step: it reads no tensor's values on the host (item(), a copy to the CPU, a
  /// branch on them), and takes lr_there and number_there, as the host does not know `lr`, which is NaN, and `number`, 0. It is
  /// given copies, which the device takes over or drops, and may be called when nothing is updated, on gradients that are not
  /// finite. A step may then be captured (TrainerOptions::graph). Otherwise the host waits before each update.
  virtual bool takes_gate() const { return false; }
  /// Updates the range in place. Called on each rank for the elements it owns, without autograd; an exception ends the step.
  virtual void update(const ElementRange& range) const = 0;
};

/// Throws InputError if it is null, has no name, or has a state name that is invalid in checkpoints or occurs twice.
void check_update(const std::shared_ptr<const ElementWiseUpdate>& update);

}  // namespace weft
