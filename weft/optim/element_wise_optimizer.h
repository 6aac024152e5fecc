// Shared base of the optimizers, and their factories.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/optim/optimizer.h"
#include "weft/optim/range_rate.h"
#include "weft/optim/update_ranges.h"

namespace weft {

/// An optimizer whose options are `Options` and whose state is UpdateRanges'.
template <class Options>
class ElementWiseOptimizer : public Optimizer {
 public:
  /// Updates `model`, which must outlive it. `ranges` sets how an update visits the model, with all states of state_names().
  ElementWiseOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules,
                       const RangeOptions& ranges = {.most = kRangeElements})
      : ElementWiseOptimizer(model, options, rules, ranges, num_states(options)) {}
  /// The same, but ranges include only the first `states` states.
  ElementWiseOptimizer(FlatModel& model, const Options& options, const ParameterRules& rules, const RangeOptions& ranges,
                       int states)
      : options_(options), ranges_(model, states, rules, aged(options, ranges)) {}

  std::vector<at::Tensor>& state(int block) override { return ranges_.state(block); }
  std::vector<int64_t> state_numels(int block) const override {
    return std::vector<int64_t>(static_cast<size_t>(num_states(options_)), ranges_.model().flat(block).num_owned());
  }
  std::vector<int64_t>& ages() override { return ranges_.ages(); }
  int64_t next_number() const override { return ranges_.next_number(); }
  void count_updates(const std::vector<int>& blocks) override {
    for (const int block : blocks) ranges_.advance(block);
  }
  void update_all(const std::vector<int>& blocks, const UpdateStep& step) override {
    const UpdateStep own = with_refusal(step);
    for (const int block : blocks) this->update(block, own);
  }
  std::vector<StateTensor> state_tensors(int param) const override {
    std::vector<StateTensor> tensors;
    for (const std::string& name : state_names(options_)) {
      const int index = static_cast<int>(tensors.size());
      tensors.push_back({name, ranges_.model().params()[param].shape, index, ranges_.own(param).begin});
    }
    return tensors;
  }

 protected:
  /// The step, with UpdateStep::refused if it has a gate.
  static UpdateStep with_refusal(UpdateStep step) {
    if (step.gate.defined() && !step.refused.defined()) step.refused = step.gate[1].to(at::kBool);
    return step;
  }
  /// Updates the block's ranges by `update`. If the step has a gate, `update` changes copies, which the device keeps or drops.
  void update_ranges(int block, const UpdateStep& step, UpdateRanges::Visit update) {
    ranges_.update(block, [&](UpdateRange& range) {
      step.refused.defined() ? update_unless(step.refused, range, update) : update(range);
    });
  }
  /// Divides the range's gradients, and adds `decay` times its weights to them.
  static void prepare_gradients(UpdateRange& range, const UpdateStep& step, double decay) {
    if (step.gate.defined()) {
      range.gradients.div_(step.gate[0]);
    } else if (step.divisor != 1.0) {
      range.gradients.div_(step.divisor);
    }
    if (decay != 0.0) range.gradients.add_(range.weights, decay);
  }
  /// Number of an update as a tensor. A device may have lowered the step's (DeviceLossScale), from which others are counted.
  static at::Tensor as_tensor(int64_t number, const UpdateStep& step, const at::Tensor& like) {
    if (!step.placed.defined()) return like.new_full({}, static_cast<double>(number));
    const at::Tensor of_step = step.placed[1];
    return number == step.number ? of_step : of_step.add(number - step.number);
  }
  /// Weight decay of the range's parameters.
  double decay_of(const UpdateRange& range) const {
    return range.weight_decay.value_or(range.decay ? options_.weight_decay : 0.0);
  }
  /// Learning rate of the range's parameters.
  static RangeRate rate_of(const UpdateRange& range, const UpdateStep& step) { return {step, range.lr_factor}; }

  const Options options_;  ///< validated
  UpdateRanges ranges_;    ///< ranges visited by updates

 private:
  static RangeOptions aged(const Options& options, RangeOptions ranges) {
    ranges.ages = has_ages(options);
    return ranges;
  }
};

/// make_optimizer() for each kind.
std::unique_ptr<Optimizer> make_of(FlatModel& model, const AdamW& options, const ParameterRules& rules);
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Sgd& options, const ParameterRules& rules);        ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lars& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lamb& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Lion& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const RmsProp& options, const ParameterRules& rules);    ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adagrad& options, const ParameterRules& rules);    ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Muon& options, const ParameterRules& rules);       ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const Adafactor& options, const ParameterRules& rules);  ///< the same
std::unique_ptr<Optimizer> make_of(FlatModel& model, const CustomOptimizer& options,
                                   const ParameterRules& rules);  ///< the same

}  // namespace weft
