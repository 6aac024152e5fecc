// UpdateRanges: an optimizer's state, and how an update visits the parts of a block that a rank owns.
#pragma once

#include <c10/util/FunctionRef.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/target_device.h"
#include "weft/nn/flat/flat_model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// Elements of one tensor in a range.
struct TensorPart {
  int param = 0;      ///< index in FlatModel::params()
  int64_t begin = 0;  ///< first element, in the range
  int64_t end = 0;    ///< the element after the last
};

/// A unit of update: contiguous elements of one group of a block.
struct UpdateRange {
  at::Tensor weights;                       ///< [n] float32
  at::Tensor gradients;                     ///< [n] float32, not divided yet; may be overwritten
  std::vector<at::Tensor> state;            ///< [n] float32 each
  bool decay = true;                        ///< its parameters take weight decay
  double lr_factor = 1.0;                   ///< factor of the step's rate
  std::optional<double> weight_decay = {};  ///< replaces the optimizer's, whether or not `decay` is true
  bool split = false;                       ///< its tensors are split over the ranks of a layer
  int64_t number = 1;                       ///< number of this update of its parameters, from 1, if RangeOptions::ages
  bool matrix = false;                      ///< its parameters are in RangeOptions::matrices
  int64_t begin = 0;                        ///< index of the first element among those the rank owns of the block
  std::vector<TensorPart> tensors = {};     ///< the tensors in the range, with RangeOptions::tensors
};

/// Options of the iteration.
struct RangeOptions {
  int64_t most = 0;                 ///< elements of a range if gradients are float32: kRangeElements, or 0: a whole group
  bool tensors = false;             ///< fill UpdateRange::tensors
  bool ages = false;                ///< parameters of different ages are visited separately
  std::vector<bool> matrices = {};  ///< by parameter: visited separately from the others; empty: no parameter
};

/// The state of an optimizer over a model, and its ranges.
class UpdateRanges {
 public:
  /// Function applied to a range.
  using Visit = c10::function_ref<void(UpdateRange&)>;

  /// Makes `count` state tensors per block, [owned] each.
  UpdateRanges(FlatModel& model, int count, const ParameterRules& rules, const RangeOptions& options);

  /// The block's state tensors. Tensors that a caller adds come last, and are not in the ranges.
  std::vector<at::Tensor>& state(int block) { return states_[block]; }
  /// Visits the ranges of a block; missing state is created as zero. Skips parameters without a gradient in the step
  /// (FlatModel::used()).
  void visit(int block, Visit visit);
  /// The same for an update: afterwards trained weights are copied to the rank's shard in the weight type.
  void update(int block, Visit visit);
  /// Returns whether visit() gives the block's groups whole and in place, so that an update may take those of several blocks
  /// together: call finish() for each block then.
  bool visits_in_place(int block) const;
  void finish(int block);  ///< what update() does after its visit
  /// Number of updates of each parameter, counted by update(), or by advance() for updates made in another way.
  std::vector<int64_t>& ages() { return ages_; }
  void advance(int block);  ///< counts an update of the block's parameters that had a gradient
  /// Number of a parameter's next update, from 1.
  int64_t number_of(size_t param) const { return ages_[param] + 1; }
  /// That of the first trained parameter of this rank; 0: no ages are counted, or it trains none.
  int64_t next_number() const;
  FlatModel& model() const { return model_; }  ///< the model that the state belongs to
  /// Elements of a parameter that this rank owns, relative to the first that it owns of the block; may be empty.
  GroupRange own(int param) const;
  /// Weight decay of a parameter, where `decay` is the optimizer's.
  double decay_of(size_t param, double decay) const { return settings_[param].weight_decay.value_or(decay); }
  /// Factor of the step's rate for a parameter.
  double lr_factor_of(size_t param) const { return settings_[param].lr_factor; }
  bool is_used(size_t param) const { return model_.used()[param] != 0; }  ///< FlatModel::used()
  bool is_matrix(size_t param) const { return settings_[param].matrix; }  ///< in RangeOptions::matrices

 private:
  /// Settings of a parameter.
  struct Setting {
    double lr_factor = 1.0;
    std::optional<double> weight_decay = {};
    bool matrix = false;
    auto operator<=>(const Setting&) const = default;
  };
  /// Number of the next update of all trained parameters of the block; empty if they differ or some are skipped.
  std::optional<int64_t> common_number(int block) const;
  std::vector<TensorPart> tensors_of(int block, int64_t begin, int64_t end) const;
  void visit_by_setting(const UpdateRange& range, const std::vector<TensorPart>& tensors, Visit visit) const;

  FlatModel& model_;
  RangeOptions options_;
  int64_t range_;  ///< range_elements() of the model's device
  int count_;
  std::vector<Setting> settings_;  ///< by parameter
  std::vector<int64_t> ages_;      ///< the same
  bool has_settings_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// Calls `update` with copies of the range's weights and state, and takes them over unless `refused`, [] bool on the device.
void update_unless(const at::Tensor& refused, UpdateRange& range, UpdateRanges::Visit update);

/// Elements of a range for optimizers that need memory for intermediate values. A multiple of the shards' alignment, so that
/// vectors fall as in the whole.
inline constexpr int64_t kRangeElements = int64_t{1} << 18;
/// The same on other devices, where launches cost more than what caches save: 32 MiB of float32.
inline constexpr int64_t kDeviceRangeElements = int64_t{1} << 23;
/// One of them.
constexpr int64_t range_elements(TargetDevice device) {
  return device == TargetDevice::cpu ? kRangeElements : kDeviceRangeElements;
}

}  // namespace weft
