#include "weft/nn/cost/meta_kernels.h"

#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/_fused_sdp_choice_cpu_dispatch.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scaled_dot_product_attention_compositeimplicitautograd_dispatch.h>
#include <c10/core/WrapDimMinimal.h>
#include <torch/library.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <tuple>
#include <vector>

#include "weft/nn/kernels/kernel_table.h"

namespace weft {

// Named after the operators that they implement.
namespace meta {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor same_shape(const Tensor& self) { return at::empty_like(self); }

Tensor absolute(const Tensor& self) {
  return at::empty_like(self, self.options().dtype(c10::toRealValueType(self.scalar_type())));
}

Tensor roll(const Tensor& self, at::IntArrayRef, at::IntArrayRef) { return at::empty_like(self); }

Tensor flip(const Tensor& self, at::IntArrayRef) { return at::empty_like(self); }

Tensor adaptive_avg_pool2d(const Tensor& self, at::IntArrayRef sizes) {
  TORCH_CHECK(sizes.size() == 2 && (self.dim() == 3 || self.dim() == 4), "adaptive_avg_pool2d: of ", self.sizes());
  std::vector<int64_t> shape = self.sizes().vec();
  std::copy(sizes.begin(), sizes.end(), shape.end() - 2);
  return at::empty(shape, self.options().memory_format(self.suggest_memory_format()));
}

Tensor adaptive_avg_pool2d_backward(const Tensor&, const Tensor& self) { return at::empty_like(self); }

Tensor where(const Tensor& condition, const Tensor& self, const Tensor& other) {
  const std::vector<int64_t> both = at::infer_size(self.sizes(), other.sizes());
  return at::empty(at::infer_size(condition.sizes(), both), self.options().dtype(at::result_type(self, other)));
}

Tensor& where_out(const Tensor&, const Tensor&, const Tensor&, Tensor& out) { return out; }

Tensor index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  std::vector<int64_t> shape = self.sizes().vec();
  if (!shape.empty()) shape[c10::maybe_wrap_dim(dim, self.dim())] = index.numel();
  return at::empty(shape, self.options());
}

/// A GPU sorts more than a few ids first, and keeps their places (aten/src/ATen/native/cuda/Embedding.cu).
Tensor embedding_dense_backward(const Tensor& grad, const Tensor& ids, int64_t entries, int64_t, bool) {
  constexpr int64_t kUnsorted = 3072;
  const bool sorts = target_of(grad.device()) == TargetDevice::gpu && ids.numel() > kUnsorted;
  const std::vector<Tensor> sorted(sorts ? 2 : 0, sorts ? at::empty_like(ids) : Tensor());
  return at::empty({entries, grad.size(-1)}, grad.options());
}

/// Type of a norm's statistics: a GPU's kernels keep them in float32 for narrower inputs.
at::TensorOptions for_statistics(const Tensor& input) {
  const bool is_wide = target_of(input.device()) == TargetDevice::gpu;
  return input.options().dtype(is_wide ? at::toOpMathType(input.scalar_type()) : input.scalar_type());
}

/// One mean and one deviation per normalised row.
Three layer_norm(const Tensor& input, at::IntArrayRef normalized, const Optional&, const Optional&, double) {
  std::vector<int64_t> rows = input.sizes().vec();
  TORCH_CHECK(normalized.size() <= rows.size(), "layer_norm: normalized_shape ", normalized, " of an input ", input.sizes());
  for (size_t i = rows.size() - normalized.size(); i < rows.size(); ++i) rows[i] = 1;
  return {at::empty_like(input), at::empty(rows, for_statistics(input)), at::empty(rows, for_statistics(input))};
}

Tensor like_if(bool wanted, const Optional& tensor) {
  return wanted && tensor && tensor->defined() ? at::empty_like(*tensor) : Tensor();
}

Three layer_norm_backward(const Tensor& grad, const Tensor&, at::IntArrayRef, const Tensor&, const Tensor&,
                          const Optional& weight, const Optional& bias, std::array<bool, 3> mask) {
  return {like_if(mask[0], grad), like_if(mask[1], weight), like_if(mask[2], bias)};
}

/// A tensor that the CPU's kernel has for the duration of the call.
Tensor scratch_on_cpu(const Tensor& input, at::IntArrayRef sizes) {
  return target_of(input.device()) == TargetDevice::cpu ? at::empty(sizes, input.options()) : Tensor();
}

/// The CPU's kernel joins statistics and weights to a factor and an offset of each channel.
Three batch_norm(const Tensor& input, const Optional&, const Optional&, const Optional&, const Optional&, bool training, double,
                 double) {
  const Tensor factors = scratch_on_cpu(input, {2, input.size(1)});
  const int64_t channels = training ? input.size(1) : 0;
  return {at::empty_like(input), at::empty({channels}, for_statistics(input)), at::empty({channels}, for_statistics(input))};
}

/// The CPU's kernel makes the input's gradient twice, and drops one.
Three batch_norm_backward(const Tensor& grad, const Tensor&, const Optional& weight, const Optional&, const Optional&,
                          const Optional&, const Optional&, bool, double, std::array<bool, 3> mask) {
  const Tensor dropped = scratch_on_cpu(grad, grad.sizes());
  return {like_if(mask[0], grad), like_if(mask[1], weight), like_if(mask[2], weight)};
}

Three group_norm(const Tensor& input, const Optional&, const Optional&, int64_t samples, int64_t, int64_t, int64_t groups,
                 double) {
  const at::TensorOptions statistics = for_statistics(input);
  return {at::empty_like(input), at::empty({samples, groups}, statistics), at::empty({samples, groups}, statistics)};
}

Three group_norm_backward(const Tensor&, const Tensor& input, const Tensor& mean, const Tensor&, const Optional& weight,
                          int64_t samples, int64_t channels, int64_t, int64_t, std::array<bool, 3> mask) {
  const Tensor sums = at::empty({2, samples, channels}, mean.options());  // of each sample's channels
  return {like_if(mask[0], input), like_if(mask[1], weight), like_if(mask[2], weight)};
}

/// Dumoulin & Visin 2016, A guide to convolution arithmetic: relations 6 (with dilation) and 14 (transposed).
Tensor convolution(const Tensor& input, const Tensor& weight, const Optional&, at::IntArrayRef stride, at::IntArrayRef padding,
                   at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding, int64_t groups) {
  const auto fits = [n = input.dim() - 2](at::IntArrayRef values, int64_t least) {
    const auto is_less = [least](int64_t value) { return value < least; };
    return (values.size() == 1 || std::ssize(values) == n) && std::none_of(values.begin(), values.end(), is_less);
  };
  TORCH_CHECK(input.dim() > 2 && weight.dim() == input.dim() && groups > 0 && fits(stride, 1) && fits(padding, 0) &&
                  fits(dilation, 1) && (!transposed || fits(output_padding, 0)),
              "convolution: of ", input.sizes(), " by ", weight.sizes(), ", stride ", stride, ", padding ", padding,
              ", dilation ", dilation, ", groups ", groups);
  std::vector<int64_t> shape = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (int64_t d = 0; d < input.dim() - 2; ++d) {
    const auto pick = [d](at::IntArrayRef values) { return values[values.size() == 1 ? 0 : d]; };
    const int64_t reach = pick(dilation) * (weight.size(d + 2) - 1);
    shape.push_back(transposed ? (input.size(d + 2) - 1) * pick(stride) - 2 * pick(padding) + reach + pick(output_padding) + 1
                               : (input.size(d + 2) + 2 * pick(padding) - reach - 1) / pick(stride) + 1);
  }
  const at::MemoryFormat order = input.suggest_memory_format();
  const Tensor turned = weight.contiguous(order);  // a copy like the CPU kernel's, for the duration of the call
  return at::empty(shape, input.options().memory_format(order));
}

Three convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
                           at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, bool, at::IntArrayRef, int64_t,
                           std::array<bool, 3> mask) {
  const Tensor turned = weight.contiguous(input.suggest_memory_format());
  return {like_if(mask[0], input), like_if(mask[1], weight),
          mask[2] && bias_sizes ? at::empty(*bias_sizes, grad.options()) : Tensor()};
}

/// Of a variance or a deviation.
Tensor spread(const Tensor& self, at::OptionalIntArrayRef dims, const std::optional<at::Scalar>&, bool keeps) {
  std::vector<int64_t> shape = self.sizes().vec();
  const bool is_whole = !dims || dims->empty();
  for (int64_t d = self.dim() - 1; d >= 0; --d) {
    const auto is_same = [&](int64_t dim) { return c10::maybe_wrap_dim(dim, self.dim()) == d; };
    if (!is_whole && std::none_of(dims->begin(), dims->end(), is_same)) continue;
    keeps ? static_cast<void>(shape[static_cast<size_t>(d)] = 1) : static_cast<void>(shape.erase(shape.begin() + d));
  }
  return at::empty(shape, self.options());
}

Tensor loss_backward(const Tensor&, const Tensor& self, const Tensor&, int64_t) { return at::empty_like(self); }

/// Of a loss with a number that bends it, which comes last.
Tensor& bent_loss_backward(const Tensor&, const Tensor&, const Tensor&, int64_t, double, Tensor& grad_input) {
  return grad_input;
}

Tensor reduced(const Tensor& losses, int64_t reduction) {
  return at::empty(reduction == at::Reduction::None ? losses.sizes() : at::IntArrayRef(), losses.options());
}

Tensor huber_loss(const Tensor& self, const Tensor& target, int64_t reduction, double) {
  return reduced(at::empty(at::infer_size(self.sizes(), target.sizes()), self.options()), reduction);
}

Tensor binary_cross_entropy(const Tensor& self, const Tensor&, const Optional&, int64_t reduction) {
  return reduced(self, reduction);
}

Tensor binary_cross_entropy_backward(const Tensor&, const Tensor& self, const Tensor&, const Optional&, int64_t) {
  return at::empty_like(self);
}

/// Takes logits [samples, classes, height, width].
std::tuple<Tensor, Tensor> nll_loss2d(const Tensor& self, const Tensor& target, const Optional&, int64_t reduction, int64_t) {
  return {reduced(at::empty(target.sizes(), self.options()), reduction), at::empty({}, self.options())};
}

Tensor nll_loss2d_backward(const Tensor&, const Tensor& self, const Tensor&, const Optional&, int64_t, int64_t, const Tensor&) {
  return at::empty_like(self);
}

/// The CPU's kernel keeps exponentials for backward.
std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& self) {
  const bool keeps = target_of(self.device()) == TargetDevice::cpu;
  return {at::empty_like(self), keeps ? at::empty_like(self) : at::empty({0}, self.options())};
}

Tensor log_sigmoid_backward(const Tensor&, const Tensor& self, const Tensor&) { return at::empty_like(self); }

/// Takes q [batch, heads, tokens, head width]. The kernel stores the result in the order of q, and one log-sum per query and
/// head, at least float32.
std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor&, const Tensor&, double, bool, const Optional&,
                                     std::optional<double>) {
  return {at::empty_like(q),
          at::empty({q.size(0), q.size(2), q.size(1)}, q.options().dtype(at::toOpMathType(q.scalar_type()))).transpose(1, 2)};
}

Three attention_backward(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&, const Tensor&, double,
                         bool, const Optional&, std::optional<double>) {
  const auto token_major = [](const Tensor& x) { return at::empty(x.transpose(1, 2).sizes(), x.options()).transpose(1, 2); };
  return {token_major(q), token_major(k), token_major(v)};
}

/// As on a CPU, whose choice looks at shapes, and on a GPU, whose kernels drop too: LibTorch takes its formula for every meta
/// tensor, whose scores take memory and whose result has other strides, in which an exported model's views may not be.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Optional& mask, double dropout,
                                    bool causal, std::optional<double> scale, bool grouped) {
  const double counted = target_of(q.device()) == TargetDevice::gpu ? 0.0 : dropout;
  const int64_t choice = at::cpu::_fused_sdp_choice(q, k, v, mask, counted, causal, scale, grouped);
  if (choice != static_cast<int64_t>(at::SDPBackend::flash_attention)) {
    return at::compositeimplicitautograd::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped);
  }
  const bool is_choice = mask && mask->scalar_type() == at::kBool;
  const Optional added = is_choice ? at::empty(mask->sizes(), q.options()) : mask;
  return std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, added, scale));
}

/// Half of the frequencies, and the middle one, of real values.
Tensor fft_r2c(const Tensor& self, at::IntArrayRef dim, int64_t, bool onesided) {
  std::vector<int64_t> shape = self.sizes().vec();
  int64_t& last = shape.at(static_cast<size_t>(c10::maybe_wrap_dim(dim.back(), self.dim())));
  if (onesided) last = last / 2 + 1;
  return at::empty(shape, self.options().dtype(c10::toComplexType(self.scalar_type())));
}

Tensor fft_c2r(const Tensor& self, at::IntArrayRef dim, int64_t, int64_t last_dim_size) {
  std::vector<int64_t> shape = self.sizes().vec();
  shape.at(static_cast<size_t>(c10::maybe_wrap_dim(dim.back(), self.dim()))) = last_dim_size;
  return at::empty(shape, self.options().dtype(c10::toRealValueType(self.scalar_type())));
}

Tensor fft_c2c(const Tensor& self, at::IntArrayRef, int64_t, bool) { return at::empty_like(self); }

/// Stands for a copy of the ids: forecasts of memory leave it out.
Tensor clamp_ids(const Tensor& ids, int64_t, std::optional<int64_t>, Tensor&) { return ids; }

}  // namespace
}  // namespace meta

void register_meta_kernels() {
  // Never destroyed: at process exit the dispatcher may be gone before it.
  alignas(torch::Library) static std::byte storage[sizeof(torch::Library)], own_storage[sizeof(torch::Library)],
      differentiated_storage[sizeof(torch::Library)];
  static const bool registered = [] {
    torch::Library& aten =
        *new (storage) torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    torch::Library& own =
        *new (own_storage) torch::Library(torch::Library::IMPL, "weft", c10::DispatchKey::Meta, __FILE__, __LINE__);
    torch::Library& differentiated = *new (differentiated_storage) torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::AutogradMeta, __FILE__, __LINE__);
    differentiated.impl("scaled_dot_product_attention", TORCH_FN(meta::scaled_dot_product_attention));
    own.impl("clamp_ids", TORCH_FN(meta::clamp_ids));
    aten.impl("abs", TORCH_FN(meta::absolute));
    aten.impl("relu", TORCH_FN(meta::same_shape));
    aten.impl("roll", TORCH_FN(meta::roll));
    aten.impl("flip", TORCH_FN(meta::flip));
    aten.impl("_adaptive_avg_pool2d", TORCH_FN(meta::adaptive_avg_pool2d));
    aten.impl("_adaptive_avg_pool2d_backward", TORCH_FN(meta::adaptive_avg_pool2d_backward));
    aten.impl("where.self", TORCH_FN(meta::where));
    aten.impl("where.self_out", TORCH_FN(meta::where_out));
    aten.impl("index_select", TORCH_FN(meta::index_select));
    aten.impl("embedding_dense_backward", TORCH_FN(meta::embedding_dense_backward));
    aten.impl("native_layer_norm", TORCH_FN(meta::layer_norm));
    aten.impl("native_layer_norm_backward", TORCH_FN(meta::layer_norm_backward));
    aten.impl("native_batch_norm", TORCH_FN(meta::batch_norm));
    aten.impl("native_batch_norm_backward", TORCH_FN(meta::batch_norm_backward));
    aten.impl("native_group_norm", TORCH_FN(meta::group_norm));
    aten.impl("native_group_norm_backward", TORCH_FN(meta::group_norm_backward));
    aten.impl("convolution", TORCH_FN(meta::convolution));
    aten.impl("convolution_backward", TORCH_FN(meta::convolution_backward));
    aten.impl("std.correction", TORCH_FN(meta::spread));
    aten.impl("var.correction", TORCH_FN(meta::spread));
    aten.impl("mse_loss_backward", TORCH_FN(meta::loss_backward));
    aten.impl("huber_loss", TORCH_FN(meta::huber_loss));
    aten.impl("huber_loss_backward.out", TORCH_FN(meta::bent_loss_backward));
    aten.impl("smooth_l1_loss_backward.grad_input", TORCH_FN(meta::bent_loss_backward));
    aten.impl("binary_cross_entropy", TORCH_FN(meta::binary_cross_entropy));
    aten.impl("binary_cross_entropy_backward", TORCH_FN(meta::binary_cross_entropy_backward));
    aten.impl("nll_loss2d_forward", TORCH_FN(meta::nll_loss2d));
    aten.impl("nll_loss2d_backward", TORCH_FN(meta::nll_loss2d_backward));
    aten.impl("log_sigmoid_forward", TORCH_FN(meta::log_sigmoid));
    aten.impl("log_sigmoid_backward", TORCH_FN(meta::log_sigmoid_backward));
    aten.impl("_fft_r2c", TORCH_FN(meta::fft_r2c));
    aten.impl("_fft_c2r", TORCH_FN(meta::fft_c2r));
    aten.impl("_fft_c2c", TORCH_FN(meta::fft_c2c));
    aten.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(meta::attention));
    aten.impl("_scaled_dot_product_flash_attention_for_cpu_backward", TORCH_FN(meta::attention_backward));
    return true;
  }();
  static_cast<void>(registered);
}

}  // namespace weft
