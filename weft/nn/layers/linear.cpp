#include "weft/nn/layers/linear.h"

#include <ATen/ops/linear.h>
#include <c10/util/Exception.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/functional/matrix_layer.h"
#include "weft/nn/functional/weighted_layer.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft {

namespace {

void check_input(const LayerInput& x) {
  if (x.tensors.empty()) throw InputError("linear layer: no input tensor");
  for (const at::Tensor& input : x.tensors) TensorChecks("linear layer").floats("x", input, 1);
}

/// Parts of the columns: products of whole rows of x with this rank's rows of the weights.
Tensors columns(const at::Tensor& x, const std::vector<LinearParameters>& layers, const Context& context) {
  const std::string what = "input of " + layers.front().weight->split->layer;
  const auto has_places = [](const LinearParameters& layer) { return gradients_have_places(*layer.weight, layer.bias); };
  if (std::all_of(layers.begin(), layers.end(), has_places)) return apply(by_columns(layers, context), x);
  const at::Tensor in = context.layout.sequence_parallel ? gather_over(x, 1, context.tp, what) : copy_to(x, context.tp, what);
  Tensors outputs;
  for (const LinearParameters& layer : layers) outputs.push_back(linear(in, *layer.weight, layer.bias));
  return outputs;
}

/// The ranks' parts of the columns, concatenated without padding.
at::Tensor joined(const at::Tensor& part, const Split& split, const Context& context) {
  const at::Tensor padded = join_over(part, part.dim() - 1, context.tp, "output of " + split.layer);
  const at::Tensor y = padded.narrow(-1, 0, split.segments.front());
  return context.layout.sequence_parallel ? own_part(y, 1, context.tp, "tokens of " + split.layer) : y;
}

/// This rank's part of the rows of x.
LayerInput part_of_rows(const LayerInput& input, const Split& split, const at::Tensor& weight, const Context& context) {
  const int64_t whole = split.segments.front();
  if (input.sizes().back() == weight.size(1)) return input;
  const at::Tensor x = input.value();
  if (x.size(-1) != whole) {
    throw InputError(
        fmt::format("layer {}: its input has rows of {}; split by rows over {} ranks, it takes its part of {}, "
                    "or all {}",
                    split.layer, x.size(-1), split.parts, weight.size(1), whole));
  }
  const std::string what = "input of " + split.layer;
  const at::Tensor all = context.layout.sequence_parallel ? join_over(x, 1, context.tp, what) : x;
  return own_part(all, all.dim() - 1, context.tp, what);
}

/// One term of the sum: the product of this rank's part of the rows of x with its columns of the weight.
at::Tensor partial_rows(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context) {
  const Split& split = *weight.split;
  const std::string what = "output of " + split.layer;
  const LayerInput part = part_of_rows(x, split, weight.value, context);
  at::Tensor y;
  if (gradients_have_places(weight, nullptr)) {
    y = apply({.mathematics = kMatrixLayer,
               .layers = {{&weight, nullptr}},
               .exit = context.layout.sequence_parallel ? LayerExit::scattered : LayerExit::summed,
               .group = context.tp,
               .chunks = context.layout.tp_chunks,
               .output = what},
              part)
            .front();
  } else {
    y = linear(part.value(), weight, nullptr);
    y = context.layout.sequence_parallel ? sum_scatter(y, 1, context.tp, what) : sum_over(y, context.tp, what);
  }
  return bias ? y.add_(whole_value(*bias, context)) : y;
}

/// Checks a layer that is not in pieces: x [..., in], weight [out, in], bias [out].
void check_layer(const LayerInput& x, const Parameter& weight, const Parameter* bias) {
  const TensorChecks check("linear layer");
  check_input(x);
  const bool splits_rows = weight.split && weight.split->dim == 1;
  check.floating("weight", weight.value, {TensorChecks::kAny, splits_rows ? TensorChecks::kAny : x.sizes().back()},
                 x.tensors.front());
  if (bias) check.floating("bias", bias->value, {weight.value.size(0)}, x.tensors.front());
}

at::Tensor linear_in_pieces(const LayerInput& input, Parameter& weight, Parameter* bias, int64_t pieces) {
  if (gradients_have_places(weight, bias)) return apply(kMatrixLayer, input, weight, bias, pieces);
  const at::Tensor x = input.value();
  return map_batch_pieces(
      pieces, [&](int64_t piece) { return at::linear(batch_piece(x, piece, pieces), weight.value, value_of(bias)); });
}

}  // namespace

at::Tensor linear(const at::Tensor& x, Parameter& weight, Parameter* bias) {
  check_layer(x, weight, bias);
  return linear_in_pieces(x, weight, bias, 1);
}

at::Tensor linear(const LayerInput& x, Parameter& weight, Parameter* bias, const Context& context) {
  check_input(x);
  if (weight.split) {
    const bool by_columns = weight.split->dim == 0;
    check_split_over(*weight.split, context.tp);
    if (weight.split->pieces > 0) {
      return by_columns ? columns_of_pieces(x.value(), weight, bias, context) : rows_of_pieces(x, weight, bias, context);
    }
    check_layer(x, weight, bias);
    if (!by_columns) return partial_rows(x, weight, bias, context);
    const at::Tensor y = columns(x.value(), {{&weight, bias}}, context).front();
    return weight.split->joined ? joined(y, *weight.split, context) : y;
  }
  // A LibTorch error, like the product's own: the caller that runs the block adds its name.
  TORCH_CHECK(context.tp.size() == 1 || x.sizes().back() == weight.value.size(1),
              "a linear layer without a split rule takes rows of ", weight.value.size(1), ", but its input has rows of ",
              x.sizes().back(),
              ": if the previous layer is split by columns, split this one by rows, or join the outputs of the previous one");
  check_layer(x, weight, bias);
  if (!context.layout.sequence_parallel) return linear_in_pieces(x, weight, bias, context.layout.batch_pieces);
  return at::linear(x.value(), whole_value(weight, context), bias ? std::optional(whole_value(*bias, context)) : std::nullopt);
}

LayerCall by_columns(const std::vector<LinearParameters>& layers, const Context& context) {
  if (layers.empty()) throw InputError("linear layers: the list is empty");
  const std::optional<Split>& split = layers.front().weight->split;
  return {.mathematics = kMatrixLayer,
          .layers = layers,
          .entry = context.layout.sequence_parallel ? LayerEntry::gathered : LayerEntry::copied,
          .group = context.tp,
          .chunks = context.layout.tp_chunks,
          .input = split ? "input of " + split->layer : ""};
}

Tensors linear_together(const at::Tensor& x, const std::vector<Parameter*>& weights, const Context& context) {
  if (weights.empty()) return {};
  const auto enters = [](const Parameter* weight) {
    return weight->split && weight->split->dim == 0 && weight->split->pieces == 0 && !weight->split->joined;
  };
  std::vector<LinearParameters> layers;
  for (Parameter* weight : weights) {
    if (weight->split) check_split_over(*weight->split, context.tp);
    layers.push_back({weight, nullptr});
  }
  if (std::all_of(weights.begin(), weights.end(), enters)) return columns(x, layers, context);
  Tensors outputs;
  for (Parameter* weight : weights) outputs.push_back(linear(x, *weight, nullptr, context));
  return outputs;
}

}  // namespace weft
