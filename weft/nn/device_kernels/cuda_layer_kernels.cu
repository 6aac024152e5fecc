#include <cuda_runtime.h>

#include "weft/nn/device_kernels/activation_functions.h"
#include "weft/nn/device_kernels/cuda_elements.h"
#include "weft/nn/device_kernels/cuda_layer_launches.h"
#include "weft/nn/device_kernels/loss_functions.h"
#include "weft/nn/device_kernels/norm_functions.h"

namespace weft {

namespace {

constexpr int kColumns = 8;                              // of a block's columns: 32 bytes of float32, a sector of memory
constexpr int kGradientThreads = kColumns * kColumnGroups;

/// What the lane that is `apart` away has.
template <class Number>
__host__ __device__ Number of_other(Number x, int apart) {
#if defined(__CUDA_ARCH__)
  return __shfl_xor_sync(0xffffffffu, x, apart);
#else
  return x;  // not called
#endif
}
template <class Number>
__host__ __device__ Two<Number> of_other(const Two<Number>& x, int apart) {
  return {of_other(x.first, apart), of_other(x.second, apart)};
}

template <class Number>
__host__ __device__ Powers<Number> of_other(const Powers<Number>& x, int apart) {
  return {of_other(x.largest, apart), of_other(x.sum, apart)};
}

/// A row's lanes as threads. Each adds the same two halves, in either order: all have HostWarp's sum.
struct CudaWarp {
  int lane;

  template <class Of>
  __host__ __device__ void each(const Of& of) const {
    of(lane);
  }
  template <class Part>
  __host__ __device__ auto sum(const Part& part) const {
    auto total = part(lane);
    for (int apart = kRowLanes / 2; apart > 0; apart /= 2) total = total + of_other(total, apart);
    return total;
  }
};

__device__ CudaWarp own_warp() { return {static_cast<int>(threadIdx.x % kRowLanes)}; }
__device__ int64_t own_row(int64_t block) {
  return (block * blockDim.x + threadIdx.x) / kRowLanes;
}

template <class Element>
__global__ void norm_kernel(const NormMemory m) {
  const int64_t row = own_row(blockIdx.x);
  if (row < m.rows) norm_row<Element>(own_warp(), m, row);
}

template <class Element>
__global__ void norm_again_kernel(const NormMemory m) {
  const int64_t row = own_row(blockIdx.x);
  if (row < m.rows) norm_row_again<Element>(own_warp(), m, row);
}

/// The first blocks have columns, a thread for each column and group; the others rows.
template <class Element>
__global__ void __launch_bounds__(kGradientThreads, 2) norm_gradients_kernel(const NormMemory m, int column_blocks) {
  using Number = Wide<Element>;
  __shared__ Number first[kColumnGroups][kColumns], second[kColumnGroups][kColumns];
  if (static_cast<int>(blockIdx.x) >= column_blocks) {
    const int64_t row = own_row(blockIdx.x - column_blocks);
    if (row < m.rows) norm_row_gradient<Element>(own_warp(), m, row);
    return;
  }
  const int own = threadIdx.x % kColumns, group = threadIdx.x / kColumns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + own;
  const bool is_column = column < m.width;
  const Two<Number> part = is_column ? norm_column_part<Element>(m, column, group) : Two<Number>();
  first[group][own] = part.first;
  second[group][own] = part.second;
  for (int half = kColumnGroups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (group >= half) continue;
    first[group][own] = first[group][own] + first[group + half][own];
    second[group][own] = second[group][own] + second[group + half][own];
  }
  if (group == 0 && is_column) put_norm_column<Element>(m, column, Two<Number>{first[0][own], second[0][own]});
}

template <class Element>
__global__ void activation_kernel(const ActivationMemory m) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < m.numel; i += step) activate<Element>(m, i);
}

template <class Element>
__global__ void activation_gradients_kernel(const ActivationMemory m) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < m.numel; i += step) {
    activation_gradient<Element>(m, i);
  }
}

template <class Element>
__global__ void turn_kernel(const RotaryMemory m, int64_t numel) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < numel; i += step) turn_pair<Element>(m, i);
}

template <class Element>
__global__ void class_losses_kernel(const LossMemory m) {
  const int64_t row = own_row(blockIdx.x);
  if (row < m.rows) loss_row<Element>(own_warp(), m, row);
}

template <class Element>
__global__ void class_loss_gradient_kernel(const LossMemory m) {
  const int64_t row = own_row(blockIdx.x);
  if (row < m.rows) loss_row_gradient<Element>(own_warp(), m, row);
}

cudaStream_t stream_of(CudaStream stream) { return static_cast<cudaStream_t>(stream); }

/// Blocks of this many threads for all rows.
int64_t blocks_for_rows(int64_t rows, int threads) {
  const int64_t each = threads / kRowLanes;
  return (rows + each - 1) / each;
}

}  // namespace

int cuda_norm(CudaElement element, const NormMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    norm_kernel<decltype(type)><<<blocks_for_rows(m.rows, kThreads), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

int cuda_norm_again(CudaElement element, const NormMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    norm_again_kernel<decltype(type)><<<blocks_for_rows(m.rows, kThreads), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

int cuda_norm_gradients(CudaElement element, const NormMemory& m, CudaStream stream) {
  const auto columns = static_cast<int>((m.width + kColumns - 1) / kColumns);
  const int64_t blocks = columns + blocks_for_rows(m.rows, kGradientThreads);
  by_type(element, [&](auto type) {
    norm_gradients_kernel<decltype(type)><<<blocks, kGradientThreads, 0, stream_of(stream)>>>(m, columns);
  });
  return cudaGetLastError();
}

int cuda_activation(CudaElement element, const ActivationMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    activation_kernel<decltype(type)><<<blocks_for_elements(m.numel), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

int cuda_activation_gradients(CudaElement element, const ActivationMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    activation_gradients_kernel<decltype(type)><<<blocks_for_elements(m.numel), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

int cuda_turn(CudaElement element, const RotaryMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    turn_kernel<decltype(type)><<<blocks_for_elements(m.numel()), kThreads, 0, stream_of(stream)>>>(m, m.numel());
  });
  return cudaGetLastError();
}

int cuda_class_losses(CudaElement element, const LossMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    class_losses_kernel<decltype(type)><<<blocks_for_rows(m.rows, kThreads), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

int cuda_class_loss_gradient(CudaElement element, const LossMemory& m, CudaStream stream) {
  by_type(element, [&](auto type) {
    class_loss_gradient_kernel<decltype(type)><<<blocks_for_rows(m.rows, kThreads), kThreads, 0, stream_of(stream)>>>(m);
  });
  return cudaGetLastError();
}

}  // namespace weft
