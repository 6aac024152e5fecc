#include "weft/nn/tensor_parallel/collectives.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <vector>

#include "weft/base/error.h"
#include "weft/nn/graph.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/overlapped.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Data for a collective's backward, kept as long as its graph.
struct SummedCall : torch::CustomClassHolder {
  SummedCall(Group group, std::string what, int64_t dim) : group(std::move(group)), what(std::move(what)), dim(dim) {}
  Group group;
  std::string what;
  int64_t dim;
  std::string backward() const { return "gradient of " + what; }
};

/// Sums in place if the gradient has no other owner.
at::Tensor summed(const at::Tensor& gradient, const SummedCall& call) {
  const bool alone = gradient.is_contiguous() && gradient.use_count() == 1 && gradient.storage().use_count() == 1;
  at::Tensor sum = alone ? gradient.variable_data() : gradient.clone(at::MemoryFormat::Contiguous);
  call.group.all_reduce(sum, ReduceOp::sum, call.backward()).wait();
  return sum;
}

at::Tensor part_along(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  check_divides(x, dim, group, what);
  const int64_t size = x.size(dim) / group.size();
  return x.narrow(dim, size * group.rank(), size);
}

enum class Kind : int64_t { copy, sum, gather, scatter, part, join };

at::Tensor run(Kind kind, const at::Tensor& x, const SummedCall& call) {
  switch (kind) {
    case Kind::copy:
      return x.variable_data();
    case Kind::sum: {
      const at::Tensor sum = x.is_contiguous() ? x.variable_data() : x.contiguous();
      call.group.all_reduce(sum, ReduceOp::sum, call.what).wait();
      return sum;
    }
    case Kind::scatter:
      return scattered_sum(x, call.dim, call.group, call.what);
    case Kind::part:
      return part_along(x, call.dim, call.group, call.what).contiguous();
    case Kind::gather:
    case Kind::join:
      return gathered(x, call.dim, call.group, call.what);
  }
  return {};
}

at::Tensor backward_of(Kind kind, const at::Tensor& dy, const SummedCall& call) {
  switch (kind) {
    case Kind::copy:
      return summed(dy, call);
    case Kind::sum:
      return dy;
    case Kind::gather:
      return scattered_sum(dy, call.dim, call.group, call.backward());
    case Kind::scatter:
    case Kind::part:
      return gathered(dy, call.dim, call.group, call.backward());
    case Kind::join:
      return part_along(dy, call.dim, call.group, call.backward()).contiguous();
  }
  return {};
}

struct Collective : torch::autograd::Function<Collective> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const c10::intrusive_ptr<SummedCall>& call,
                            int64_t kind) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->saved_data["kind"] = kind;
    return run(static_cast<Kind>(kind), x, *call);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["call"].toCapsule();
    const auto& call = static_cast<const SummedCall&>(*capsule);
    refuse_second_order(call.what);
    return {backward_of(static_cast<Kind>(context->saved_data["kind"].toInt()), gradients[0], call), {}, {}};
  }
};

at::Tensor apply(Kind kind, const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  if (kind == Kind::copy || kind == Kind::sum) {
    TensorChecks(what).dense("x", x);
  } else {
    dim = TensorChecks(what).dim("x", x, dim);
  }
  if (group.size() == 1) return x;
  return Collective::apply(x, c10::make_intrusive<SummedCall>(group, what, dim), static_cast<int64_t>(kind));
}

}  // namespace

void check_split_over(const Split& split, const Group& group) {
  if (split.segments.empty()) throw InputError(fmt::format("layer {}: its split has no segments", split.layer));
  if (split.parts == group.size()) return;
  throw InputError(fmt::format("layer {}: it is split over {} ranks, but Context::tp has {}; pass on the block's own context",
                               split.layer, split.parts, group.size()));
}

at::Tensor gathered(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  TensorChecks(what).dim("x", x, dim);
  if (group.size() == 1) return x;
  return begin_gather(x, dim, group, what).wait();
}

at::Tensor scattered_sum(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  dim = TensorChecks(what).dim("x", x, dim);
  if (group.size() == 1) return x;
  check_divides(x, dim, group, what);
  std::vector<int64_t> parts = x.sizes().vec();
  parts[dim] /= group.size();
  const at::Tensor part = at::empty(parts, x.options());
  parts.insert(parts.begin() + dim, group.size());
  const at::Tensor whole = x.reshape(parts).movedim(dim, 0).contiguous();
  group.reduce_scatter(part, whole, ReduceOp::sum, what).wait();
  return part;
}

at::Tensor copy_to(const at::Tensor& x, const Group& group, const std::string& what) {
  return apply(Kind::copy, x, 0, group, what);
}
at::Tensor sum_over(const at::Tensor& x, const Group& group, const std::string& what) {
  return apply(Kind::sum, x, 0, group, what);
}
at::Tensor gather_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  return apply(Kind::gather, x, dim, group, what);
}
at::Tensor sum_scatter(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  return apply(Kind::scatter, x, dim, group, what);
}
at::Tensor own_part(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  return apply(Kind::part, x, dim, group, what);
}
at::Tensor join_over(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  return apply(Kind::join, x, dim, group, what);
}

}  // namespace weft
