#include "weft/nn/batch_statistics.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

namespace {

/// The running ones move towards the mean and the unbiased variance of `count` values. As in at::batch_norm() that is no change
/// that autograd hears of: they lie in one memory with weights that backward reads.
void move_running(const BatchNormState& state, const BatchStatistics& now) {
  const auto move = [&](const at::Tensor& running, const at::Tensor& value) {
    running.variable_data().mul_(1.0 - state.momentum).add_(value, state.momentum);
  };
  move(state.running_mean, now.mean);
  move(state.running_var, now.count > 1.0 ? now.var * (now.count / (now.count - 1.0)) : now.var);
}

}  // namespace

BatchStatistics batch_statistics(const at::Tensor& sums, const BatchNormState& state, const Group& group) {
  group.all_reduce(sums, ReduceOp::sum, "statistics of samples").wait();
  const int64_t channels = sums.numel() / 2;
  const double count = sums.is_meta() ? 2.0 : sums[2 * channels].item<double>();
  if (count < 2.0) {
    throw InputError(
        fmt::format("batch norm: {} values a channel, over all ranks that are normalised together; it takes 2 or more: larger "
                    "micro-batches",
                    static_cast<int64_t>(count)));
  }
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  const at::Tensor var = (sums.narrow(0, channels, channels) / count).sub_(mean.square()).clamp_min_(0.0);
  const at::ScalarType type = state.running_mean.scalar_type();
  BatchStatistics now{mean.to(type), var.to(type), count};
  move_running(state, now);
  return now;
}

std::pair<at::Tensor, at::Tensor> slope_and_offset(const at::Tensor& sums, const at::Tensor& weight, const at::Tensor& root,
                                                   double count) {
  const int64_t channels = sums.numel() / 2;
  const at::Tensor scale = weight.to(at::kDouble) / root / -count;
  return {sums.narrow(0, channels, channels).mul(scale).div_(root), sums.narrow(0, 0, channels).mul(scale)};
}

}  // namespace weft
