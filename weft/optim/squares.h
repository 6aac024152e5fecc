// Squares of a range of values, added to an exact sum apart from rounding in fixed runs, for norms over ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace weft {

/// Adds the squares of `values`, a flat tensor whose first element is at `offset` of its block or shard, to the exact sum in
/// `words` [kSumWords] int64 (nn/exact_sums.h), on the values' device. Squares are rounded to float64 within runs that end at
/// multiples of kAlignElements. On a device: one launch, for any floating-point type, without a wait of the host. On the CPU:
/// float32.
void add_squares(const at::Tensor& values, int64_t offset, const at::Tensor& words);

/// The same for several ranges, each to row rows[i] of `sums` [n, kSumWords]: on a device in one launch.
void add_squares_of_each(at::TensorList ranges, at::IntArrayRef offsets, at::IntArrayRef rows, const at::Tensor& sums);

}  // namespace weft
