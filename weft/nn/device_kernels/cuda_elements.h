// What sources of CUDA kernels share: element types, and numbers of blocks.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>

#include "weft/nn/device_kernels/cuda_launches.h"

namespace weft {

inline constexpr int kThreads = 256;      ///< of a block
inline constexpr int kMostBlocks = 1024;  ///< where each adds to a sum

/// Calls of(Element()) with the element's type.
template <class Of>
void by_type(CudaElement element, const Of& of) {
  switch (element) {
    case CudaElement::float32:
      return of(float());
    case CudaElement::float64:
      return of(double());
    case CudaElement::bfloat16:
      return of(c10::BFloat16());
    case CudaElement::float16:
      return of(c10::Half());
  }
}

/// Blocks for kernels whose threads go on in steps of the grid.
inline int blocks_for_elements(int64_t numel) {
  constexpr int64_t kEach = 4;  // elements of a thread, at least
  return static_cast<int>(std::clamp<int64_t>(numel / (kThreads * kEach), 1, 8 * kMostBlocks));
}

}  // namespace weft
