#include "weft/nn/attention/call.h"

#include <ATen/core/ivalue.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/sequence/zigzag.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

struct HeldCall : torch::CustomClassHolder {
  explicit HeldCall(AttentionCall call) : call(std::move(call)) {}
  AttentionCall call;
};

/// Returns whether k or v fits q: equal in everything except heads.
bool fits_queries(const at::Tensor& q, const at::Tensor& x) {
  return x.dim() == 4 && x.scalar_type() == q.scalar_type() && x.device() == q.device() && x.size(0) == q.size(0) &&
         x.size(2) == q.size(2) && x.size(3) == q.size(3) && x.size(1) > 0 && q.size(1) % x.size(1) == 0;
}

}  // namespace

std::string AttentionCall::where() const { return fmt::format("{} \"{}\" on group \"{}\"", form, what, group.name()); }

void check_at_call(const AttentionCall& call, const std::function<void()>& check) {
  try {
    check();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", call.where(), error.what()));
  }
}

void check(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (!q.defined() || !k.defined() || !v.defined()) throw InputError(call.where() + ": q, k and v must be defined");
  if (q.dim() != 4 || q.numel() == 0 || !q.is_floating_point() || !fits_queries(q, k) || k.sizes() != v.sizes() ||
      !fits_queries(q, v)) {
    throw InputError(
        fmt::format("{}: q {}, k {} and v {} do not fit; q must be [batch, heads, tokens, head width], and k and v the "
                    "same, except that their heads divide q's",
                    call.where(), type_and_shape(q), type_and_shape(k), type_and_shape(v)));
  }
  check_at_call(call, [&] { zigzag(q.size(2) * call.group.size(), call.group.size(), call.group.rank()); });
}

c10::IValue keep_call(const AttentionCall& call) { return c10::IValue::make_capsule(c10::make_intrusive<HeldCall>(call)); }

const AttentionCall& kept_for_backward(const c10::IValue& value) {
  const auto held = c10::static_intrusive_pointer_cast<HeldCall>(value.toCapsule());
  if (at::GradMode::is_enabled()) {
    throw InputError(held->call.where() + ": differentiable once only; run backward without create_graph");
  }
  return held->call;  // kept alive by the context
}

}  // namespace weft
