// WEFT_HOST_DEVICE: marks a function that device kernels call, compiled by g++ and by nvcc from one source.
#pragma once

#if defined(__CUDACC__)
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif
