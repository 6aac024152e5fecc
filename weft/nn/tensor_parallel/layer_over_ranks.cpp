#include "weft/nn/tensor_parallel/layer_over_ranks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/graph.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/overlapped.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Adds the sum of the pieces' gradients, each computed as if its piece were the whole.
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

/// Data for both directions, kept as long as the graph.
struct KeptCall : torch::CustomClassHolder {
  explicit KeptCall(LayerCall call) : call(std::move(call)) {}

  Tensors outputs(const at::Tensor& x, at::TensorList weights) const;
  Travelling begin_input_gradient(const Tensors& dy, const at::Tensor& x, const Tensors& weights) const;
  void add_gradients(const Tensors& dy, const at::Tensor& x) const;

  bool is_gathered() const { return call.entry == LayerEntry::gathered; }
  std::string backward_of(const std::string& what) const { return "gradient of " + what; }
  Reduction reduction(bool to_tokens, std::string what) const {
    return {call.group, to_tokens, call.group.size() == 1 ? 1 : call.chunks, std::move(what)};
  }

  LayerCall call;
  const Activation* activation = nullptr;  // activation of the inputs
  bool is_overwritable = false;            // LayerInput::overwritable()
  size_t num_inputs = 1;
  std::optional<double> eps = {};  // of the norm
  bool has_added = false, has_norm_bias = false;
};
using Kept = c10::intrusive_ptr<KeptCall>;

/// Sums the output of `product` over the ranks.
Travelling begin_sum_of(const at::Tensor& product, const Group& group, const std::string& what) {
  std::vector<Work> works;
  works.push_back(group.all_reduce(product, ReduceOp::sum, what));
  return {std::move(works), [product] { return product; }};
}

Tensors KeptCall::outputs(const at::Tensor& x, at::TensorList weights) const {
  const WeightedLayer& layer = call.mathematics;
  if (call.exit != LayerExit::own) {
    const bool to_tokens = call.exit == LayerExit::scattered;
    if (!layer.multiply) return {begin_sum_of(layer.forward(x, weights[0], {}), call.group, call.output).wait()};
    const MultiplyRows multiply_rows = [&](const Tensors& rows, const at::Tensor& out) {
      layer.multiply(out, rows.front(), weights[0], /*back=*/false, /*adds=*/false);
    };
    return {begin_sum({x}, weights[0].size(0), multiply_rows, reduction(to_tokens, call.output)).wait()};
  }
  const at::Tensor in = is_gathered() ? gathered(x, 1, call.group, call.input) : x;
  Tensors all;
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::optional<at::Tensor> bias = value_of(call.layers[i].bias);
    all.push_back(map_batch_pieces(call.batch_pieces, [&](int64_t piece) {
      return layer.forward(batch_piece(in, piece, call.batch_pieces), weights[i], bias);
    }));
  }
  return all;
}

/// Begins the gradient of x: summed over the layers, and over the ranks if they share x.
Travelling KeptCall::begin_input_gradient(const Tensors& dy, const at::Tensor& x, const Tensors& weights) const {
  const WeightedLayer& layer = call.mathematics;
  if (call.entry == LayerEntry::own) {
    const int64_t pieces = call.batch_pieces;
    const at::Tensor dx = map_batch_pieces(pieces, [&](int64_t piece) {
      return layer.input_gradient(batch_piece(dy.front(), piece, pieces), batch_piece(x, piece, pieces), weights.front());
    });
    return {{}, [dx] { return dx; }};
  }
  const std::string what = backward_of(call.input);
  if (!layer.multiply) return begin_sum_of(layer.input_gradient(dy.front(), x, weights.front()), call.group, what);
  const MultiplyRows multiply_rows = [&](const Tensors& rows, const at::Tensor& out) {
    for (size_t i = 0; i < rows.size(); ++i) layer.multiply(out, rows[i], weights[i], /*back=*/true, /*adds=*/i > 0);
  };
  return begin_sum(dy, weights.front().size(1), multiply_rows, reduction(is_gathered(), what));
}

void KeptCall::add_gradients(const Tensors& dy, const at::Tensor& x) const {
  for (size_t i = 0; i < call.layers.size(); ++i) {
    const auto& [weight, bias] = call.layers[i];
    call.batch_pieces == 1 ? call.mathematics.add_gradients(*weight, bias, dy[i], x)
                           : add_piece_gradients(call.mathematics, *weight, bias, dy[i], x, call.batch_pieces);
  }
}

/// Gradients of the layers' outputs, zeros for unused outputs. `x` is the input as it is kept.
Tensors with_zero_gradients(Tensors dy, const KeptCall& kept, const at::Tensor& x, const Tensors& weights) {
  for (size_t i = 0; i < dy.size(); ++i) {
    if (dy[i].defined()) continue;
    std::vector<int64_t> sizes = x.sizes().vec();
    if (kept.is_gathered()) sizes[1] *= kept.call.group.size();
    sizes.back() = weights[i].size(0);
    dy[i] = at::zeros(sizes, x.options());
  }
  return dy;
}

/// Takes the inputs (x and the added tensor, or an activation's), the norm's weight and bias, the layers' weights and their
/// biases.
struct LayerFunction : torch::autograd::Function<LayerFunction> {
  static variable_list forward(AutogradContext* context, at::TensorList tensors, const Kept& kept) {
    const at::TensorList inputs = tensors.slice(0, kept->num_inputs);
    size_t at = kept->num_inputs;
    variable_list saved, outputs;
    at::Tensor x;
    if (kept->eps) {
      const Norm norm{tensors[at], kept->has_norm_bias ? tensors[at + 1] : at::Tensor(), *kept->eps};
      at += kept->has_norm_bias ? 2 : 1;
      const Normalised n = normalise_sum(inputs[0], kept->has_added ? inputs[1] : at::Tensor(), norm);
      saved = {n.sum, n.mean, n.scale, norm.weight, norm.bias};
      outputs = {n.sum};
      x = n.y;
      context->set_materialize_grads(false);  // an unused stream has no gradient; zeros need not be added
    } else {
      saved = inputs.vec();
      x = kept->activation ? kept->activation->value(saved) : saved.front();
    }
    const at::TensorList weights = tensors.slice(at, kept->call.layers.size());
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["call"] = c10::IValue::make_capsule(kept);
    Tensors of_layers = kept->outputs(x, weights);
    std::move(of_layers.begin(), of_layers.end(), std::back_inserter(outputs));
    return outputs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto kept = c10::static_intrusive_pointer_cast<KeptCall>(context->saved_data["call"].toCapsule());
    refuse_second_order(kept->eps ? "linear layers behind a norm" : kept->call.mathematics.name);
    variable_list saved = context->get_saved_variables();
    const size_t num_layers = kept->call.layers.size();
    const Tensors weights(saved.end() - static_cast<int64_t>(num_layers), saved.end());
    saved.resize(saved.size() - num_layers);
    variable_list result =
        kept->eps ? through_norm(*kept, gradients, saved, weights)
                  : through_inputs(*kept, gradients, saved, weights, kept->activation || context->needs_input_grad(0));
    result.resize(result.size() + num_layers + num_biases(kept->call) + 1);  // undefined for parameters and call
    return result;
  }

  static size_t num_biases(const LayerCall& call) {
    size_t count = 0;
    for (const LinearParameters& layer : call.layers) count += layer.bias ? 1 : 0;
    return count;
  }

  static variable_list through_norm(KeptCall& kept, const variable_list& gradients, const variable_list& saved,
                                    const Tensors& weights) {
    const Normalised n{saved[0], {}, saved[1], saved[2]};
    const Norm norm{saved[3], saved[4], *kept.eps};
    const Tensors dy = with_zero_gradients({gradients.begin() + 1, gradients.end()}, kept, n.sum, weights);
    NormGradients all;
    if (kept.call.group.size() == 1 && !kept.is_gathered() && gives_norm_again(n.sum)) {
      // No sum over ranks needs the weight gradients beside it: they can wait for the launch that gives the output again.
      const at::Tensor d_norm = kept.begin_input_gradient(dy, n.sum, weights).wait();
      all = norm_gradients_and_output(d_norm, gradients.front(), n, norm);
      add_or_defer(kept, dy, all.y, {});
    } else {
      const at::Tensor d_norm = through_layers(kept, dy, {normalise_again(n, norm)}, weights, true).front();
      all = norm_gradients(d_norm, gradients.front(), n, norm);
    }
    variable_list result = {all.x};
    if (kept.has_added) result.push_back(all.x);
    result.push_back(std::move(all.weight));
    if (kept.has_norm_bias) result.push_back(std::move(all.bias));
    return result;
  }

  static variable_list through_inputs(KeptCall& kept, const variable_list& gradients, const variable_list& inputs,
                                      const Tensors& weights, bool wanted) {
    if (kept.call.exit != LayerExit::scattered) return through_layers(kept, gradients, inputs, weights, wanted);
    const at::Tensor dy = gathered(gradients.front(), 1, kept.call.group, kept.backward_of(kept.call.output));
    return through_layers(kept, {dy}, inputs, weights, wanted);
  }

  /// Adds to the gradients of the layers, now or later; `rows` brings the gathered x, if that has begun.
  static void add_or_defer(KeptCall& kept, const Tensors& dy, const at::Tensor& x, std::optional<Travelling> rows) {
    if (DeferredGradients* deferred = kept.call.layers.front().weight->deferred) {
      const auto own = Kept::reclaim_copy(&kept);
      deferred->add(
          [own, dy, x] { own->add_gradients(dy, own->is_gathered() ? gathered(x, 1, own->call.group, own->call.input) : x); });
    } else {
      kept.add_gradients(dy, rows ? rows->wait() : x);
    }
  }

  /// Adds to the gradients of the layers; returns the gradients of the inputs, the first only if it is wanted.
  static variable_list through_layers(KeptCall& kept, const Tensors& dy, const variable_list& inputs, const Tensors& weights,
                                      bool wanted) {
    const LayerCall& call = kept.call;
    variable_list d_inputs(inputs.size());
    at::Tensor x = inputs.front();
    std::optional<Travelling> rows, dx;
    if (kept.is_gathered() && !call.layers.front().weight->deferred) rows = begin_gather(x, 1, call.group, call.input);
    if (wanted) dx = kept.begin_input_gradient(dy, x, weights);
    if (kept.activation) {
      const bool overwrites = kept.is_overwritable && frees_graph();
      Activation::Backward through = kept.activation->backward(inputs, std::exchange(dx, {})->wait(), overwrites);
      d_inputs = std::move(through.gradients);
      x = std::move(through.value);
    }
    add_or_defer(kept, dy, x, std::move(rows));
    if (dx) d_inputs.front() = dx->wait();
    return d_inputs;
  }
};

/// `activated`: an activation makes the input; `normed`: a norm does.
void check_call(const LayerCall& call, bool activated, bool normed) {
  const char* name = call.mathematics.name;
  if (call.layers.empty()) throw InputError(fmt::format("{}: there are no layers", name));
  const bool is_alone = call.entry == LayerEntry::own && call.exit == LayerExit::own;
  const bool by_tokens = call.entry == LayerEntry::gathered || call.exit == LayerExit::scattered;
  const bool is_one = call.layers.size() == 1;
  // The gathered tensor is the input as kept, and a norm's gradient is local to the rank.
  if ((activated && call.entry != LayerEntry::own) ||
      (normed && (call.exit != LayerExit::own || call.entry == LayerEntry::own))) {
    throw InputError(fmt::format("{}: an activation needs entry own, a norm another entry and exit own", name));
  }
  if ((!is_one && (call.entry == LayerEntry::own || call.exit != LayerExit::own)) ||
      (!call.mathematics.multiply && (!is_one || by_tokens)) || (!is_alone && call.batch_pieces != 1)) {
    throw InputError(fmt::format("{}: this call cannot have several layers, division by tokens or batch pieces", name));
  }
  for (const auto& [weight, bias] : call.layers) {
    TensorChecks(name).that(gradients_have_places(*weight, bias), "gradient of the weight", weight->gradient,
                            "defined, and so must a bias's");
  }
  if (call.batch_pieces < 1 || !std::has_single_bit(static_cast<uint64_t>(call.batch_pieces))) {
    throw InputError(fmt::format("{}: {} pieces per micro-batch; must be a power of two", name, call.batch_pieces));
  }
}

void check_input(const LayerCall& call, const at::Tensor& x) {
  const TensorChecks check(call.mathematics.name);
  check.floats("x", x, 1);
  if (!call.mathematics.multiply) return;
  for (const auto& [weight, bias] : call.layers) {
    check.floating("weight", weight->value, {TensorChecks::kAny, x.size(-1)}, x);
    if (bias) check.floating("bias", bias->value, {weight->value.size(0)}, x);
  }
}

/// Appends the layers' weights, then their biases, so that the graph includes those that require gradients.
Tensors with_parameters(Tensors tensors, const LayerCall& call) {
  for (const LinearParameters& layer : call.layers) tensors.push_back(layer.weight->value);
  for (const LinearParameters& layer : call.layers) {
    if (layer.bias) tensors.push_back(layer.bias->value);
  }
  return tensors;
}

}  // namespace

Tensors apply(LayerCall call, const LayerInput& x) {
  if (x.tensors.empty()) throw InputError(fmt::format("{}: it has no input", call.mathematics.name));
  check_call(call, x.activation != nullptr, false);
  for (const at::Tensor& input : x.tensors) check_input(call, input);
  const Tensors tensors = with_parameters(x.tensors, call);
  const auto kept = c10::make_intrusive<KeptCall>(std::move(call));
  kept->activation = x.activation;
  kept->is_overwritable = x.is_overwritable;
  kept->num_inputs = x.tensors.size();
  return LayerFunction::apply(at::TensorList(tensors), kept);
}

at::Tensor apply(const WeightedLayer& layer, const LayerInput& x, Parameter& weight, Parameter* bias, int64_t batch_pieces) {
  return apply({.mathematics = layer, .layers = {{&weight, bias}}, .batch_pieces = batch_pieces}, x).front();
}

Tensors apply(LayerCall call, const NormedRows& rows) {
  check_call(call, false, true);
  check_input(call, rows.x);
  Tensors tensors = {rows.x};
  if (rows.added.defined()) tensors.push_back(rows.added);
  const auto kept = c10::make_intrusive<KeptCall>(std::move(call));
  kept->num_inputs = tensors.size();
  kept->has_added = rows.added.defined();
  kept->has_norm_bias = rows.norm.bias.defined();
  kept->eps = rows.norm.eps;
  tensors.push_back(rows.norm.weight);
  if (kept->has_norm_bias) tensors.push_back(rows.norm.bias);
  tensors = with_parameters(std::move(tensors), kept->call);
  return LayerFunction::apply(at::TensorList(tensors), kept);
}

}  // namespace weft
