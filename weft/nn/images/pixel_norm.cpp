#include "weft/nn/images/pixel_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

#include "weft/nn/graph.h"
#include "weft/nn/images/batch_statistics.h"
#include "weft/nn/images/channel_passes.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Ranks and pieces that normalise together.
struct PixelRanks : torch::CustomClassHolder {
  PixelRanks(Group group, int64_t pieces) : group(std::move(group)), pieces(pieces) {}

  Group group;
  int64_t pieces;
};

/// Sums in the form of batch_statistics().
at::Tensor sums_and_count(const at::Tensor& x) {
  const int64_t channels = x.size(1), count = values_per_channel(x);
  const at::Tensor sums = at::empty({2 * channels + 1}, x.options().dtype(at::kDouble));
  sums.narrow(0, 0, 2 * channels).copy_(channel_sums(x));
  sums.narrow(0, 2 * channels, 1).fill_(static_cast<double>(count));
  return sums;
}

/// The tensor in channels-last order, from any layout.
at::Tensor by_pixels(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

struct PixelNormFunction : torch::autograd::Function<PixelNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const std::optional<at::Tensor>& added, const BatchNormState& state, bool relu,
                            const c10::intrusive_ptr<PixelRanks>& ranks) {
    const at::Tensor sums =
        tree_sum(ranks->pieces, [&](int64_t piece) { return sums_and_count(batch_piece(x, piece, ranks->pieces)); });
    const BatchStatistics now = batch_statistics(sums, values_per_channel(x), state, ranks->group);
    const at::Tensor scale = weight / (now.var + state.eps).sqrt_();
    const at::Tensor offset = bias - now.mean * scale;
    const at::Tensor y = scale_channels(x, scale, offset, added ? by_pixels(*added) : at::Tensor(), relu);
    context->save_for_backward({x, weight, now.mean, now.var, relu ? y : at::Tensor(), now.count});
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    context->saved_data["eps"] = state.eps;
    context->saved_data["added"] = added.has_value();
    return y;
  }

  /// With g = dy where the ReLU let values through, and sums over the values of all ranks: dx = weight / root (g - sum(g) /
  /// count - (x - mean) sum(g (x - mean)) / root^2 / count). The gradients of weight and bias are only this rank's sums, as in
  /// any layer.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("batch norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3];
    const auto ranks = c10::static_intrusive_pointer_cast<PixelRanks>(context->saved_data["ranks"].toCapsule());
    const at::Tensor& count = saved[5];
    const double eps = context->saved_data["eps"].toDouble();
    ChannelGradient whole{by_pixels(gradients[0]), saved[4], x, mean};
    // If an input was added, its gradient is g, and dx can be made from it.
    const at::Tensor of_added = context->saved_data["added"].toBool() && saved[4].defined() ? at::empty_like(x) : at::Tensor();
    const int64_t channels = x.size(1);
    const at::Tensor root = var.to(at::kDouble).add_(eps).sqrt_();
    std::vector<at::Tensor> of_pieces;
    of_pieces.reserve(ranks->pieces);
    for (int64_t i = 0; i < ranks->pieces; ++i) {
      const auto piece = [&](const at::Tensor& all) { return all.defined() ? batch_piece(all, i, ranks->pieces) : all; };
      of_pieces.push_back(gradient_sums({piece(whole.dy), piece(whole.y), piece(x), mean}, piece(of_added)));
      of_pieces.back().narrow(0, channels, channels).div_(root);  // before pieces are added, as ranks do
    }
    // Ranks add sums for statistics in float64 and gradients in their own type; so do pieces.
    const at::Tensor own = tree_sum(ranks->pieces, [&](int64_t i) { return of_pieces[i].to(mean.scalar_type()); });
    const at::Tensor all = tree_sum(ranks->pieces, [&](int64_t i) { return of_pieces[i]; });
    ranks->group.all_reduce(all, ReduceOp::sum, "gradients of statistics of samples").wait();
    const auto [slope, offset] = slope_and_offset(all, weight, root, count);
    if (of_added.defined()) whole = {of_added, {}, x, mean};
    const at::Tensor dx = at::empty_like(x);
    gradient_of_x(dx, whole, weight / (var + eps).sqrt_(), slope.to(mean.scalar_type()), offset.to(mean.scalar_type()));
    const at::Tensor to_added = of_added.defined()                      ? of_added
                                : context->saved_data["added"].toBool() ? gradients[0]
                                                                        : at::Tensor();
    return {dx, own.narrow(0, channels, channels), own.narrow(0, 0, channels), to_added, {}, {}, {}};
  }
};

}  // namespace

bool supports_pixel_norm(const at::Tensor& x, const BatchNormState& state) {
  return x.defined() && state.running_mean.defined() && has_weft_kernel(ModelOperation::batch_norm, x.device()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) &&
         state.running_mean.scalar_type() == at::kFloat && is_channels_last(x);
}

at::Tensor pixel_norm(const at::Tensor& x, const BatchNormState& state, const Context& context, const AfterNorm& after) {
  const TensorChecks check("batch norm");
  check_state(x, state, context.training);
  check.that(supports_pixel_norm(x, state), "x", x, "channels last on the CPU, with float32 statistics");
  if (after.added) check.like("added", *after.added, x);
  return PixelNormFunction::apply(x, state.weight.to(at::kFloat), state.bias.to(at::kFloat), after.added, state, after.relu,
                                  c10::make_intrusive<PixelRanks>(context.batch, context.layout.batch_pieces));
}

}  // namespace weft
