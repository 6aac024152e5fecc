// layout_text: a layout in words, and what distinguishes it from the default one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/plan/layout/resolve.h"
#include "weft/program/program.h"
#include "weft/recipe/recipe.h"

namespace weft {

/// A recipe's key and its value, as `--set` takes them.
struct KeyValue {
  std::string key;
  std::string value;
};

/// Approaches as texts of the field name them, by what a layout does; the simplest first.
enum class Approach : uint8_t {
  single_device,   ///< one rank
  replicas,        ///< data parallel, with whole states
  sharded_states,  ///< data parallel, with sharded optimizer states or gradients
  sharded,         ///< data parallel, with sharded weights
  pipeline,        ///< stages, with or without replicas
  tensor,          ///< layers or sequences divided, with or without replicas
  hybrid,          ///< stages, and layers or sequences divided
};

/// "pp 4 (1f1b) x dp 4 x tp 2, ZeRO-1, 8 micro-batches of 4, recompute attention".
std::string layout_text(const Recipe& recipe, const ResolvedLayout& layout);

/// Keys of [layout] that differ from a layout without any, and batch.micro, in the order of a recipe.
std::vector<KeyValue> layout_keys_of(const Recipe& recipe);

/// What ranks on this mesh do.
Approach approach_of(const MeshSizes& mesh, ShardLevel level);
/// The same of a layout.
Approach approach_of(const ResolvedLayout& layout);

}  // namespace weft
