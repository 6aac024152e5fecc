#include "weft/nn/weighted_layer.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/batch_pieces.h"
#include "weft/nn/split_backward.h"
#include "weft/nn/tree_sum.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A pointer that the context keeps as a number.
template <class T>
T* kept(AutogradContext* context, const char* key) {
  return reinterpret_cast<T*>(context->saved_data[key].toInt());  // NOLINT: the block outlives its graph
}

/// Adds the sum of the pieces' gradients, which are made one by one as if each piece were all.
void add_piece_gradients(const WeightedLayer& layer, Parameter& weight, Parameter* bias, const at::Tensor& dy,
                         const at::Tensor& x, int64_t pieces) {
  const int64_t of_weight = weight.value.numel(), of_bias = bias ? bias->value.numel() : 0;
  const at::Tensor sum = tree_sum(pieces, [&](int64_t piece) {
    const at::Tensor gradients = at::empty({of_weight + of_bias}, weight.gradient.options());
    Parameter own{weight.value.detach(), gradients.narrow(0, 0, of_weight).view(weight.value.sizes())}, own_bias;
    if (bias) own_bias = {bias->value.detach(), gradients.narrow(0, of_weight, of_bias)};
    layer.add_gradients(own, bias ? &own_bias : nullptr, batch_piece(dy, piece, pieces), batch_piece(x, piece, pieces));
    return gradients;
  });
  add_gradient(weight, sum.narrow(0, 0, of_weight).view(weight.value.sizes()));
  if (bias) add_gradient(*bias, sum.narrow(0, of_weight, of_bias));
}

struct WeightedFunction : torch::autograd::Function<WeightedFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t layer, int64_t weight_parameter,
                            int64_t bias_parameter, int64_t pieces) {
    context->save_for_backward({x, weight});
    context->saved_data["layer"] = layer;
    context->saved_data["weight"] = weight_parameter;
    context->saved_data["bias"] = bias_parameter;
    context->saved_data["pieces"] = pieces;
    const auto* mathematics = kept<const WeightedLayer>(context, "layer");
    return of_batch_pieces(pieces,
                           [&](int64_t piece) { return mathematics->forward(batch_piece(x, piece, pieces), weight, bias); });
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* layer = kept<const WeightedLayer>(context, "layer");
    auto* weight = kept<Parameter>(context, "weight");
    const int64_t pieces = context->saved_data["pieces"].toInt();
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = of_batch_pieces(pieces, [&](int64_t piece) {
        return layer->input_gradient(batch_piece(gradients[0], piece, pieces), batch_piece(saved[0], piece, pieces), saved[1]);
      });
    }
    const auto add = [layer, weight, bias = kept<Parameter>(context, "bias"), dy = gradients[0], x = saved[0], pieces] {
      pieces == 1 ? layer->add_gradients(*weight, bias, dy, x) : add_piece_gradients(*layer, *weight, bias, dy, x, pieces);
    };
    weight->deferred ? weight->deferred->add(add) : add();
    return {dx, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

bool gradients_have_places(const Parameter& weight, const Parameter* bias) {
  return weight.gradient.defined() && (!bias || bias->gradient.defined());
}

std::optional<at::Tensor> value_of(const Parameter* bias) { return bias ? std::optional(bias->value) : std::nullopt; }

at::Tensor apply(const WeightedLayer& layer, const at::Tensor& x, Parameter& weight, Parameter* bias, int64_t pieces) {
  return WeightedFunction::apply(x, weight.value, value_of(bias), reinterpret_cast<int64_t>(&layer),
                                 reinterpret_cast<int64_t>(&weight), reinterpret_cast<int64_t>(bias), pieces);
}

}  // namespace weft
