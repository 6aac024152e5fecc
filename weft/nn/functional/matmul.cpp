#include "weft/nn/functional/matmul.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <c10/util/accumulate.h>

#include "weft/nn/operators_path.h"
#include "weft/nn/tensor_checks.h"

namespace at::native {

/// out = beta out + alpha a b by oneDNN. LibTorch exports it but does not ship the header that declares it
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
  return !forces_operators() && a.is_cpu() && a.scalar_type() == at::kFloat && multiplications >= kSmall && is_faster_here();
}

/// Includes small products, as MKL has no bfloat16.
bool uses_onednn_bfloat16(const at::Tensor& x) {
#if defined(__x86_64__)
  static const bool has_instructions = at::hasMKLDNN() && __builtin_cpu_supports("avx512bf16");
  return !forces_operators() && x.is_cpu() && x.scalar_type() == at::kBFloat16 && has_instructions &&
         at::globalContext().userEnabledMkldnn();
#else
  return false;
#endif
}

void check_product(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const TensorChecks check("product");
  check.floating("a", a, {TensorChecks::kAny, TensorChecks::kAny}, a);
  check.floating("b", b, {a.size(1), TensorChecks::kAny}, a);
  check.place("out", out, {a.size(0), b.size(1)}, a);
  check.that(b.scalar_type() == a.scalar_type(), "b", b, c10::toString(a.scalar_type()));
  check.that(out.scalar_type() == a.scalar_type(), "out", out, c10::toString(a.scalar_type()));
}

}  // namespace

at::Tensor as_rows(const at::Tensor& x) {
  const TensorChecks check("rows");
  check.dense("x", x);
  check.that(x.dim() >= 1, "x", x, "[..., n]");
  return x.reshape({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), x.size(-1)});
}

bool uses_onednn(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined() || a.dim() != 2 || b.dim() != 2) return false;
  return pays_in_onednn(a, a.numel() * b.size(1));
}

void multiply(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  check_product(out, a, b);
  if (uses_onednn(a, b)) return at::native::mkldnn_matmul(a, b, out, /*beta=*/0, /*alpha=*/1);
  at::Tensor result = out;
  at::mm_out(result, a, b);
}

void multiply_add(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  check_product(out, a, b);
  if (uses_onednn(a, b)) return at::native::mkldnn_matmul(a, b, out, /*beta=*/1, /*alpha=*/1);
  at::Tensor result = out;
  at::addmm_out(result, out, a, b);
}

at::Tensor multiply_with_bias(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  const TensorChecks check("product");
  check.floats("x", x, 1);
  check.floating("weight", w, {TensorChecks::kAny, x.size(-1)}, x);
  check.floating("bias", bias, {w.size(0)}, x);
  // oneDNN adds the bias while writing the product; LibTorch exposes this only in an operator for its compiler.
  using Scalars = c10::List<std::optional<at::Scalar>>;
  using Text = std::optional<c10::string_view>;
  using WithBias =
      at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::string_view, Scalars, Text);
  const bool alike = w.scalar_type() == x.scalar_type() && bias.scalar_type() == x.scalar_type() && w.numel() > 0;
  const bool by_onednn = alike && x.numel() > 0 && (pays_in_onednn(x, x.numel() * w.size(0)) || uses_onednn_bfloat16(x));
  if (!by_onednn) return at::linear(x, w, bias);
  static const auto with_bias =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<WithBias>();
  return with_bias.call(x, w, bias.contiguous(), "none", Scalars(), Text());
}

}  // namespace weft
