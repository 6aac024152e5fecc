// The operators behind layer_kernels.h: what is the same on every device, and the launches that are not.
#pragma once

#include <ATen/core/Tensor.h>

#include "weft/nn/device_kernels/layer_memory.h"

namespace torch {
class Library;
}

namespace weft {

/// The launches of a kind of device. Each is given a tensor, for type and device, and memory of at least one element.
struct LayerLaunches {
  void (*norm)(const at::Tensor& x, const NormMemory& memory);
  void (*norm_again)(const at::Tensor& x, const NormMemory& memory);
  void (*norm_gradients)(const at::Tensor& x, const NormMemory& memory);
  void (*activation)(const at::Tensor& x, const ActivationMemory& memory);
  void (*activation_gradients)(const at::Tensor& x, const ActivationMemory& memory);
  void (*turn)(const at::Tensor& x, const RotaryMemory& memory);
  void (*class_losses)(const at::Tensor& x, const LossMemory& memory);
  void (*class_loss_gradient)(const at::Tensor& x, const LossMemory& memory);
};

/// Those of CUDA; null if weft is built without it (cuda.cpp or no_cuda.cpp).
const LayerLaunches* cuda_layer_launches();

/// Makes the operators a device's implementations.
void implement_layer_operators(torch::Library& device);

}  // namespace weft
