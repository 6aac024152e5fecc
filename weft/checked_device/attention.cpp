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
#include <vector>

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

/// What CUDA's kernel takes while it runs. Flash attention makes the gradients of keys and values for each query head first.
std::vector<at::Tensor> scratch(const at::Tensor& q, const at::Tensor& k) {
  const at::TensorOptions wide = q.options().dtype(at::kFloat);
  if (!is_half(q)) return {at::empty(q.sizes(), wide), at::empty({q.size(0), q.size(1), q.size(2)}, wide)};
  constexpr int64_t kQueryStep = 128, kWideHead = 128, kHeadStep = 32, kWideHeadStep = 64;
  const int64_t queries = round_up(q.size(2), kQueryStep);
  const int64_t width = round_up(q.size(3), q.size(3) <= kWideHead ? kHeadStep : kWideHeadStep);
  std::vector<at::Tensor> all = {at::empty({q.size(0), q.size(1), queries}, wide),
                                 at::empty({q.size(0), queries, q.size(1), width}, wide)};
  if (k.size(1) == q.size(1)) return all;
  for (int i = 0; i < 2; ++i) all.push_back(at::empty({q.size(0), k.size(2), q.size(1), q.size(3)}, q.options()));
  return all;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
    std::array<bool, 4> /*wanted*/, const at::Tensor& out, const at::Tensor& sums, const at::Tensor& /*cumulative_q*/,
    const at::Tensor& /*cumulative_k*/, int64_t /*queries*/, int64_t /*keys*/, double dropout, bool causal,
    const at::Tensor& /*seed*/, const at::Tensor& /*offset*/, std::optional<double> scale) {
  const auto taken = scratch(q, k);
  const auto own_mask = mask.defined() ? std::optional(mask) : std::nullopt;
  const at::Tensor own_sums = sums.size(2) == q.size(2) ? sums : sums.narrow(2, 0, q.size(2)).contiguous();
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(gradient, q, k, v, out, own_sums, dropout,
                                                                               causal, own_mask, scale);
  return {dq, dk, dv, at::Tensor()};
}

/// Sequences of several lengths: rows [tokens, heads, head width] as one sequence's [1, heads, its tokens, head width].
at::Tensor sequence_of(const at::Tensor& rows, const at::Tensor& begins, int64_t i) {
  const auto* begin = begins.const_data_ptr<int32_t>() + i;
  return rows.narrow(0, begin[0], begin[1] - begin[0]).transpose(0, 1).unsqueeze(0);
}

using Packed = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Of CUDA's flash attention only what packed documents take; without its scratch.
Packed packed_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const std::optional<at::Tensor>& begins_q,
                      const std::optional<at::Tensor>& begins_k, int64_t /*most_q*/, int64_t /*most_k*/, double dropout,
                      bool causal, bool /*debug*/, std::optional<double> scale, std::optional<int64_t> /*window_left*/,
                      std::optional<int64_t> /*window_right*/, const std::optional<at::Tensor>& /*used*/,
                      const std::optional<at::Tensor>& /*slopes*/) {
  const at::Tensor out = at::empty(q.sizes(), q.options());
  const at::Tensor sums = at::empty({q.size(1), q.size(0)}, q.options().dtype(at::kFloat));
  const at::Tensor &begins = *begins_q, of_sums = sums.t().unsqueeze(2);
  for (int64_t i = 0; i + 1 < begins.numel(); ++i) {
    const auto [one, own_sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        sequence_of(q, begins, i), sequence_of(k, *begins_k, i), sequence_of(v, *begins_k, i), dropout, causal, {}, scale);
    sequence_of(out, begins, i).copy_(one);
    sequence_of(of_sums, begins, i).squeeze(3).copy_(own_sums);
  }
  const at::TensorOptions number = q.options().dtype(at::kLong);
  return {out, sums, at::empty({2}, number), at::empty({}, number), at::empty({0}, q.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> packed_backward(
    const at::Tensor& gradient, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
    const at::Tensor& sums, const at::Tensor& begins_q, const at::Tensor& begins_k, int64_t /*most_q*/, int64_t /*most_k*/,
    double dropout, bool causal, const at::Tensor& /*seed*/, const at::Tensor& /*offset*/, std::optional<double> scale,
    std::optional<int64_t> /*window_left*/, std::optional<int64_t> /*window_right*/) {
  const at::Tensor of_sums = sums.t().unsqueeze(2);
  std::array<at::Tensor, 3> made;
  for (int which = 0; which < 3; ++which) {
    const at::Tensor& like = which == 0 ? q : which == 1 ? k : v;
    made[which] = at::empty(like.sizes(), like.options());
  }
  for (int64_t i = 0; i + 1 < begins_q.numel(); ++i) {
    const auto all = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        sequence_of(gradient, begins_q, i), sequence_of(q, begins_q, i), sequence_of(k, begins_k, i),
        sequence_of(v, begins_k, i), sequence_of(out, begins_q, i), sequence_of(of_sums, begins_q, i).squeeze(3), dropout,
        causal, {}, scale);
    sequence_of(made[0], begins_q, i).copy_(std::get<0>(all));
    sequence_of(made[1], begins_k, i).copy_(std::get<1>(all));
    sequence_of(made[2], begins_k, i).copy_(std::get<2>(all));
  }
  return {made[0], made[1], made[2]};
}

}  // namespace

void register_attention() {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose);
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
  // register_operators() runs them like every operator of the CPU.
  static torch::Library on_cpu(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  on_cpu.impl("_flash_attention_forward", &packed_forward);
  on_cpu.impl("_flash_attention_backward", &packed_backward);
}

}  // namespace weft::checked_device
