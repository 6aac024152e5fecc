// tree_sum: a sum in the binary tree of comm/group.h, whose lower branches a rank makes by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace weft {

/// The sum of term(0) to term(pieces - 1), whose memory is taken over; pieces is a power of two.
at::Tensor tree_sum(int64_t pieces, const std::function<at::Tensor(int64_t)>& term);

}  // namespace weft
