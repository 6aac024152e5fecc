// Collectives inside a block, as autograd operations, for layers that are split (Shoeybi et al. 2019, arXiv:1909.08053; along
// tokens: Korthikanti et al. 2022, arXiv:2205.05198). Those that leave each rank a part throw InputError when the number of
// ranks does not divide the dim.
//
// Each is the identity in a group of one. `what` names the call in errors; backward is named "gradient of " + what. Traffic per
// rank, for b bytes of the whole in a group of n: an all-reduce 2 (n-1)/n b, each of the others (n-1)/n b.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/group.h"
#include "weft/nn/parameter_split.h"

namespace weft {

/// Returns x, equal on all ranks, as input of rank-local work. Backward: the ranks' gradients are summed.
at::Tensor copy_to(const at::Tensor& x, const Group& group, const std::string& what);
/// The sum of the ranks' x, on every rank; reuses x's memory. Backward: nothing is sent.
at::Tensor sum_over(const at::Tensor& x, const Group& group, const std::string& what);
/// The ranks' x concatenated along `dim`, as input of rank-local work. Backward: each rank gets its part of the sum of the
/// ranks' gradients.
at::Tensor gather_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim`, which the group divides, of the sum of the ranks' x. Backward: the ranks' gradients,
/// concatenated.
at::Tensor sum_scatter(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim` of x, equal on all ranks. Backward: the ranks' gradients, concatenated.
at::Tensor own_part(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// The ranks' x concatenated along `dim`, for work that is the same on all ranks. Backward: this rank's part; nothing is sent.
at::Tensor join_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// Throws InputError unless a layer's parts match its Context's group, without which their sum would be incomplete.
void check_split_over(const Split& split, const Group& group);

/// The ranks' x concatenated along `dim`, without autograd.
at::Tensor gathered(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim` of the sum of the ranks' x, without autograd.
at::Tensor scattered_sum(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

}  // namespace weft
