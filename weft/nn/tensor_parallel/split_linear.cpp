#include "weft/nn/tensor_parallel/split_linear.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/matrix_layer.h"
#include "weft/nn/functional/weighted_layer.h"
#include "weft/nn/graph.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/overlapped.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What both directions need, kept as long as the graph.
struct SplitCall : torch::CustomClassHolder {
  SplitCall(std::vector<LinearParameters> layers, const Context& context, std::string what)
      : layers(std::move(layers)),
        group(context.tp),
        by_tokens(context.layout.sequence_parallel),
        chunks(context.tp.size() == 1 ? 1 : context.layout.tp_chunks),
        what(std::move(what)) {}
  Reduction reduction(std::string name) const { return {group, by_tokens, chunks, std::move(name)}; }
  std::string backward() const { return "gradient of " + what; }
  /// The layers' weights, then their biases: those from which gradients are asked make the graph.
  Tensors parameters() const {
    Tensors all;
    for (const LinearParameters& layer : layers) all.push_back(layer.weight->value);
    for (const LinearParameters& layer : layers) {
      if (layer.bias) all.push_back(layer.bias->value);
    }
    return all;
  }
  variable_list outputs(const at::Tensor& x, at::TensorList weights) const;
  at::Tensor backward_of(const Tensors& dy, const at::Tensor& x, const Tensors& weights, bool wanted) const;
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
  bool is_used_up = false;                 // LayerInput::used_up()
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

/// The layers' outputs for x, which `what` says.
variable_list SplitCall::outputs(const at::Tensor& x, at::TensorList weights) const {
  const at::Tensor in = by_tokens ? gathered(x, 1, group, what) : x;
  variable_list all;
  for (size_t i = 0; i < weights.size(); ++i) {
    all.push_back(kMatrixLayer.forward(in, weights[i], value_of(layers[i].bias)));
  }
  return all;
}

/// Adds to the gradients of the layers; returns that of x, if it is wanted.
at::Tensor SplitCall::backward_of(const Tensors& dy, const at::Tensor& x, const Tensors& weights, bool wanted) const {
  DeferredGradients* deferred = layers.front().weight->deferred;
  std::optional<Travelling> rows, dx;
  if (by_tokens && !deferred) rows = begin_gather(x, 1, group, what);
  if (wanted) dx = begin_input_gradient(*this, dy, weights);
  if (deferred) {
    const auto call = c10::intrusive_ptr<const SplitCall>::reclaim_copy(this);
    deferred->add([call, dy, x] { call->add_gradients(dy, call->by_tokens ? gathered(x, 1, call->group, call->what) : x); });
  } else {
    add_gradients(dy, rows ? rows->wait() : x);
  }
  return dx ? dx->wait() : at::Tensor();
}

struct ByColumns : torch::autograd::Function<ByColumns> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, at::TensorList parameters, const KeptCall& call) {
    const at::TensorList weights = parameters.slice(0, call->layers.size());
    variable_list saved = {x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    keep_call(context, call);
    return call->outputs(x, weights);
  }

  static variable_list backward(AutogradContext* context, const variable_list& dy) {
    refuse_second_order("linear layer");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved.front();
    const Tensors weights(saved.begin() + 1, saved.end());
    variable_list gradients(kept_call(context)->parameters().size() + 2);  // none for parameters and call
    gradients.front() = kept_call(context)->backward_of(dy, x, weights, context->needs_input_grad(0));
    return gradients;
  }
};

/// Gradients of the layers' outputs; of an output that nothing used there is none.
Tensors with_zeros_for_none(Tensors dy, const at::Tensor& x, const Tensors& weights) {
  for (size_t i = 0; i < dy.size(); ++i) {
    if (dy[i].defined()) continue;
    std::vector<int64_t> sizes = x.sizes().vec();
    sizes.back() = weights[i].size(0);
    dy[i] = at::zeros(sizes, x.options());
  }
  return dy;
}

/// Its inputs are x, what is added, the norm's weight and bias, and the parameters.
struct ByNormedColumns : torch::autograd::Function<ByNormedColumns> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const std::optional<at::Tensor>& added,
                               const at::Tensor& norm_weight, const std::optional<at::Tensor>& norm_bias, double eps,
                               at::TensorList parameters, const KeptCall& call) {
    const at::TensorList weights = parameters.slice(0, call->layers.size());
    const Normalised n = normalise_sum(x, added.value_or(at::Tensor()), {norm_weight, norm_bias.value_or(at::Tensor()), eps});
    variable_list saved = {n.sum, n.mean, n.scale, norm_weight, norm_bias.value_or(at::Tensor())};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    keep_call(context, call);
    context->set_materialize_grads(false);  // a stream that nothing reads has no gradient, which is not zeros to be added
    context->saved_data["added"] = added.has_value();
    context->saved_data["eps"] = eps;
    variable_list outputs = call->outputs(n.y, weights);
    outputs.insert(outputs.begin(), n.sum);
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("linear layers behind a norm");
    const variable_list saved = context->get_saved_variables();
    const Normalised kept{saved[0], {}, saved[1], saved[2]};
    const Norm norm{saved[3], saved[4], context->saved_data["eps"].toDouble()};
    const Tensors weights(saved.begin() + 5, saved.end());
    const Tensors dy = with_zeros_for_none({gradients.begin() + 1, gradients.end()}, kept.sum, weights);
    const at::Tensor d_norm = kept_call(context)->backward_of(dy, normalise_again(kept, norm), weights, true);
    NormGradients all = norm_gradients(d_norm, gradients.front(), kept, norm);
    const bool added = context->saved_data["added"].toBool();
    variable_list result = {all.x, added ? all.x : at::Tensor(), std::move(all.weight), std::move(all.bias)};
    result.resize(kept_call(context)->parameters().size() + 6);  // none for eps, parameters and call
    return result;
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
    refuse_second_order("linear layer");
    variable_list inputs = context->get_saved_variables();
    const at::Tensor weight = inputs.back();
    inputs.pop_back();
    const KeptCall call = kept_call(context);
    const at::Tensor dy = call->by_tokens ? gathered(gradients.front(), 1, call->group, call->backward()) : gradients.front();
    variable_list d_inputs(inputs.size());
    at::Tensor x = inputs.front();
    if (call->activation || context->needs_input_grad(0)) d_inputs.front() = kMatrixLayer.input_gradient(dy, x, weight);
    if (call->activation) {
      Activation::Backward through = call->activation->backward(inputs, d_inputs.front(), call->is_used_up && runs_once());
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

/// Throws InputError unless all take rows of x.
void check_layers(const at::Tensor& x, const std::vector<LinearParameters>& layers) {
  if (layers.empty()) throw InputError("linear layers: there are none");
  const TensorChecks check("linear layer");
  check.floats("x", x, 1);
  for (const auto& [weight, bias] : layers) {
    check.that(gradients_have_places(*weight, bias), "gradient of the weight", weight->gradient, "there, as that of a bias is");
    check.floating("weight", weight->value, {TensorChecks::kAny, x.size(-1)}, x);
    if (bias) check.floating("bias", bias->value, {weight->value.size(0)}, x);
  }
}

}  // namespace

Tensors linear_by_columns(const at::Tensor& x, const std::vector<LinearParameters>& layers, const Context& context,
                          const std::string& what) {
  check_layers(x, layers);
  const auto call = c10::make_intrusive<SplitCall>(layers, context, what);
  return ByColumns::apply(x, at::TensorList(call->parameters()), call);
}

Tensors linear_by_columns(const NormedRows& rows, const std::vector<LinearParameters>& layers, const Context& context,
                          const std::string& what) {
  check_layers(rows.x, layers);
  const auto call = c10::make_intrusive<SplitCall>(layers, context, what);
  const auto optional = [](const at::Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; };
  return ByNormedColumns::apply(rows.x, optional(rows.added), rows.norm.weight, optional(rows.norm.bias), rows.norm.eps,
                                at::TensorList(call->parameters()), call);
}

at::Tensor linear_by_rows(const LayerInput& x, Parameter& weight, const Context& context, const std::string& what) {
  const std::vector<LinearParameters> layer = {{&weight, nullptr}};
  if (x.tensors.empty()) throw InputError("linear layer: it has no input");
  for (const at::Tensor& input : x.tensors) check_layers(input, layer);
  const auto call = c10::make_intrusive<SplitCall>(layer, context, what);
  call->activation = x.activation;
  call->is_used_up = x.is_used_up;
  return ByRows::apply(at::TensorList(x.tensors), weight.value, call);
}

}  // namespace weft
