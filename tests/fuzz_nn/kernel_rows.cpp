// Element-wise and row-wise functions, and losses.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "tests/fuzz_nn/row.h"
#include "weft/base/error.h"
#include "weft/nn/functional/activation.h"
#include "weft/nn/functional/column_sums.h"
#include "weft/nn/functional/gelu.h"
#include "weft/nn/functional/norms.h"
#include "weft/nn/functional/rotary.h"
#include "weft/nn/functional/swiglu.h"
#include "weft/nn/graph.h"
#include "weft/nn/images/batch_norm.h"
#include "weft/nn/images/batch_statistics.h"
#include "weft/nn/images/channel_passes.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/images/pixel_norm.h"
#include "weft/nn/kernels/gelu_kernels.h"
#include "weft/nn/kernels/in_parts.h"
#include "weft/nn/kernels/tensors.h"
#include "weft/nn/loss/class_loss.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/nn/loss/mean_squares.h"
#include "weft/nn/loss/split_cross_entropy.h"
#include "weft/nn/loss/weighted_cross_entropy.h"
#include "weft/nn/model.h"
#include "weft/nn/operators_path.h"
#include "weft/nn/random.h"

namespace weft::fuzz_nn {

namespace {

constexpr double kEps = 1e-3;

at::Tensor norm_formula(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (bias.defined()) return at::layer_norm(x, {x.size(-1)}, weight, bias, kEps);
  expect(weight.dim() == 1 && weight.size(0) == x.size(-1));
  return x.mul(x.square().mean(-1, true).add(kEps).rsqrt()).mul(weight);
}

/// Statistics of x's rows, as from normalise_sum().
Normalised kept_of(const at::Tensor& x, bool centres) {
  const at::Tensor wide = x.scalar_type() == at::kDouble ? x : x.to(at::kFloat), mean = wide.mean(-1, true);
  const at::Tensor of = centres ? wide.sub(mean) : wide;
  return {x, {}, centres ? mean : at::Tensor(), of.square().mean(-1, true).add(kEps).rsqrt()};
}

Tensors norm_gradients_formula(const Tensors& a) {
  const at::AutoGradMode with_graph(true);
  const bool centres = a[4].defined();
  Tensors leaves = {a[2].detach().requires_grad_(), a[3].detach().requires_grad_()};
  if (centres) leaves.push_back(a[4].detach().requires_grad_());
  const at::Tensor y = norm_formula(leaves[0], leaves[1], centres ? leaves[2] : at::Tensor());
  expect(y.sizes() == a[0].sizes() && (!a[1].defined() || a[1].sizes() == y.sizes()));
  y.mul(a[0]).sum().backward();
  Tensors all;
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad().clone());
  if (a[1].defined()) all[0].add_(a[1]);
  return all;
}

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = x.size(-1) / 2;
  expect(x.size(-1) % 2 == 0);
  const at::Tensor low = x.narrow(-1, 0, half), high = x.narrow(-1, half, half);
  return at::cat({low * cos - high * sin, high * cos + low * sin}, -1);
}

BatchNormState state_of(const Tensors& a) { return {a[1], a[2], a[3], a[4], 0.1, kEps}; }

Context context_of(Case& c) {
  Context context;
  context.training = c.flag(1);
  if (c.flag(2)) context.layout.batch_pieces = static_cast<int>(c.number(3, 1));
  return context;
}

Tensors batch_norm_formula(const Tensors& a, Case& c, bool training) {
  static_cast<void>(context_of(c));
  expect(a[0].dim() >= 2 && a[1].defined() && a[2].defined());
  for (int i = 1; i <= 4; ++i) expect(a[i].dim() == 1 && a[i].size(0) == a[0].size(1));
  const at::Tensor y = at::batch_norm(a[0], a[1], a[2], a[3], a[4], training, 0.1, kEps, false);
  return {y, a[3], a[4]};
}

/// Sums over the pixels of [n, channels, h, w].
at::Tensor over_pixels(const at::Tensor& x) { return x.sum(at::IntArrayRef{0, 2, 3}).to(at::kDouble); }
at::Tensor beside_pixels(const at::Tensor& x) { return x.view({1, -1, 1, 1}); }

at::Tensor dropout_formula(const at::Tensor& x, double p, int64_t first) {
  const at::Tensor kept = dropout(at::ones_like(x).to(at::kFloat), p, {1, 2}, first);
  return x.mul(kept);
}

std::vector<Row> element_rows() {
  return {
      {"gelu", "fdb~ rw", [](auto& a) { return weft::gelu(a[0]); }, [](auto& a) { return at::gelu(a[0], "tanh"); }},
      {"run_in_parts", "rw",
       [](auto& a) {
         const at::Tensor y = gelu_value(a[0]);  // refuses tensors that kernels never get
         if (!fits_kernels({a[0]})) return y;
         y.zero_();
         run_in_parts<GeluRows>(gelu_rows, a[0], {.x = elements_of(a[0]), .y = elements_in(y)}, {&GeluRows::x}, {&GeluRows::y});
         return y;
       },
       [](auto& a) { return at::gelu(a[0], "tanh"); }},
      {"gelu_value", "rw", [](auto& a) { return gelu_value(a[0]); }, [](auto& a) { return at::gelu(a[0], "tanh"); }},
      {"gelu_gradient", "rw rw rw", [](auto& a) { return gelu_gradient(a[0], a[1], a[2]), a[0]; },
       [](auto& a) { return at::gelu_backward(a[1], a[2], "tanh"); }},
      {"gelu_gradient_and_value", "rw rw rw rw",
       [](auto& a) { return gelu_gradient_and_value(a[0], a[1], a[2], a[3]), list(a[0], a[1]); },
       [](auto& a) { return list(at::gelu_backward(a[2], a[3], "tanh"), at::gelu(a[3], "tanh")); }},
      {"swiglu", "fdb~ rw rw", [](auto& a) { return swiglu(a[0], a[1]); }, [](auto& a) { return at::silu(a[0]) * a[1]; }},
      {"swiglu_value", "rw rw", [](auto& a) { return swiglu_value(a[0], a[1]); },
       [](auto& a) { return at::silu(a[0]) * a[1]; }},
      {"swiglu_gradients", "rw rw rw? rw rw rw",
       [](auto& a) {
         swiglu_gradients({a[0], a[1], a[2]}, a[3], a[4], a[5]);
         return list(a[0], a[1], a[2]);
       },
       [](auto& a) {
         return list(at::silu_backward(a[3] * a[5], a[4]), at::silu(a[4]) * a[3],
                     a[2].defined() ? at::silu(a[4]) * a[5] : a[2]);
       }},
      {"dropout", "fdb~ rw",
       [](auto& a, Case& c) {
         return dropout(a[0], 0.4, {1, 2}, c.number(1, 5));
       },
       [](auto& a, Case& c) { return dropout_formula(a[0], 0.4, c.number(1, 5)); }},
      {"dropout", "fdb~ rw",
       [](auto& a, Case& c) {
         const int64_t all = c.size('r') * c.size('w');
         return dropout(a[0], 0.4, {1, 2}, {{3, all / 2}, {3 + all / 2, c.number(1, all - all / 2)}});
       },
       [](auto& a) { return dropout_formula(a[0], 0.4, 3); }},
      {"fill_normal", "rw",
       [](auto& a, Case& c) {
         fill_normal(a[0], {1, 2}, c.number(1, 5), 0, 1);
       }},
      {"fill_uniform", "rw",
       [](auto& a, Case& c) {
         fill_uniform(a[0], {1, 2}, c.number(1, 5), 0, 1);
       }},
      {"column_sums", "rw", [](auto& a) { return column_sums(a[0], a[0].scalar_type()); },
       [](auto& a) { return expect(a[0].dim() == 2), a[0].sum(0); }},
      {"fits_kernels", "rw rw",
       [](auto& a) {
         fits_kernels({a[0], a[1]});
       }},
      {"fit_device_kernels", "rw rw",
       [](auto& a) {
         fit_device_kernels({a[0], a[1]});
       }},
      {"element_of", "rw", [](auto& a) { element_of(a[0]); }},
      {"elements_of", "rw",
       [](auto& a) {
         if (fits_kernels({a[0]})) elements_of(a[0]);
       }},
      {"elements_in", "rw",
       [](auto& a) {
         if (fits_kernels({a[0]})) elements_in(a[0]);
       }},
  };
}

std::vector<Row> norm_rows() {
  return {
      {"normalise", "fdb~ btw w w?",
       [](auto& a) {
         return normalise(a[0], {a[1], a[2], kEps});
       },
       [](auto& a) { return norm_formula(a[0], a[1], a[2]); }},
      {"normalise_sum", "btw btw? w w?",
       [](auto& a) {
         const Normalised n = normalise_sum(a[0], a[1], {a[2], a[3], kEps});
         return list(n.sum, n.y);
       },
       [](auto& a) {
         expect(!a[1].defined() || a[1].sizes() == a[0].sizes());
         const at::Tensor sum = a[1].defined() ? a[0] + a[1] : a[0];
         return list(sum, norm_formula(sum, a[2], a[3]));
       }},
      {"normalise_again", "fd: btw w w?",
       [](auto& a) {
         return normalise_again(kept_of(a[0], a[2].defined()), {a[1], a[2], kEps});
       },
       [](auto& a) { return norm_formula(a[0], a[1], a[2]); }},
      {"normalise_again", "btw w w bt1 bt1",
       [](auto& a) {
         return normalise_again({a[0], {}, a[3], a[4]}, {a[1], a[2], kEps});
       }},
      {"norm_gradients", "fd: btw btw? btw w w?",
       [](auto& a) {
         NormGradients g = norm_gradients(a[0], a[1], kept_of(a[2], a[4].defined()), {a[3], a[4], kEps});
         return a[4].defined() ? list(g.x, g.weight, g.bias) : list(g.x, g.weight);
       },
       [](auto& a) { return norm_gradients_formula(a); }},
      {"norm_gradients_and_output", "fd: btw btw? btw w w?",
       [](auto& a) {
         NormGradients g = norm_gradients_and_output(a[0], a[1], kept_of(a[2], a[4].defined()), {a[3], a[4], kEps});
         return a[4].defined() ? list(g.x, g.weight, g.bias, g.y) : list(g.x, g.weight, g.y);
       },
       [](auto& a) {
         Tensors all = norm_gradients_formula(a);
         all.push_back(norm_formula(a[2], a[3], a[4]));
         return all;
       }},
      {"rotation_at", "f: t#9",
       [](auto& a, Case& c) {
         const Rotation r = rotation_at(a[0], c.number(1, 8), 100.0, at::kFloat);
         return list(r.cos, r.sin);
       },
       [](auto& a, Case& c) {
         const int64_t width = c.number(1, 8);
         expect(a[0].dim() == 1 && width % 2 == 0);
         const at::Tensor angles =
             a[0].to(at::kDouble).unsqueeze(1) * at::pow(100.0, at::arange(0, width, 2, at::kDouble) / -width);
         return list(angles.cos(), angles.sin());
       }},
      {"rotation_of_samples", "tf tf bw#t",
       [](auto& a) {
         const Rotation r = rotation_of_samples({a[0], a[1]}, a[2]);
         return list(r.cos, r.sin);
       },
       [](auto& a) { return list(at::embedding(a[0], a[2]).unsqueeze(1), at::embedding(a[1], a[2]).unsqueeze(1)); }},
      {"rotate", "bkte tf= tf=",
       [](auto& a) {
         return rotate(a[0], {a[1].to(a[0].scalar_type()), a[2].to(a[0].scalar_type())});
       },
       [](auto& a) { return rotated(a[0], a[1], a[2]); }},
      {"rotate", "fdb~ bkte b1tf b1tf",
       [](auto& a) {
         return rotate(a[0], {a[1].detach(), a[2].detach()});
       },
       [](auto& a) { return rotated(a[0], a[1].detach(), a[2].detach()); }},
      {"rotate", "fdb~ te tf tf",
       [](auto& a) {
         return rotate(a[0], {a[1].detach(), a[2].detach()});
       },
       [](auto& a) { return rotated(a[0], a[1].detach(), a[2].detach()); }},
      {"without_gaps", "bte", [](auto& a) { return without_gaps({a[0]}); }, [](auto& a) { return list(a[0]); }},
  };
}

std::vector<Row> batch_norm_rows() {
  const Call batch = [](auto& a, Case& c) { return list(batch_norm(a[0], state_of(a), context_of(c)), a[3], a[4]); };
  const Call formula = [](auto& a, Case& c) { return batch_norm_formula(a, c, c.flag(1)); };
  const Call relu = [](auto& a, Case& c) { return list(batch_norm_relu(a[0], state_of(a), context_of(c), a[5]), a[3], a[4]); };
  const Call relu_formula = [](auto& a, Case& c) {
    Tensors all = batch_norm_formula(a, c, c.flag(1));
    expect(!a[5].defined() || a[5].sizes() == a[0].sizes());
    if (a[5].defined()) all[0] = all[0] + a[5];
    all[0] = all[0].relu();
    return all;
  };
  return {
      {"batch_norm", "fd~ bcSS c c c! c+!", batch, formula},
      {"batch_norm", "fb~ bcSSL c c c=! c+=!", batch, formula},
      {"batch_norm_relu", "fd~ bcSS c c c! c+! bcSS?", relu, relu_formula},
      {"batch_norm_relu", "fb: bcSSL c c c=! c+=! bcSSL?", relu, relu_formula},
      {"pixel_norm", "fb~ bCSSM C C C=! C+=!", [](auto& a) { return list(pixel_norm(a[0], state_of(a), {}, {}), a[3], a[4]); },
       [](auto& a, Case& c) { return batch_norm_formula(a, c, true); }},
      {"supports_pixel_norm", "bcSSM c c c=! c+=!", [](auto& a) { supports_pixel_norm(a[0], state_of(a)); }},
      {"check_state", "bcss c c c! c+!", [](auto& a) { check_state(a[0], state_of(a), true); }},
      {"batch_statistics", "TD c c c! c+!", [](auto& a) { batch_statistics(a[0], 2, state_of(a), {}); }},
      {"slope_and_offset", "DD c c+D",
       [](auto& a) {
         const auto [slope, offset] = slope_and_offset(a[0], a[1], a[2], at::full({}, 3.0, at::kDouble));
         return list(slope, offset);
       },
       [](auto& a) {
         const int64_t n = a[1].size(0);
         const at::Tensor scale = a[1] / a[2] / -3.0;
         expect(a[0].dim() == 1 && a[0].size(0) == 2 * n && a[2].sizes() == a[1].sizes());
         return list(a[0].narrow(0, n, n) * scale / a[2], a[0].narrow(0, 0, n) * scale);
       }},
      {"channel_sums", "fb: bcssM", [](auto& a) { return channel_sums(a[0]); },
       [](auto& a) {
         return at::cat({over_pixels(a[0]), over_pixels(a[0].square())});
       }},
      {"scale_channels", "fb: bcssM c=M c=M bcssM?",
       [](auto& a, Case& c) { return scale_channels(a[0], a[1], a[2], a[3], c.flag(1)); },
       [](auto& a, Case& c) {
         at::Tensor y = a[0] * beside_pixels(a[1]) + beside_pixels(a[2]);
         if (a[3].defined()) y = y + a[3];
         return c.flag(1) ? y.relu() : y;
       }},
      {"gradient_sums", "fb: bcssM bcssM? bcssM c=M bcssM?",
       [](auto& a) {
         return gradient_sums({a[0], a[1], a[2], a[3]}, a[4]);
       },
       [](auto& a) {
         const at::Tensor g = a[1].defined() ? a[0] * a[1].gt(0) : a[0];
         return at::cat({over_pixels(g), over_pixels(g * (a[2] - beside_pixels(a[3])))});
       }},
      {"gradient_of_x", "fb: bcssM bcssM bcssM c=M c=M c=M c=M",
       [](auto& a) {
         return gradient_of_x(a[0], {a[1], {}, a[2], a[3]}, a[4], a[5], a[6]), a[0];
       },
       [](auto& a) {
         return a[1] * beside_pixels(a[4]) + (a[2] - beside_pixels(a[3])) * beside_pixels(a[5]) + beside_pixels(a[6]);
       }},
      {"is_better_channels_last", "bcss", [](auto& a) { is_better_channels_last(a[0]); }},
      {"is_channels_last", "bcss", [](auto& a) { is_channels_last(a[0]); }},
      {"channels_last", "bcss", [](auto& a) { return channels_last(a[0]); }, [](auto& a) { return a; }},
  };
}

std::vector<double> class_weights(int64_t classes) {
  std::vector<double> weights;
  for (int64_t i = 0; i < classes; ++i) weights.push_back(0.5 * static_cast<double>(i % 4));
  return weights;
}

Tensors loss_formula(const at::Tensor& logits, const at::Tensor& target, double smoothing = 0.0,
                     const std::vector<double>& weights = {}) {
  const int64_t classes = logits.size(-1);
  expect(target.sizes() == (target.is_floating_point() ? logits.sizes() : logits.sizes().slice(0, logits.dim() - 1)));
  const at::Tensor flat = target.is_floating_point() ? target.reshape({-1, classes}) : target.reshape({-1});
  const at::Tensor by_class = weights.empty() ? at::Tensor() : at::tensor(weights, logits.options().requires_grad(false));
  return {at::cross_entropy_loss(logits.reshape({-1, classes}), flat, by_class, at::Reduction::Sum, -100, smoothing)};
}

/// Whether ids are classes of the logits, or ignored.
bool are_classes(const at::Tensor& ids, const at::Tensor& logits) {
  if (!ids.defined() || !ids.is_cpu() || ids.scalar_type() != at::kLong || !logits.defined() || logits.dim() == 0) return true;
  return ids.eq(-100).logical_or(ids.ge(0).logical_and(ids.lt(logits.size(-1)))).all().item<bool>();
}

int64_t hits_formula(const Tensors& a, int64_t most) {
  const bool of_ids = !a[1].is_floating_point();
  expect(a[1].sizes() == (of_ids ? a[0].sizes().slice(0, a[0].dim() - 1) : a[0].sizes()));
  expect(!of_ids || a[1].scalar_type() == at::kLong);
  const at::Tensor labels = of_ids ? a[1] : a[1].argmax(-1);
  const at::Tensor order = std::get<1>(a[0].sort(/*stable=*/true, -1, /*descending=*/true));
  const at::Tensor first = order.narrow(-1, 0, std::min(most, order.size(-1)));
  return first.eq(labels.unsqueeze(-1)).any(-1).sum().item<int64_t>();
}

/// Logits of all classes, possibly from [pieces x batch, ..., classes of a piece].
at::Tensor whole_logits(const Tensors& a, int64_t classes) {
  if (classes == a[0].size(-1)) return a[0];
  const int64_t pieces = a[0].numel() / std::max<int64_t>(1, a[1].numel() * a[0].size(-1));
  std::vector<int64_t> sizes = a[1].sizes().vec();
  sizes.push_back(classes);
  return a[0].reshape({pieces, a[1].numel(), -1}).transpose(0, 1).flatten(1).narrow(1, 0, classes).reshape(sizes);
}

Tensors as_tensors(int64_t count) { return {at::arange(count, count + 1, at::kLong)}; }

std::vector<Row> loss_rows() {
  const Call ours = [](auto& a) { return cross_entropy({a[0]}, a[1]).sum; };
  const Call formula = [](auto& a) { return loss_formula(a[0], a[1]); };
  const Call ours_hits = [](auto& a) { return as_tensors(count_hits({a[0]}, a[1])); };
  const Call hits = [](auto& a) { return as_tensors(hits_formula(a, 1)); };
  const Call ours_top5 = [](auto& a) { return as_tensors(count_top5({a[0]}, a[1])); };
  const Call top5 = [](auto& a) { return as_tensors(hits_formula(a, 5)); };
  return {
      {"fits_class_loss", "rc r#c", [](auto& a) { fits_class_loss(a[0], a[1]); }},
      {"class_loss", "f~ rc r#c",
       [](auto& a) {
         // A device takes those that checked_ids() has checked.
         if (forces_operators() && !are_classes(a[1], a[0])) throw InputError("the target is no class");
         return class_loss(a[0], a[1], -100);
       },
       formula},
      {"cross_entropy", "fd~ btc bt#c", ours, formula},
      {"cross_entropy", "fd: btc btc", ours, formula},
      {"smoothed_cross_entropy", "fd~ btc bt#c", [](auto& a) { return smoothed_cross_entropy(0.1)({a[0]}, a[1]).sum; },
       [](auto& a) { return loss_formula(a[0], a[1], 0.1); }},
      {"weighted_cross_entropy", "fd~ btc bt#c",
       [](auto& a, Case& c) { return weighted_cross_entropy(class_weights(c.size('c')), 0.1)({a[0]}, a[1]).sum; },
       [](auto& a, Case& c) { return loss_formula(a[0], a[1], 0.1, class_weights(c.size('c'))); }},
      {"mean_squares", "fd~ btw btw", [](auto& a) { return mean_squares({a[0]}, a[1]).sum; },
       [](auto& a) {
         expect(a[0].sizes() == a[1].sizes());
         return list(a[0].sub(a[1]).square().sum());
       }},
      {"count_hits", "fd: btc bt#c", ours_hits, hits},
      {"count_hits", "fd: btc btc", ours_hits, hits},
      {"count_top5", "fd: btc bt#c", ours_top5, top5},
      {"count_top5", "fd: btc btc", ours_top5, top5},
      {"vocabulary_cross_entropy", "fd~ btc bt#c",
       [](auto& a, Case& c) { return vocabulary_cross_entropy(c.number(1, c.size('c')))({a[0]}, a[1]).sum; },
       [](auto& a, Case& c) { return loss_formula(whole_logits(a, c.number(1, c.size('c'))), a[1]); }},
      {"vocabulary_hits", "fd: btc bt#c",
       [](auto& a, Case& c) { return as_tensors(vocabulary_hits(c.number(1, c.size('c')))({a[0]}, a[1])); },
       [](auto& a, Case& c) {
         return as_tensors(hits_formula({whole_logits(a, c.number(1, c.size('c'))), a[1]}, 1));
       }},
      {"top5_of", "fd: btc bt#c", [](auto& a) { return as_tensors(top5_of(9)({a[0]}, a[1])); }, top5},
  };
}

std::vector<Row> on_devices(std::vector<Row> rows) {
  for (Row& row : rows) row.on_device = true;
  return rows;
}

}  // namespace

std::vector<Row> kernel_rows() {
  std::vector<Row> all = element_rows();
  for (const auto& rows : {norm_rows(), batch_norm_rows(), loss_rows(), on_devices(element_rows()), on_devices(norm_rows()),
                           on_devices(loss_rows())}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace weft::fuzz_nn
