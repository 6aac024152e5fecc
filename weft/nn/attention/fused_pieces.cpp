#include "weft/nn/attention/fused_pieces.h"

#include <ATen/SDPBackend.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "weft/base/math.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/target_scope.h"

namespace weft {

namespace {

constexpr int64_t kLogSumStep = 32;  ///< queries, of memory-efficient attention
constexpr std::array<bool, 4> kWanted = {true, true, true, false};

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

/// Whose operators attend to tensors of a device.
enum class Operators {
  cpu,           ///< the CPU's
  planned,       ///< none: meta tensors that stand for a GPU's
  by_type,       ///< flash and memory-efficient attention, as for CUDA
  overrideable,  ///< the one that a device outside LibTorch gives
};

Operators operators_of(const at::Tensor& q) {
  static const c10::OperatorHandle flash =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_scaled_dot_product_flash_attention", "");
  if (q.is_meta()) return target_of(q.device()) == TargetDevice::gpu ? Operators::planned : Operators::cpu;
  if (q.is_cpu()) return Operators::cpu;
  return flash.hasKernelForDispatchKey(c10::legacyExtractDispatchKey(q.key_set())) ? Operators::by_type
                                                                                   : Operators::overrideable;
}

/// LibTorch's choice for a GPU, which it makes by type, head width, compute capability and settings.
at::SDPBackend choice(const at::Tensor& q) {
  return static_cast<at::SDPBackend>(at::_fused_sdp_choice(q, q, q, {}, 0.0, /*is_causal=*/true));
}

/// Returns whether it is flash attention for bfloat16 or float16, or a kernel preferred to it.
bool takes_flash(const at::Tensor& q) {
  if (!is_half(q) || operators_of(q) != Operators::by_type) return is_half(q);
  if (q.size(3) > 192 && q.size(3) <= 224) return false;  // sm_86, 89 and 120 have no backward of these
  const at::SDPBackend kernel = choice(q);
  return kernel != at::SDPBackend::efficient_attention && kernel != at::SDPBackend::math;
}

/// The heads of a token adjacent, as the kernels read gradients and outputs without a copy of their own.
at::Tensor token_major(const at::Tensor& x) { return x.transpose(1, 2).contiguous().transpose(1, 2); }

/// Tensors as the kernels take them, and the scale by the head width before padding.
struct FusedCall {
  FusedCall(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, AttentionMask mask)
      : causal(mask == AttentionMask::causal),
        scale(1.0 / std::sqrt(static_cast<double>(query.size(3)))),
        width(query.size(3)),
        repeats(groups_heads(query) ? 1 : query.size(1) / key.size(1)),
        q(fitted(query)),
        k(repeat_heads(fitted(key), repeats)),
        v(repeat_heads(fitted(value), repeats)) {}

  static at::Tensor fitted(const at::Tensor& x) {
    const int64_t missing = fused_head_width(x) - x.size(3);
    const at::Tensor wide = missing > 0 ? at::constant_pad_nd(x, {0, missing}) : x;
    return wide.stride(3) == 1 ? wide : wide.contiguous();  // padding keeps strides that look like channels last
  }
  at::Tensor as_given(const at::Tensor& x) const { return x.size(3) == width ? x : x.narrow(3, 0, width); }
  at::Tensor number() const { return at::empty({}, q.options().dtype(at::kLong)); }  ///< stands for dropout's seed or offset

  bool causal;
  double scale;
  int64_t width, repeats;
  at::Tensor q, k, v;
};

AttentionPiece attend_on_meta(const FusedCall& call) {
  const at::Tensor& q = call.q;
  RECORD_FUNCTION("weft::attention", (std::vector<c10::IValue>{q, call.k, call.causal}));
  const int64_t sums = is_half(q) ? q.size(2) : round_up(q.size(2), kLogSumStep);
  const at::Tensor logsumexp = at::empty({q.size(0), q.size(1), sums}, q.options().dtype(at::kFloat));
  return {token_major_like(q), logsumexp};
}

AttentionGradients attend_backward_on_meta(const FusedCall& call, const at::Tensor& dout) {
  const at::Tensor& q = call.q;
  RECORD_FUNCTION("weft::attention_backward", (std::vector<c10::IValue>{q, call.k, call.causal}));
  AttentionGradients made{token_major_like(q), token_major_like(call.k), token_major_like(call.v)};
  const at::TensorOptions wide = q.options().dtype(at::kFloat);
  if (!is_half(q)) {
    const std::vector<at::Tensor> scratch = {at::empty(dout.sizes(), wide), at::empty(dout.sizes().slice(0, 3), wide)};
    return made;
  }
  constexpr int64_t kQueryStep = 128, kWideHead = 128, kHeadStep = 32, kWideHeadStep = 64;
  const int64_t queries = round_up(q.size(2), kQueryStep);
  const int64_t width = round_up(q.size(3), q.size(3) <= kWideHead ? kHeadStep : kWideHeadStep);
  std::vector<at::Tensor> scratch = {at::empty({q.size(0), q.size(1), queries}, wide),
                                     at::empty({q.size(0), queries, q.size(1), width}, wide)};
  if (call.k.size(1) == q.size(1)) return made;
  const std::array<int64_t, 4> repeated = {q.size(0), call.k.size(2), q.size(1), q.size(3)};
  for (int i = 0; i < 2; ++i) scratch.push_back(at::empty(repeated, q.options()));
  return made;
}

AttentionPiece run_forward(const FusedCall& call) {
  const auto& [causal, scale, width, repeats, q, k, v] = call;
  const Operators operators = operators_of(q);
  if (operators == Operators::planned) return attend_on_meta(call);
  if (operators == Operators::cpu) {
    auto [out, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, {}, scale);
    return {out, logsumexp};
  }
  if (operators == Operators::overrideable) {
    const auto made = at::_scaled_dot_product_fused_attention_overrideable(q, k, v, {}, 0.0, causal, false, scale);
    return {std::get<0>(made), std::get<1>(made)};
  }
  if (takes_flash(q)) {
    const auto made = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, causal, /*return_debug_mask=*/false, scale);
    return {std::get<0>(made), std::get<1>(made)};
  }
  const auto made = at::_scaled_dot_product_efficient_attention(q, k, v, {}, /*compute_log_sumexp=*/true, 0.0, causal, scale);
  return {std::get<0>(made), std::get<1>(made)};
}

/// Log-sums of whole steps of queries, as memory-efficient attention reads them; beyond the last query they are infinite, so
/// those rows weigh nothing.
at::Tensor in_steps(const at::Tensor& logsumexp) {
  const int64_t missing = round_up(logsumexp.size(2), kLogSumStep) - logsumexp.size(2);
  if (missing == 0) return logsumexp.contiguous();
  return at::constant_pad_nd(logsumexp, {0, missing}, std::numeric_limits<double>::infinity());
}

AttentionGradients run_backward(const FusedCall& call, const at::Tensor& dout, const AttentionPiece& whole) {
  const auto& [causal, scale, width, repeats, q, k, v] = call;
  const at::Tensor& out = whole.out;
  const Operators operators = operators_of(q);
  const bool sums_in_steps = operators != Operators::cpu && !takes_flash(q);
  const at::Tensor sums = sums_in_steps ? in_steps(whole.logsumexp) : whole.logsumexp.contiguous();
  if (operators == Operators::planned) return attend_backward_on_meta(call, dout);
  if (operators == Operators::cpu) {
    auto [dq, dk, dv] =
        at::_scaled_dot_product_flash_attention_for_cpu_backward(dout, q, k, v, out, sums, 0.0, causal, {}, scale);
    return {dq, dk, dv};
  }
  if (operators == Operators::overrideable) {
    auto [dq, dk, dv, dmask] = at::_scaled_dot_product_fused_attention_overrideable_backward(
        dout, q, k, v, {}, kWanted, out, sums, {}, {}, q.size(2), k.size(2), 0.0, causal, call.number(), call.number(), scale);
    return {dq, dk, dv};
  }
  if (takes_flash(q)) {
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_backward(dout, q, k, v, out, sums, {}, {}, q.size(2), k.size(2),
                                                                         0.0, causal, call.number(), call.number(), scale);
    return {dq, dk, dv};
  }
  auto [dq, dk, dv, dmask] = at::_scaled_dot_product_efficient_attention_backward(dout, q, k, v, {}, out, sums, call.number(),
                                                                                  call.number(), 0.0, kWanted, causal, scale);
  return {dq, dk, dv};
}

}  // namespace

bool has_fused_kernel(const at::Tensor& q) {
  constexpr int64_t kWidestFlashHead = 256, kFloatHeadStep = 4;
  if (is_half(q) && operators_of(q) == Operators::by_type && choice(q) == at::SDPBackend::math) return false;
  if (is_half(q)) return q.size(3) <= kWidestFlashHead;
  return q.scalar_type() == at::kFloat && q.size(3) % kFloatHeadStep == 0;
}

bool groups_heads(const at::Tensor& q) { return q.scalar_type() == at::kDouble || takes_flash(q); }

int64_t fused_head_width(const at::Tensor& x) {
  constexpr int64_t kFlashHeadStep = 8;
  return is_half(x) ? round_up(x.size(3), kFlashHeadStep) : x.size(3);
}

AttentionPiece attend_fused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask) {
  const FusedCall call(q, k, v, mask);
  const AttentionPiece made = run_forward(call);
  const bool in_steps = made.logsumexp.size(2) != q.size(2);
  return {call.as_given(made.out), in_steps ? made.logsumexp.narrow(2, 0, q.size(2)) : made.logsumexp};
}

AttentionGradients attend_backward_fused(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                         const AttentionPiece& whole, AttentionMask mask) {
  const FusedCall call(q, k, v, mask);
  const AttentionPiece read{token_major(FusedCall::fitted(whole.out.to(q.scalar_type()))), whole.logsumexp};
  const AttentionGradients made = run_backward(call, token_major(FusedCall::fitted(dout)), read);
  return {call.as_given(made.q), call.as_given(sum_repeats(made.k, call.repeats)),
          call.as_given(sum_repeats(made.v, call.repeats))};
}

}  // namespace weft
