// Collectives inside a block, as operations that autograd goes through: what a split layer is made of (Shoeybi et al. 2019,
// arXiv:1909.08053; the forms along tokens: Korthikanti et al. 2022, arXiv:2205.05198).
// Those that leave each rank a part throw InputError where the ranks do not divide the dim.
//
// Each is the identity in a group of one. `what` names the call in errors; its backward is "gradient of" that. Traffic a rank,
// of b bytes of the whole in a group of n: an all-reduce 2 (n-1)/n b, each of the others (n-1)/n b.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "weft/comm/group.h"
#include "weft/nn/parameter_split.h"

namespace weft {

/// x, alike on all ranks, into what each rank goes on with by itself. Backward: the gradients are summed.
at::Tensor copy_to(const at::Tensor& x, const Group& group, const std::string& what);
/// The sum of the ranks' x, on every rank; x's memory is taken over. Backward: nothing is sent.
at::Tensor sum_over(const at::Tensor& x, const Group& group, const std::string& what);
/// The ranks' x side by side along `dim`, into what each rank goes on with by itself. Backward: the gradients are summed, and
/// each rank gets its part.
at::Tensor gather_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim`, which the group divides, of the sum of the ranks' x. Backward: the ranks' gradients side by
/// side.
at::Tensor sum_scatter(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim` of x, alike on all ranks. Backward: the ranks' gradients side by side.
at::Tensor own_part(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// The ranks' x side by side along `dim`, into what is alike on all ranks. Backward: this rank's part; nothing is sent.
at::Tensor join_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// Throws InputError where a layer's parts are not those of the group that its Context has: their sum would be of some of them.
void check_split_over(const Split& split, const Group& group);

/// The ranks' x side by side along `dim`, without autograd.
at::Tensor gathered(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);
/// This rank's part along `dim` of the sum of the ranks' x, without autograd.
at::Tensor scattered_sum(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

}  // namespace weft
