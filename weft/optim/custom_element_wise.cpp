// The optimizer for a user-defined update, after a trial shows that the update is element-wise.
#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/optim/element_wise_optimizer.h"
#include "weft/optim/element_wise_update.h"

namespace weft {

namespace {

/// Replaces the host's numbers by tensors, if an update takes those.
void place_numbers(ElementRange& range, const ElementWiseUpdate& update, const at::Tensor& lr, const at::Tensor& number) {
  if (!update.takes_gate()) return;
  range.lr = std::numeric_limits<double>::quiet_NaN();
  range.number = 0;
  range.lr_there = lr;
  range.number_there = number;
}

/// Elements for trying an update, made from their positions: some gradients are negative, and all weights differ.
ElementRange trial(int64_t first, int64_t count, const ElementWiseUpdate& update) {
  const at::Tensor places = at::arange(first, first + count, at::kFloat);
  ElementRange range{.weights = places.mul(0.01).add(0.1),
                     .gradients = places.mul(0.37).sin(),
                     .state = {},
                     .lr = 0.125,
                     .weight_decay = 0.0625,
                     .number = 2};
  for (size_t i = 0; i < update.state_names().size(); ++i) {
    range.state.push_back(places.mul(0.003).add(0.5 + static_cast<double>(i)));
  }
  const auto known = [](double value) { return at::scalar_tensor(value, at::kDouble); };
  place_numbers(range, update, known(range.lr), known(static_cast<double>(range.number)));
  return range;
}

bool same_values(const at::Tensor& whole, int64_t begin, const at::Tensor& part) {
  const auto bytes = static_cast<size_t>(part.nbytes());
  return whole.is_contiguous() && part.is_contiguous() && whole.scalar_type() == at::kFloat &&
         std::memcmp(whole.const_data_ptr<float>() + begin, part.const_data_ptr<float>(), bytes) == 0;
}

/// Elements that start a shard must get the same values as within a larger range.
void check_element_wise(const ElementWiseUpdate& update) {
  const c10::NoGradGuard no_grad;
  constexpr int64_t kCount = 2 * kAlignElements;
  const ElementRange whole = trial(0, kCount, update);
  update.update(whole);
  if (update.takes_gate() && !whole.weights.isfinite().all().item<bool>()) {
    throw InputError(fmt::format(
        "optimizer {}: weights are not finite after a first update; with takes_gate() it must read lr_there and number_there, "
        "not lr and number, which the host does not know",
        update.name()));
  }
  for (int64_t begin = 0; begin < kCount; begin += kAlignElements) {
    const ElementRange part = trial(begin, kAlignElements, update);
    update.update(part);
    bool same = same_values(whole.weights, begin, part.weights);
    for (size_t i = 0; i < whole.state.size(); ++i) same = same && same_values(whole.state[i], begin, part.state[i]);
    if (same) continue;
    throw InputError(
        fmt::format("optimizer {}: {} elements get different values when updated alone than as a part of {}; an update must be "
                    "element-wise and deterministic",
                    update.name(), kAlignElements, kCount));
  }
}

class CustomElementWise : public ElementWiseOptimizer<CustomOptimizer> {
 public:
  using ElementWiseOptimizer::ElementWiseOptimizer;

  void update(int block, const UpdateStep& step) override {
    c10::NoGradGuard no_grad;
    const bool takes_gate = options_.update->takes_gate();
    update_ranges(block, step, [&](UpdateRange& p) {
      prepare_gradients(p, step, 0.0);
      const RangeRate rate = rate_of(p, step);
      ElementRange range{.weights = p.weights,
                         .gradients = p.gradients,
                         .state = p.state,
                         .lr = rate.known(),
                         .weight_decay = decay_of(p),
                         .number = p.number};
      if (takes_gate) {
        place_numbers(range, *options_.update, rate.times(1.0, p.weights),
                      as_tensor(p.number, step, p.weights).to(at::kDouble));
      }
      options_.update->update(range);
    });
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_of(FlatModel& model, const CustomOptimizer& options, const ParameterRules& rules) {
  check_element_wise(*options.update);
  return std::make_unique<CustomElementWise>(model, options, rules);
}

}  // namespace weft
