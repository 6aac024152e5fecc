// Checks that small layouts train as one device does, and take the memory that weft memory forecasts.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"
#include "weft/train/check/check_line.h"
#include "weft/train/check/check_options.h"
#include "weft/train/compare/layout_comparison.h"

namespace weft {

/// A layout to check.
struct CheckedLayout {
  std::string name;          ///< "zero-3"
  std::string keys;          ///< keys of the recipe's [layout], as in TOML: "pp = 2"
  int divides = 1;           ///< the number of ranks must be a multiple: 1 or 2
  bool shares = true;        ///< needs two ranks or more
  bool splits_sums = false;  ///< rounds otherwise than one device
};

/// The layouts, for any number of ranks: dp, each level of ZeRO, two pipeline schedules, tp, cp, offload, recompute, bf16 and a
/// mixture.
const std::vector<CheckedLayout>& checked_layouts();

/// A small GPT in this layout. If the ranks are a power of two and no sum is split, its bits are those of one device. Otherwise
/// the optimizer is SGD: AdamW turns the rounding of tiny gradients into steps of the size of the learning rate.
Recipe recipe_of(const CheckedLayout& layout, int ranks, const CheckOptions& options);

/// Trains it and one device for two steps and compares them (compare/compare_layouts.h), then measures memory. Collective over
/// the world; the line is on rank 0. Throws as compare_layouts().
CheckLine check_layout(const CheckedLayout& layout, const Recipe& recipe, const World& world, at::Device device);

/// Memory of one rank beside its forecast.
struct CheckedMemory {
  CategoryBytes forecast{}, measured{};
  int64_t extra = 0;  ///< bytes of activations that the forecast leaves out (measure/step_memory.h)

  /// "activations take 2.0 MiB, forecast 1.0 MiB": categories that are off by more than 5 %, and by 1 % of the sum; empty
  /// if there are none.
  std::string off() const;
  std::string text() const;  ///< "6.47 MiB, forecast 6.46 MiB"
};

/// The line of a layout, from the comparison and the memory of all ranks.
CheckLine layout_line(const std::string& name, const LayoutComparison& comparison, const std::vector<CheckedMemory>& of_ranks);

}  // namespace weft
