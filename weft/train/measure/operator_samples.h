// operator_samples: times of single operators of training on a device, over sizes of models small and large. weft calibrate
// fits a device's rates to them (fit_rates.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "weft/program/simulate/operator_rates.h"

namespace weft {

/// A measured operator.
struct OperatorSample {
  OperatorClass of = OperatorClass::other;
  int element_bytes = 4;
  OperatorLoad load = {};
  double seconds = 0.0;  ///< per launch; 0: mostly noise
};

/// Measures all classes in float32 and bfloat16, each operator by the function that training calls, for a few milliseconds.
/// The median of `turns` turns counts. Calls `before` ahead of each sample, so that ranks can start it together. With one
/// thread on a CPU times are those of the thread, which other processes do not lengthen; otherwise wall time.
std::vector<OperatorSample> measure_operators(at::Device device, int turns, const std::function<void()>& before);

}  // namespace weft
