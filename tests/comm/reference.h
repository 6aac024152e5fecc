// Collectives as one would write them down: every rank's input in one place, the fixed tree element by element. Slow and plain;
// what the backends are held against.
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
/// The shard of `rank`.
at::Tensor shard_of(const at::Tensor& whole, int size, int rank);
/// Bit by bit.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

}  // namespace weft::test
