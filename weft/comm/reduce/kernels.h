// The kernels behind reduce.h, one per instruction set that the compiler knows.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/comm/reduce/tree_reduction.h"

namespace weft {

using TreeKernel = void (*)(void* const* outputs, int num_outputs, const void* const* sources, int num_sources, int64_t numel);

/// Returns the kernel for the best instruction set of this processor, among those that hwy::SetSupportedTargetsForTest leaves
/// enabled. Null for a dtype that cannot be reduced.
TreeKernel tree_kernel(TreeReduction kind);

/// Returns this processor's instruction sets that have their own kernels (Highway's HWY_*, best first).
std::vector<int64_t> tree_kernel_targets();

}  // namespace weft
