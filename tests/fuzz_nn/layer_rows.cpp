// Layers with weights, whole and split over ranks, and their products.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

#include "tests/fuzz_nn/row.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/matrix_layer.h"
#include "weft/nn/functional/weighted_layer.h"
#include "weft/nn/images/convolution.h"
#include "weft/nn/images/window_product.h"
#include "weft/nn/layers/embedding.h"
#include "weft/nn/layers/layers.h"
#include "weft/nn/layers/linear.h"
#include "weft/nn/layers/normed_linear.h"
#include "weft/nn/tensor_parallel/layer_over_ranks.h"
#include "weft/nn/tensor_parallel/reproducible_parts.h"
#include "weft/nn/tensor_parallel/whole_value.h"

namespace weft::fuzz_nn {

namespace {

/// The first of two ranks; the other has the same values and sends zeros.
Context of_two() {
  Context context;
  context.tp = recorded_group("tp", 2, std::make_shared<RecordedCalls>());
  return context;
}

Split split_of(int64_t dim, int64_t whole, int pieces = 0) {
  return {.dim = dim, .segments = {whole}, .parts = 2, .part = 0, .pieces = pieces, .layer = "l"};
}

Parameter& split_weight(const at::Tensor& value, Case& c, int64_t dim, int64_t whole, int pieces = 0) {
  Parameter& weight = c.hold(value, pieces > 0);
  weight.split = split_of(dim, whole, pieces);
  return weight;
}

Parameter* bias_of(const at::Tensor& value, Case& c, bool always_bound = false) {
  return value.defined() ? &c.hold(value, always_bound) : nullptr;
}

/// Layers by columns in a group of one.
LayerCall columns_call(std::vector<LinearParameters> layers) {
  return {.mathematics = kMatrixLayer, .layers = std::move(layers), .entry = LayerEntry::copied};
}

at::Tensor linear_formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {}) {
  expect(x.dim() >= 1 && weight.dim() == 2 && x.size(-1) == weight.size(1));
  expect(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
  const at::Tensor y = at::matmul(x, weight.t());
  return bias.defined() ? y + bias : y;
}

at::Tensor convolution_formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, int64_t stride) {
  expect(x.dim() == 4 && weight.dim() == 4 && weight.size(2) == weight.size(3));
  return at::conv2d(x, weight, bias, stride, weight.size(2) / 2);
}

/// norm(x + added) and two layers after it; the stream first.
Tensors normed_formula(const Tensors& a) {
  expect(a[2].defined() && (!a[1].defined() || a[1].sizes() == a[0].sizes()));
  const at::Tensor stream = a[1].defined() ? a[0] + a[1] : a[0];
  const at::Tensor y = a[3].defined() ? at::layer_norm(stream, {stream.size(-1)}, a[2], a[3], 1e-3)
                                      : stream * (stream.square().mean(-1, true) + 1e-3).rsqrt() * a[2];
  expect(a[2].dim() == 1 && a[2].size(0) == stream.size(-1));
  return {stream, linear_formula(y, a[4], a[5])};
}

std::vector<Row> linear_rows() {
  const Call formula = [](auto& a) { return linear_formula(a[0], a[1], a[2]); };
  const Call two = [](auto& a) { return list(linear_formula(a[0], a[1]), linear_formula(a[0], a[2])); };
  return {
      {"linear", "fdb~ btw nw n?", [](auto& a, Case& c) { return linear(a[0], c.hold(a[1]), bias_of(a[2], c)); }, formula},
      {"linear", "fdb~ btw nw n?",
       [](auto& a, Case& c) {
         Context context;
         context.layout.batch_pieces = static_cast<int>(c.number(1, 1));
         return linear(a[0], c.hold(a[1]), bias_of(a[2], c), context);
       },
       formula},
      {"linear", "fd~ btw btw nw",
       [](auto& a, Case& c) {
         return linear(LayerInput({a[0], a[1]}, kSwiglu), c.hold(a[2]), nullptr, {});
       },
       [](auto& a) {
         expect(a[0].sizes() == a[1].sizes());
         return linear_formula(at::silu(a[0]) * a[1], a[2]);
       }},
      {"linear", "fdb~ btw nw n?",
       [](auto& a, Case& c) { return linear(a[0], split_weight(a[1], c, 0, 2 * c.size('n')), bias_of(a[2], c), of_two()); },
       formula},
      {"linear", "fd~ btw nw n?",
       [](auto& a, Case& c) { return linear(a[0], split_weight(a[1], c, 1, 2 * c.size('w') - 1), bias_of(a[2], c), of_two()); },
       formula},
      {"linear_together", "fd~ btw nw cw",
       [](auto& a, Case& c) {
         return linear_together(a[0], {&c.hold(a[1]), &c.hold(a[2])}, {});
       },
       two},
      {"linear_together", "fd~ btw nw cw",
       [](auto& a, Case& c) {
         return linear_together(a[0], {&split_weight(a[1], c, 0, 2 * c.size('n')), &split_weight(a[2], c, 0, 2 * c.size('c'))},
                                of_two());
       },
       two},
      {"apply", "fd~ btw nw n?",
       [](auto& a, Case& c) {
         return apply(columns_call({{&c.hold(a[1], true), bias_of(a[2], c, true)}}), LayerInput(a[0]));
       },
       formula},
      {"apply", "fd~ btw btw? w w? nw n?",
       [](auto& a, Case& c) {
         return apply(columns_call({{&c.hold(a[4], true), bias_of(a[5], c, true)}}),
                      NormedRows{a[0], a[1], {a[2], a[3], 1e-3}});
       },
       [](auto& a) { return normed_formula(a); }},
      {"normed_linear", "fd~ btw btw? w w? nw n?",
       [](auto& a, Case& c) {
         Parameter& scale = c.hold(a[2]);
         scale.gradient.reset();
         Parameter* shift = bias_of(a[3], c);
         if (shift) shift->gradient.reset();
         const Branch branch = normed_linear(a[0], a[1], {&scale, shift, 1e-3}, {{&c.hold(a[4]), bias_of(a[5], c)}}, {});
         return list(branch.stream, branch.outputs.at(0));
       },
       [](auto& a) { return normed_formula(a); }},
      {"by_columns", "fd~ btw nw n?",
       [](auto& a, Case& c) {
         return apply(by_columns({{&c.hold(a[1], true), bias_of(a[2], c, true)}}, {}), LayerInput(a[0]));
       },
       formula},
      {"apply", "fd~ btw nw",
       [](auto& a, Case& c) {
         return apply({.mathematics = kMatrixLayer, .layers = {{&c.hold(a[1], true), nullptr}}, .exit = LayerExit::summed},
                      LayerInput(a[0]));
       },
       [](auto& a) { return linear_formula(a[0], a[1]); }},
      {"apply", "fdb~ btw nw n?",
       [](auto& a, Case& c) { return apply(kMatrixLayer, a[0], c.hold(a[1], true), bias_of(a[2], c, true), c.number(1, 1)); },
       formula},
      {"kMatrixLayer", "btw nw n?",
       [](auto& a) { return kMatrixLayer.forward(a[0], a[1], a[2].defined() ? std::optional(a[2]) : std::nullopt); }, formula},
      {"columns_of_pieces", "fd~ btw 2nw 2n?",
       [](auto& a, Case& c) {
         Context context = of_two();
         context.training = false;
         return columns_of_pieces(a[0], split_weight(a[1], c, 0, 4 * c.size('n'), 2), bias_of(a[2], c, true), context);
       },
       [](auto& a) {
         expect(a[1].dim() == 3 && a[0].dim() >= 2 && (!a[2].defined() || a[2].dim() == 2));
         Tensors all;
         for (int64_t i = 0; i < 2; ++i) all.push_back(linear_formula(a[0], a[1][i], a[2].defined() ? a[2][i] : a[2]));
         return at::cat(all);
       }},
      {"rows_of_pieces", "fd: dtw 2nw n?",
       [](auto& a, Case& c) {
         Context context = of_two();
         context.training = false;
         return rows_of_pieces(a[0], split_weight(a[1], c, 1, 4 * c.size('w'), 2), bias_of(a[2], c, true), context);
       },
       [](auto& a) {
         expect(a[1].dim() == 3 && a[0].dim() >= 2 && a[0].size(0) % 2 == 0);
         const Tensors halves = a[0].chunk(2);
         return linear_formula(halves[0], a[1][0], a[2]) + linear_formula(halves[1], a[1][1]);
       }},
  };
}

std::vector<Row> other_rows() {
  const Call looked_up = [](auto& a) { return at::embedding(a[0], a[1]); };
  const Call convolved = [](auto& a, Case& c) { return convolution_formula(a[0], a[1], a[2], c.number(1, 2)); };
  return {
      {"embedding", "cw bt#c", [](auto& a, Case& c) { return embedding(a[1], c.hold(a[0]), {}); }, looked_up},
      {"embedding", "cw bt#c",
       [](auto& a, Case& c) { return embedding(a[1], split_weight(a[0], c, 0, 2 * c.size('c')), of_two()); }, looked_up},
      {"embedding_of_pieces", "2cw bt#c",
       [](auto& a, Case& c) { return embedding_of_pieces(a[1], split_weight(a[0], c, 0, 4 * c.size('c'), 2), of_two()); },
       [](auto& a) { return at::embedding(a[0][0], a[1]); }},
      {"Embedding", "fdb~ cw bt#c",
       [](auto& a) {
         Embedding layer(1, 1, 1.0);
         layer.weight.value = a[0];
         return layer(a[1]);
       },
       looked_up},
      {"GroupNorm", "fd~ bcss c c",
       [](auto& a) {
         GroupNorm layer(1, 1);
         layer.weight.value = a[1];
         layer.bias.value = a[2];
         return layer(a[0]);
       },
       [](auto& a) { return at::group_norm(a[0].contiguous(), 1, a[1], a[2], 1e-5, false); }},
      {"convolution", "fd~ bcss ncKK n?",
       [](auto& a, Case& c) { return convolution(a[0], c.hold(a[1]), bias_of(a[2], c), c.number(1, 2)); }, convolved},
      {"convolution", "fd~ bcss ncKK n?",
       [](auto& a, Case& c) { return convolution(a[0], c.hold(a[1]), bias_of(a[2], c), Context{}, c.number(1, 2)); },
       convolved},
      {"convolution", "fd~ bcss ncKK n?",
       [](auto& a, Case& c) {
         return convolution(a[0], split_weight(a[1], c, 0, 2 * c.size('n')), bias_of(a[2], c), of_two(), c.number(1, 2));
       },
       convolved},
      {"split_convolution", "bcss ncKK n?",
       [](auto& a, Case& c) {
         Parameter& weight = split_weight(a[1], c, 1, 2 * c.size('c'));
         return split_convolution(a[0], weight, bias_of(a[2], c), of_two(), [&](const at::Tensor& x, Parameter* bias) {
           return convolution(x, weight, bias, c.number(1, 2));
         });
       },
       [](auto& a, Case& c) {
         const bool is_whole = a[0].size(1) == 2 * c.size('c') && a[1].size(1) == c.size('c');  // selects its part
         return convolution_formula(is_whole ? a[0].narrow(1, 0, c.size('c')) : a[0], a[1], a[2], c.number(1, 2));
       }},
      {"suits_windows", "bcss ncKK", [](auto& a, Case& c) { suits_windows(a[0], a[1], c.number(1, 2)); }},
      {"window_product", "f: bcss ncKK n?",
       [](auto& a, Case& c) {
         return window_product(a[0], a[1], a[2].defined() ? std::optional(a[2]) : std::nullopt, c.number(1, 2));
       },
       convolved},
      {"window_input_gradient", "f: bnss bcss ncOO", [](auto& a) { return window_input_gradient(a[0], a[1], a[2], 1); },
       [](auto& a) {
         const at::AutoGradMode with_graph(true);
         const at::Tensor x = a[1].detach().requires_grad_(), y = convolution_formula(x, a[2], {}, 1);
         expect(y.sizes() == a[0].sizes());
         (y * a[0]).sum().backward();
         return x.grad();
       }},
      {"add_window_gradients", "f: bnss bcss ncOO n?",
       [](auto& a, Case& c) {
         Parameter& weight = c.hold(a[2].detach(), true);
         add_window_gradients(weight, bias_of(a[3].defined() ? a[3].detach() : a[3], c, true), a[0], a[1], 1);
         return weight.gradient;
       },
       [](auto& a) {
         const at::AutoGradMode with_graph(true);
         const at::Tensor weight = a[2].detach().requires_grad_(), y = convolution_formula(a[1], weight, {}, 1);
         expect(y.sizes() == a[0].sizes());
         (y * a[0]).sum().backward();
         return weight.grad();
       }},
      {"as_rows", "fdb~ btw", [](auto& a) { return as_rows(a[0]); },
       [](auto& a) {
         return a[0].numel() > 0 ? a[0].reshape({-1, a[0].size(-1)}) : as_rows(a[0]);
       }},
      {"uses_onednn", "rw wn", [](auto& a) { uses_onednn(a[0], a[1]); }},
      {"multiply", "rn rw wn", [](auto& a) { return multiply(a[0], a[1], a[2]), a[0]; },
       [](auto& a) { return at::mm(a[1], a[2]); }},
      {"multiply_add", "rn rw wn", [](auto& a) { return multiply_add(a[0], a[1], a[2]), a[0]; },
       [](auto& a) { return a[0] + at::mm(a[1], a[2]); }},
      {"multiply_with_bias", "btw nw n", [](auto& a) { return multiply_with_bias(a[0], a[1], a[2]); },
       [](auto& a) { return linear_formula(a[0], a[1], a[2]); }},
      {"gradients_have_places", "nw nw",
       [](auto& a) {
         gradients_have_places({a[0], a[1]}, nullptr);
       }},
      {"whole_value", "nw", [](auto& a, Case& c) { return whole_value(c.hold(a[0]), {}); }, [](auto& a) { return a; }},
  };
}

}  // namespace

std::vector<Row> layer_rows() {
  std::vector<Row> all = linear_rows();
  for (const Row& row : other_rows()) all.push_back(row);
  return all;
}

}  // namespace weft::fuzz_nn
