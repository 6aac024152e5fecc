// One entry for each instruction set that the kernels of reduce.h are compiled for.
#pragma once

#include "weft/comm/reduce/reduce.h"

namespace weft {

using TreeKernel = void (*)(void* const* outputs, int num_outputs, const void* const* sources, int num_sources, int64_t numel);

/// Null for a dtype without reduction.
TreeKernel tree_kernel_baseline(TreeReduction kind);
/// Null too where the processor, or the target of this build, has no such instructions.
TreeKernel tree_kernel_avx2(TreeReduction kind);
TreeKernel tree_kernel_avx512(TreeReduction kind);

}  // namespace weft
