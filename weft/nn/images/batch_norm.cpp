#include "weft/nn/images/batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/graph.h"
#include "weft/nn/images/batch_statistics.h"
#include "weft/nn/images/pixel_norm.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BatchRanks : torch::CustomClassHolder {
  BatchRanks(Group group, int64_t pieces) : group(std::move(group)), pieces(pieces) {}

  Group group;
  int64_t pieces;
};

/// Mean and biased variance of each channel, at least float32.
std::tuple<at::Tensor, at::Tensor> moments(const at::Tensor& x) {
  const at::TensorOptions wide = x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const int64_t channels = x.size(1);
  if (!has_elements(x)) return {at::zeros({channels}, wide), at::zeros({channels}, wide)};
  // Passing float32 running statistics makes the results of a narrow x float32.
  return at::batch_norm_update_stats(x, at::zeros({channels}, wide), at::ones({channels}, wide), /*momentum=*/0.0);
}

/// Sums in the form of batch_statistics().
at::Tensor sums_of(const at::Tensor& x) {
  const auto [mean, var] = moments(x);
  const int64_t channels = x.size(1), count = values_per_channel(x);
  const at::Tensor sums = at::empty({2 * channels + 1}, x.options().dtype(at::kDouble));
  const at::Tensor wide_mean = mean.to(at::kDouble);
  sums.narrow(0, 0, channels).copy_(wide_mean).mul_(count);
  sums.narrow(0, channels, channels).copy_(var).addcmul_(wide_mean, wide_mean).mul_(count);
  sums.narrow(0, 2 * channels, 1).fill_(static_cast<double>(count));
  return sums;
}

/// Shapes [channels] for broadcasting with x [samples, channels, ...].
at::Tensor aligned_to(const at::Tensor& of_channels, const at::Tensor& x) {
  std::vector<int64_t> sizes(x.dim(), 1);
  sizes[1] = x.size(1);
  return of_channels.view(sizes);
}

/// Gradients of x, weight and bias, treating mean and variance as constants. LibTorch's kernel divides by the size of x.
std::tuple<at::Tensor, at::Tensor, at::Tensor> backward_if_given(const at::Tensor& dy, const at::Tensor& x,
                                                                 const at::Tensor& weight, const at::Tensor& mean,
                                                                 const at::Tensor& var, double eps) {
  if (x.numel() == 0) return {at::empty_like(x), at::zeros_like(mean), at::zeros_like(mean)};
  const at::Tensor none = at::empty({0}, mean.options());  // a GPU's kernel for channels-last wants them defined
  return at::native_batch_norm_backward(dy, x, weight, mean, var, none, none, /*train=*/false, eps, {true, true, true});
}

struct BatchNormFunction : torch::autograd::Function<BatchNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const BatchNormState& state, const c10::intrusive_ptr<BatchRanks>& ranks) {
    const at::Tensor sums =
        tree_sum(ranks->pieces, [&](int64_t piece) { return sums_of(batch_piece(x, piece, ranks->pieces)); });
    const auto [mean, var, count] = batch_statistics(sums, values_per_channel(x), state, ranks->group);
    context->save_for_backward({x, weight, mean, var, count});
    context->saved_data["ranks"] = c10::IValue::make_capsule(ranks);
    context->saved_data["eps"] = state.eps;
    return std::get<0>(at::native_batch_norm(x, weight, bias, mean, var, /*training=*/false, 0.0, state.eps));
  }

  /// With n = (x - mean) / root and sums over the values of all ranks: dx = weight / root (dy - (sum dy + n sum(dy n)) /
  /// count). The gradients of weight and bias are only this rank's sums, as in any layer.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("batch norm");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &dy = gradients[0], &x = saved[0], &weight = saved[1], &mean = saved[2], &var = saved[3],
                     &count = saved[4];
    const auto ranks = c10::static_intrusive_pointer_cast<BatchRanks>(context->saved_data["ranks"].toCapsule());
    const double eps = context->saved_data["eps"].toDouble();
    const int64_t channels = x.size(1);
    std::vector<at::Tensor> dx, of_pieces;  // dx with mean and variance as constants
    for (int64_t piece = 0; piece < ranks->pieces; ++piece) {
      auto [of_x, of_weight, of_bias] = backward_if_given(batch_piece(dy, piece, ranks->pieces).contiguous(),
                                                          batch_piece(x, piece, ranks->pieces), weight, mean, var, eps);
      dx.push_back(std::move(of_x));
      of_pieces.push_back(at::cat({of_bias, of_weight}));
    }
    // Ranks add sums for statistics in float64 and gradients in their own type; so do pieces.
    const at::Tensor all =
        tree_sum(ranks->pieces, [&](int64_t piece) { return of_pieces[piece].to(at::kDouble, false, true); });
    const at::Tensor own = tree_sum(ranks->pieces, [&](int64_t piece) { return of_pieces[piece]; });
    ranks->group.all_reduce(all, ReduceOp::sum, "gradients of statistics of samples").wait();
    const auto [slope, beginning] = slope_and_offset(all, weight, var.to(at::kDouble).add_(eps).sqrt_(), count);
    const at::Tensor offset = beginning.sub(slope * mean.to(at::kDouble));
    const at::Tensor slopes = aligned_to(slope.to(var.scalar_type()), x), offsets = aligned_to(offset.to(var.scalar_type()), x);
    for (size_t piece = 0; piece < dx.size(); ++piece) {
      const at::Tensor of_piece = widen({batch_piece(x, static_cast<int64_t>(piece), ranks->pieces)})[0];
      dx[piece] = widen({dx[piece]})[0].addcmul_(of_piece, slopes).add_(offsets).to(x.scalar_type());
    }
    return {dx.size() == 1 ? dx.front() : at::cat(dx), own.narrow(0, channels, channels), own.narrow(0, 0, channels), {}, {}};
  }
};

/// Returns whether the values of x are normalised without other ranks or pieces.
bool is_alone(const Context& context) { return context.batch.size() == 1 && context.layout.batch_pieces == 1; }

/// As in PyTorch: a single value has no variance, and the running one would become NaN. Without elements, as in cost
/// measurement, there is nothing to refuse.
void expect_several_values(const at::Tensor& x) {
  if (!has_elements(x) || x.numel() / x.size(1) != 1) return;
  throw InputError(fmt::format(
      "batch norm: one value per channel in training, x is [{}]; it needs 2 or more: larger micro-batches (batch.micro), "
      "larger images, or layout.sync_batch_norm, which includes other ranks",
      fmt::join(x.sizes(), ", ")));
}

at::Tensor by_operators(const at::Tensor& x, const BatchNormState& state, const Context& context) {
  // Contiguous, because LibTorch's kernels ignore strides.
  const at::ScalarType type = state.running_mean.scalar_type();
  const at::Tensor weight = state.weight.to(type).contiguous(), bias = state.bias.to(type).contiguous();
  if (context.training && is_alone(context)) expect_several_values(x);
  if (!context.training || is_alone(context)) {
    const at::Tensor mean = state.running_mean.contiguous(), var = state.running_var.contiguous();
    const at::Tensor y = at::batch_norm(x, weight, bias, mean, var, context.training, state.momentum, state.eps,
                                        /*cudnn_enabled=*/true);
    if (!mean.is_same(state.running_mean)) state.running_mean.variable_data().copy_(mean);
    if (!var.is_same(state.running_var)) state.running_var.variable_data().copy_(var);
    return y;
  }
  return BatchNormFunction::apply(x, weight, bias, state,
                                  c10::make_intrusive<BatchRanks>(context.batch, context.layout.batch_pieces));
}

bool takes_pixels(const at::Tensor& x, const BatchNormState& state, const Context& context) {
  return context.training && supports_pixel_norm(x, state) &&
         (!is_alone(context) || x.numel() / std::max<int64_t>(x.size(1), 1) >= 2);
}

}  // namespace

at::Tensor batch_norm(const at::Tensor& x, const BatchNormState& state, const Context& context) {
  check_state(x, state, context.training);
  return takes_pixels(x, state, context) ? pixel_norm(x, state, context, {}) : by_operators(x, state, context);
}

at::Tensor batch_norm_relu(const at::Tensor& x, const BatchNormState& state, const Context& context,
                           const at::Tensor& shortcut) {
  check_state(x, state, context.training);
  if (shortcut.defined()) TensorChecks("batch norm").like("shortcut", shortcut, x);
  if (takes_pixels(x, state, context))
    return pixel_norm(x, state, context, {.added = shortcut.defined() ? std::optional(shortcut) : std::nullopt, .relu = true});
  const at::Tensor y = by_operators(x, state, context);
  return (shortcut.defined() ? y.add_(shortcut) : y).relu_();
}

}  // namespace weft
