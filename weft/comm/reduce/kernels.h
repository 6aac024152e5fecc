// The kernels behind reduce.h, one for each instruction set that the compiler knows.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/comm/reduce/tree_reduction.h"

namespace weft {

using TreeKernel = void (*)(void* const* outputs, int num_outputs, const void* const* sources, int num_sources, int64_t numel);

/// The kernel for the best instruction set of this processor, or of those that hwy::SetSupportedTargetsForTest leaves. Null for
/// a dtype without reduction.
TreeKernel tree_kernel(TreeReduction kind);

/// The instruction sets (Highway's HWY_*, best first) with kernels of their own that this processor has.
std::vector<int64_t> tree_kernel_targets();

}  // namespace weft
