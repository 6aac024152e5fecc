// UpdateRanges: an optimizer's state, and the walk of an update over what a rank owns of a block.
#pragma once

#include <c10/util/FunctionRef.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "weft/nn/flat/flat_model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// Elements of one tensor in a range.
struct TensorPart {
  int param = 0;      ///< index into FlatModel::params()
  int64_t begin = 0;  ///< in the range
  int64_t end = 0;    ///< the element after the last
};

/// What is updated at a time: elements of one group of a block, side by side.
struct UpdateRange {
  at::Tensor weights;                       ///< [n] float32
  at::Tensor gradients;                     ///< [n] float32, not divided yet; may be rewritten
  std::vector<at::Tensor> state;            ///< [n] float32 each
  bool decay = true;                        ///< they take weight decay
  double lr_factor = 1.0;                   ///< their rate is the step's times this
  std::optional<double> weight_decay = {};  ///< in place of the optimizer's, whatever `decay`
  bool split = false;                       ///< their tensors are split over the ranks of a layer
  int64_t number = 1;                       ///< of this update among theirs, from 1, where RangeOptions::ages
  bool matrix = false;                      ///< they are of RangeOptions::matrices
  int64_t begin = 0;                        ///< of the first one, among what the rank owns of the block
  std::vector<TensorPart> tensors = {};     ///< of which they are; where the walk is asked for it
};

/// Divides the range's gradients, and adds `decay` times its weights to them.
void prepare_gradients(UpdateRange& range, double divisor, double decay);

/// How a walk goes.
struct RangeOptions {
  int64_t most = 0;                 ///< elements of a range where gradients are float32; 0: a whole group
  bool tensors = false;             ///< UpdateRange::tensors
  bool ages = false;                ///< parameters of different ages are visited apart from one another
  std::vector<bool> matrices = {};  ///< by parameter: those that are visited apart from the others; empty: none
};

/// The state of an optimizer over a model, and its ranges.
class UpdateRanges {
 public:
  /// What is done with a range.
  using Visit = c10::function_ref<void(UpdateRange&)>;

  /// `count` tensors of state a block, [owned] each.
  UpdateRanges(FlatModel& model, int count, const ParameterRules& rules, const RangeOptions& options);

  /// The block's; what a caller adds to it comes last, and is no part of the ranges.
  std::vector<at::Tensor>& state(int block) { return states_[block]; }
  /// Visits the ranges of a block, whose state is made zero where there is none. Parameters that had no gradient in the step
  /// (FlatModel::used()) are left as they are.
  void visit(int block, Visit visit);
  /// The same for an update: what was trained goes to the rank's shard in the weight type then.
  void update(int block, Visit visit);
  /// Updates that each parameter has taken; update() counts, or advance() for an update that goes another way.
  std::vector<int64_t>& ages() { return ages_; }
  void advance(int block);  ///< counts an update of the block's parameters, those that had a gradient
  /// The number of a parameter's next update, from 1.
  int64_t number_of(size_t param) const { return ages_[param] + 1; }
  FlatModel& model() const { return model_; }  ///< whose state it is
  /// The elements of a parameter that this rank owns, counted from the first that it owns of the block; may be none.
  GroupRange own(int param) const;
  /// The weight decay of a parameter, where the optimizer's is that.
  double decay_of(size_t param, double decay) const { return settings_[param].weight_decay.value_or(decay); }
  /// The rate of a parameter is the step's times this.
  double lr_factor_of(size_t param) const { return settings_[param].lr_factor; }
  bool is_used(size_t param) const { return model_.used()[param] != 0; }  ///< FlatModel::used()
  bool is_matrix(size_t param) const { return settings_[param].matrix; }  ///< of RangeOptions::matrices

 private:
  /// What holds for a parameter.
  struct Setting {
    double lr_factor = 1.0;
    std::optional<double> weight_decay = {};
    bool matrix = false;
    auto operator<=>(const Setting&) const = default;
  };
  /// The number of the next update of all trained parameters of the block; none: they differ, or some are left out.
  std::optional<int64_t> common_number(int block) const;
  std::vector<TensorPart> tensors_of(int block, int64_t begin, int64_t end) const;
  void visit_by_setting(const UpdateRange& range, const std::vector<TensorPart>& tensors, Visit visit) const;

  FlatModel& model_;
  RangeOptions options_;
  int count_;
  std::vector<Setting> settings_;  ///< by parameter
  std::vector<int64_t> ages_;      ///< the same
  bool has_settings_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// Elements of a range for optimizers that need memory for intermediate values. A multiple of what shards are aligned to, so
/// that vectors fall as in the whole.
inline constexpr int64_t kRangeElements = int64_t{1} << 18;

}  // namespace weft
