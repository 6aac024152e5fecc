// Naive collectives as a reference for the back ends: all ranks' inputs in one place, the fixed tree element by element.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft::test {

/// Values that do not add up exactly, different on each rank, the same on every call.
at::Tensor make_input(int rank, int64_t numel, at::ScalarType dtype);
/// tree(0, n) over all ranks' inputs, narrow types in float32 and rounded once.
at::Tensor reduce_all(const std::vector<at::Tensor>& inputs, ReduceOp op);
/// Shard of `rank`.
at::Tensor shard_of(const at::Tensor& whole, int size, int rank);
/// Compares bit by bit.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft::test
