#include "weft/nn/weighted_layer.h"

#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/split_backward.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A pointer that the context keeps as a number.
template <class T>
T* kept(AutogradContext* context, const char* key) {
  return reinterpret_cast<T*>(context->saved_data[key].toInt());  // NOLINT: the block outlives its graph
}

struct WeightedFunction : torch::autograd::Function<WeightedFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t layer, int64_t weight_parameter,
                            int64_t bias_parameter) {
    context->save_for_backward({x, weight});
    context->saved_data["layer"] = layer;
    context->saved_data["weight"] = weight_parameter;
    context->saved_data["bias"] = bias_parameter;
    return kept<const WeightedLayer>(context, "layer")->forward(x, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* layer = kept<const WeightedLayer>(context, "layer");
    auto* weight = kept<Parameter>(context, "weight");
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = layer->input_gradient(gradients[0], saved[0], saved[1]);
    const auto add = [layer, weight, bias = kept<Parameter>(context, "bias"), dy = gradients[0], x = saved[0]] {
      layer->add_gradients(*weight, bias, dy, x);
    };
    weight->deferred ? weight->deferred->add(add) : add();
    return {dx, {}, {}, {}, {}, {}};
  }
};

}  // namespace

bool gradients_have_places(const Parameter& weight, const Parameter* bias) {
  return weight.gradient.defined() && (!bias || bias->gradient.defined());
}

std::optional<at::Tensor> value_of(const Parameter* bias) { return bias ? std::optional(bias->value) : std::nullopt; }

at::Tensor apply(const WeightedLayer& layer, const at::Tensor& x, Parameter& weight, Parameter* bias) {
  return WeightedFunction::apply(x, weight.value, value_of(bias), reinterpret_cast<int64_t>(&layer),
                                 reinterpret_cast<int64_t>(&weight), reinterpret_cast<int64_t>(bias));
}

}  // namespace weft
