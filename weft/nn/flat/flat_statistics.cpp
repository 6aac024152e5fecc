// Running statistics in a flat model: as forwards see them, and as a step moves them.
#include <ATen/ops/add.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include "weft/nn/flat/flat_model.h"

namespace weft {

GroupRange FlatModel::statistics_range(int block) const {
  const FlatBlock& flat = flat_[block];
  return flat.statistics.empty() ? GroupRange{ParamGroup::statistic, 0, 0, false} : flat.groups.back();
}

at::Tensor FlatModel::statistics(int block) {
  FlatBlock& flat = flat_[block];
  const GroupRange range = statistics_range(block);
  at::Tensor stored = flat.weights.narrow(0, range.begin, range.end - range.begin).variable_data();
  if (!flat.wide_statistics.defined()) return stored;
  at::Tensor wide = flat.wide_statistics.variable_data();
  wide.copy_(stored);
  return wide;
}

void FlatModel::apply_statistics(int block, int64_t micro_batches, const at::Tensor& refused) {
  FlatBlock& flat = flat_[block];
  const GroupRange own = flat.own(statistics_range(block));
  if (own.begin == own.end) return;
  c10::NoGradGuard no_grad;
  const int64_t numel = own.end - own.begin;
  at::Tensor statistics = flat.master.narrow(0, own.begin, numel);
  const at::Tensor changes = flat.owned_gradients.narrow(0, own.begin, numel);
  const double share = 1.0 / static_cast<double>(micro_batches);
  if (!refused.defined()) {
    statistics.add_(changes, share);
  } else {
    at::where_out(statistics, refused, statistics, at::add(statistics, changes, share));
  }
}

}  // namespace weft
