#include "weft/nn/images/convolution.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <fmt/core.h>

#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/functional/weighted_layer.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/images/window_product.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"

namespace weft {

namespace {

/// Checks x [n, in, h, w], weight [out, in, k, k], bias [out].
void check_convolution(const at::Tensor& x, const Parameter& weight, const Parameter* bias) {
  const TensorChecks check("convolution");
  check.floating("x", x, {TensorChecks::kAny, TensorChecks::kAny, TensorChecks::kAny, TensorChecks::kAny}, x);
  check.floating("weight", weight.value, {TensorChecks::kAny, x.size(1), TensorChecks::kAny, TensorChecks::kAny}, x);
  check.that(weight.value.size(2) >= 1 && weight.value.size(2) == weight.value.size(3), "weight", weight.value,
             "[out, in, k, k] of square filters");
  if (bias) check.floating("bias", bias->value, {weight.value.size(0)}, x);
}

/// Uses autograd's gradients.
at::Tensor plain_convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                             int64_t stride) {
  return at::conv2d(channels_last(x), weight, bias, stride, weight.size(2) / 2);
}

/// Gradients of x, weight and bias, if wanted. Reads the weight's values only for x's gradient.
std::tuple<at::Tensor, at::Tensor, at::Tensor> gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                                                         int64_t stride, std::array<bool, 3> wanted) {
  const int64_t padding = weight.size(2) / 2;
  const std::vector<int64_t> bias_sizes = {weight.size(0)};
  return at::convolution_backward(channels_last(dy), channels_last(x), weight, bias_sizes, {stride, stride}, {padding, padding},
                                  /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, wanted);
}

template <int64_t kStride>
at::Tensor convolution_output(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  return suits_windows(x, weight, kStride) ? window_product(x, weight, bias, kStride)
                                           : plain_convolution(x, weight, bias, kStride);
}

template <int64_t kStride>
at::Tensor convolution_input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  if (suits_windows(x, weight, kStride)) return window_input_gradient(dy, x, weight, kStride);
  return std::get<0>(gradients(dy, x, weight, kStride, {true, false, false}));
}

template <int64_t kStride>
void add_convolution_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x) {
  if (suits_windows(x, weight.value, kStride)) return add_window_gradients(weight, bias, dy, x, kStride);
  const auto [none, of_weight, of_bias] = gradients(dy, x, weight.value, kStride, {false, true, bias != nullptr});
  add_gradient(weight, of_weight);
  if (bias) add_gradient(*bias, of_bias);
}

template <int64_t kStride>
constexpr WeightedLayer kConvolution = {.name = "convolution",
                                        .forward = convolution_output<kStride>,
                                        .input_gradient = convolution_input_gradient<kStride>,
                                        .add_gradients = add_convolution_gradients<kStride>};

const WeightedLayer& convolution_of(int64_t stride) {
  if (stride == 1) return kConvolution<1>;
  if (stride == 2) return kConvolution<2>;
  throw InputError(fmt::format("convolution: a stride of {}; it must be 1 or 2", stride));
}

/// This rank's part of the channels of x.
at::Tensor part_of_channels(const at::Tensor& x, const Parameter& weight, const Context& context) {
  const Split& split = *weight.split;
  const int64_t whole = split.segments.front(), part = weight.value.size(1);
  if (x.size(1) == part) return x;
  if (x.size(1) == whole) return own_part(x, 1, context.tp, "input of " + split.layer);
  throw InputError(
      fmt::format("layer {}: its input has {} channels; split by rows over {} ranks, it takes its part of {}, or all {}",
                  split.layer, x.size(1), split.parts, part, whole));
}

}  // namespace

at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, int64_t stride, int64_t pieces) {
  const WeightedLayer& layer = convolution_of(stride);
  check_convolution(x, weight, bias);
  if (gradients_have_places(weight, bias)) return apply(layer, x, weight, bias, pieces);
  return map_batch_pieces(pieces, [&](int64_t piece) {
    return plain_convolution(batch_piece(x, piece, pieces), weight.value, value_of(bias), stride);
  });
}

at::Tensor split_convolution(const at::Tensor& x, const Parameter& weight, Parameter* bias, const Context& context,
                             const Convolve& convolve) {
  if (!weight.split) throw InputError("convolution: its weight is not split; call convolution()");
  const Split& split = *weight.split;
  check_split_over(split, context.tp);
  const TensorChecks check("convolution");
  check.floats("x", x, 3);
  check.floats("weight", weight.value, 3);
  if (bias) check.floating("bias", bias->value, {weight.value.size(0)}, x);
  const std::string output = "output of " + split.layer;
  if (split.dim == 0) {
    const at::Tensor y = convolve(copy_to(x, context.tp, "input of " + split.layer), bias);
    return split.joined ? join_over(y, 1, context.tp, output).narrow(1, 0, split.segments.front()) : y;
  }
  const at::Tensor y = sum_over(convolve(part_of_channels(x, weight, context), nullptr), context.tp, output);
  return bias ? y.add_(bias->value.view({-1, 1, 1})) : y;
}

at::Tensor convolution(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context, int64_t stride) {
  const int64_t pieces = context.layout.batch_pieces;
  if (!weight.split) return convolution(x, weight, bias, stride, pieces);
  return split_convolution(x, weight, bias, context, [&weight, stride, pieces](const at::Tensor& in, Parameter* added) {
    return convolution(in, weight, added, stride, pieces);
  });
}

}  // namespace weft
