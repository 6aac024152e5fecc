// Launches of the kernels in cuda_layer_kernels.cu, each as the CPU's in layer_kernels.cpp; they return a cudaError_t.
#pragma once

#include "weft/nn/device_kernels/cuda_launches.h"
#include "weft/nn/device_kernels/layer_memory.h"

namespace weft {

int cuda_norm(CudaElement element, const NormMemory& memory, CudaStream stream);
int cuda_norm_again(CudaElement element, const NormMemory& memory, CudaStream stream);
int cuda_norm_gradients(CudaElement element, const NormMemory& memory, CudaStream stream);
int cuda_activation(CudaElement element, const ActivationMemory& memory, CudaStream stream);
int cuda_activation_gradients(CudaElement element, const ActivationMemory& memory, CudaStream stream);
int cuda_turn(CudaElement element, const RotaryMemory& memory, CudaStream stream);
int cuda_class_losses(CudaElement element, const LossMemory& memory, CudaStream stream);
int cuda_class_loss_gradient(CudaElement element, const LossMemory& memory, CudaStream stream);

}  // namespace weft
