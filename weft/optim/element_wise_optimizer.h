// Shared base of the optimizers, and their factories.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/optim/optimizer.h"
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
  std::vector<StateTensor> state_tensors(int param) const override {
    std::vector<StateTensor> tensors;
    for (const std::string& name : state_names(options_)) {
      const int index = static_cast<int>(tensors.size());
      tensors.push_back({name, ranges_.model().params()[param].shape, index, ranges_.own(param).begin});
    }
    return tensors;
  }

 protected:
  /// Weight decay of the range's parameters.
  double decay_of(const UpdateRange& range) const {
    return range.weight_decay.value_or(range.decay ? options_.weight_decay : 0.0);
  }
  /// Learning rate of the range's parameters.
  static double rate_of(const UpdateRange& range, const UpdateStep& step) { return step.lr * range.lr_factor; }

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
