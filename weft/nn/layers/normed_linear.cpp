#include "weft/nn/layers/normed_linear.h"

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft {

namespace {

/// Returns whether by_columns() gives a layer's output: whole layers are the case of one rank.
bool is_by_columns(const LinearParameters& layer, const Context& context) {
  if (!gradients_have_places(*layer.weight, layer.bias)) return false;
  const std::optional<Split>& split = layer.weight->split;
  if (!split) return context.tp.size() == 1 && context.layout.batch_pieces == 1;
  check_split_over(*split, context.tp);
  return split->dim == 0 && split->pieces == 0 && !split->joined;
}

Tensors one_by_one(const at::Tensor& x, const std::vector<LinearParameters>& layers, const Context& context) {
  if (std::none_of(layers.begin(), layers.end(), [](const LinearParameters& layer) { return layer.bias; })) {
    std::vector<Parameter*> weights;
    weights.reserve(layers.size());
    for (const LinearParameters& layer : layers) weights.push_back(layer.weight);
    return linear_together(x, weights, context);
  }
  Tensors outputs;
  outputs.reserve(layers.size());
  for (const LinearParameters& layer : layers) outputs.push_back(linear(x, *layer.weight, layer.bias, context));
  return outputs;
}

}  // namespace

Branch normed_linear(const at::Tensor& x, const at::Tensor& added, const NormParameters& norm,
                     const std::vector<LinearParameters>& layers, const Context& context) {
  if (layers.empty()) throw InputError("normed_linear: no layers; without any, call normalise()");
  const TensorChecks check("normed_linear");
  check.floats("x", x, 1);
  if (added.defined()) check.floating("added", added, x.sizes(), x);
  const Norm by{whole_value(*norm.weight, context), norm.bias ? whole_value(*norm.bias, context) : at::Tensor(), norm.eps};
  const auto fits = [&context](const LinearParameters& layer) { return is_by_columns(layer, context); };
  if (std::all_of(layers.begin(), layers.end(), fits)) {
    Tensors all = apply(by_columns(layers, context), NormedRows{x, added, by});
    Branch branch{all.front(), {all.begin() + 1, all.end()}};
    return branch;
  }
  Branch branch{added.defined() ? x.add(added) : x, {}};
  branch.outputs = one_by_one(normalise(branch.stream, by), layers, context);
  return branch;
}

}  // namespace weft
