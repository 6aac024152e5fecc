#include "weft/nn/linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/collectives.h"
#include "weft/nn/matmul.h"
#include "weft/nn/pieces.h"
#include "weft/nn/split_backward.h"
#include "weft/nn/weighted_layer.h"
#include "weft/nn/whole_value.h"

namespace weft {

namespace {

/// [..., n] as [rows, n].
at::Tensor rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

/// gradient (+)= dy^T x, without a temporary where the types are the same: dy [n, out], x [n, in].
void add_weight_gradient(Parameter& weight, const at::Tensor& dy, const at::Tensor& x) {
  if (weight.gradient.scalar_type() != dy.scalar_type()) return add_gradient(weight, at::mm(dy.t(), x));
  at::Tensor& gradient = weight.value.mutable_grad();
  if (gradient.defined()) {
    multiply_add(gradient, dy.t(), x);
  } else {
    gradient = weight.gradient;
    multiply(gradient, dy.t(), x);
  }
}

void add_bias_gradient(Parameter& bias, const at::Tensor& dy) {
  if (bias.gradient.scalar_type() != dy.scalar_type()) return add_gradient(bias, dy.sum(0));
  at::Tensor& gradient = bias.value.mutable_grad();
  if (gradient.defined()) {
    gradient.add_(dy.sum(0));
  } else {
    gradient = bias.gradient;
    at::sum_out(gradient, dy, at::IntArrayRef{0});
  }
}

at::Tensor output(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  const at::Tensor x_rows = rows(x);
  if (!goes_to_onednn(x_rows, weight.t())) return at::linear(x, weight, bias);
  const at::Tensor y = at::empty({x_rows.size(0), weight.size(0)}, x.options());
  if (bias) {
    y.copy_(*bias);
    multiply_add(y, x_rows, weight.t());
  } else {
    multiply(y, x_rows, weight.t());
  }
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  return y.view(sizes);
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor dx = at::empty({dy.numel() / weight.size(0), weight.size(1)}, x.options());
  multiply(dx, rows(dy), weight);
  return dx.view(x.sizes());
}

void add_gradients(Parameter& weight, Parameter* bias, const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor dy_rows = rows(dy);
  add_weight_gradient(weight, dy_rows, rows(x));
  if (bias) add_bias_gradient(*bias, dy_rows);
}

constexpr WeightedLayer kLinear = {.forward = output, .input_gradient = input_gradient, .add_gradients = add_gradients};

/// A part of the columns: the product of whole rows of x with this rank's rows of the weight.
at::Tensor columns(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) {
  const Split& split = *weight.split;
  const std::string what = "input of " + split.layer;
  at::Tensor y;
  if (!context.sequence_parallel) {
    y = linear(copy_to(x, context.tp, what), weight, bias);
  } else if (gradients_have_places(weight, bias)) {
    y = apply_gathered(kLinear, x, weight, bias, context.tp, what);
  } else {
    y = linear(gather_over(x, 1, context.tp, what), weight, bias);
  }
  if (!split.joined) return y;
  y = join_over(y, y.dim() - 1, context.tp, "output of " + split.layer).narrow(-1, 0, split.segments.front());
  return context.sequence_parallel ? own_part(y, 1, context.tp, "tokens of " + split.layer) : y;
}

/// This rank's part of the rows of x.
at::Tensor part_of_rows(const at::Tensor& x, const Split& split, const at::Tensor& weight, const Context& context) {
  const int64_t whole = split.segments.front();
  if (x.size(-1) == weight.size(1)) return x;
  if (x.size(-1) != whole) {
    throw InputError(
        fmt::format("layer {}: its input has rows of {}; split by rows over {} ranks it takes {}, or {} of which it "
                    "takes its part",
                    split.layer, x.size(-1), split.parts, weight.size(1), whole));
  }
  const std::string what = "input of " + split.layer;
  const at::Tensor all = context.sequence_parallel ? join_over(x, 1, context.tp, what) : x;
  return own_part(all, all.dim() - 1, context.tp, what);
}

/// A part of the sum: the product of this rank's part of the rows of x with its columns of the weight.
at::Tensor partial_rows(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) {
  const Split& split = *weight.split;
  const std::string what = "output of " + split.layer;
  at::Tensor y = linear(part_of_rows(x, split, weight.value, context), weight, nullptr);
  y = context.sequence_parallel ? sum_scatter(y, 1, context.tp, what) : sum_over(y, context.tp, what);
  return bias ? y.add_(whole_value(*bias, context)) : y;
}

}  // namespace

at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias) {
  if (!gradients_have_places(weight, bias)) return at::linear(x, weight.value, value_of(bias));
  return apply(kLinear, x, weight, bias);
}

at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias, const Context& context) {
  if (weight.split) {
    const bool by_columns = weight.split->dim == 0;
    check_split_over(*weight.split, context.tp);
    if (weight.split->pieces > 0) {
      return by_columns ? columns_of_pieces(x, weight, bias, context) : rows_of_pieces(x, weight, bias, context);
    }
    return by_columns ? columns(x, weight, bias, context) : partial_rows(x, weight, bias, context);
  }
  if (!context.sequence_parallel) return linear(x, weight, bias);
  return at::linear(x, whole_value(weight, context), bias ? std::optional(whole_value(*bias, context)) : std::nullopt);
}

Tensors linear_together(const at::Tensor& x, const std::vector<Parameter*>& weights, const Context& context) {
  const auto enters = [&](const Parameter* weight) {
    return weight->split && weight->split->dim == 0 && weight->split->pieces == 0 && !weight->split->joined &&
           !context.sequence_parallel;
  };
  const bool together = std::all_of(weights.begin(), weights.end(), enters);
  for (const Parameter* weight : weights) {
    if (weight->split) check_split_over(*weight->split, context.tp);
  }
  const at::Tensor in = together ? copy_to(x, context.tp, "input of " + weights.front()->split->layer) : x;
  Tensors outputs;
  for (Parameter* weight : weights) {
    outputs.push_back(together ? linear(in, *weight, nullptr) : linear(in, *weight, nullptr, context));
  }
  return outputs;
}

}  // namespace weft
