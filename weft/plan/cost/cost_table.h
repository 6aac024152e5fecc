// CostTable: costs of a recipe's model in each requested layout. Blocks are measured (nn/cost/measure_cost.h) once for all
// layouts in which they cost the same, so use a single table to compare many layouts of a model. Of equal layers in a row only
// the first few are measured. Thread-safe: threads that ask for different costs measure at the same time.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "weft/base/target_device.h"
#include "weft/optim/block_update.h"
#include "weft/plan/layout/composition.h"
#include "weft/plan/layout/layout.h"
#include "weft/program/axis_set.h"
#include "weft/program/launches.h"
#include "weft/program/program.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// The costs of the model, data and optimizer of one recipe on its kind of device (planned_device()).
class CostTable {
 public:
  /// Measures nothing yet. Keeps a copy of the recipe; its layout does not matter.
  explicit CostTable(const Recipe& recipe);

  /// Returns the model's costs for a micro-batch of `micro_batch` samples on the first of the ranks of cp and tp. Needs no data
  /// and allocates no weights. Throws InputError if the model cannot be split this way.
  const ModelCost& model_cost(int64_t micro_batch, const LayoutOptions& layout = {}, const StepCounts& counts = {});

  /// Returns the launches of the model's step in the same layout; without blocks for devices that launch nothing (CPUs). Throws
  /// as model_cost() does.
  const ModelLaunches& model_launches(int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts);

  /// Returns the updates of the model's blocks, with `gradient_bytes` bytes per gradient element.
  const std::vector<BlockUpdate>& block_updates(int gradient_bytes);

  const OptimizerOptions& optimizer() const { return optimizer_; }  ///< optimizer of the recipe
  TargetDevice device() const { return device_; }                   ///< device for which costs are measured
  int num_measured() const { return num_measured_; }                ///< number of measurements so far

  /// Throws InputError for a recipe of another model, data, optimizer or kind of device.
  void check(const Recipe& recipe) const;

 private:
  /// Inputs that a block's cost depends on.
  struct Key {
    int64_t micro_batch;
    int tp, parts, cp, batch_ranks, gradient_bytes;
    AxisSet batch_axes;
    Precision precision;
    BlockLayout blocks;
    auto operator<=>(const Key&) const = default;
  };
  struct Measured {
    ModelCost cost;
    ModelLaunches launches;
  };
  struct Slot {
    std::mutex mutex = {};  ///< held while it is measured
    std::optional<Measured> measured = {};
    std::exception_ptr error = {};  ///< the model cannot be split this way
  };
  const Measured& at(int64_t micro_batch, const LayoutOptions& layout, const StepCounts& counts);
  Measured measured(const Key& key);
  Measured with_all_layers(Measured few) const;

  Recipe recipe_;
  TargetDevice device_;
  OptimizerOptions optimizer_;
  Model model_;                             ///< whole, with its rules
  CompositionFacts facts_;                  ///< of the model
  int64_t measured_layers_;                 ///< layers of the model that is measured: all but repeated ones
  std::mutex costs_mutex_, updates_mutex_;  ///< of the maps
  std::atomic<int> num_measured_ = 0;
  std::map<Key, Slot> costs_;
  std::map<int, std::vector<BlockUpdate>> updates_;
};

}  // namespace weft
