#include <cuda_runtime.h>

#include "weft/nn/device_kernels/cuda_launches.h"
#include "weft/nn/device_kernels/step_numbers.h"

namespace weft {

namespace {

__global__ void step_numbers_kernel(const StepFacts facts, const StepBuffers memory) { make_step_numbers(facts, memory); }

}  // namespace

int cuda_step_numbers(const StepFacts& facts, const StepBuffers& memory, CudaStream stream) {
  step_numbers_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(facts, memory);
  return cudaGetLastError();
}

}  // namespace weft
