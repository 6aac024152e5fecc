// Exact sums (base/exact_sum.h) in a tensor, where a model's device adds to them and ranks reduce them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "weft/base/exact_sum.h"

namespace weft {

/// Returns `count` sums of nothing, [count, kSumWords] int64 on `device`.
at::Tensor exact_sums(int64_t count, at::Device device);

/// Returns the sums in `words` [count, kSumWords], a dense tensor of the host.
std::vector<ExactSum> sums_in(const at::Tensor& words);

}  // namespace weft
