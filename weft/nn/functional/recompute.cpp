#include "weft/nn/functional/recompute.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <optional>

#include "weft/nn/graph.h"
#include "weft/nn/id_checks.h"
#include "weft/nn/keyed_generators.h"

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Part = std::function<at::Tensor(const at::Tensor&)>;

struct HeldPart : torch::CustomClassHolder {
  explicit HeldPart(Part part) : part(std::move(part)) {}
  Part part;
  std::optional<GeneratorState> before;  ///< state that the part drew from, if it may have
};

/// Repeats the part's draws; later draws continue from the current state, also if it throws.
at::Tensor again(const HeldPart& held, const at::Tensor& x) {
  struct Restored {
    explicit Restored(at::Device device) : now(device) {}
    ~Restored() { now.restore(); }
    GeneratorState now;
  };
  std::optional<Restored> restored;
  if (held.before) {
    restored.emplace(x.device());
    held.before->restore();
  }
  const IdChecks::Repeated repeated;
  return held.part(x);
}

struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<HeldPart>& held) {
    ctx->save_for_backward({x});
    ctx->saved_data["part"] = c10::IValue::make_capsule(held);
    return held->part(x);  // without a graph: parts of a custom function have no graph
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    refuse_second_order("recompute");
    const at::Tensor x = ctx->get_saved_variables().front().detach().requires_grad_(true);
    const auto held = c10::static_intrusive_pointer_cast<HeldPart>(ctx->saved_data["part"].toCapsule());
    const at::AutoGradMode with_graph(true);
    const at::Tensor y = again(*held, x);
    torch::autograd::backward({y}, {grads.front()});
    return {x.grad(), {}};
  }
};

}  // namespace

at::Tensor recompute(const Part& part, const at::Tensor& x, PartDraws draws) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return part(x);
  const auto held = c10::make_intrusive<HeldPart>(part);
  if (draws == PartDraws::generators) held->before.emplace(x.device());
  return RecomputeFunction::apply(x, held);
}

}  // namespace weft
