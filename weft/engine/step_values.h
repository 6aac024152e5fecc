// StepValues: what changes from step to step, in memory of the device that kernels read. So nothing that a step gives the
// device differs from the step before, and a captured one can be replayed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "weft/engine/updater.h"
#include "weft/nn/block.h"

namespace weft {

/// What the host knows of a step when it issues it.
struct StepInputs {
  int64_t step = 0, first_sample = 0;
  UpdateRate rate = {};
  std::vector<double> votes = {};
  LossScale scale = {};
  bool is_scale_known = true;  ///< false: the device may have changed it since
};

class StepValues {
 public:
  StepValues() = default;  ///< on the CPU: none
  StepValues(at::Device device, int votes, bool has_scale);

  /// Sets them for a step, behind the device's work so far: one copy, for which the host does not wait.
  void set(const StepInputs& inputs);

  const StepPlace& place() const { return place_; }
  const at::Tensor& rate() const { return rate_; }    ///< [2] float32: learning rate, number of the update
  const at::Tensor& votes() const { return votes_; }  ///< float64
  const at::Tensor& scale() const { return scale_; }  ///< [kLossScaleWords] int64: a DeviceLossScale; undefined: none
  at::Tensor loss_factor() const;                     ///< LossScale::scale of scale(), [] float64

 private:
  at::Tensor all_, rate_, votes_, scale_;
  StepPlace place_;
};

}  // namespace weft
