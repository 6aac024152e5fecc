#include "weft/checked_device/attention.h"

#include <ATen/SDPBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <array>
#include <tuple>

namespace weft::checked_device {

namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

int64_t choose(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
               double dropout, bool causal, std::optional<double> scale, bool grouped) {
  const int64_t on_cpu = at::_fused_sdp_choice(q, k, v, mask, dropout, causal, scale, grouped);
  return on_cpu == static_cast<int64_t>(at::SDPBackend::math) ? on_cpu : static_cast<int64_t>(at::SDPBackend::overrideable);
}

using Forward =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

/// Beside the output CUDA keeps a log-sum per query, of memory-efficient attention for a multiple of 32 queries, and two
/// numbers.
Forward forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& mask,
                double dropout, bool causal, bool /*debug*/, std::optional<double> scale) {
  constexpr int64_t kQueryStep = 32;
  const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale);
  const int64_t queries = q.size(2);
  at::Tensor kept = sums;
  if (!is_half(q) && queries % kQueryStep != 0) {
    kept = at::empty({sums.size(0), sums.size(1), round_up(queries, kQueryStep)}, sums.options());
    kept.narrow(2, 0, queries).copy_(sums);
  }
  const at::TensorOptions number = q.options().dtype(at::kLong);
  return {out, kept, {}, {}, queries, k.size(2), at::empty({}, number), at::empty({}, number), {}};
}

/// What CUDA's kernel takes while it runs.
std::array<at::Tensor, 2> scratch(const at::Tensor& q) {
  const at::TensorOptions wide = q.options().dtype(at::kFloat);
  if (!is_half(q)) return {at::empty(q.sizes(), wide), at::empty({q.size(0), q.size(1), q.size(2)}, wide)};
  constexpr int64_t kQueryStep = 128, kWideHead = 128, kHeadStep = 32, kWideHeadStep = 64;
  const int64_t queries = round_up(q.size(2), kQueryStep);
  const int64_t width = round_up(q.size(3), q.size(3) <= kWideHead ? kHeadStep : kWideHeadStep);
  return {at::empty({q.size(0), q.size(1), queries}, wide), at::empty({q.size(0), queries, q.size(1), width}, wide)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
    std::array<bool, 4> /*wanted*/, const at::Tensor& out, const at::Tensor& sums, const at::Tensor& /*cumulative_q*/,
    const at::Tensor& /*cumulative_k*/, int64_t /*queries*/, int64_t /*keys*/, double dropout, bool causal,
    const at::Tensor& /*seed*/, const at::Tensor& /*offset*/, std::optional<double> scale) {
  const auto taken = scratch(q);
  const auto own_mask = mask.defined() ? std::optional(mask) : std::nullopt;
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, q, k, v, out, sums.narrow(2, 0, q.size(2)).contiguous(), dropout, causal, own_mask, scale);
  return {dq, dk, dv, at::Tensor()};
}

}  // namespace

void register_attention() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose);
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
}

}  // namespace weft::checked_device
