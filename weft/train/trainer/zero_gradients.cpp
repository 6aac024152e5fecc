#include "weft/train/trainer/zero_gradients.h"

#include <ATen/ops/count_nonzero.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace weft {

std::vector<ZeroGradient> zero_gradients(Trainer& trainer) {
  FlatModel& model = trainer.model();
  const std::vector<Param>& params = model.params();
  const at::TensorOptions options(model.options().device);
  // Elements that this rank owns, and those of them that are not zero. Each replica counts its own.
  const at::Tensor counts = at::zeros({2, static_cast<int64_t>(params.size())}, options.dtype(at::kDouble));
  for (size_t i = 0; i < params.size(); ++i) {
    const Param& param = params[i];
    if (!is_trained(param.group) || param.embedding || !model.owns(param.block)) continue;
    const FlatBlock& flat = model.flat(param.block);
    const int64_t begin = std::max(param.offset, flat.owned.begin) - flat.owned.begin;
    const int64_t end = std::min(param.offset + param.numel, flat.owned.end) - flat.owned.begin;
    if (begin >= end) continue;
    counts[0][static_cast<int64_t>(i)].fill_(static_cast<double>(end - begin));
    counts[1][static_cast<int64_t>(i)].copy_(at::count_nonzero(flat.owned_gradients.narrow(0, begin, end - begin)));
  }
  trainer.world_group().all_reduce(counts, ReduceOp::sum, "gradients that are zero").wait();
  const at::Tensor known = counts.cpu();
  const auto count = known.accessor<double, 2>();
  std::vector<ZeroGradient> zero;
  for (size_t i = 0; i < params.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const double share = count[0][at] > 0.0 ? 1.0 - count[1][at] / count[0][at] : 0.0;
    if (share >= 0.5) zero.push_back({params[i].name, share});
  }
  return zero;
}

}  // namespace weft
