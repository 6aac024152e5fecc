// The sum, maximum or minimum of several ranks' elements in the fixed binary tree of group.h.
//
// bfloat16 and float16 are added in float32 through the whole tree and rounded once. Elements are independent of each other,
// so the result depends neither on how a range is cut nor on the processor's instruction set. NaN wins a maximum and a minimum.
// Of the bits of a NaN only this is open: which of two NaN a sum keeps.
#pragma once

#include <cstdint>

#include "weft/comm/reduce/tree_reduction.h"

namespace weft {

/// outputs[i][k] = tree over r of sources[r][k], for each of `num_outputs` outputs, on the threads that LibTorch may use here.
/// An output may be one of the sources. Throws InputError for a dtype without reduction.
void reduce_tree(TreeReduction kind, void* const* outputs, int num_outputs, const void* const* sources, int num_sources,
                 int64_t numel);

}  // namespace weft
