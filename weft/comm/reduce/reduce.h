// The sum, maximum or minimum of several ranks' elements in the fixed binary tree of group.h.
//
// bfloat16 and float16 are added in float32 through the whole tree and rounded once. Elements are independent, so the result
// depends neither on how a range is split nor on the processor's instruction set. NaN wins a maximum and a minimum. Only one
// thing is unspecified: which of two NaNs a sum keeps.
#pragma once

#include <cstdint>

#include "weft/comm/reduce/tree_reduction.h"

namespace weft {

/// outputs[i][k] = tree over r of sources[r][k], for each of `num_outputs` outputs, on LibTorch's threads. An output may be one
/// of the sources. Throws InputError for a dtype that cannot be reduced.
void reduce_tree(TreeReduction kind, void* const* outputs, int num_outputs, const void* const* sources, int num_sources,
                 int64_t numel);

}  // namespace weft
