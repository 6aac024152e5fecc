// Links the CUDA implementations of device_kernels.h, if weft is built with CUDA (cuda.cpp or no_cuda.cpp).
#pragma once

namespace weft {

/// Does nothing but keep them in the program: they register themselves.
void load_cuda_kernels();

}  // namespace weft
