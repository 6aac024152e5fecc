#include "weft/nn/weighted_layer.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "weft/nn/collectives.h"
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

/// Ranks whose tokens a layer takes, kept as long as its graph.
struct Tokens : torch::CustomClassHolder {
  Tokens(Group group, std::string what) : group(std::move(group)), what(std::move(what)) {}
  at::Tensor all(const at::Tensor& x) const { return gathered(x, 1, group, what); }
  /// A stand-in with the sizes of all(x).
  at::Tensor like_all(const at::Tensor& x) const {
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes[1] *= group.size();
    return at::empty({1}, x.options()).expand(sizes);
  }
  Group group;
  std::string what;
};

struct GatheredFunction : torch::autograd::Function<GatheredFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, int64_t layer, int64_t weight_parameter,
                            int64_t bias_parameter, const c10::intrusive_ptr<Tokens>& tokens) {
    context->save_for_backward({x, weight});
    context->saved_data["layer"] = layer;
    context->saved_data["weight"] = weight_parameter;
    context->saved_data["bias"] = bias_parameter;
    context->saved_data["tokens"] = c10::IValue::make_capsule(tokens);
    return kept<const WeightedLayer>(context, "layer")->forward(tokens->all(x), weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* layer = kept<const WeightedLayer>(context, "layer");
    auto* weight = kept<Parameter>(context, "weight");
    const auto capsule = context->saved_data["tokens"].toCapsule();
    const auto* tokens = static_cast<const Tokens*>(capsule.get());
    const at::Tensor& x = saved[0];
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = scattered_sum(layer->input_gradient(gradients[0], tokens->like_all(x), saved[1]), 1, tokens->group,
                         "gradient of " + tokens->what);
    }
    const auto add = [layer, weight, bias = kept<Parameter>(context, "bias"), dy = gradients[0], x, capsule, tokens] {
      layer->add_gradients(*weight, bias, dy, tokens->all(x));
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

at::Tensor apply(const WeightedLayer& layer, const at::Tensor& x, Parameter& weight, Parameter* bias) {
  return WeightedFunction::apply(x, weight.value, value_of(bias), reinterpret_cast<int64_t>(&layer),
                                 reinterpret_cast<int64_t>(&weight), reinterpret_cast<int64_t>(bias));
}

at::Tensor apply_gathered(const WeightedLayer& layer, const at::Tensor& x, Parameter& weight, Parameter* bias,
                          const Group& group, const std::string& what) {
  return GatheredFunction::apply(x, weight.value, value_of(bias), reinterpret_cast<int64_t>(&layer),
                                 reinterpret_cast<int64_t>(&weight), reinterpret_cast<int64_t>(bias),
                                 c10::make_intrusive<Tokens>(group, what));
}

}  // namespace weft
