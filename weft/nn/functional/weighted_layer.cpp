#include "weft/nn/functional/weighted_layer.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <bit>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

/// What both directions need, kept as long as the graph.
struct WeightedCall : torch::CustomClassHolder {
  WeightedCall(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t pieces)
      : layer(layer), activation(x.activation), is_used_up(x.is_used_up), weight(weight), bias(bias), pieces(pieces) {}
  void add_gradients(const at::Tensor& dy, const at::Tensor& x) const {
    pieces == 1 ? layer.add_gradients(weight, bias, dy, x) : add_piece_gradients(layer, weight, bias, dy, x, pieces);
  }
  const WeightedLayer& layer;
  const Activation* activation;
  bool is_used_up;
  Parameter& weight;  // the block outlives its graph
  Parameter* bias;
  int64_t pieces;
};

struct WeightedFunction : torch::autograd::Function<WeightedFunction> {
  static at::Tensor forward(AutogradContext* context, at::TensorList inputs, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const c10::intrusive_ptr<WeightedCall>& call) {
    variable_list saved = inputs.vec();
    const at::Tensor x = call->activation ? call->activation->value(saved) : saved.front();
    saved.push_back(weight);
    context->save_for_backward(std::move(saved));
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return of_batch_pieces(
        call->pieces, [&](int64_t piece) { return call->layer.forward(batch_piece(x, piece, call->pieces), weight, bias); });
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("layer");
    variable_list inputs = context->get_saved_variables();
    const at::Tensor weight = inputs.back(), dy = gradients.front();
    inputs.pop_back();
    const auto call = c10::static_intrusive_pointer_cast<WeightedCall>(context->saved_data["call"].toCapsule());
    variable_list d_inputs(inputs.size());
    at::Tensor x = inputs.front();
    if (call->activation || context->needs_input_grad(0)) {
      const int64_t pieces = call->pieces;
      d_inputs.front() = of_batch_pieces(pieces, [&](int64_t piece) {
        return call->layer.input_gradient(batch_piece(dy, piece, pieces), batch_piece(x, piece, pieces), weight);
      });
    }
    if (call->activation) {
      Activation::Backward through = call->activation->backward(inputs, d_inputs.front(), call->is_used_up && runs_once());
      d_inputs = std::move(through.gradients);
      x = std::move(through.value);
    }
    DeferredGradients* deferred = call->weight.deferred;
    deferred ? deferred->add([call, dy, x] { call->add_gradients(dy, x); }) : call->add_gradients(dy, x);
    d_inputs.resize(inputs.size() + 3);  // none for weight, bias and call
    return d_inputs;
  }
};

}  // namespace

bool gradients_have_places(const Parameter& weight, const Parameter* bias) {
  const auto has_place = [](const char* name, const Parameter& x) {
    if (x.gradient.defined()) TensorChecks("layer").place(name, x.gradient, x.value.sizes(), x.value);
    return x.gradient.defined();
  };
  return has_place("gradient of the weight", weight) && (!bias || has_place("gradient of the bias", *bias));
}

std::optional<at::Tensor> value_of(const Parameter* bias) { return bias ? std::optional(bias->value) : std::nullopt; }

at::Tensor apply(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t pieces) {
  const TensorChecks check("layer");
  check.that(gradients_have_places(weight, bias), "gradient of the weight", weight.gradient, "there, as that of a bias is");
  if (x.tensors.empty()) throw InputError("layer: it has no input");
  if (pieces < 1 || !std::has_single_bit(static_cast<uint64_t>(pieces)))
    throw InputError(fmt::format("layer: a micro-batch in {} pieces; their number is a power of two", pieces));
  for (const at::Tensor& input : x.tensors) check.floats("x", input, 1);
  return WeightedFunction::apply(at::TensorList(x.tensors), weight.value, value_of(bias),
                                 c10::make_intrusive<WeightedCall>(layer, x, weight, bias, pieces));
}

}  // namespace weft
