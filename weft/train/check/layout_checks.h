// Checks that small layouts train as one device does, and take the memory that weft memory forecasts.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string>
#include <vector>

#include "weft/comm/world.h"
#include "weft/program/memory.h"
#include "weft/recipe/recipe.h"
#include "weft/train/check/check_line.h"

namespace weft {

/// A layout to check.
struct CheckedLayout {
  std::string name;  ///< "zero-3"
  std::string keys;  ///< keys of the recipe's [layout], as in TOML: "pp = 2"
  int divides = 1;   ///< the number of ranks must be a multiple
};

/// The layouts, for any number of ranks: dp, each level of ZeRO, two pipeline schedules, tp, cp, offload, recompute, bf16 and a
/// mixture.
const std::vector<CheckedLayout>& checked_layouts();

/// A small GPT in this layout. With a power of two of ranks, and sums that are not split, its bits are those of one device.
Recipe recipe_of(const CheckedLayout& layout, int ranks, const std::string& device, std::chrono::milliseconds timeout);

/// Trains it and one device for two steps and compares them (compare/compare_layouts.h), then measures memory. On rank 0
/// returns a line "layout NAME" and a line "memory NAME", on the others nothing. Collective over the world. Throws as
/// compare_layouts().
std::vector<CheckLine> check_layout(const CheckedLayout& layout, const Recipe& recipe, const World& world, at::Device device);

/// Memory of one rank beside its forecast: fails if a figure that counts, 5 % of the sum or more, is off by more than 5 %,
/// apart from `extra` bytes of activations.
CheckLine memory_line(const std::string& name, const CategoryBytes& forecast, const CategoryBytes& measured, int64_t extra);

}  // namespace weft
