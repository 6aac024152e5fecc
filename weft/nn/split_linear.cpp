#include "weft/nn/split_linear.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "weft/nn/collectives.h"
#include "weft/nn/matmul.h"
#include "weft/nn/matrix_layer.h"
#include "weft/nn/split_backward.h"
#include "weft/nn/travelling.h"
#include "weft/nn/weighted_layer.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What both directions need, kept as long as the graph.
struct SplitCall : torch::CustomClassHolder {
  SplitCall(std::vector<LinearParameters> layers, const Context& context, std::string what)
      : layers(std::move(layers)),
        group(context.tp),
        by_tokens(context.sequence_parallel),
        chunks(context.tp_chunks),
        what(std::move(what)) {}
  Reduction reduction(std::string name) const { return {group, by_tokens, chunks, std::move(name)}; }
  std::string backward() const { return "gradient of " + what; }
  /// Adds to the gradients of the layers, now or later.
  void add_gradients(const Tensors& dy, const at::Tensor& x) const {
    for (size_t i = 0; i < layers.size(); ++i) {
      kMatrixLayer.add_gradients(*layers[i].weight, layers[i].bias, dy[i], x);
    }
  }
  std::vector<LinearParameters> layers;
  Group group;
  bool by_tokens;
  int chunks;
  std::string what;
  const Activation* activation = nullptr;  // of the input
};
using KeptCall = c10::intrusive_ptr<SplitCall>;

void keep_call(AutogradContext* context, const KeptCall& call) {
  context->saved_data["call"] = c10::IValue::make_capsule(call);
}

KeptCall kept_call(AutogradContext* context) {
  return c10::static_intrusive_pointer_cast<SplitCall>(context->saved_data["call"].toCapsule());
}

/// The sum over the layers and the ranks of dy_i W_i.
Travelling begin_input_gradient(const SplitCall& call, const Tensors& dy, const Tensors& weights) {
  const MultiplyRows multiply_rows = [&weights](const Tensors& rows, const at::Tensor& out) {
    multiply(out, rows.front(), weights.front());
    for (size_t i = 1; i < rows.size(); ++i) multiply_add(out, rows[i], weights[i]);
  };
  return begin_sum(dy, weights.front().size(1), multiply_rows, call.reduction(call.backward()));
}

struct ByColumns : torch::autograd::Function<ByColumns> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, at::TensorList weights, const KeptCall& call) {
    variable_list saved = {x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    keep_call(context, call);
    const at::Tensor in = call->by_tokens ? gathered(x, 1, call->group, call->what) : x;
    variable_list outputs;
    for (size_t i = 0; i < weights.size(); ++i) {
      outputs.push_back(kMatrixLayer.forward(in, weights[i], value_of(call->layers[i].bias)));
    }
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved.front();
    const Tensors weights(saved.begin() + 1, saved.end());
    const KeptCall call = kept_call(context);
    DeferredGradients* deferred = call->layers.front().weight->deferred;
    std::optional<Travelling> rows, dx;
    if (call->by_tokens && !deferred) rows = begin_gather(x, 1, call->group, call->what);
    if (context->needs_input_grad(0)) dx = begin_input_gradient(*call, dy, weights);
    if (deferred) {
      deferred->add([call, dy, x] { call->add_gradients(dy, call->by_tokens ? gathered(x, 1, call->group, call->what) : x); });
    } else {
      call->add_gradients(dy, rows ? rows->wait() : x);
    }
    variable_list gradients(saved.size() + 1);
    if (dx) gradients.front() = dx->wait();
    return gradients;
  }
};

struct ByRows : torch::autograd::Function<ByRows> {
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs, const at::Tensor& weight, const KeptCall& call) {
    variable_list saved = inputs.vec();
    const at::Tensor x = call->activation ? call->activation->value(saved) : saved.front();
    saved.push_back(weight);
    context->save_for_backward(std::move(saved));
    keep_call(context, call);
    const MultiplyRows multiply_rows = [&weight](const Tensors& rows, const at::Tensor& out) {
      multiply(out, rows.front(), weight.t());
    };
    return begin_sum({x}, weight.size(0), multiply_rows, call->reduction(call->what)).wait();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list inputs = context->get_saved_variables();
    const at::Tensor weight = inputs.back();
    inputs.pop_back();
    const KeptCall call = kept_call(context);
    const at::Tensor dy = call->by_tokens ? gathered(gradients.front(), 1, call->group, call->backward()) : gradients.front();
    variable_list d_inputs(inputs.size());
    at::Tensor x = inputs.front();
    if (call->activation || context->needs_input_grad(0)) d_inputs.front() = kMatrixLayer.input_gradient(dy, x, weight);
    if (call->activation) {
      Activation::Backward through = call->activation->backward(inputs, d_inputs.front());
      d_inputs = std::move(through.gradients);
      x = std::move(through.value);
    }
    const auto add = [call, dy, x] { call->add_gradients({dy}, x); };
    DeferredGradients* deferred = call->layers.front().weight->deferred;
    deferred ? deferred->add(add) : add();
    d_inputs.resize(inputs.size() + 2);  // none for weight and call
    return d_inputs;
  }
};

}  // namespace

Tensors linear_by_columns(const at::Tensor& x, const std::vector<LinearParameters>& layers, const Context& context,
                          const std::string& what) {
  Tensors weights;
  for (const LinearParameters& layer : layers) weights.push_back(layer.weight->value);
  return ByColumns::apply(x, at::TensorList(weights), c10::make_intrusive<SplitCall>(layers, context, what));
}

at::Tensor linear_by_rows(const LayerInput& x, Parameter& weight, const Context& context, const std::string& what) {
  const std::vector<LinearParameters> layer = {{&weight, nullptr}};
  const auto call = c10::make_intrusive<SplitCall>(layer, context, what);
  call->activation = x.activation;
  return ByRows::apply(at::TensorList(x.tensors), weight.value, call);
}

}  // namespace weft
