#include "weft/nn/attention/fused.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "weft/base/math.h"
#include "weft/nn/attention/heads.h"
#include "weft/nn/graph.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kWidestFlashHead = 256;

bool is_half(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kHalf; }

/// The kernels' tensors, without their values.
struct FusedShapes : torch::autograd::Function<FusedShapes> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    RECORD_FUNCTION("weft::attention", (std::vector<c10::IValue>{q, k}));
    constexpr int64_t kLogSumStep = 32;
    const at::TensorOptions number = q.options().dtype(at::kLong);
    const int64_t sums = is_half(q) ? q.size(2) : round_up(q.size(2), kLogSumStep);
    const at::Tensor out = token_major_like(q);
    context->save_for_backward({q, k, v, out, at::empty({q.size(0), q.size(1), sums}, q.options().dtype(at::kFloat)),
                                at::empty({}, number), at::empty({}, number)});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_order("attention");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3];
    RECORD_FUNCTION("weft::attention_backward", (std::vector<c10::IValue>{q, k}));
    variable_list made = {token_major_like(q), token_major_like(k), token_major_like(v)};
    const auto scratch = is_half(q) ? flash_scratch(q) : variable_list{gradients[0].mul(out).sum(-1)};
    return made;
  }

 private:
  static variable_list flash_scratch(const at::Tensor& q) {
    constexpr int64_t kQueryStep = 128, kWideHead = 128, kHeadStep = 32, kWideHeadStep = 64;
    const int64_t queries = round_up(q.size(2), kQueryStep);
    const int64_t width = round_up(q.size(3), q.size(3) <= kWideHead ? kHeadStep : kWideHeadStep);
    const at::TensorOptions wide = q.options().dtype(at::kFloat);
    return {at::empty({q.size(0), q.size(1), queries}, wide), at::empty({q.size(0), queries, q.size(1), width}, wide)};
  }
};

bool is_by_kernel(const at::Tensor& q) {
  constexpr int64_t kFloatHeadStep = 4;
  if (is_half(q)) return q.size(3) <= kWidestFlashHead;
  return q.scalar_type() == at::kFloat && q.size(3) % kFloatHeadStep == 0;
}

at::Tensor padded(const at::Tensor& x, int64_t width) {
  return x.size(3) == width ? x : at::constant_pad_nd(x, {0, width - x.size(3)});
}

}  // namespace

at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!q.is_meta() || !is_by_kernel(q)) return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  constexpr int64_t kFlashHeadStep = 8;
  const int64_t width = is_half(q) ? round_up(q.size(3), kFlashHeadStep) : q.size(3);
  const at::Tensor out = FusedShapes::apply(padded(q, width), padded(k, width), padded(v, width));
  return width == q.size(3) ? out : out.narrow(3, 0, q.size(3));
}

}  // namespace weft
