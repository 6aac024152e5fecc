// The tensors of step_numbers() as memory, for the operator's implementations.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "weft/nn/device_kernels/step_numbers.h"

namespace weft {

inline StepBuffers step_buffers(const at::Tensor& losses, const at::Tensor& found, at::Tensor& numbers, at::Tensor& gate,
                                const std::optional<at::Tensor>& scale, const std::optional<at::Tensor>& rate) {
  return {.losses = losses.const_data_ptr<double>(),
          .found = found.const_data_ptr<int64_t>(),
          .numbers = numbers.mutable_data_ptr<double>(),
          .gate = gate.mutable_data_ptr<float>(),
          .scale = scale ? static_cast<DeviceLossScale*>(scale->mutable_data_ptr()) : nullptr,
          .rate = rate ? rate->mutable_data_ptr<float>() : nullptr};
}

}  // namespace weft
