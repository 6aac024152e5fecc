#include "weft/nn/matmul.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>

namespace at::native {

/// out = beta out + alpha a b by oneDNN. LibTorch exports it, and leaves out the header that declares it
/// (ATen/native/mkldnn/Matmul.h).
TORCH_API void mkldnn_matmul(const Tensor& a, const Tensor& b, const Tensor& out, float beta, float alpha);

}  // namespace at::native

namespace weft {

namespace {

constexpr int64_t kSmall = 1 << 20;  // multiplications

bool is_faster_here() {
#if defined(__x86_64__)
  static const bool faster = at::hasMKLDNN() && __builtin_cpu_supports("avx512f") && !__builtin_cpu_is("intel");
  return faster && at::globalContext().userEnabledMkldnn();
#else
  return false;
#endif
}

bool pays_in_onednn(const at::Tensor& a, int64_t multiplications) {
  return a.is_cpu() && a.scalar_type() == at::kFloat && multiplications >= kSmall && is_faster_here();
}

/// All products do; MKL has none.
bool goes_to_onednn_as_bfloat16(const at::Tensor& x) {
#if defined(__x86_64__)
  static const bool has_instructions = at::hasMKLDNN() && __builtin_cpu_supports("avx512bf16");
  return x.is_cpu() && x.scalar_type() == at::kBFloat16 && has_instructions && at::globalContext().userEnabledMkldnn();
#else
  return false;
#endif
}

}  // namespace

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

bool goes_to_onednn(const at::Tensor& a, const at::Tensor& b) { return pays_in_onednn(a, a.numel() * b.size(1)); }

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (goes_to_onednn(a, b)) return at::native::mkldnn_matmul(a, b, out, /*beta=*/0, /*alpha=*/1);
  at::Tensor result = out;
  at::mm_out(result, a, b);
}

void multiply_add(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  if (goes_to_onednn(a, b)) return at::native::mkldnn_matmul(a, b, out, /*beta=*/1, /*alpha=*/1);
  at::Tensor result = out;
  at::addmm_out(result, out, a, b);
}

at::Tensor multiply_with_bias(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  // oneDNN adds the bias as it writes the product, which LibTorch makes use of in an operator for its compiler alone.
  using Scalars = c10::List<std::optional<at::Scalar>>;
  using Text = std::optional<c10::string_view>;
  using WithBias =
      at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view, Scalars, Text);
  if (!pays_in_onednn(x, x.numel() * w.size(0)) && !goes_to_onednn_as_bfloat16(x)) return at::linear(x, w, bias);
  static const auto with_bias =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<WithBias>();
  return with_bias.call(x, w, bias, "none", Scalars(), Text());
}

}  // namespace weft
