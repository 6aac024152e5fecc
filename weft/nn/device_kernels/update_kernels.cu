#include <cuda_runtime.h>

#include <algorithm>

#include "weft/nn/device_kernels/cuda_elements.h"
#include "weft/nn/device_kernels/cuda_launches.h"
#include "weft/nn/device_kernels/update_numbers.h"

namespace weft {

namespace {

__global__ void trust_ratios_kernel(const TrustRule rule, const CudaTrust all) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all.count;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    all.ratios[i] = ratio_or_one(rule, all.squares + 2 * i * kSumWords, all.decays[i], *all.divisor);
  }
}

__global__ void bias_corrections_kernel(const float* rate, int64_t later, double beta1, double beta2, float* corrections) {
  put_corrections(rate, later, beta1, beta2, corrections);
}

__global__ void factored_numbers_kernel(const FactoredRule rule, double known_lr, int64_t later, const FactoredBuffers memory) {
  put_factored_numbers(rule, known_lr, later, memory);
}

/// One rounding behind the quotient, as in LibTorch's kernels.
__global__ void subtract_scaled_kernel(float* weights, const float* values, const float* divisors, int64_t numel,
                                       const float* rate) {
  const float by = *rate;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < numel;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    weights[i] = fmaf(-by, divisors != nullptr ? values[i] / divisors[i] : values[i], weights[i]);
  }
}

/// A row of blocks for each part.
__global__ void scale_parts_kernel(float* values, const CudaParts parts, const float* factors) {
  const int part = blockIdx.y;
  const float factor = factors[parts.row[part]];
  for (int64_t i = parts.begin[part] + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < parts.end[part];
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    values[i] *= factor;
  }
}

}  // namespace

int cuda_trust_ratios(const TrustRule& rule, const CudaTrust& all, CudaStream stream) {
  trust_ratios_kernel<<<blocks_for_elements(all.count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(rule, all);
  return cudaGetLastError();
}

int cuda_bias_corrections(const float* rate, int64_t later, double beta1, double beta2, float* corrections, CudaStream stream) {
  bias_corrections_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(rate, later, beta1, beta2, corrections);
  return cudaGetLastError();
}

int cuda_factored_numbers(const FactoredRule& rule, double known_lr, int64_t later, const FactoredBuffers& memory,
                          CudaStream stream) {
  factored_numbers_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(rule, known_lr, later, memory);
  return cudaGetLastError();
}

int cuda_subtract_scaled(float* weights, const float* values, const float* divisors, int64_t numel, const float* rate,
                         CudaStream stream) {
  subtract_scaled_kernel<<<blocks_for_elements(numel), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      weights, values, divisors, numel, rate);
  return cudaGetLastError();
}

int cuda_scale_parts(float* values, const CudaParts& parts, const float* factors, CudaStream stream) {
  int64_t most = 1;
  for (int i = 0; i < parts.count; ++i) most = std::max(most, parts.end[i] - parts.begin[i]);
  const dim3 blocks(static_cast<unsigned>(blocks_for_elements(most)), static_cast<unsigned>(parts.count));
  scale_parts_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(values, parts, factors);
  return cudaGetLastError();
}

}  // namespace weft
